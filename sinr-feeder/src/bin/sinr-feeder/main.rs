//! The `sinr-feeder` command.

mod cli;
mod config;
mod metrics;
mod record;
mod run;
mod show;

use clap::CommandFactory;
use cli::{Cli, Command, GenerateArgs, RemoveArgs};
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::trace::generate::Generator;
use hotcc_host::printable::printable;
use hotcc_radio_map::{Freshness, MapError, RadioMap};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = match config::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(what) => {
            eprintln!("sinr-feeder: {}", printable(&what));
            return ExitCode::FAILURE; // the command line is valid, the file is not
        }
    };
    let level = ["warn", "info", "debug"][usize::from(cli.verbose.min(2))];
    // The NATS client logs at every attempt what we log once.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},async_nats=off")));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
    match execute(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS // the reader of our output has closed the pipe
        }
        Err(e) => {
            eprintln!("sinr-feeder: {}", printable(&message(&e)));
            ExitCode::from(exit_code(&e))
        }
    }
}

/// Returns the whole chain of causes; errors of hotcc-host print their own chain, and advice.
fn message(error: &anyhow::Error) -> String {
    error.downcast_ref::<hotcc_host::error::Error>().map_or_else(|| format!("{error:#}"), |ours| format!("{ours:#}"))
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let of_map = error.downcast_ref::<MapError>().map(MapError::exit_code);
    of_map.or_else(|| error.downcast_ref().map(hotcc_host::error::Error::exit_code)).unwrap_or(1)
}

fn execute(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Run(args) => run::run(args, &cli.pin_root, cli.verbose > 0),
        Command::Init => Ok(RadioMap::open_or_create(&cli.pin_root).map(drop)?),
        Command::Record(args) => record::record(args, &cli.pin_root),
        Command::Show(args) => show::show(args, &cli.pin_root),
        Command::Remove(args) => remove(args, &cli.pin_root),
        Command::Generate(args) => generate(args),
        Command::Completions(args) => Ok(args.print(Cli::command())?),
        Command::Man(args) => Ok(args.write(Cli::command())?),
    }
}

fn remove(args: &RemoveArgs, pin_root: &Path) -> anyhow::Result<()> {
    let mut map = RadioMap::open(pin_root)?;
    let links = if args.stale { abandoned(&map)? } else { args.links.clone() };
    for link in links {
        if args.dry_run {
            writeln!(io::stdout(), "would remove {link}")?;
            continue;
        }
        match map.remove_link(link, args.take_over) {
            // meanwhile a feeder took it, or another command removed it
            Err(MapError::Owned { .. } | MapError::NoSuchLink { .. }) if args.stale => {}
            removed => {
                removed?;
                writeln!(io::stdout(), "removed {link}")?;
            }
        }
    }
    Ok(())
}

/// Returns the links that have neither a fresh reading nor a running feeder.
fn abandoned(map: &RadioMap) -> anyhow::Result<Vec<IndexKey>> {
    let mut links = map.view().links()?;
    links.retain(|link| {
        let s = &link.snapshot;
        let is_fresh = s.latest_freshness(s.taken_ms) == Freshness::Fresh;
        !is_fresh && !s.owner_alive()
    });
    Ok(links.into_iter().map(|link| link.key).collect())
}

fn generate(args: &GenerateArgs) -> anyhow::Result<()> {
    let generator = Generator {
        kind: args.kind,
        length: args.seconds,
        period: std::time::Duration::from_millis(args.period_ms.into()),
        seed: args.seed,
        bandwidth_hz: args.bandwidth_hz,
    };
    let kind = format!("{:?}", args.kind).to_lowercase();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "# made by: sinr-feeder generate --kind {kind} --seconds {} --period-ms {} --seed {} --bandwidth-hz {}",
        args.seconds.as_secs_f64(),
        args.period_ms,
        args.seed,
        args.bandwidth_hz
    )?;
    out.write_all(generator.trace().to_csv().as_bytes())?;
    Ok(())
}
