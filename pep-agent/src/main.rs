//! The `pep-agent` command.

mod cli;
mod file;

use clap::{CommandFactory, Parser};
use cli::{Border, Cli, Command, Server};
use file::{read_options, with_file_name};
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::printable::printable;
use pep_agent::auth::{Keys, LiveKeys};
use pep_agent::border::config::Way;
use pep_agent::border::{self, print::Print};
use pep_agent::report::Transport;
use pep_agent::server;
use pep_agent::transport::{inband, udp};
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
    let done = match cli.command {
        Command::Border(args) => run_border(args),
        Command::Server(args) => run_server(args),
        Command::Completions(args) => {
            args.print(Cli::command()).tried(|| "cannot print the completion script".to_owned())
        }
        Command::Man(args) => args.write(Cli::command()).tried(|| "cannot write the manual pages".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pep-agent: {}", printable(&format!("{error:#}")));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run_border(args: Border) -> Result<()> {
    let file = args.config.as_deref().map(read_options).transpose()?.unwrap_or_default();
    let config = with_file_name(args.options.or(file).resolve(), args.config.as_deref())?;
    if args.dry_run {
        return border::run(&config, &args.pins, || Ok(Box::new(Print)), || ());
    }
    let missing = || {
        Error::usage(
            "--key-file is missing: pass it, e.g. `--key-file /etc/hotcc/pep.keys`, set `key_file` in the --config file, or use --dry-run",
        )
    };
    let file = with_file_name(config.key_file.as_deref().ok_or_else(missing), args.config.as_deref())?;
    let keys = LiveKeys::new(Keys::read(file).tried(|| "cannot use the key file".to_owned())?);
    let start = || -> Result<Box<dyn Transport + Send>> {
        let how = match config.transport {
            Way::Udp => format!("as UDP datagrams to port {}", config.port),
            Way::Inband => "within flows".to_owned(),
        };
        tracing::info!("sending reports {how}, with keys from {}", file.display());
        match config.transport {
            Way::Udp => Ok(Box::new(
                udp(keys.clone(), config.port).tried(|| "cannot send reports as UDP datagrams".to_owned())?,
            )),
            Way::Inband => Ok(Box::new(inband(keys.clone()).tried(|| "cannot send reports within flows".to_owned())?)),
        }
    };
    border::run(&config, &args.pins, start, || keys.reload(file))
}

fn run_server(args: Server) -> Result<()> {
    let file = args.config.as_deref().map(read_options).transpose()?.unwrap_or_default();
    server::run(&with_file_name(args.options.or(file).resolve(), args.config.as_deref())?)
}
