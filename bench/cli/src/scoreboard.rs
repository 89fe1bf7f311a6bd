//! `hotcc-bench scoreboard`: every congestion control on every link, as one page.

use crate::lab::LabCommand;
use crate::report::refresh;
use anyhow::{Context, Result};
use hotcc_lab::simulated::BACKEND;
use hotcc_report::charts::board;
use hotcc_report::data::Data;
use hotcc_report::ranking::{csv, rank, table};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run every congestion control on every link of a scenario, and rank them by throughput and delay
///
/// Runs on a stock kernel in virtual time, which takes hours; `--quick` simulates the runs, which takes minutes. To resume an
/// interrupted scoreboard, run the same command again. Writes scoreboard.svg, scoreboard.csv and scoreboard.json beside the
/// results, and with --page a Markdown page and its picture.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench scoreboard --quick bench/scenarios/scoreboard.toml\n  \
    hotcc-bench scoreboard --quick --only crest,bbr,cubic bench/scenarios/scoreboard.toml\n  \
    hotcc-bench scoreboard --jobs 2 --page docs/scoreboard.md bench/scenarios/scoreboard.toml")]
pub struct ScoreboardCommand {
    #[command(flatten)]
    lab: LabCommand,
    /// Only these congestion controls, separated by commas
    #[arg(long, value_name = "CC,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Markdown page to update between its markers, and beside it the picture of the same name
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// What the cases are, for the picture's title
    #[arg(long, default_value = "recorded links")]
    what: String,
}

impl ScoreboardCommand {
    /// Runs the scenarios, and writes the ranking. Exit code 1 if a run failed or is invalid.
    pub fn run(mut self) -> Result<ExitCode> {
        self.lab.restrict_cases("cc", &self.only);
        let (code, directories) = self.lab.run_all(false)?;
        if self.lab.is_check_only() {
            return Ok(ExitCode::from(code));
        }
        for directory in &directories {
            let data = Data::read(directory)?;
            let standings = rank(&data.rows);
            let picture = board::svg(&standings, &self.what, data.results.manifest.backend == BACKEND)?;
            let json = serde_json::to_string_pretty(&standings)?;
            let page = self.page.as_ref().map(|page| (page.with_extension("svg"), &picture));
            let files =
                [("scoreboard.svg", &picture), ("scoreboard.csv", &csv(&standings)?), ("scoreboard.json", &json)];
            for (path, text) in files.map(|(name, text)| (directory.join(name), text)).into_iter().chain(page) {
                fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            if self.lab.json() {
                println!("{json}");
            } else {
                println!("{}\n{}", table(&standings).markdown(), directory.join("report.html").display());
            }
        }
        if let Some(page) = &self.page {
            refresh(page, self.lab.out())?;
        }
        Ok(ExitCode::from(code))
    }
}
