//! Arguments of the command.

use clap::{Args, Parser, Subcommand, value_parser};
use hotcc_abi::radio::{IndexKey, MAX_AGE_LIMIT_MS};
use hotcc_channel_model::trace::generate::Kind;
use hotcc_channel_model::{RateSpec, Table};
use hotcc_host::nearest::expected;
use sinr_feeder::{link, nats, publish, source};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Feed radio readings (SINR, capacity) to congestion control in the kernel.
///
/// Readings go to the radio map in /sys/fs/bpf/hotcc/signal, where every loaded algorithm looks them up by the peer's
/// address. The map outlives this program; its readings expire by age.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log more to stderr: -v for events, -vv for debugging.
    #[arg(short, long, global = true, display_order = 100, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Directory of the pinned maps.
    #[arg(long, global = true, hide = true, default_value_os = hotcc_radio_map::default_pin_root().as_os_str())]
    pub pin_root: PathBuf,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 failure, 2 invalid arguments, 3 the kernel lacks a feature, 4 not permitted.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Publish readings until all sources end, or until SIGTERM or SIGINT.
    Run(Box<RunArgs>),
    /// Create the radio map as root, so that members of group hotcc can feed it.
    Init,
    /// List every link of the radio map with its latest reading.
    Show(ShowArgs),
    /// Record the readings of one link into a trace file, as they appear in the radio map.
    Record(RecordArgs),
    /// Remove links from the radio map.
    Remove(RemoveArgs),
    /// Generate a synthetic trace and write it to stdout.
    Generate(GenerateArgs),
    /// Write a shell completion script to stdout.
    Completions(hotcc_manual::Completions),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(hotcc_manual::Man),
}

const LINK_HELP: &str = "\
Link: ADDR[/LEN], or ADDR:PORT[/LEN] for a block of ports behind one address ([ADDR]:PORT[/LEN] for IPv6)";

const RUN_EXAMPLES: &str = "\
Examples:
  sinr-feeder run --source trace:drive.csv --link 10.45.0.0/16 --loop
  sinr-feeder run --source mm --source at:/dev/ttyUSB2 --link 192.0.2.1:4096/6  (ports 4096-5119)
  sinr-feeder run --source udp:127.0.0.1:9000 --within 10.45.0.0/16  (readings name their links)
  sinr-feeder run --source mm --publish nats://nats.example --as car-7  (on the modem's host)
  sinr-feeder run --subscribe nats://nats.example --ue car-7=10.45.0.7  (on the sender's host)

See docs/reference/sources.md for sources and readings, and docs/guide/fleets.md for feeding from other hosts. \
After the feeder stops, its links and last readings stay in the map; readers ignore a reading that is older than \
its maximum age.";

const SHOW_EXAMPLES: &str = "\
Examples:
  sinr-feeder show
  sinr-feeder show --watch
  sinr-feeder show --json | jq '.links[] | select(.state == \"fresh\")'";

const RECORD_EXAMPLES: &str = "\
Examples:
  sinr-feeder record --link 10.45.0.0/16 --out drive.csv                  (until SIGTERM or SIGINT)
  sinr-feeder record --link 10.45.0.0/16 --out drive.csv --seconds 600
  sinr-feeder record --link 192.0.2.1:4096/6 --out block.csv --seconds 60 (ports 4096 to 5119)";

const GENERATE_EXAMPLES: &str = "\
Examples:
  sinr-feeder generate --kind walk > walk.csv
  sinr-feeder generate --kind blockage --seconds 60 --seed 7 > blockage.csv
  sinr-feeder generate --kind square --period-ms 10 --bandwidth-hz 100e6 > square.csv";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, args_override_self = true)]
