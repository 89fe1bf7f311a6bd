//! Destinations of readings, as users name them: `nats://...` or `peer:...`.

use super::Publisher;
use super::nats::NatsPublisher;
use super::peer::PeerPublisher;
use crate::args::Args;
use crate::error::SourceError;
use crate::nats::Server;
use std::str::FromStr;

/// A destination, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(String);

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("nats", args)) => Server::parse(Args::parse(args)?).map(|_| ())?,
            Some(("peer", args)) => PeerPublisher::parse(Args::parse(args)?).map(|_| ())?,
            _ => {
                let what = "expected nats://HOST[:PORT] or peer:ADDRESS:PORT,keys=FILE";
                return Err(format!("invalid destination `{text}`: {what}"));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl Spec {
    /// Whether it takes the readings of one UE, which its key names.
    #[must_use]
    pub fn is_for_one_ue(&self) -> bool {
        self.0.starts_with("peer:")
    }

    /// Returns the publisher for it. Call this inside a tokio runtime.
    ///
    /// # Errors
    /// Its files cannot be used, or no socket can be opened.
    pub fn publisher(&self) -> Result<Box<dyn Publisher>, SourceError> {
        let (kind, args) = self.0.split_once(':').unwrap_or_default();
        let args = Args::parse(args).map_err(SourceError)?;
        Ok(if kind == "nats" {
            let server = Server::parse(args).map_err(SourceError)?;
            server.check_files()?;
            Box::new(NatsPublisher::start(server))
        } else {
            Box::new(PeerPublisher::parse(args).map_err(SourceError)?.open()?)
        })
    }
}
