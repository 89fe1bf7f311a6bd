//! The `pep-agent` command.

mod cli;

use clap::Parser;
use cli::{Border, Cli, Command};
use pep_agent::border::{self, print::Print};
use pep_agent::daemon::read_options;
use pep_agent::error::{Error, Result};
use pep_agent::report::Transport;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = if cli.verbose == 0 { "info" } else { "debug" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
    let done = match cli.command {
        Command::Border(args) => run_border(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pep-agent: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run_border(args: Border) -> Result<()> {
    let file = args.config.as_deref().map(read_options).transpose()?.unwrap_or_default();
    let config = args.options.or(file).resolve()?;
    let transport: Box<dyn Transport + Send> = if args.dry_run {
        Box::new(Print)
    } else {
        return Err(Error::Usage("this build sends no reports; --dry-run shows them".to_owned()));
    };
    border::run(&config, &args.pins, transport)
}
