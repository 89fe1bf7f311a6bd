//! NATS, which carries readings from many hosts to the hosts that use them: `publish/nats.rs` sends and
//! `source/nats.rs` receives readings.
//!
//! Each UE has a subject, `hotcc.radio.NAME`. If the NATS server lets each user publish only on the user's own subject,
//! the name is authentic.

use crate::args::Args;
use crate::error::SourceError;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use hotcc_host::error::chain;
use hotcc_keys::secret_file;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::{info, warn};

/// The prefix of all subjects; the UE's name follows.
pub const SUBJECT: &str = "hotcc.radio";
/// Time between two attempts to connect.
pub(crate) const RETRY: Duration = Duration::from_millis(250);
/// Period of pings; a server that leaves two unanswered counts as lost.
const PING: Duration = Duration::from_secs(1);

/// Whether a name can be part of a subject.
#[must_use]
pub fn is_name(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b))
}

/// A server with its access options.
#[derive(Clone)]
pub(crate) struct Server {
    /// `nats://HOST[:PORT]`.
    url: String,
    /// The user, and the file with the password.
    login: Option<(String, PathBuf)>,
    credentials: Option<PathBuf>,
    ca: Option<PathBuf>,
    tls: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Server {
    /// Parses `//[USER@]HOST[:PORT][,password=FILE][,credentials=FILE][,tls][,ca=FILE]`, which follows `nats:`.
    pub(crate) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let host = args.main("the NATS server")?;
        let Some(address) = host.strip_prefix("//") else {
            return Err(format!("invalid NATS server `nats:{host}`: expected nats://HOST[:PORT]"));
        };
        let (user, address) = address.rsplit_once('@').map_or((None, address), |(user, rest)| (Some(user), rest));
        if user.is_some_and(|user| user.contains(':')) {
            return Err(format!(
                "invalid NATS server nats://…@{address}: all users of a host can read a password on a command line; put it \
                 into a file of mode 600: nats://USER@{address},password=FILE"
            ));
        }
        let url = format!("nats://{address}");
        url.parse::<ServerAddr>()
            .map_err(|e| format!("invalid NATS server `{url}`: {e}; expected nats://HOST[:PORT]"))?;
        let login = match (user, args.text("password")) {
            (Some(user), Some(file)) => Some((user.to_owned(), PathBuf::from(file))),
            (None, None) => None,
            (Some(_), None) => return Err(format!("the user of {url} needs a password: add `,password=FILE`")),
            (None, Some(_)) => return Err(format!("no user for the password of {url}: expected nats://USER@HOST")),
        };
        let credentials = args.text("credentials").map(PathBuf::from);
        let ca = args.text("ca").map(PathBuf::from);
        let tls = args.flag("tls")? || ca.is_some();
        args.done()?;
        Ok(Self { url, login, credentials, ca, tls })
    }

    /// Returns the URL, without the user name.
    pub(crate) fn name(&self) -> &str {
        &self.url
    }

    /// Checks, before anything starts, that the files can be read.
    pub(crate) fn check_files(&self) -> Result<(), SourceError> {
        for file in self.credentials.iter().chain(self.login.as_ref().map(|(_, file)| file)) {
            secret(file).map_err(SourceError)?;
        }
        if let Some(file) = &self.ca {
            File::open(file).map_err(|e| SourceError(format!("cannot read {}: {e}", file.display())))?;
        }
        Ok(())
    }

    fn options(&self) -> Result<ConnectOptions, String> {
        let (name, refused) = (self.name().to_owned(), Mutex::new(None));
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
        if let Some((user, file)) = &self.login {
            options = options.user_and_password(user.clone(), secret(file)?.trim_end().to_owned());
        }
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some(file) = &self.credentials {
            let read = options.credentials(&secret(file)?);
            options = read.map_err(|e| format!("cannot use the credentials in {}: {e}", file.display()))?;
        }
        Ok(options)
    }

    /// Connects a client that reconnects by itself.
    pub(crate) async fn subscriber(&self) -> Result<Client, String> {
        self.options()?.connect(&self.url).await.map_err(|e| e.to_string())
    }

    /// Connects a client that does not keep trying to reconnect: once it gives up, it drops everything that it could
    /// not send.
    pub(crate) async fn publisher(&self) -> Result<Client, String> {
        let options = self.options()?.max_reconnects(1);
        options.connect(&self.url).await.map_err(|e| e.to_string())
    }
}

fn secret(file: &Path) -> Result<String, String> {
    secret_file::read(file).map_err(|e| chain(&e))
}

/// Logs events of the connection. If the same error repeats (for the next reading, for example), it is not logged
/// again.
fn log(name: &str, refused: &Mutex<Option<String>>, event: &Event) {
    match event {
        Event::Disconnected => warn!("{name}: connection lost; reconnecting"),
        Event::Connected => info!("{name}: connected"),
        Event::ServerError(error) => {
            let why = error.to_string(); // e.g. a subject on which this user may not publish
            let mut last = refused.lock().unwrap_or_else(PoisonError::into_inner);
            if last.as_ref() != Some(&why) {
                warn!("{name}: the server reports an error: {why}");
                *last = Some(why);
            }
        }
        _ => {}
    }
}
