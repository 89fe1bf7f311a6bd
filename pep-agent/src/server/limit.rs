//! How many datagrams a source may send.

use std::collections::HashMap;
use std::net::IpAddr;

/// Sources told apart; all others share one allowance.
const SOURCES: usize = 4096;

/// What a source has left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Datagrams, in millionths.
    tokens: u64,
    at_us: u64,
}

impl Bucket {
    fn refill(&mut self, per_second: u64, now_us: u64) {
        let gained = now_us.saturating_sub(self.at_us).min(1_000_000) * per_second;
        self.tokens = (self.tokens + gained).min(full(per_second));
        self.at_us = now_us;
    }

    fn take(&mut self, per_second: u64, now_us: u64) -> bool {
        self.refill(per_second, now_us);
        let left = self.tokens.checked_sub(1_000_000);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

/// A tenth of a second's worth may come at once.
fn full(per_second: u64) -> u64 {
    (per_second * 100_000).max(1_000_000)
}

/// Allows each source so many datagrams per second.
#[derive(Debug)]
pub struct Limiter {
    per_second: u64,
    sources: HashMap<IpAddr, Bucket>,
    others: Bucket,
    inband: Bucket,
}

impl Limiter {
    /// Allows `per_second` to each.
    #[must_use]
    pub fn new(per_second: u64) -> Self {
        let shared = Bucket { tokens: full(per_second), at_us: 0 };
        Self { per_second, sources: HashMap::new(), others: shared, inband: shared }
    }

    /// Whether a datagram from there may be looked at.
    pub fn allows(&mut self, source: IpAddr, now_us: u64) -> bool {
        let per_second = self.per_second;
        if let Some(bucket) = self.sources.get_mut(&source) {
            return bucket.take(per_second, now_us);
        }
        if self.sources.len() == SOURCES {
            return self.others.take(per_second, now_us);
        }
        let mut bucket = Bucket { tokens: full(per_second), at_us: now_us };
        let allowed = bucket.take(per_second, now_us);
        self.sources.insert(source, bucket);
        allowed
    }

    /// Whether a report that came within its flow may be looked at. It has its client's address, whoever sent it: all share
    /// one allowance.
    pub fn allows_inband(&mut self, now_us: u64) -> bool {
        self.inband.take(self.per_second, now_us)
    }

    /// Forgets who sent nothing for a while.
    pub fn tidy(&mut self, now_us: u64) {
        self.sources.retain(|_, bucket| now_us.saturating_sub(bucket.at_us) < 1_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn allowed(limiter: &mut Limiter, from: u32, datagrams: u64, now_us: u64) -> u64 {
        (0..datagrams).map(|_| u64::from(limiter.allows(source(from), now_us))).sum()
    }

    #[test]
    fn each_source_has_its_own_allowance() {
        let mut limiter = Limiter::new(1000);
        assert_eq!(allowed(&mut limiter, 1, 500, 0), 100);
        assert_eq!(allowed(&mut limiter, 2, 50, 0), 50, "another source's flood is not its");
        assert_eq!(allowed(&mut limiter, 1, 500, 50_000), 50);
        assert_eq!(allowed(&mut limiter, 1, 500, 60_000_000), 100);
    }

    #[test]
    fn reports_within_flows_share_an_allowance_of_their_own() {
        let mut limiter = Limiter::new(1000);
        assert_eq!((0..500).filter(|_| limiter.allows_inband(0)).count(), 100);
        assert_eq!(allowed(&mut limiter, 1, 500, 0), 100);
        assert_eq!((0..500).filter(|_| limiter.allows_inband(50_000)).count(), 50);
    }

    #[test]
    fn made_up_sources_share_one_allowance_and_no_memory() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.allows(source(0), 0));
        let through: u64 = (1..100_000).map(|n| allowed(&mut limiter, n, 1, 0)).sum();
        assert_eq!(through, (SOURCES - 1) as u64 + 100);
        assert_eq!(limiter.sources.len(), SOURCES);
        assert!(limiter.allows(source(0), 0), "who was there before the flood has its own");
        limiter.tidy(2_000_000);
        assert!(limiter.sources.is_empty());
    }
}
