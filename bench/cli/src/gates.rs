//! `hotcc-bench gates`: the limits on an algorithm's figures, and whether they hold.

use crate::lab::LabCommand;
use crate::report::refresh;
use anyhow::{Context, Result};
use hotcc_report::gates::{GateResult, judge, text};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run the gates of an algorithm, and print which are held and which are missed
///
/// A gate is an `[[expected]]` with `gate` in a scenario: docs/reference/scenarios.md describes it. By default, the
/// runs are on a stock kernel in virtual time, which takes hours for all gates of an algorithm; `--sim` takes minutes.
/// To resume an interrupted command, run it again: it keeps completed runs. Exits with 1 if a run fails or is invalid,
/// or if a gate is missed that its scenario does not mark as missed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench gates bench/scenarios/crest-*.toml\n  \
    hotcc-bench gates --sim --page docs/algorithms/figures/crest.md bench/scenarios/crest-*.toml\n  \
    hotcc-bench gates --lab vm:6.1 --out /tmp/gates bench/scenarios/crest-loss.toml\n\n\
    A document marks where its tables of gates belong, with the first word of the scenarios' names and the kernel:\n\n  \
    <!-- gates: crest simulator -->\n  <!-- end of gates -->\n\n  \
    <!-- gates: crest 6.12 -->\n  <!-- end of gates -->\n\n\
    `hotcc-bench figures` writes these tables from results that are there.")]
pub struct GatesCommand {
    #[command(flatten)]
    lab: LabCommand,
    /// Markdown document to put the table of gates into
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl GatesCommand {
    /// Runs the scenarios' gates. Returns exit code 1 if a run fails, or if a gate is missed and its scenario does not
    /// mark it as missed.
    pub fn run(mut self) -> Result<ExitCode> {
        self.lab.keep_gated_scenarios()?;
        let (code, directories) = self.lab.run_all(false)?;
        if self.lab.is_check_only() || directories.is_empty() {
            return Ok(ExitCode::from(code));
        }
        let mut gates: Vec<GateResult> = Vec::new();
        for directory in &directories {
            gates.extend(judge(directory).with_context(|| directory.display().to_string())?);
        }
        if self.lab.json() {
            println!("{}", serde_json::to_string_pretty(&gates)?);
        } else {
            print!("{}", text(&gates));
        }
        if let Some(page) = &self.page {
            refresh(page, self.lab.out())?;
        }
        let name = |gate: &GateResult| format!("{}: {}", gate.scenario, gate.gate);
        for gate in gates.iter().filter(|gate| gate.known && gate.holds == Some(true)) {
            eprintln!("held, although the scenario marks it as missed: {}", name(gate));
        }
        let failures: Vec<&GateResult> = gates.iter().filter(|gate| gate.is_failure()).collect();
        for gate in &failures {
            eprintln!("missed, and not marked as missed: {}: {}, limit {}", name(gate), gate.figure, gate.limit);
        }
        Ok(ExitCode::from(code.max(u8::from(!failures.is_empty()))))
    }
}
