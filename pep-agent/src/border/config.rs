//! Options of the border, from the command line and from a file.

use crate::attach::Method;
use hotcc_abi::path::PathKey;
use hotcc_host::error::{Error, Result};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Default UDP port at which servers receive reports.
pub const SERVER_PORT: u16 = 4713;

/// How reports travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In UDP datagrams.
    Udp,
    /// In the flows themselves.
    Inband,
}

/// How the user names a [`Way`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayName {
    /// UDP datagrams to each server's agent, many flows in one datagram.
    #[default]
    Udp,
    /// Extra segments with an invalid checksum, inserted into the flows; servers without an agent drop them.
    Inband,
    /// The former name of `inband`.
    #[value(hide = true)]
    InFlow,
}

impl WayName {
    /// Returns its meaning, and a warning if the name is outdated.
    fn way(self) -> (Way, Option<&'static str>) {
        match self {
            Self::Udp => (Way::Udp, None),
            Self::Inband => (Way::Inband, None),
            Self::InFlow => (Way::Inband, Some("transport `in-flow` is now called `inband`; please change the option")),
        }
    }
}

/// Options as given; a file has them by the same names, with `_` for `-`.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BorderArgs {
    /// Interface on which data segments arrive from the Internet; required, may be repeated
    #[arg(long, value_name = "IF")]
    pub internet: Vec<String>,
    /// Interface on which clients' ACKs arrive from the access network; required without --nat, which does not use it; may be repeated
    #[arg(long, value_name = "IF")]
    pub access: Vec<String>,
    /// Address or prefix of cooperating servers, e.g. 192.0.2.0/24; only their flows are tracked; required, may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub server: Vec<String>,
    /// Transport of reports; `inband` needs `--inband` at the server [default: udp]
    #[arg(long, value_enum, value_name = "WAY")]
    pub transport: Option<WayName>,
    /// UDP port of the servers' agents [default: 4713]
    #[arg(long)]
    pub port: Option<u16>,
    /// Keys shared with the servers, one per line: NUMBER KEY, optionally PREFIX; read again at SIGHUP; required without --dry-run
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Address of /metrics and /healthz [default: 127.0.0.1:9718]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Report a flow after this many data segments, 1 to 65536 [default: 16]
    #[arg(long, value_name = "N")]
    pub segments: Option<u32>,
    /// Report a flow this long after its first unreported segment, 50 to 1000000; the report can leave up to 400 us later
    /// [default: 250]
    #[arg(long, value_name = "MICROSECONDS")]
    pub delay_us: Option<u32>,
    /// Maximum number of tracked flows, 128 to 16777216; if the table is full, the least recently seen flow is evicted
    /// [default: 32768]
    #[arg(long, value_name = "NUMBER")]
    pub flows: Option<u32>,
    /// Size of the ring that carries reports out of the kernel, a power of two from 64 to 1048576 [default: 4096]
    #[arg(long, value_name = "KIBIBYTES")]
    pub ring_kib: Option<u32>,
    /// This router translates addresses (NAT): observe ACKs as they leave towards the Internet, where they have the
    /// addresses that servers know
    #[arg(long)]
    pub nat: bool,
    /// How to attach to the interfaces [default: auto]
    #[arg(long, value_enum)]
    pub attach: Option<Method>,
}

impl BorderArgs {
    /// Returns the options given here; for each that is not, what `other` gives.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        fn list(own: Vec<String>, other: Vec<String>) -> Vec<String> {
            if own.is_empty() { other } else { own }
        }
        Self {
            internet: list(self.internet, other.internet),
            access: list(self.access, other.access),
            server: list(self.server, other.server),
            transport: self.transport.or(other.transport),
            port: self.port.or(other.port),
            key_file: self.key_file.or(other.key_file),
            listen: self.listen.or(other.listen),
            segments: self.segments.or(other.segments),
            delay_us: self.delay_us.or(other.delay_us),
            flows: self.flows.or(other.flows),
            ring_kib: self.ring_kib.or(other.ring_kib),
            nat: self.nat || other.nat,
            attach: self.attach.or(other.attach),
        }
    }

    /// Checks all options, and fills in defaults.
    ///
    /// # Errors
    /// An option is missing or invalid. The error has kind [`hotcc_host::error::Kind::Usage`] and names the option.
    pub fn resolve(self) -> Result<Config> {
        for (option, list, example) in [
            ("internet", &self.internet, "eth0"),
            ("access", &self.access, "ogstun"),
            ("server", &self.server, "192.0.2.0/24"),
        ] {
            if list.is_empty() && !(self.nat && option == "access") {
                return Err(Error::usage(format!(
                    "--{option} is missing: pass it, e.g. `--{option} {example}`, or set `{option} = [\"{example}\"]` in the \
                     --config file"
                )));
            }
        }
        let same = self.internet.iter().find(|i| !self.nat && self.access.contains(i));
        if let Some(same) = same {
            return Err(Error::usage(format!(
                "invalid --access `{same}`: an interface cannot be both --internet and --access"
            )));
        }
        let parse = |text: &String| {
            let invalid = |why| {
                Error::usage(format!(
                    "invalid --server `{text}`: {why}; expected an address or prefix, e.g. `192.0.2.0/24`"
                ))
            };
            text.parse().map_err(invalid)
        };
        let within = |option: &str, value: u32, range: std::ops::RangeInclusive<u32>| {
            if range.contains(&value) {
                return Ok(value);
            }
            let (low, high) = range.into_inner();
            Err(Error::usage(format!("invalid {option} `{value}`: expected a number from {low} to {high}")))
        };
        let ring_kib = within("--ring-kib", self.ring_kib.unwrap_or(4096), 64..=1 << 20)?;
        if !ring_kib.is_power_of_two() {
            return Err(Error::usage(format!("invalid --ring-kib `{ring_kib}`: expected a power of two, e.g. `4096`")));
        }
        let (transport, outdated) = self.transport.unwrap_or_default().way();
        if let Some(warning) = outdated {
            tracing::warn!("{warning}");
        }
        Ok(Config {
            internet: unique(self.internet),
            access: unique(self.access),
            servers: unique(self.server.iter().map(parse).collect::<Result<Vec<PathKey>>>()?),
            transport,
            port: self.port.unwrap_or(SERVER_PORT),
            key_file: self.key_file,
            listen: self.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9718))),
            segments: within("--segments", self.segments.unwrap_or(16), 1..=1 << 16)?,
            delay_us: within("--delay-us", self.delay_us.unwrap_or(250), 50..=1_000_000)?,
            flows: within("--flows", self.flows.unwrap_or(1 << 15), 128..=1 << 24)?,
            ring_bytes: ring_kib * 1024,
            nat: self.nat,
            attach: self.attach.unwrap_or_default(),
        })
    }
}

