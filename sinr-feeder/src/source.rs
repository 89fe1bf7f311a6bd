//! Where readings come from. Each kind of source is a file of this module, and is named `KIND:ARGS` by users;
//! `docs/reference/sources.md` describes them.

mod at;
mod at_replies;
mod mm;
mod model;
mod nats;
mod peer;
mod srsran;
mod stdin;
mod trace;
mod udp;
mod wifi;

use crate::condition::Pace;
use crate::feed::Sink;
use crate::replay::ReplayOptions;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

/// Between two attempts to reach what is gone.
const RETRY: Duration = Duration::from_millis(500);

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// A source at work: ends where the source does.
pub type Running = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// A source of readings.
pub trait Source: Send {
    /// One of the `SOURCE_*` values of [`hotcc_abi::radio`].
    fn kind(&self) -> u8;

    /// Gets hold of what can be had only once or must be sound, like a file or a port: before the map is touched.
    ///
    /// # Errors
    /// It cannot be had; nothing else of this source will work then.
    fn open(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// What is known of the time between readings; asked after [`Source::open`].
    fn pace(&self) -> Pace {
        Pace::Unknown
    }

    /// Puts readings into the sink. Returns where the source is at its end; what is gone for a while is waited for.
    fn run(self: Box<Self>, sink: Sink) -> Running;
}

/// A source as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(String);

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, ReplayOptions::default()).map(|_| Self(text.to_owned()))
    }
}

impl Spec {
    /// The source. `replay` is how traces are played.
    ///
    /// # Errors
    /// It cannot be; not where the text was parsed.
    pub fn source(&self, replay: ReplayOptions) -> Result<Box<dyn Source>, SourceError> {
        parse(&self.0, replay).map_err(SourceError)
    }

    /// What logs and metrics call it: as it was named, without options, user names and passwords.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.0.split(',').next().unwrap_or_default();
        match (name.find("://"), name.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &name[..scheme + 3], &name[at + 1..]),
            _ => name.to_owned(),
        }
    }
}

fn parse(text: &str, replay: ReplayOptions) -> Result<Box<dyn Source>, String> {
    let (kind, args) = text.split_at(text.find([':', ',']).unwrap_or(text.len()));
    let args = args.strip_prefix(':').unwrap_or(args); // of `mm,rate=2` nothing but options
    Ok(match kind {
        // what follows is a file's name, and may hold commas
        "trace" => Box::new(trace::TraceSource::parse(args, replay)?),
        "stdin" => Box::new(stdin::StdinSource::parse(Args::parse(args)?)?),
        "udp" => Box::new(udp::UdpSource::parse(Args::parse(args)?)?),
        "mm" => Box::new(mm::ModemManagerSource::parse(Args::parse(args)?)?),
        "wifi" => Box::new(wifi::WifiSource::parse(Args::parse(args)?)?),
        "at" => Box::new(at::AtSource::parse(Args::parse(args)?)?),
        "srsran" => Box::new(srsran::SrsranSource::parse(Args::parse(args)?)?),
        "model" => Box::new(model::ModelSource::parse(args)?),
        "nats" => Box::new(nats::NatsSource::parse(Args::parse(args)?)?),
        "peer" => Box::new(peer::PeerSource::parse(Args::parse(args)?)?),
        _ => {
            return Err("a source is written KIND:ARGS, and KIND is one of trace, stdin, udp, mm, wifi, at, srsran, \
                        model, nats, peer"
                .to_owned());
        }
    })
}

/// What stands behind a kind: `MAIN,KEY=VALUE,FLAG`.
#[derive(Debug)]
pub(crate) struct Args<'a> {
    main: &'a str,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Args<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let (main, rest) = text.split_once(',').unwrap_or((text, ""));
        let mut options = BTreeMap::new();
        for option in rest.split(',').filter(|o| !o.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            if options.insert(key, value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(Self { main, options })
    }

    /// What comes first, and must be there.
    pub(crate) fn main(&self, what: &str) -> Result<&'a str, String> {
        if self.main.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.main) }
    }

    pub(crate) fn text(&mut self, key: &str) -> Option<&'a str> {
        self.options.remove(key)
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.options.remove(key) {
            None => Ok(false),
            Some("") => Ok(true),
            Some(_) => Err(format!("{key} takes no value")),
        }
    }

    pub(crate) fn number(
        &mut self,
        key: &str,
        range: std::ops::RangeInclusive<i64>,
        default: i64,
    ) -> Result<i64, String> {
        let Some(text) = self.options.remove(key) else { return Ok(default) };
        let value = text.parse().ok().filter(|n| range.contains(n));
        value.ok_or_else(|| format!("{key} is a whole number from {} to {}", range.start(), range.end()))
    }

    /// Nothing may be left.
    pub(crate) fn done(self) -> Result<(), String> {
        match self.options.keys().next() {
            Some(key) => Err(format!("there is no option {key}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart() {
        for text in [
            "trace:a,b.csv",
            "stdin",
            "udp:127.0.0.1:9000",
            "udp:[::1]:9000",
            "mm",
            "mm:/org/x/Modem/0,rate=2",
            "mm,rate=2",
            "wifi:wlan0,noise_dbm=-92",
            "at:/dev/ttyUSB2,baud=9600,qeng",
            "srsran:ws://gnb:8001,uplink",
            "model:street.toml",
            "nats://u:secret@h:4222,tls,ca=/ca.pem",
            "peer:0.0.0.0:9001,keys=/etc/keys",
        ] {
            assert!(text.parse::<Spec>().is_ok(), "{text}: {:?}", text.parse::<Spec>());
        }
        for (text, says) in [
            ("drive.csv", "KIND:ARGS"),
            ("trace:", "missing"),
            ("udp:", "missing"),
            ("udp:nowhere", "ADDRESS:PORT"),
            ("stdin:x", "nothing"),
            ("mm,rate=0.5", "whole number"),
            ("mm:rate=2", "D-Bus path"),
            ("wifi:", "missing"),
            ("at:", "missing"),
            ("at:/dev/x,baud=fast", "whole number"),
            ("srsran:http://x", "ws://"),
            ("model:", "missing"),
            ("peer:0.0.0.0:1", "keys"),
            ("udp:127.0.0.1:1,loud", "no option loud"),
            ("nats:", "missing"),
            ("nats:h", "nats://"),
        ] {
            let error = text.parse::<Spec>().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn names_hold_no_secret() {
        let name = |text: &str| text.parse::<Spec>().unwrap().name();
        assert_eq!(name("nats://u:secret@h:4222,ca=x"), "nats://h:4222");
        assert_eq!(name("peer:0.0.0.0:9001,keys=/etc/keys"), "peer:0.0.0.0:9001");
    }
}
