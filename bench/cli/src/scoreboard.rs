//! `hotcc-bench scoreboard`: every congestion control on every link, as one page.

use crate::lab::LabCommand;
use crate::report::refresh;
use anyhow::{Context, Result};
use hotcc_lab::selection::SweptValue;
use hotcc_report::charts::board;
use hotcc_report::data::Data;
use hotcc_report::ranking::{Standing, cases_csv, csv, rank, table};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Congestion controls of which the kernel runs scenarios that are not ranked, too.
const ALWAYS_IN_LAB: [&str; 3] = ["crest", "bbr", "cubic"];

/// Run every congestion control on every link of a scenario, and rank them by throughput and delay
///
/// Runs on a stock kernel in virtual time, which takes about an hour for the scenarios of the project; `--quick`
/// simulates the runs, which takes minutes. To resume an interrupted scoreboard, run the same command again. Writes
/// scoreboard.html, .svg, .csv, .json and scoreboard-cases.csv beside the results, and with --page a Markdown page and
/// its picture.
///
/// Scenarios without `bounds` are not ranked. They are simulated; on the kernel, they run only for crest, bbr, cubic
/// and the first other of the ranking, and only the cases that `--kernel-case` names, if any.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  hotcc-bench scoreboard --quick bench/scenarios/scoreboard.toml\n  \
    hotcc-bench scoreboard --quick --only crest,bbr,cubic bench/scenarios/scoreboard.toml\n  \
    hotcc-bench scoreboard --jobs 2 --page docs/scoreboard.md bench/scenarios/scoreboard*.toml")]
pub struct ScoreboardCommand {
    #[command(flatten)]
    lab: LabCommand,
    /// Only these congestion controls, separated by commas
    #[arg(long, value_name = "CC,...", value_delimiter = ',')]
    only: Vec<String>,
    /// On the kernel, run only cases with this swept value of the scenarios that are not ranked, e.g. link=umts; repeat
    /// for more
    #[arg(long, value_name = "KEY=VALUE")]
    kernel_case: Vec<SweptValue>,
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
        let unranked = self.lab.split_off_unbounded();
        self.lab.restrict_cases(SweptValue::each("cc", &self.only));
        let (mut code, directories) = self.lab.run_all(false)?;
        let mut best_other = None;
        for directory in &directories {
            let data = Data::read(directory)?;
            let standings = rank(&data.rows);
            best_other = best_other.or_else(|| first_other(&standings));
            let html = hotcc_report::board::page(&data, &standings, &self.what)?;
            let picture = board::svg(&standings, &self.what, data.results.manifest.is_simulated())?;
            let json = serde_json::to_string_pretty(&serde_json::json!({ "ranking": standings, "cases": data.rows }))?;
            let page = self.page.as_ref().map(|page| (page.with_extension("svg"), &picture));
            let files = [
                ("scoreboard.html", &html),
                ("scoreboard.svg", &picture),
                ("scoreboard.csv", &csv(&standings)?),
                ("scoreboard-cases.csv", &cases_csv(&data.rows)?),
                ("scoreboard.json", &json),
            ];
            for (path, text) in files.map(|(name, text)| (directory.join(name), text)).into_iter().chain(page) {
                fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            }
            if self.lab.json() {
                println!("{json}");
            } else {
                println!("{}\n{}", table(&standings).markdown(), directory.join("scoreboard.html").display());
            }
        }
        self.refresh_page()?;
        if let Some(unranked) = unranked {
            code = code.max(self.run_unranked(&unranked, best_other)?);
            self.refresh_page()?;
        }
        Ok(ExitCode::from(code))
    }

    fn refresh_page(&self) -> Result<()> {
        if let Some(page) = self.page.as_ref().filter(|_| !self.lab.is_check_only()) {
            refresh(page, self.lab.out())?;
        }
        Ok(())
    }

    /// Simulates scenarios that are not ranked. Unless everything is simulated, also runs them on the kernel for some
    /// congestion controls. Returns the exit code.
    fn run_unranked(&self, unranked: &LabCommand, best_other: Option<String>) -> Result<u8> {
        let of = |mut lab: LabCommand, ccs: &[String], cases: &[SweptValue]| {
            lab.restrict_cases(SweptValue::each("cc", ccs).chain(cases.iter().cloned()));
            lab.run_all(false)
        };
        let (mut code, _) = of(unranked.simulated(), &self.only, &[])?;
        let in_lab = in_lab(best_other, &self.only);
        if !self.lab.simulates() && !in_lab.is_empty() {
            code = code.max(of(unranked.clone(), &in_lab, &self.kernel_case)?.0);
        }
        Ok(code)
    }
}

/// Returns the first congestion control of the ranking that does not run in the lab anyway.
fn first_other(standings: &[Standing]) -> Option<String> {
    let others = standings.iter().filter(|s| !s.is_bound && !ALWAYS_IN_LAB.contains(&s.label.as_str()));
    others.map(|s| s.label.clone()).next()
}

/// Returns the congestion controls of which the kernel runs scenarios that are not ranked: if `only` is not empty, only
/// those in it.
fn in_lab(best_other: Option<String>, only: &[String]) -> Vec<String> {
    let all = ALWAYS_IN_LAB.map(str::to_owned).into_iter().chain(best_other);
    all.filter(|cc| only.is_empty() || only.contains(cc)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_runs_three_congestion_controls_and_the_best_other_unless_fewer_are_wanted() {
        let best_other = || Some("dtcp".to_owned());
        assert_eq!(in_lab(best_other(), &[]), ["crest", "bbr", "cubic", "dtcp"]);
        assert_eq!(in_lab(best_other(), &["reno".to_owned(), "bbr".to_owned()]), ["bbr"]);
        assert_eq!(in_lab(None, &[]), ALWAYS_IN_LAB);
    }
}