fn unique<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

/// Checked options; [`BorderArgs`] explains them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Interfaces towards the Internet.
    pub internet: Vec<String>,
    /// Interfaces towards the access network.
    pub access: Vec<String>,
    /// Prefixes of cooperating servers.
    pub servers: Vec<PathKey>,
    /// How reports reach the servers.
    pub transport: Way,
    /// UDP port of the servers' agents.
    pub port: u16,
    /// File of keys.
    pub key_file: Option<PathBuf>,
    /// Address of the HTTP server.
    pub listen: SocketAddr,
    /// Data segments until a report.
    pub segments: u32,
    /// Microseconds until a report.
    pub delay_us: u32,
    /// Maximum number of flows.
    pub flows: u32,
    /// Size of the ring in bytes.
    pub ring_bytes: u32,
    /// Whether the router translates addresses.
    pub nat: bool,
    /// How to attach.
    pub attach: Method,
}

impl Config {
    /// Returns the size of the queue of flows that wait for their delay: room for four new ones in each microsecond. A
    /// larger queue would not stay in the processor's cache.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        (self.delay_us * 4).clamp(1 << 10, 1 << 16)
    }

    /// Returns how long the agent leaves the ring of reports alone after it took some out: 1.5 times the delay, so that
    /// with the default of 250 us all reports are out within 1 ms. The limit of 400 us keeps batches small if the delay
    /// is long.
    #[must_use]
    pub fn gather(&self) -> Duration {
        Duration::from_micros((u64::from(self.delay_us) * 3 / 2).min(400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_host::error::Kind;

    fn args() -> BorderArgs {
        let list = |text: &str| vec![text.to_owned()];
        BorderArgs { internet: list("wan"), access: list("lan"), server: list("10.0.0.0/8"), ..BorderArgs::default() }
    }

    #[test]
    fn a_router_that_translates_addresses_needs_no_access_interface() {
        assert!(BorderArgs { access: Vec::new(), nat: true, ..args() }.resolve().is_ok());
        assert!(BorderArgs { access: vec!["wan".to_owned()], nat: true, ..args() }.resolve().is_ok());
    }

    #[test]
    fn the_command_line_takes_precedence_over_the_file() {
        let file: BorderArgs = toml::from_str(
            "internet = ['eth0']\nserver = ['192.0.2.0/24', '2001:db8::/32']\nsegments = 4\nnat = true\nattach = 'clsact'\n\
             transport = 'inband'",
        )
        .unwrap();
        let given = BorderArgs { server: Vec::new(), segments: Some(8), ..args() };
        let config = given.or(file).resolve().unwrap();
        assert_eq!(config.gather(), Duration::from_micros(375));
        assert_eq!((config.internet, config.segments, config.nat), (vec!["wan".to_owned()], 8, true));
        assert_eq!(
            config.servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192.0.2.0/24", "2001:db8::/32"]
        );
        assert_eq!((config.delay_us, config.port, config.attach), (250, 4713, Method::Clsact));
        assert_eq!(config.transport, Way::Inband);
    }

    #[test]
    fn the_former_name_of_inband_is_accepted_with_a_warning() {
        let file: BorderArgs = toml::from_str("transport = 'in-flow'").unwrap();
        let name = file.transport.unwrap();
        assert_eq!(clap::ValueEnum::from_str("in-flow", false), Ok(name), "the command line takes it, too");
        assert!(name.way().1.unwrap().contains("now called `inband`"));
        assert_eq!(args().or(file).resolve().unwrap().transport, Way::Inband);
    }

    #[test]
    fn invalid_options_are_named() {
        let says = |args: BorderArgs| match args.resolve() {
            Err(error) if error.kind() == Kind::Usage => format!("{error:#}"),
            other => panic!("{other:?}"),
        };
        assert!(says(BorderArgs { access: Vec::new(), ..args() }).starts_with("--access is missing"));
        assert!(says(BorderArgs { access: vec!["wan".to_owned()], ..args() }).contains("cannot be both"));
        assert!(says(BorderArgs { server: vec!["10.0.0.0/33".to_owned()], ..args() }).contains("at most 32 bits"));
        assert!(says(BorderArgs { delay_us: Some(1), ..args() }).contains("from 50 to 1000000"));
        assert!(says(BorderArgs { segments: Some(0), ..args() }).contains("invalid --segments `0`"));
        assert!(says(BorderArgs { ring_kib: Some(100), ..args() }).contains("power of two"));
        assert!(toml::from_str::<BorderArgs>("segmets = 4").is_err());
    }
}
