//! `hotcc-bench repeat`: some runs again, compared with the first ones byte by byte.

use crate::lab::LabCommand;
use crate::report::refresh;
use anyhow::{Result, ensure};
use hotcc_lab::results::SIMULATOR;
use hotcc_report::repeated::{DIRECTORY, compare};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeat runs that `lab` made, and compare all bytes of their files
///
/// Draws one case in ten (`--one-in`) and writes its runs to OUT/repeated, where OUT is the directory of `lab`. Exits
/// with 1 if a run fails or is invalid, or if a file differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench repeat bench/scenarios/scoreboard.toml\n  \
    hotcc-bench repeat --one-in 100 --draw-seed 7 --page docs/scoreboard.md bench/scenarios/scoreboard*.toml\n\n\
    A document marks where the result belongs, with the names of the scenarios:\n\n  \
    <!-- repeated: scoreboard -->\n  <!-- end of repeated -->\n\n\
    `hotcc-bench figures` writes it from results that are there.")]
pub struct RepeatCommand {
    #[command(flatten)]
    lab: LabCommand,
    /// Markdown page to update between its markers
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl RepeatCommand {
    /// Repeats the runs. Returns exit code 1 if a run fails or is invalid, or if a file differs.
    pub fn run(mut self) -> Result<ExitCode> {
        let out = self.lab.out().to_owned();
        if !self.lab.is_check_only() {
            for results in self.lab.names().map(|name| out.join(name)) {
                ensure!(
                    results.is_dir(),
                    "there is no {}: `hotcc-bench lab` with the same --out first makes the runs to repeat",
                    results.display()
                );
                let simulated = self.lab.simulates();
                let mut entries = fs::read_dir(&results)?.flatten();
                ensure!(
                    entries.any(|entry| (entry.file_name() == SIMULATOR) == simulated
                        && entry.path().join("manifest.json").exists()),
                    "{} has no results of {}: `hotcc-bench lab` with the same options first makes the runs to repeat",
                    results.display(),
                    if simulated { "the simulator" } else { "a kernel" }
                );
            }
        }
        self.lab.repeat_into(out.join(DIRECTORY));
        let (mut code, directories) = self.lab.run_all(false)?;
        if self.lab.is_check_only() {
            return Ok(ExitCode::from(code));
        }
        for again in &directories {
            let first = out.join(again.strip_prefix(self.lab.out())?);
            let compared = compare(&first, again)?;
            if self.lab.json() {
                println!("{}", serde_json::to_string_pretty(&compared)?);
            } else {
                println!("{}", compared.text());
            }
            code = code.max(u8::from(!compared.differing.is_empty()));
        }
        if let Some(page) = &self.page {
            refresh(page, &out)?;
        }
        Ok(ExitCode::from(code))
    }
}
