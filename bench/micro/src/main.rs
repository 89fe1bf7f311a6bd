//! `hotcc-microbench`: the cost of the programs on this kernel, if possible relative to yardsticks in the same run.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, Subcommand};
use hotcc_micro::MEASURES;
use hotcc_micro::options::Options;
use hotcc_testbed::{netlab, soak};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Measure what hotcc's programs cost on this kernel.
///
/// Where there is a baseline, both are measured in the same run, and the bound applies to their ratio. Other bounds are
/// absolute, such as that of the time of a swap: a busy machine can exceed them.
///
/// Requires root. Does not touch loaded or pinned programs, and removes everything it creates.
#[derive(Parser)]
#[command(name = "hotcc-microbench", version, after_help = EXAMPLES)]
struct Cli {
    /// Run only this measure; repeatable [default: all]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(MEASURES.map(|m| PossibleValue::new(m.name).help(m.about))))]
    only: Vec<String>,
    /// Repeat less often, to check that the measures work; do not quote the figures
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

const EXAMPLES: &str = "Examples:
  hotcc-microbench                          Run all measures
  hotcc-microbench --quick                  Check that all measures work
  hotcc-microbench --only ack --only swap   Run two measures
  hotcc-microbench --json > figures.json    Save the figures

Exit status:
  0    every bound holds
  1    a bound does not hold, or a measure failed or was too noisy
  4    permission denied
  130  interrupted";

/// Roles in which the measures start this program.
#[derive(Subcommand)]
#[command(disable_help_subcommand = true)]
enum Role {
    /// Open connections with this congestion control, and keep them
    #[command(hide = true)]
    Holder { cc: String },
    /// Receive on so many connections, and check what arrives
    #[command(hide = true)]
    Receiver { connections: usize },
    /// The exporter that `hotcc exporter` is
    #[command(hide = true)]
    Exporter { listen: SocketAddr },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("hotcc-microbench: {error:#}");
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if netlab::check().is_err() { 130 } else { error.downcast_ref().map_or(1, hotcc_host::error::Error::exit_code) }
}

fn run(cli: &Cli) -> anyhow::Result<bool> {
    match &cli.role {
        Some(Role::Holder { cc }) => hotcc_micro::hold(cc).map(|()| true),
        Some(Role::Receiver { connections }) => hotcc_micro::receive(*connections).map(|()| true),
        Some(Role::Exporter { listen }) => hotcc_micro::serve_metrics(*listen).map(|()| true),
        None => measure(cli),
    }
}

fn measure(cli: &Cli) -> anyhow::Result<bool> {
    hotcc_host::error::need_root("hotcc-microbench")?;
    hotcc_micro::enter_sandbox()?;
    netlab::catch_interrupts()?;
    let report = hotcc_micro::run(&cli.only, &Options { quick: cli.quick })?;
    for finding in &report.findings {
        soak::report(&finding.line());
    }
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(report.good())
}
