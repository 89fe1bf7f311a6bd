//! `hotcc-bench validate`: how far simulated results differ from the lab's.

use anyhow::{Context, Result};
use clap::Args;
use hotcc_lab::validation::{Comparison, Validation, compare, page};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare simulated results with the lab's, run by run, and list the runs beyond the bounds
///
/// Compares runs that are both in OUT/NAME/simulator and in OUT/NAME/KERNEL. A run is within the bounds if its throughput
/// differs by at most 1 % and the 95th percentile of the queue's delay by at most 15 %. Exits with 1 if any is beyond them.
/// Results of different versions of an algorithm are refused.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hotcc-bench lab --sim bench/scenarios/queues.toml\n  \
    hotcc-bench lab --one-in 10 bench/scenarios/queues.toml\n  hotcc-bench validate lab-results/queues")]
pub struct ValidateCommand {
    /// Results of scenarios: OUT/NAME
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Write a page with every run to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print every run as JSON
    #[arg(long)]
    json: bool,
}

impl ValidateCommand {
    /// Compares the results.
    pub fn run(&self) -> Result<ExitCode> {
        let mut validation = Validation::default();
        for directory in &self.directories {
            validation.add(compare(directory)?);
        }
        if let Some(path) = &self.page {
            fs::write(path, page(&validation)).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&validation)?);
        }
        let all = &validation.compared;
        let beyond: Vec<&Comparison> = all.iter().filter(|one| !one.is_within_bounds()).collect();
        for one in &beyond {
            let (rate, delay) = (one.throughput_mbps, one.queue_delay_p95_ms);
            eprintln!(
                "{} {} seed {}: {:.3} Mbit/s, lab {:.3}; p95 {:.2} ms, lab {:.2}",
                one.scenario,
                one.run.case_name(),
                one.run.seed,
                rate.simulated,
                rate.lab,
                delay.simulated,
                delay.lab
            );
        }
        eprintln!("{} of {} runs are within the bounds", all.len() - beyond.len(), all.len());
        if let Some(omission) = validation.omission() {
            eprintln!("{omission}");
        }
        Ok(if beyond.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
