//! The feed as sources see it, shared by all of them.

use super::Feed;
use crate::reading::{RawReading, Ue};
use crate::reject::Reject;
use hotcc_abi::clock::monotonic_ns;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The feed, shared by its sources.
#[derive(Debug, Clone)]
pub struct SharedFeed(Arc<Mutex<Feed>>);

impl SharedFeed {
    /// Shares a feed.
    #[must_use]
    pub fn new(feed: Feed) -> Self {
        Self(Arc::new(Mutex::new(feed)))
    }

    /// Locks the feed for this thread.
    pub fn lock(&self) -> MutexGuard<'_, Feed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once publishing is no longer possible.
    pub async fn failed(&self) {
        let failed = Arc::clone(&self.lock().failed);
        failed.notified().await;
    }

    /// Returns the sink of the source with this number.
    #[must_use]
    pub fn sink(&self, source: usize) -> Sink {
        Sink { feed: self.clone(), source }
    }
}

/// Takes the readings of one source.
#[derive(Debug, Clone)]
pub struct Sink {
    feed: SharedFeed,
    source: usize,
}

impl Sink {
    /// Hands over one reading that arrived now.
    pub fn offer(&self, ue: Ue<'_>, raw: &RawReading) {
        self.feed.lock().offer(self.source, ue, raw, monotonic_ns());
    }

    /// Hands over many readings: `each` calls the batch for every reading. All of them arrived at the same moment.
    pub fn batch<T>(&self, each: impl FnOnce(&mut Batch<'_>) -> T) -> T {
        let feed = &mut *self.feed.lock();
        each(&mut Batch { feed, source: self.source, now_ns: monotonic_ns() })
    }

    /// Counts input that is not a valid reading.
    pub fn reject(&self, reason: Reject, detail: &dyn Display) {
        self.feed.lock().reject(self.source, reason, detail);
    }

    /// Returns the name of the source in logs.
    #[must_use]
    pub fn name(&self) -> String {
        self.feed.lock().sources[self.source].name.clone()
    }
}

/// Readings that arrived at the same moment.
#[derive(Debug)]
pub struct Batch<'a> {
    feed: &'a mut Feed,
    source: usize,
    now_ns: u64,
}

impl Batch<'_> {
    /// Whether any UE is known by name.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.feed.ues.is_empty()
    }

    /// Hands over one reading.
    pub fn offer(&mut self, ue: Ue<'_>, raw: &RawReading) {
        self.feed.offer(self.source, ue, raw, self.now_ns);
    }

    /// Counts input that is not a valid reading.
    pub fn reject(&mut self, reason: Reject, detail: &dyn Display) {
        self.feed.reject(self.source, reason, detail);
    }
}
