//! Arguments of the command.

use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use hotcc_abi::pins;
use hotcc_abi::radio::{IndexKey, MAX_AGE_LIMIT_MS};
use sinr_feeder::link;
use sinr_feeder::trace::Kind;
use std::path::PathBuf;
use std::time::Duration;

/// Feed radio readings (SINR) to congestion control in the kernel.
///
/// Readings go to the radio map in /sys/fs/bpf/hotcc/signal, where every loaded algorithm finds them by the peer's
/// address. The map outlives this program; what it holds only grows old.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Say more on stderr; twice: everything.
    #[arg(short, long, global = true, display_order = 100, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Where the maps are pinned.
    #[arg(long, global = true, hide = true, default_value = pins::ROOT)]
    pub pin_root: PathBuf,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the kernel lacks something, 4 not permitted.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Publish readings until the source ends, or until SIGTERM or SIGINT.
    Run(RunArgs),
    /// Show every link and its latest reading.
    Show(ShowArgs),
    /// Take links out of the radio map.
    Remove(RemoveArgs),
    /// Write a generated trace to stdout.
    Generate(GenerateArgs),
    /// Write completions for a shell to stdout.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

const LINK_HELP: &str = "\
A link: ADDR[/LEN], or ADDR:PORT[/LEN] for a block of ports behind one address ([ADDR]:PORT[/LEN] with IPv6)";

const RUN_EXAMPLES: &str = "\
Examples:
  sinr-feeder run --source trace:drive.csv --link 10.45.0.0/16
  sinr-feeder run --source trace:drive.csv --link 2001:db8:45::/48 --loop --hold-over 3
  sinr-feeder run --source trace:drive.csv --link 192.0.2.1:4096/6     (ports 4096 to 5119)

When it stops, links and last readings stay in the map, and readers ignore them once they are too old.";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Where readings come from: trace:FILE (formats: see docs/traces.md).
    #[arg(long, value_parser = source)]
    pub source: Source,
    #[arg(long = "link", value_name = "PREFIX", required = true, value_parser = link::parse, help = LINK_HELP)]
    pub links: Vec<IndexKey>,
    /// Trace seconds per real second; options below count real seconds.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Start over at the end of the trace.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// How long the last SINR counts as valid while no new one comes: until then, or until the trace ends, it is
    /// published again and again.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub hold_over: Duration,
    /// Time constant of the running average published with each reading.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub average_time_constant: Duration,
    /// Age beyond which readers ignore a reading [default: 3 periods of the source, 500 to 30000]
    #[arg(long, value_name = "MS", value_parser = value_parser!(u32).range(1..=i64::from(MAX_AGE_LIMIT_MS)))]
    pub max_age_ms: Option<u32>,
    /// Take the links even from a feeder that still runs; that one then stops.
    #[arg(long)]
    pub take_over: bool,
    /// Take the links out of the map when done.
    #[arg(long)]
    pub remove_on_exit: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Where readings come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A trace file.
    Trace(PathBuf),
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Write JSON: one object; with --watch one per line.
    #[arg(long)]
    pub json: bool,
    /// Show again every second, until interrupted.
    #[arg(long)]
    pub watch: bool,
}

/// Arguments of `remove`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sinr-feeder remove --link 10.45.0.0/16")]
pub struct RemoveArgs {
    #[arg(long = "link", value_name = "PREFIX", required = true, value_parser = link::parse, help = LINK_HELP)]
    pub links: Vec<IndexKey>,
    /// Remove links even while a feeder publishes them; that one then stops.
    #[arg(long)]
    pub take_over: bool,
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sinr-feeder generate --kind blockage --seconds 60 --seed 7 > blockage.csv")]
pub struct GenerateArgs {
    /// Shape of the SINR.
    #[arg(long, value_enum)]
    pub kind: Kind,
    /// How long the trace lasts.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub seconds: Duration,
    /// Time between samples in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=3_600_000))]
    pub period_ms: u32,
    /// The same seed makes the same trace.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Bandwidth of the carrier; capacity is proportional to it.
    #[arg(long, default_value_t = 20e6, value_parser = bandwidth)]
    pub bandwidth_hz: f64,
}

fn source(text: &str) -> Result<Source, String> {
    match text.strip_prefix("trace:") {
        Some(file) if !file.is_empty() => Ok(Source::Trace(file.into())),
        _ => Err("a source is written trace:FILE".to_owned()),
    }
}

fn within(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.parse().ok().filter(|v| range.contains(v));
    value.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
}

fn speed(text: &str) -> Result<f64, String> {
    within(text, 0.001..=10_000.0)
}

fn bandwidth(text: &str) -> Result<f64, String> {
    within(text, 1.0..=1e12)
}

fn seconds(text: &str) -> Result<Duration, String> {
    within(text, 0.0..=1e7).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_are_bounded() {
        for bad in ["0", "-1", "nan", "inf", "", "1e9"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(source("drive.csv").is_err() && source("trace:").is_err());
    }
}
