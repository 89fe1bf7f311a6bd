//! Limits how many datagrams a source may send.

use hotcc_keys::Fingerprint;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of prefixes that get a quota of their own; all others share one.
const SOURCES: usize = 4096;

/// Tokens that one datagram takes.
const DATAGRAM: u64 = 1_000_000;

/// The quota that a source has left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Millionths of a datagram.
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
        let left = self.tokens.checked_sub(DATAGRAM);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

/// Returns the tokens of a full bucket: the datagrams of a tenth of a second may arrive at once.
fn full(per_second: u64) -> u64 {
    (per_second * 100_000).max(DATAGRAM)
}

/// A run of a border and its key; `None` for in-band reports, which name no run.
type Border = (Option<u64>, Fingerprint);

/// Limits the datagrams per second of each border, counted after their code is verified, and of each source prefix,
/// counted before.
///
/// So a third party that can spoof a border's address, but cannot read the border's datagrams, uses up none of the
/// border's quota.
#[derive(Debug)]
pub struct Limiter {
    per_second: u64,
    sources: HashMap<IpAddr, Bucket>,
    others: Bucket,
    borders: HashMap<Border, Bucket>,
}

impl Limiter {
    /// Allows `per_second` datagrams per second to each.
    #[must_use]
    pub fn new(per_second: u64) -> Self {
        let others = Bucket { tokens: full(per_second), at_us: 0 };
        Self { per_second, sources: HashMap::new(), others, borders: HashMap::new() }
    }

    /// Whether a datagram that does not look like a border's may be processed; if so, takes it from its source's quota.
    pub fn allows_source(&mut self, source: IpAddr, now_us: u64) -> bool {
        let (per_second, source) = (self.per_second, prefix(source));
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

    /// Whether a border has quota left. [`Self::charge`] takes a datagram from it.
    pub fn allows_border(&mut self, border: Border, now_us: u64) -> bool {
        let full = Bucket { tokens: full(self.per_second), at_us: now_us };
        let bucket = self.borders.entry(border).or_insert(full);
        bucket.refill(self.per_second, now_us);
        bucket.tokens >= DATAGRAM
    }

    /// Takes one datagram from a border's quota.
    pub fn charge(&mut self, border: Border) {
        if let Some(bucket) = self.borders.get_mut(&border) {
            bucket.tokens = bucket.tokens.saturating_sub(DATAGRAM);
        }
    }

    /// Removes the quotas of sources and borders that sent nothing for a second.
    pub fn gc(&mut self, now_us: u64) {
        let is_recent = |bucket: &Bucket| now_us.saturating_sub(bucket.at_us) < 1_000_000;
        self.sources.retain(|_, bucket| is_recent(bucket));
        self.borders.retain(|_, bucket| is_recent(bucket));
    }
}

/// Returns the network of a source: /24 of IPv4, /48 of IPv6.
fn prefix(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) & !0xff).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !(u128::MAX >> 48)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from(number << 8 | number & 0xff).into()
    }

    fn allowed(limiter: &mut Limiter, from: u32, datagrams: u64, now_us: u64) -> u64 {
        (0..datagrams).map(|_| u64::from(limiter.allows_source(source(from), now_us))).sum()
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
    fn a_border_has_its_own_allowance_of_what_counts() {
        let mut limiter = Limiter::new(1000);
        let [border, other, within] = [(Some(7), [1; 16]), (Some(7), [2; 16]), (None, [1; 16])];
        let mut said = |border, now_us| {
            let allowed = limiter.allows_border(border, now_us);
            limiter.charge(border);
            allowed
        };
        assert_eq!((0..500).filter(|_| said(border, 0)).count(), 100);
        assert_eq!((0..500).filter(|_| said(border, 50_000)).count(), 50);
        assert_eq!([other, within].map(|b| (0..50).filter(|_| said(b, 50_000)).count()), [50, 50]);
        assert!((0..500).all(|_| limiter.allows_border(within, 50_000)), "what does not count uses up nothing");
        assert_eq!(allowed(&mut limiter, 1, 500, 50_000), 100);
        limiter.gc(2_000_000);
        assert!(limiter.borders.is_empty());
    }

    #[test]
    fn a_network_is_one_source() {
        let mut limiter = Limiter::new(1000);
        let mut from = |address: &str| limiter.allows_source(address.parse().unwrap(), 0);
        assert_eq!((0..=255).filter(|n| from(&format!("192.0.2.{n}"))).count(), 100);
        assert!(!from("::ffff:192.0.2.9") && from("192.0.3.1"));
        assert_eq!((0..=255).filter(|n| from(&format!("2001:db8:0:{n:x}::{n:x}"))).count(), 100);
        assert!(from("2001:db8:1::1"));
    }

    #[test]
    fn made_up_sources_share_one_allowance_and_no_memory() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.allows_source(source(0), 0));
        let through: u64 = (1..100_000).map(|n| allowed(&mut limiter, n, 1, 0)).sum();
        assert_eq!(through, (SOURCES - 1) as u64 + 100);
        assert_eq!(limiter.sources.len(), SOURCES);
        assert!(limiter.allows_source(source(0), 0), "who was there before the flood has its own");
        limiter.gc(2_000_000);
        assert!(limiter.sources.is_empty());
    }
}
