//! Publishes on a NATS server. A reading that cannot be sent immediately is dropped, never queued, neither here nor in
//! the client.

use super::{Publisher, Session, age_ms};
use crate::condition::DatedReading;
use crate::line::Line;
use crate::nats::{RETRY, SUBJECT, Server};
use async_nats::Client;
use async_nats::connection::State;
use hotcc_abi::clock::monotonic_ns;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::task::JoinHandle;
use tracing::warn;

/// How long unsent readings may delay the end of a feeder.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Maximum number of readings between the feed and the client: room for one batch.
const QUEUE: usize = 4096;

/// Publishes on a NATS server.
#[derive(Debug)]
pub(super) struct NatsPublisher {
    name: String,
    queue: mpsc::Sender<(String, DatedReading)>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl NatsPublisher {
    /// Starts a task that connects, and reconnects whenever the connection is lost.
    pub(super) fn start(server: Server) -> Self {
        let (queue, readings) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let name = server.name().to_owned();
        let task = tokio::spawn(publish(server, readings, Arc::clone(&counts)));
        Self { name, queue, counts, task }
    }
}

impl Publisher for NatsPublisher {
    fn send(&mut self, id: &str, reading: &DatedReading) {
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
                warn!("{name}: gave up after 2 s without a connection");
            }
            match counts.dropped.load(Relaxed) {
                0 => {}
                dropped => warn!("{name}: {dropped} readings were not sent"),
            }
        })
    }
}

async fn publish(server: Server, mut readings: mpsc::Receiver<(String, DatedReading)>, counts: Arc<Counts>) {
    let mut session = Session::begin();
    let mut logged = None;
    loop {
        let why = match server.publisher().await {
            Ok(client) => {
                if !send_while_connected(&client, &mut readings, &mut session, &counts).await {
                    return;
                }
                "connection lost".to_owned()
            }
            Err(e) => e,
        };
        if logged.as_ref() != Some(&why) {
            warn!("{}: {why}; reconnecting, and dropping readings until then", server.name());
            logged = Some(why);
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

/// Returns `true` once the connection is lost, and `false` once there will be no more readings.
async fn send_while_connected(
    client: &Client,
    readings: &mut mpsc::Receiver<(String, DatedReading)>,
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
                warn!("the connection was lost on exit: the last readings may not have been sent");
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
