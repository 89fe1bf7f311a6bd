//! Arguments of the command.

use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use hotcc_abi::pins;
use hotcc_abi::radio::{IndexKey, MAX_AGE_LIMIT_MS};
use hotcc_channel_model::trace::generate::Kind;
use hotcc_channel_model::{RateSpec, Table};
use sinr_feeder::{link, nats, publish, source};
use std::net::SocketAddr;
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
    Run(Box<RunArgs>),
    /// Show every link and its latest reading.
    Show(ShowArgs),
    /// Write the readings of one link to a trace, as they appear in the radio map.
    Record(RecordArgs),
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
  sinr-feeder run --source trace:drive.csv --link 10.45.0.0/16 --loop
  sinr-feeder run --source mm --source at:/dev/ttyUSB2 --link 192.0.2.1:4096/6     (ports 4096 to 5119)
  sinr-feeder run --source udp:127.0.0.1:9000 --within 10.45.0.0/16                (readings name their link)
  sinr-feeder run --source mm --publish nats://nats.example --as car-7             (on the modem's host)
  sinr-feeder run --subscribe nats://nats.example --ue car-7=10.45.0.7             (on the sender's host)

docs/reference/sources.md describes sources and readings, docs/guide/fleets.md other hosts. When it stops, links and last
readings stay in the map, and readers ignore them once they are too old.";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, args_override_self = true)]
pub struct RunArgs {
    /// Where readings come from: KIND:ARGS. KIND is trace, stdin, udp, mm, wifi, at, srsran, model, nats or peer. Of
    /// several, the first that has a fresh reading of a link is the one that counts.
    #[arg(long = "source", value_name = "KIND:ARGS")]
    pub sources: Vec<source::spec::Spec>,
    /// A NATS server with readings of other hosts; comes after all --source.
    #[arg(long, value_name = "nats://HOST", value_parser = subscription)]
    pub subscribe: Vec<source::spec::Spec>,
    #[arg(long = "link", value_name = "PREFIX", value_parser = link::parse, help = LINK_HELP)]
    pub links: Vec<IndexKey>,
    /// The link of readings that name a UE; without a link they are only published.
    #[arg(long = "ue", value_name = "NAME[=PREFIX]", value_parser = ue)]
    pub ues: Vec<(String, Option<IndexKey>)>,
    /// Readings may name links themselves, within this prefix.
    #[arg(long, value_name = "PREFIX", value_parser = link::parse)]
    pub within: Vec<IndexKey>,
    /// Links that readings named themselves are taken out of the map after so long without one.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub forget_after: Duration,
    /// Sends readings to another host: nats://HOST or peer:ADDRESS:PORT,keys=FILE.
    #[arg(long, value_name = "TO")]
    pub publish: Vec<publish::spec::Spec>,
    /// The name under which readings that name no UE are published.
    #[arg(long = "as", value_name = "NAME", value_parser = name, requires = "publish")]
    pub own_id: Option<String>,
    /// Trace seconds per real second; options below count real seconds.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Start over at the end of the trace.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Readers use the last SINR for so much longer than the maximum age, while its age grows; 30 s in all at most.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub hold_over: Duration,
    /// Time constant of the running average published with each reading.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub average_time_constant: Duration,
    /// Age beyond which readers ignore a reading [default: 2.5 measured periods of the source, 50 to 30000; 3 periods of
    /// a trace, 500 to 30000]
    #[arg(long, value_name = "MS", value_parser = value_parser!(u32).range(1..=i64::from(MAX_AGE_LIMIT_MS)))]
    pub max_age_ms: Option<u32>,
    /// A SINR that is further than this from the one before counts only once the next confirms it; 0 takes all.
    #[arg(long, value_name = "DB", default_value_t = 25.0, value_parser = decibels)]
    pub outlier_db: f64,
    /// The same values again are no new measurement, but the source repeating itself.
    #[arg(long)]
    pub skip_repeats: bool,
    /// Capacity where the source has none, from CQI, MCS or SINR: cqi-lte, cqi-nr-64qam, cqi-nr-256qam, mcs-nr-64qam,
    /// mcs-nr-256qam or shannon, the bandwidth in MHz, and the share of it that carries no data
    /// (docs/reference/radio.md).
    #[arg(long, value_name = "TABLE:MHZ[:OVERHEAD]", value_parser = rate)]
    pub capacity: Option<RateSpec>,
    /// Serve /metrics and /healthz on this address and port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Options in a file (TOML): `long_option = value`; those given here go before it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
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

/// Arguments of `record`.
#[derive(Debug, Args)]
#[command(after_help = "Example: sinr-feeder record --link 10.45.0.0/16 --out drive.csv --seconds 600")]
pub struct RecordArgs {
    #[arg(long, value_name = "PREFIX", value_parser = link::parse, help = LINK_HELP)]
    pub link: IndexKey,
    /// The trace's file; it must not exist.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How long; without it, until SIGTERM or SIGINT.
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
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

fn subscription(text: &str) -> Result<source::spec::Spec, String> {
    match text.strip_prefix("nats:") {
        Some(_) => text.parse(),
        None => Err("a NATS server is nats://HOST[:PORT]".to_owned()),
    }
}

fn name(text: &str) -> Result<String, String> {
    if nats::is_name(text) {
        return Ok(text.to_owned());
    }
    Err("a UE's name is 1 to 64 letters, digits, '-', '_' and ':'".to_owned())
}

fn ue(text: &str) -> Result<(String, Option<IndexKey>), String> {
    let (id, prefix) = text.split_once('=').map_or((text, None), |(id, prefix)| (id, Some(prefix)));
    let prefix = prefix.map(link::parse).transpose().map_err(|e| e.to_string())?;
    Ok((name(id)?, prefix))
}

fn rate(text: &str) -> Result<RateSpec, String> {
    let mut parts = text.split(':');
    let table = parts
        .next()
        .and_then(Table::named)
        .ok_or("the tables are cqi-lte, cqi-nr-64qam, cqi-nr-256qam, mcs-nr-64qam, mcs-nr-256qam, shannon")?;
    let bandwidth_mhz = within(parts.next().unwrap_or_default(), 0.1..=10_000.0)
        .map_err(|what| format!("the bandwidth in MHz is {what}"))?;
    let overhead = parts.next().map(|o| within(o, 0.0..=0.99)).transpose()?;
    match parts.next() {
        None => Ok(RateSpec { table, bandwidth_mhz, overhead, scale_to_bps: None }),
        Some(_) => Err("TABLE:MHZ[:OVERHEAD]".to_owned()),
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

fn decibels(text: &str) -> Result<f64, String> {
    within(text, 0.0..=100.0)
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
        assert_eq!(ue("car-7=10.0.0.7").unwrap().1.unwrap().to_string(), "10.0.0.7/32");
        assert!(ue("car 7").is_err() && ue("a.b").is_err() && ue("=10.0.0.7").is_err() && ue("a=b").is_err());
        assert_eq!(rate("cqi-lte:20").unwrap().capacity_bps(30.0), 73_322_040);
        assert!(rate("cqi-lte").is_err() && rate("lte:20").is_err() && rate("shannon:20:0.1:1").is_err());
    }
}
