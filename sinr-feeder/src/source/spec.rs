//! Sources as users name them: `KIND:ARGS`.

use super::Source;
use super::at::AtSource;
use super::mm::ModemManagerSource;
use super::model::ModelSource;
use super::nats::NatsSource;
use super::peer::PeerSource;
use super::srsran::SrsranSource;
use super::stdin::StdinSource;
use super::trace::TraceSource;
use super::udp::UdpSource;
use super::wifi::WifiSource;
use crate::args::Args;
use crate::error::SourceError;
use hotcc_channel_model::trace::replay::ReplayOptions;
use hotcc_host::nearest::expected;
use std::str::FromStr;

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
    /// Returns the source. `replay` controls how traces are replayed.
    ///
    /// # Errors
    /// The text is invalid, which cannot happen after parsing.
    pub fn source(&self, replay: ReplayOptions) -> Result<Box<dyn Source>, SourceError> {
        parse(&self.0, replay).map_err(SourceError)
    }

    /// Returns its name in logs and metrics: the text without options, user names and passwords.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.0.split(',').next().unwrap_or_default();
        match (name.find("://"), name.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => format!("{}{}", &name[..scheme + 3], &name[at + 1..]),
            _ => name.to_owned(),
        }
    }
}

const KINDS: [&str; 10] = ["trace", "stdin", "udp", "mm", "wifi", "at", "srsran", "model", "nats", "peer"];

fn parse(text: &str, replay: ReplayOptions) -> Result<Box<dyn Source>, String> {
    let (kind, args) = text.split_at(text.find([':', ',']).unwrap_or(text.len()));
    let args = args.strip_prefix(':').unwrap_or(args); // `mm,rate=2` has only options
    Ok(match kind {
        // the rest is a file name, which may contain commas
        "trace" => Box::new(TraceSource::parse(args, replay)?),
        "stdin" => Box::new(StdinSource::parse(Args::parse(args)?)?),
        "udp" => Box::new(UdpSource::parse(Args::parse(args)?)?),
        "mm" => Box::new(ModemManagerSource::parse(Args::parse(args)?)?),
        "wifi" => Box::new(WifiSource::parse(Args::parse(args)?)?),
        "at" => Box::new(AtSource::parse(Args::parse(args)?)?),
        "srsran" => Box::new(SrsranSource::parse(Args::parse(args)?)?),
        "model" => Box::new(ModelSource::parse(args)?),
        "nats" => Box::new(NatsSource::parse(Args::parse(args)?)?),
        "peer" => Box::new(PeerSource::parse(Args::parse(args)?)?),
        _ => {
            let kinds = expected(kind, KINDS);
            return Err(format!(
                "unknown source kind `{kind}`: {kinds}; a source is KIND:ARGS, e.g. udp:127.0.0.1:9000"
            ));
        }
    })
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
            "nats://u@h:4222,password=/etc/nats,tls,ca=/ca.pem",
            "peer:0.0.0.0:9001,keys=/etc/keys",
        ] {
            assert!(text.parse::<Spec>().is_ok(), "{text}: {:?}", text.parse::<Spec>());
        }
        for (text, says) in [
            ("drive.csv", "KIND:ARGS"),
            ("trace:", "missing"),
            ("udp:", "missing"),
            ("udp:nowhere", "ADDRESS:PORT"),
            ("stdin:x", "takes no arguments"),
            ("mm,rate=0.5", "whole number"),
            ("mm:rate=2", "D-Bus path"),
            ("wifi:", "missing"),
            ("at:", "missing"),
            ("at:/dev/x,baud=fast", "whole number"),
            ("srsran:http://x", "ws://"),
            ("model:", "missing"),
            ("peer:0.0.0.0:1", "keys"),
            ("udp:127.0.0.1:1,loud", "unknown option `loud`"),
            ("at:/dev/x,buad=9600", "did you mean `baud`?"),
            ("trce:a.csv", "did you mean `trace`?"),
            ("nats:", "missing"),
            ("nats:h", "nats://"),
            ("nats://u:secret@h:4222", "nats://…@h:4222: all users of a host can read a password"),
            ("nats://u@h", "password=FILE"),
            ("nats://h,password=/etc/nats", "no user"),
        ] {
            let error = text.parse::<Spec>().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn names_hold_no_secret() {
        let name = |text: &str| text.parse::<Spec>().unwrap().name();
        assert_eq!(name("nats://u@h:4222,password=/etc/nats,ca=x"), "nats://h:4222");
        assert_eq!(name("peer:0.0.0.0:9001,keys=/etc/keys"), "peer:0.0.0.0:9001");
    }
}
