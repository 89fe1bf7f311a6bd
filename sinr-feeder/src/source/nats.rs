//! `nats://HOST[:PORT][,credentials=FILE][,tls][,ca=FILE]`: readings that other hosts' feeders publish on a NATS server.

use super::{RETRY, Running, Source};
use crate::args::Args;
use crate::error::SourceError;
use crate::feed::sink::{Batch, Sink};
use crate::line::Line;
use crate::nats::{SUBJECT, Server};
use crate::reading::Ue;
use crate::reject::Reject;
use futures_util::StreamExt;
use hotcc_abi::radio::SOURCE_NATS;
use tracing::warn;

#[derive(Debug)]
pub(super) struct NatsSource(Server);

impl NatsSource {
    pub(super) fn parse(args: Args<'_>) -> Result<Self, String> {
        Server::parse(args).map(Self)
    }

    async fn session(&self, sink: &Sink) -> Result<(), String> {
        let client = self.0.subscriber().await?;
        let mut messages = client.subscribe(format!("{SUBJECT}.*")).await.map_err(|e| e.to_string())?;
        while let Some(message) = messages.next().await {
            sink.batch(|batch| take(batch, &message.subject, &message.payload));
        }
        Ok(())
    }
}

/// Processes a message. The subject names the UE; the NATS server lets only that UE's user publish on it.
fn take(batch: &mut Batch<'_>, subject: &str, payload: &[u8]) {
    let Some(id) = subject.strip_prefix(SUBJECT).and_then(|rest| rest.strip_prefix('.')) else { return };
    match Line::parse(payload) {
        Ok(line) if line.link.is_some() || line.ue.as_ref().is_some_and(|ue| ue != id) => {
            batch.reject(
                Reject::Forbidden,
                &format_args!("the message on {} names another UE or a link", subject.escape_debug()),
            );
        }
        Ok(line) => batch.offer(Ue::Id(id), &line.reading()),
        Err(what) => batch.reject(Reject::Malformed, &what),
    }
}

impl Source for NatsSource {
    fn kind(&self) -> u8 {
        SOURCE_NATS
    }

    fn open(&mut self) -> Result<(), SourceError> {
        self.0.check_files()
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let mut logged = None;
            loop {
                let why = self.session(&sink).await.err();
                if logged != why {
                    warn!("{}: {}; reconnecting", self.0.name(), why.as_deref().unwrap_or("connection closed"));
                    logged = why;
                }
                tokio::time::sleep(RETRY).await;
            }
        })
    }
}
