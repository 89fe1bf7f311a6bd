//! NATS: readings on their way from many hosts to those that want them; `source/nats.rs` receives them.
//!
//! A subject per UE: `hotcc.radio.NAME`. A NATS server that lets each user publish on its own subject only makes the name
//! sure. What cannot be sent at once is dropped, never queued: neither here nor in the client.

use crate::condition::Conditioned;
use crate::export::{Exporter, Session, age_ms};
use crate::line::Line;
use crate::source::{Args, SourceError};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use hotcc_abi::clock::monotonic_ns;
use std::fs::File;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// What subjects begin with; the UE's name follows.
pub const SUBJECT: &str = "hotcc.radio";
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(250);
/// A server that does not answer for two of these is gone.
const PING: Duration = Duration::from_secs(1);
/// How long what was not sent yet may keep a feeder from ending.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Readings between the feed and the client: those of one batch.
const QUEUE: usize = 4096;

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
        let host = args.main("the server")?;
        if !host.starts_with("//") {
            return Err("a NATS server is nats://HOST[:PORT]".to_owned());
        }
        let url = format!("nats:{host}");
        let address: ServerAddr = url.parse().map_err(|e| format!("{host}: {e}"))?;
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
            File::open(file).map_err(|e| SourceError(format!("{}: {e}", file.display())))?;
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
                tell(&name, &refused, &event);
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
            options = read.map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(options)
    }

    /// A client that connects again by itself.
    pub(crate) async fn subscriber(&self) -> Result<Client, String> {
        self.options().await?.connect(&self.url).await.map_err(|e| e.to_string())
    }

    /// A client that gives up, and with it all that it could not send.
    async fn publisher(&self) -> Result<Client, String> {
        let options = self.options().await?.max_reconnects(1);
        options.connect(&self.url).await.map_err(|e| e.to_string())
    }
}

/// The same refusal again, of the next reading, say, is not told again.
fn tell(name: &str, refused: &Mutex<Option<String>>, event: &Event) {
    match event {
        Event::Disconnected => warn!("{name}: the connection was lost; trying again"),
        Event::Connected => info!("{name}: connected"),
        Event::ServerError(error) => {
            let why = error.to_string(); // a subject that is not this user's, say
            let mut last = refused.lock().unwrap_or_else(PoisonError::into_inner);
            if last.as_ref() != Some(&why) {
                warn!("{name}: the server refuses: {why}");
                *last = Some(why);
            }
        }
        _ => {}
    }
}

/// Publishes on a NATS server.
#[derive(Debug)]
pub(crate) struct NatsExporter {
    name: String,
    queue: mpsc::Sender<(String, Conditioned)>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl NatsExporter {
    /// Connects, and connects again whenever that is lost, in a task of its own.
    pub(crate) fn start(server: Server) -> Self {
        let (queue, readings) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let name = server.name();
        let task = tokio::spawn(publish(server, readings, Arc::clone(&counts)));
        Self { name, queue, counts, task }
    }
}

impl Exporter for NatsExporter {
    fn send(&mut self, id: &str, reading: &Conditioned) {
        if self.queue.try_send((id.to_owned(), *reading)).is_err() {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn counts(&self) -> (u64, u64) {
        (self.counts.sent.load(Relaxed), self.counts.dropped.load(Relaxed))
    }

    fn finish(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { name, queue, counts, task } = *self;
        drop(queue);
        Box::pin(async move {
            if tokio::time::timeout(LAST_WAIT, task).await.is_err() {
                warn!("{name}: ended without a connection");
            }
            match counts.dropped.load(Relaxed) {
                0 => {}
                dropped => warn!("{name}: {dropped} readings were not sent"),
            }
        })
    }
}

async fn publish(server: Server, mut readings: mpsc::Receiver<(String, Conditioned)>, counts: Arc<Counts>) {
    let mut session = Session::begin();
    let mut told = None;
    loop {
        let why = match server.publisher().await {
            Ok(client) => {
                if !send_while_connected(&client, &mut readings, &mut session, &counts).await {
                    return;
                }
                "the connection was lost".to_owned()
            }
            Err(e) => e,
        };
        if told.as_ref() != Some(&why) {
            warn!("{}: {why}; trying again, readings are dropped meanwhile", server.name());
            told = Some(why);
        }
        tokio::time::sleep(RETRY).await;
        loop {
            match readings.try_recv() {
                Ok(_) => counts.dropped.fetch_add(1, Relaxed),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            };
        }
    }
}

/// Returns once the connection is lost; `false` where nobody has readings any more.
async fn send_while_connected(
    client: &Client,
    readings: &mut mpsc::Receiver<(String, Conditioned)>,
    session: &mut Session,
    counts: &Counts,
) -> bool {
    loop {
        let next = tokio::time::timeout(RETRY, readings.recv()).await;
        if client.connection_state() != State::Connected {
            counts.dropped.fetch_add(u64::from(next.is_ok()), Relaxed);
            return true;
        }
        let Ok(next) = next else { continue };
        let Some((id, reading)) = next else {
            if client.flush().await.is_err() {
                warn!("the last readings may not have been sent");
            }
            return false;
        };
        let now_ns = monotonic_ns();
        let (sent, counter) = session.next(now_ns);
        let line = Line::message(&reading.reading, age_ms(reading.made_ns, now_ns), sent, counter);
        let published = client.publish(format!("{SUBJECT}.{id}"), line.to_json().into()).await;
        let count = if published.is_ok() { &counts.sent } else { &counts.dropped };
        count.fetch_add(1, Relaxed);
    }
}
