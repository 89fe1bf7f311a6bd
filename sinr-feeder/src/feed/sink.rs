//! Where sources put their readings: the feed, shared by all of them.

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

    /// The feed, for this thread alone while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Feed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once publishing is no longer possible.
    pub async fn failed(&self) {
        let failed = Arc::clone(&self.lock().failed);
        failed.notified().await;
    }

    /// Where the source with that number puts its readings.
    #[must_use]
    pub fn sink(&self, source: usize) -> Sink {
        Sink { feed: self.clone(), source }
    }
}

/// Where one source puts its readings.
#[derive(Debug, Clone)]
pub struct Sink {
    feed: SharedFeed,
    source: usize,
}

impl Sink {
    /// Hands over one reading that came now.
    pub fn offer(&self, ue: Ue<'_>, raw: &RawReading) {
        self.feed.lock().offer(self.source, ue, raw, monotonic_ns());
    }

    /// Hands over many: `each` calls what it is given for every reading. All came at the same moment.
    pub fn batch<T>(&self, each: impl FnOnce(&mut Batch<'_>) -> T) -> T {
        let feed = &mut *self.feed.lock();
        each(&mut Batch { feed, source: self.source, now_ns: monotonic_ns() })
    }

    /// Counts what never became a reading.
    pub fn reject(&self, reason: Reject, detail: &dyn Display) {
        self.feed.lock().reject(self.source, reason, detail);
    }

    /// What logs call the source.
    #[must_use]
    pub fn name(&self) -> String {
        self.feed.lock().sources[self.source].name.clone()
    }
}

/// Readings that came at the same moment.
#[derive(Debug)]
pub struct Batch<'a> {
    feed: &'a mut Feed,
    source: usize,
    now_ns: u64,
}

impl Batch<'_> {
    /// Whether any UE has a name here.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.feed.ues.is_empty()
    }

    /// Hands over one reading.
    pub fn offer(&mut self, ue: Ue<'_>, raw: &RawReading) {
        self.feed.offer(self.source, ue, raw, self.now_ns);
    }

    /// Counts what never became a reading.
    pub fn reject(&mut self, reason: Reject, detail: &dyn Display) {
        self.feed.reject(self.source, reason, detail);
    }
}
