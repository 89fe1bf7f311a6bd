//! `hotcc-bench dossier`: every congestion control under the criteria of RFC 9743.

use crate::lab::LabCommand;
use crate::report::refresh;
use anyhow::Result;
use hotcc_lab::selection::SweptValue;
use hotcc_report::gates::dossier::{judge, overview};
use std::path::PathBuf;
use std::process::ExitCode;

/// The congestion control with which the criteria compare the others.
const REFERENCE: &str = "cubic";

/// Run every congestion control under the criteria of RFC 9743 (BCP 133), and print which it meets
///
/// A criterion is an `[[expected]]` with `gate` in a scenario that sweeps `cc`; docs/dossier.md has the results. `--sim`
/// takes minutes; on a kernel in virtual time, the runs take hours. To resume an interrupted command, run it again. Exits
/// with 1 if a run fails or is invalid, but not if a criterion is failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hotcc-bench dossier --sim --page docs/dossier.md bench/scenarios/dossier-*.toml\n  \
    hotcc-bench dossier --sim --only crest --out /tmp/crest bench/scenarios/dossier-*.toml\n  \
    hotcc-bench dossier --sim --json bench/scenarios/dossier-short.toml\n\n\
    A document marks where its dossier belongs, with the kernel or the simulator:\n\n  \
    <!-- dossier: simulator -->\n  <!-- end of dossier -->\n\n\
    `hotcc-bench figures` writes it from results that are there."
)]
pub struct DossierCommand {
    #[command(flatten)]
    lab: LabCommand,
    /// Only these congestion controls, separated by commas, and cubic, with which the criteria compare them
    #[arg(long, value_name = "CC,...", value_delimiter = ',', conflicts_with = "page")]
    only: Vec<String>,
    /// Markdown page to update between its markers
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl DossierCommand {
    /// Runs the scenarios, and judges each congestion control. Exit code 1 if a run failed or is invalid.
    pub fn run(mut self) -> Result<ExitCode> {
        self.lab.keep_gated_scenarios()?;
        if !self.only.is_empty() {
            self.only.push(REFERENCE.to_owned());
        }
        self.lab.restrict_cases(SweptValue::each("cc", &self.only));
        let (code, directories) = self.lab.run_all(false)?;
        if self.lab.is_check_only() || directories.is_empty() {
            return Ok(ExitCode::from(code));
        }
        let mut subjects = judge(&directories)?;
        subjects.retain(|subject| self.only.is_empty() || self.only.contains(&subject.cc));
        if self.lab.json() {
            println!("{}", serde_json::to_string_pretty(&subjects)?);
        } else {
            print!("{}", overview(&subjects));
        }
        if let Some(page) = &self.page {
            refresh(page, self.lab.out())?;
        }
        Ok(ExitCode::from(code))
    }
}
