//! `hotcc-bench soak`: long runs of tests, and the page that records their results.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hotcc_testbed::soak::{ROUNDS, SEED};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

const PAGE_HEAD: &str = "# Soak tests\n\n\
    `just soak` runs tests at length: tests that `just test` runs briefly, and some that it leaves out. It needs a\n\
    clean work tree, and writes this page; `bench/soak.toml` names the parts. \
    Each row is the latest run of its part.\n\n\
    | part | what it shows | commit | kernel | seed | rounds | took | result |\n\
    | --- | --- | --- | --- | --- | --- | --- | --- |\n";
/// Prefix of a test's result in its output.
const RESULT_PREFIX: &str = "soak: ";

/// Run tests at length and record their results in docs/reference/soak.md
///
/// Parts that passed on this commit with this seed are skipped. Exits with 1 if a part fails.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hotcc-bench soak\n  hotcc-bench soak --only fuzz --seed 7\n  hotcc-bench soak --list"
)]
pub struct SoakCommand {
    /// Run only this part; repeat for more
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Also run parts that passed on this commit
    #[arg(long)]
    again: bool,
    /// Print the parts and their latest results; run nothing
    #[arg(long)]
    list: bool,
    /// The parts
    #[arg(long, default_value = "bench/soak.toml", value_name = "FILE")]
    parts: PathBuf,
    /// The page to update
    #[arg(long, default_value = "docs/reference/soak.md", value_name = "FILE")]
    page: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    part: Vec<Part>,
}

/// A test that runs for a long time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    shows: String,
    rounds: u64,
    command: Vec<String>,
}

/// A row of the page.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    part: String,
    /// The cells after the part's name and what it shows.
    cells: [String; 6],
}

impl Row {
    fn passed_on(&self, commit: &str, seed: u64) -> bool {
        let [tested, _, used_seed, _, _, result] = &self.cells;
        tested == commit && *used_seed == seed.to_string() && !result.starts_with("FAILED")
    }
}

