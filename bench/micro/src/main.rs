//! `hotcc-microbench`: what the programs cost on this kernel, against yardsticks measured in the same run.

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use hotcc_micro::MEASURES;
use hotcc_micro::options::Options;
use hotcc_testbed::netlab;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Measure what the programs cost on this kernel, against yardsticks measured in the same run.
///
/// Needs root. Touches nothing that is loaded or pinned, and leaves nothing behind. Exit codes: 0 every bound holds,
/// 1 one does not or could not be shown to, 4 not permitted, 130 interrupted.
#[derive(Parser)]
#[command(name = "hotcc-microbench", version)]
struct Cli {
    /// Only this measure; may be given again
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(MEASURES.map(|m| m.name)))]
    only: Vec<String>,
    /// Fewer repetitions: shows that it works; not for quoting
    #[arg(long)]
    quick: bool,
    /// Machine-readable
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What the scrape measure starts this program as.
#[derive(Subcommand)]
#[command(disable_help_subcommand = true)]
enum Role {
    /// Open connections with this congestion control, and keep them
    #[command(hide = true)]
    Holder { cc: String },
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
        Some(Role::Exporter { listen }) => hotcc_micro::serve_metrics(*listen).map(|()| true),
        None => measure(cli),
    }
}

fn measure(cli: &Cli) -> anyhow::Result<bool> {
    hotcc_host::error::need_root("hotcc-microbench")?;
    hotcc_micro::enter_sandbox()?;
    netlab::catch_interrupts()?;
    let report = hotcc_micro::run(&cli.only, &Options { quick: cli.quick })?;
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(report.good())
}
