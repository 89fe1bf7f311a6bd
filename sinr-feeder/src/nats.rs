//! NATS: readings on their way from many hosts to those that want them; `publish/nats.rs` sends, `source/nats.rs`
//! receives them.
//!
//! A subject per UE: `hotcc.radio.NAME`. A NATS server that lets each user publish on its own subject only makes the name
//! sure.

use crate::args::Args;
use crate::error::SourceError;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::{info, warn};

/// What subjects begin with; the UE's name follows.
pub const SUBJECT: &str = "hotcc.radio";
/// Between two attempts to connect.
pub(crate) const RETRY: Duration = Duration::from_millis(250);
/// A server that does not answer for two of these is gone.
const PING: Duration = Duration::from_secs(1);

/// Whether a name can be part of a subject.
#[must_use]
pub fn is_name(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b))
}

/// A server, and how to reach it.
#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    login: Option<(String, String)>,
    credentials: Option<PathBuf>,
    ca: Option<PathBuf>,
    tls: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Server {
    /// Of `//HOST[:PORT][,credentials=FILE][,tls][,ca=FILE]`, which follows `nats:`.
    pub(crate) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let host = args.main("the NATS server")?;
        if !host.starts_with("//") {
            return Err(format!("invalid NATS server `nats:{host}`: expected nats://HOST[:PORT]"));
        }
        let url = format!("nats:{host}");
        let address: ServerAddr =
            url.parse().map_err(|e| format!("invalid NATS server `nats:{host}`: {e}; expected nats://HOST[:PORT]"))?;
        let login = address.username().map(|user| (user.to_owned(), address.password().unwrap_or_default().to_owned()));
        let credentials = args.text("credentials").map(PathBuf::from);
        let ca = args.text("ca").map(PathBuf::from);
        let tls = args.flag("tls")? || ca.is_some();
        args.done()?;
        Ok(Self { url, login, credentials, ca, tls })
    }

    /// Without user name and password.
    pub(crate) fn name(&self) -> String {
        format!("nats://{}", self.url.rsplit(['@', '/']).next().unwrap_or_default())
    }

    /// What can be found out before anything starts.
    pub(crate) fn check_files(&self) -> Result<(), SourceError> {
        for file in self.credentials.iter().chain(&self.ca) {
            File::open(file).map_err(|e| SourceError(format!("cannot read {}: {e}", file.display())))?;
        }
        Ok(())
    }

    async fn options(&self) -> Result<ConnectOptions, String> {
        let (name, refused) = (self.name(), Mutex::new(None));
        let mut options = ConnectOptions::new()
            .name("sinr-feeder")
            .connection_timeout(Duration::from_secs(1))
            .ping_interval(PING)
            .reconnect_delay_callback(|_| RETRY)
            .event_callback(move |event| {
                log(&name, &refused, &event);
                std::future::ready(())
            })
            .require_tls(self.tls);
        if let Some((user, password)) = &self.login {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some(file) = &self.credentials {
            let read = options.credentials_file(file).await;
            options = read.map_err(|e| format!("cannot read the credentials in {}: {e}", file.display()))?;
        }
        Ok(options)
    }

    /// A client that connects again by itself.
    pub(crate) async fn subscriber(&self) -> Result<Client, String> {
        self.options().await?.connect(&self.url).await.map_err(|e| e.to_string())
    }

    /// A client that gives up, and with it all that it could not send.
    pub(crate) async fn publisher(&self) -> Result<Client, String> {
        let options = self.options().await?.max_reconnects(1);
        options.connect(&self.url).await.map_err(|e| e.to_string())
    }
}

/// Logs what happens to the connection. The same error again (for the next reading, for example) is not logged again.
fn log(name: &str, refused: &Mutex<Option<String>>, event: &Event) {
    match event {
        Event::Disconnected => warn!("{name}: connection lost; reconnecting"),
        Event::Connected => info!("{name}: connected"),
        Event::ServerError(error) => {
            let why = error.to_string(); // a subject that is not this user's, say
            let mut last = refused.lock().unwrap_or_else(PoisonError::into_inner);
            if last.as_ref() != Some(&why) {
                warn!("{name}: the server reports an error: {why}");
                *last = Some(why);
            }
        }
        _ => {}
    }
}