impl SoakCommand {
    /// Runs the parts one after the other, and updates the page after each.
    pub fn run(&self) -> Result<ExitCode> {
        let text = fs::read_to_string(&self.parts).with_context(|| format!("cannot read {}", self.parts.display()))?;
        let Parts { part: parts } =
            toml::from_str(&text).with_context(|| format!("{} is not valid", self.parts.display()))?;
        for name in &self.only {
            let names = || parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join(", ");
            ensure!(parts.iter().any(|part| part.name == *name), "no part `{name}`: expected one of {}", names());
        }
        let mut rows = parse_rows(&fs::read_to_string(&self.page).unwrap_or_default());
        if self.list {
            for part in &parts {
                let latest = rows.iter().find(|row| row.part == part.name).map_or("not run yet", |row| &row.cells[5]);
                println!("{}: {}: {latest}", part.name, part.shows);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let commit = commit()?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
        let kernel = kernel.trim().to_owned();
        let mut code = ExitCode::SUCCESS;
        for part in parts.iter().filter(|part| self.only.is_empty() || self.only.contains(&part.name)) {
            if !self.again && rows.iter().any(|row| row.part == part.name && row.passed_on(&commit, self.seed)) {
                eprintln!("{}: passed on {commit} with seed {}", part.name, self.seed);
                continue;
            }
            eprintln!("{}: {}", part.name, part.shows);
            let began = Instant::now();
            let result = run(part, self.seed);
            let took = format!("{:.1} min", began.elapsed().as_secs_f64() / 60.0);
            if result.is_err() {
                code = ExitCode::FAILURE;
            }
            let result = result.unwrap_or_else(|why| format!("FAILED: {why:#}")).replace('|', "/");
            eprintln!("{}: {result}, {took}", part.name);
            rows.retain(|row| row.part != part.name);
            let (seed, rounds) = (self.seed.to_string(), part.rounds.to_string());
            let cells = [commit.clone(), kernel.clone(), seed, rounds, took, result];
            rows.push(Row { part: part.name.clone(), cells });
            fs::write(&self.page, page(&parts, &rows))
                .with_context(|| format!("cannot write {}", self.page.display()))?;
        }
        Ok(code)
    }
}

/// Runs a part while showing its output. Returns its results, joined.
fn run(part: &Part, seed: u64) -> Result<String> {
    let (program, arguments) = part.command.split_first().context("its command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .env(ROUNDS, part.rounds.to_string())
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let output = child.stdout.take().context("no output")?;
    let mut part_output = PartOutput::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("its output is not text")?;
        part_output.line(&line);
        eprintln!("  {line}");
    }
    let status = child.wait().context("cannot wait for it")?;
    part_output.result(status.success(), &status.to_string())
}

/// The relevant lines of a part's output.
#[derive(Default)]
struct PartOutput {
    results: Vec<String>,
    failed: Vec<String>,
}

impl PartOutput {
    fn line(&mut self, line: &str) {
        // the test's name may precede the prefix on the same line
        if let Some((_, result)) = line.split_once(RESULT_PREFIX) {
            self.results.push(result.to_owned());
        }
        if let Some(test) = line.strip_suffix(" ... FAILED") {
            self.failed.push(test.trim_start_matches("test ").to_owned());
        }
    }

    fn result(self, success: bool, status: &str) -> Result<String> {
        ensure!(success, "{status}; {}", [self.failed, self.results].concat().join("; "));
        ensure!(!self.results.is_empty(), "it reported no result");
        Ok(self.results.join("; "))
    }
}

/// Returns the commit under test. Fails if there are uncommitted changes, which the page could not name.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).output().context("cannot start git")?;
        ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/reference/soak.md"])?;
    if !changed.is_empty() {
        bail!("commit your changes first, so that the page can name what ran:\n{changed}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn parse_rows(page: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<String> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::to_owned).collect();
        let [part, _, cells @ ..] = cells.as_slice() else { return None };
        Some(Row { part: part.clone(), cells: cells.to_vec().try_into().ok()? })
    };
    page.lines().filter_map(row).filter(|row| !["part", "---"].contains(&row.part.as_str())).collect()
}

/// Formats the page, with the parts in order; rows of parts that no longer exist are dropped.
fn page(parts: &[Part], rows: &[Row]) -> String {
    let mut page = PAGE_HEAD.to_owned();
    for part in parts {
        let cells = rows
            .iter()
            .find(|row| row.part == part.name)
            .map_or("| | | | | not run yet".to_owned(), |row| row.cells.join(" | "));
        let _ = writeln!(page, "| {} | {} | {cells} |", part.name, part.shows);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, command: &[&str]) -> Part {
        let command = command.iter().map(ToString::to_string).collect();
        Part { name: name.to_owned(), shows: "something".to_owned(), rounds: 3, command }
    }

    #[test]
    fn a_part_gets_its_rounds_and_seed_and_reports_its_results() {
        let script =
            "echo noise; echo \"test a ... soak: $HOTCC_SOAK_ROUNDS rounds\"; echo \"soak: from $HOTCC_SOAK_SEED\"";
        assert_eq!(run(&part("a", &["sh", "-c", script]), 7).unwrap(), "3 rounds; from 7");
    }

    #[test]
    fn a_part_fails_if_its_command_fails_or_reports_nothing() {
        let failed = run(&part("a", &["sh", "-c", "echo soak: half; exit 3"]), 1).unwrap_err().to_string();
        assert_eq!(failed, "exit status: 3; half");
        let silent = run(&part("a", &["true"]), 1).unwrap_err().to_string();
        assert_eq!(silent, "it reported no result");
        let mut part_output = PartOutput::default();
        ["test a::b ... ok", "test a::c ... FAILED", "soak: half"].iter().for_each(|line| part_output.line(line));
        assert_eq!(
            part_output.result(false, "exit status: 101").unwrap_err().to_string(),
            "exit status: 101; a::c; half"
        );
    }

    #[test]
    fn the_page_keeps_the_rows_of_parts_that_did_not_run() {
        let parts = [part("a", &["true"]), part("b", &["true"])];
        let cells = ["0123456789ab", "6.18", "1", "3", "0.5 min", "fine"].map(str::to_owned);
        let rows = [Row { part: "b".to_owned(), cells }];
        let read = parse_rows(&page(&parts, &rows));
        assert_eq!(read, rows, "a part that has not run has no row");
        assert!(read[0].passed_on("0123456789ab", 1));
        assert!(!read[0].passed_on("0123456789ab", 2) && !read[0].passed_on("ba9876543210", 1));
    }

    #[test]
    fn every_part_of_the_project_is_valid() {
        let text = include_str!("../../soak.toml");
        let Parts { part } = toml::from_str(text).unwrap();
        assert!(part.iter().all(|part| part.rounds > 1 && !part.command.is_empty()), "{part:?}");
    }
}
