//! Options of the server, from the command line and from a file.

use crate::attach::Method;
use crate::server::ingest::Options;
use crate::wire::PORT;
use hotcc_host::error::{Error, Result};
use serde::{Deserialize, Deserializer};
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Limit of `--max-age-ms`. The kernel's program uses the same limit to recognize records that are older than the last
/// one.
const MAX_AGE_MS: u64 = 30_000;

/// Options as given; a file has them by the same names, with `_` for `-`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerArgs {
    /// Address and UDP port to which borders send reports [default: port 4713 of any address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub receive: Option<SocketAddr>,
    /// Keys shared with borders, one per line: NUMBER KEY, optionally PREFIX, with KEY as 64 hexadecimal digits and PREFIX the servers
    /// it is for; read again at SIGHUP; required
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Address of /metrics and /healthz [default: 127.0.0.1:9719]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Do not clock senders by arrivals at the border; what the border saw takes effect at the client's next ACK
    #[arg(long)]
    pub no_clock: bool,
    /// Share of flows that run without the PEP, for comparison in the metrics, 0% to 100% [default: 0%]
    #[arg(long, value_name = "PERCENT")]
    #[serde(deserialize_with = "percentage")]
    pub control_share: Option<String>,
    /// Also take in-band reports from this interface, which must have an Ethernet header; may be repeated
    #[arg(long, value_name = "IF")]
    pub inband: Vec<String>,
    /// How to attach to the --inband interfaces [default: auto]
    #[arg(long, value_enum)]
    pub attach: Option<Method>,
    /// Ignore older reports, 1 to 30000 [default: 1000]
    #[arg(long, value_name = "MILLISECONDS")]
    pub max_age_ms: Option<u64>,
    /// Datagrams per second to accept from each border, and to process from each other source prefix; for in-band reports,
    /// from each key; 1 to 10000000 [default: 20000]
    #[arg(long, value_name = "NUMBER")]
    pub rate: Option<u64>,
}

/// Checked options.
#[derive(Clone, Debug)]
pub struct Config {
    /// File of keys.
    pub key_file: PathBuf,
    /// Address of the HTTP server.
    pub listen: SocketAddr,
    /// Options of the [`Server`](crate::server::Server).
    pub options: Options,
}

impl ServerArgs {
    /// Returns the options given here; for each that is not, what `other` gives.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            receive: self.receive.or(other.receive),
            key_file: self.key_file.or(other.key_file),
            listen: self.listen.or(other.listen),
            no_clock: self.no_clock || other.no_clock,
            control_share: self.control_share.or(other.control_share),
            inband: if self.inband.is_empty() { other.inband } else { self.inband },
            attach: self.attach.or(other.attach),
            max_age_ms: self.max_age_ms.or(other.max_age_ms),
            rate: self.rate.or(other.rate),
        }
    }

    /// Checks all options, and fills in defaults.
    ///
    /// # Errors
    /// An option is missing or invalid. The error has kind [`hotcc_host::error::Kind::Usage`] and names the option.
    pub fn resolve(self) -> Result<Config> {
        let key_file = self.key_file.ok_or_else(|| {
            Error::usage(
                "--key-file is missing: pass it, e.g. `--key-file /etc/hotcc/pep.keys`, or set `key_file` in the --config file",
            )
        })?;
        let within = |option: &str, value: u64, range: RangeInclusive<u64>| {
            if range.contains(&value) {
                return Ok(value);
            }
            let (low, high) = range.into_inner();
            Err(Error::usage(format!("invalid {option} `{value}`: expected a number from {low} to {high}")))
        };
        let mut inband = self.inband;
        inband.sort_unstable();
        inband.dedup();
        Ok(Config {
            key_file,
            listen: self.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9719))),
            options: Options {
                listen: self.receive.unwrap_or(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))),
                clock: !self.no_clock,
                control_share: self.control_share.as_deref().map_or(Ok(0.0), share)?,
                inband,
                attach: self.attach.unwrap_or_default(),
                max_age: Duration::from_millis(within(
                    "--max-age-ms",
                    self.max_age_ms.unwrap_or(1000),
                    1..=MAX_AGE_MS,
                )?),
                rate_per_second: within("--rate", self.rate.unwrap_or(20_000), 1..=10_000_000)?,
            },
        })
    }
}

/// Accepts a number as well as a string: in a file, `5` means the same as `"5%"`.
fn percentage<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a percentage, e.g. 5 or \"5%\"")]
    enum Percentage {
        Number(f64),
        Text(String),
    }
    Percentage::deserialize(value).map(|percentage| match percentage {
        Percentage::Number(number) => Some(number.to_string()),
        Percentage::Text(text) => Some(text),
    })
}

/// Parses `5%` or `5` as a share of 0.05.
fn share(text: &str) -> Result<f64> {
    let percent = text.trim_end_matches('%').parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let invalid =
        || Error::usage(format!("invalid --control-share `{text}`: expected a percentage from 0% to 100%, e.g. `5%`"));
    percent.map(|percent: f64| percent / 100.0).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_host::error::Kind;

    #[test]
    fn the_command_line_takes_precedence_over_the_file() {
        let file: ServerArgs =
            toml::from_str("key_file = '/etc/hotcc/pep.keys'\ncontrol_share = '5%'\nmax_age_ms = 200").unwrap();
        let given = ServerArgs { max_age_ms: Some(500), ..ServerArgs::default() };
        let config = given.or(file).resolve().unwrap();
        assert_eq!(config.options.max_age, Duration::from_millis(500));
        assert_eq!((config.options.control_share, config.options.clock), (0.05, true));
        assert_eq!(config.options.listen.port(), PORT);
    }

    #[test]
    fn a_share_is_a_number_or_a_text() {
        for (given, share) in [("5", 0.05), ("0.5", 0.005), ("'5%'", 0.05)] {
            let file: ServerArgs = toml::from_str(&format!("key_file = 'keys'\ncontrol_share = {given}")).unwrap();
            assert_eq!(file.resolve().unwrap().options.control_share, share, "{given}");
        }
        let wrong = toml::from_str::<ServerArgs>("control_share = true").unwrap_err().to_string();
        assert!(wrong.contains("a percentage, e.g. 5 or"), "{wrong}");
    }

    #[test]
    fn the_kernel_s_program_knows_the_greatest_age() {
        let source = include_str!("../../../bpf/progs/pep_server.bpf.c");
        let define = format!("#define MAX_AGE_US ({} * 1000000U)", MAX_AGE_MS / 1000);
        assert!(source.contains(&define), "{define}");
    }

    #[test]
    fn invalid_options_are_named() {
        let args = || ServerArgs { key_file: Some("keys".into()), ..ServerArgs::default() };
        let says = |args: ServerArgs| match args.resolve() {
            Err(error) if error.kind() == Kind::Usage => format!("{error:#}"),
            other => panic!("{other:?}"),
        };
        assert!(says(ServerArgs::default()).starts_with("--key-file is missing"));
        assert!(says(ServerArgs { max_age_ms: Some(0), ..args() }).contains("from 1 to 30000"));
        for share in ["101%", "-1", "x", "NaN"] {
            assert!(says(ServerArgs { control_share: Some(share.to_owned()), ..args() }).contains("percentage"));
        }
    }
}