pub struct RunArgs {
    /// Source of readings; KIND is trace, stdin, udp, mm, wifi, at, srsran, model, nats or peer. If there are several, the
    /// first one with a fresh reading for a link is used.
    #[arg(long = "source", value_name = "KIND:ARGS")]
    pub sources: Vec<source::spec::Spec>,
    /// NATS server to receive other hosts' readings from; has lower precedence than every --source.
    #[arg(long, value_name = "nats://HOST", value_parser = subscription)]
    pub subscribe: Vec<source::spec::Spec>,
    #[arg(long = "link", value_name = "PREFIX", value_parser = link::parse, help = LINK_HELP)]
    pub links: Vec<IndexKey>,
    /// UE and its link: where readings that name this UE go. Without =PREFIX, they go only to the
    /// hosts of --publish.
    #[arg(long = "ue", value_name = "NAME[=PREFIX]", value_parser = ue)]
    pub ues: Vec<(String, Option<IndexKey>)>,
    /// Accept readings that name their own link, if the link is within this prefix.
    #[arg(long, value_name = "PREFIX", value_parser = link::parse)]
    pub within: Vec<IndexKey>,
    /// Remove a link that was created through --within if it gets no reading for this long.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub forget_after: Duration,
    /// Maximum number of links that readings create; each source has an equal share. If a source has used up its share,
    /// its links whose readings are too old make room, the oldest first.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub max_links: u32,
    /// Send readings to another host: nats://HOST[:PORT] or peer:ADDRESS:PORT,keys=FILE.
    #[arg(long, value_name = "TO")]
    pub publish: Vec<publish::spec::Spec>,
    /// UE name under which to send readings that do not name a UE.
    #[arg(long = "as", value_name = "NAME", value_parser = name, requires = "publish")]
    pub own_id: Option<String>,
    /// Replay speed of traces, in trace seconds per real second; the options below count real seconds.
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Replay the trace from its start when it ends.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Let readers use the last SINR for this much longer than the maximum age. Its age keeps growing. The maximum
    /// age plus this is limited to 30 s.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub hold_over: Duration,
    /// Time constant of the running average that is published with each reading.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub average_time_constant: Duration,
    /// Age beyond which readers ignore a reading, 1 to 30000 [default: 2.5 measured periods of the source, 50 to 30000; 3
    /// periods of a trace or model, 500 to 30000]
    #[arg(long, value_name = "MS", value_parser = value_parser!(u32).range(1..=i64::from(MAX_AGE_LIMIT_MS)))]
    pub max_age_ms: Option<u32>,
    /// If a SINR differs from the previous one by more than this, hold it back until the next reading confirms it; 0
    /// accepts every SINR.
    #[arg(long, value_name = "DB", default_value_t = 25.0, value_parser = decibels)]
    pub outlier_db: f64,
    /// Ignore a reading with the same values as the previous one, for sources that repeat their last measurement.
    #[arg(long)]
    pub skip_repeats: bool,
    /// Compute the capacity from CQI, MCS or SINR if the source does not report it. TABLE is cqi-lte, cqi-nr-64qam,
    /// cqi-nr-256qam, mcs-nr-64qam, mcs-nr-256qam or shannon; MHZ is the bandwidth; OVERHEAD is the share of it that
    /// carries no data, 0 to 0.99 (docs/reference/radio.md).
    #[arg(long, value_name = "TABLE:MHZ[:OVERHEAD]", value_parser = rate)]
    pub capacity: Option<RateSpec>,
    /// Serve /metrics and /healthz over HTTP on this address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Read options from a TOML file, as `long_option = value`. Options on the command line override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Take over links from a feeder that is still running; that feeder then stops.
    #[arg(long)]
    pub take_over: bool,
    /// Remove the links from the map on exit.
    #[arg(long)]
    pub remove_on_exit: bool,
    /// Do not print progress, or at the start what is read and written.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub struct RecordArgs {
    #[arg(long, value_name = "PREFIX", value_parser = link::parse, help = LINK_HELP)]
    pub link: IndexKey,
    /// Trace file to create; it must not exist yet.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Length of the recording [default: until SIGTERM or SIGINT]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<Duration>,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// Print a JSON object; with --watch, one object per line.
    #[arg(long)]
    pub json: bool,
    /// Print again every second, until interrupted.
    #[arg(long)]
    pub watch: bool,
}

/// Arguments of `remove`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["links", "stale"]))]
#[command(after_help = "Examples:\n  sinr-feeder remove --link 10.45.0.0/16\n  sinr-feeder remove --stale --dry-run")]
pub struct RemoveArgs {
    #[arg(long = "link", value_name = "PREFIX", value_parser = link::parse, help = LINK_HELP)]
    pub links: Vec<IndexKey>,
    /// Remove every link that has no fresh reading and no running feeder.
    #[arg(long, conflicts_with = "take_over")]
    pub stale: bool,
    /// Print what would be removed; remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Remove links even if a feeder publishes to them; that feeder then stops.
    #[arg(long)]
    pub take_over: bool,
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub struct GenerateArgs {
    /// Shape of the SINR over time.
    #[arg(long, value_enum)]
    pub kind: Kind,
    /// Length of the trace.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub seconds: Duration,
    /// Time between samples in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=3_600_000))]
    pub period_ms: u32,
    /// Random seed; the same seed generates the same trace.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Bandwidth of the carrier, in Hz; the capacity is proportional to it.
    #[arg(long, default_value_t = 20e6, value_parser = bandwidth)]
    pub bandwidth_hz: f64,
}

fn subscription(text: &str) -> Result<source::spec::Spec, String> {
    match text.strip_prefix("nats:") {
        Some(_) => text.parse(),
        None => Err("expected nats://HOST[:PORT]".to_owned()),
    }
}

fn name(text: &str) -> Result<String, String> {
    if nats::is_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("invalid UE name `{text}`: expected 1 to 64 letters, digits, `-`, `_` and `:`, e.g. `car-7`"))
}

fn ue(text: &str) -> Result<(String, Option<IndexKey>), String> {
    let (id, prefix) = text.split_once('=').map_or((text, None), |(id, prefix)| (id, Some(prefix)));
    let prefix = prefix.map(link::parse).transpose().map_err(|e| e.to_string())?;
    Ok((name(id)?, prefix))
}

const TABLES: [&str; 6] = ["cqi-lte", "cqi-nr-64qam", "cqi-nr-256qam", "mcs-nr-64qam", "mcs-nr-256qam", "shannon"];

fn rate(text: &str) -> Result<RateSpec, String> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let table = Table::named(name).ok_or_else(|| format!("unknown table `{name}`: {}", expected(name, TABLES)))?;
    let bandwidth_mhz = parts.next().ok_or("the bandwidth in MHz is missing: expected e.g. `cqi-lte:20`")?;
    let bandwidth_mhz =
        within(bandwidth_mhz, 0.1..=10_000.0).map_err(|what| format!("invalid bandwidth in MHz: {what}"))?;
    let overhead = parts.next().map(|o| within(o, 0.0..=0.99)).transpose();
    let overhead = overhead.map_err(|what| format!("invalid overhead: {what}"))?;
    match parts.next() {
        None => Ok(RateSpec { table, bandwidth_mhz, overhead, scale_to_bps: None }),
        Some(rest) => {
            Err(format!("unexpected `:{rest}`: expected TABLE:MHZ[:OVERHEAD], e.g. `cqi-nr-256qam:100:0.14`"))
        }
    }
}

fn within(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.parse().ok().filter(|v| range.contains(v));
    value.ok_or_else(|| format!("`{text}` is not a number from {} to {}", range.start(), range.end()))
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
