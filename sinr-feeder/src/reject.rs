//! The reasons why readings are not applied. Rejections are counted by reason and logged once per burst.

use std::fmt::Display;
use std::time::{Duration, Instant};
use tracing::warn;

/// A burst of rejections ends after this long without another one.
const QUIET: Duration = Duration::from_secs(10);

/// Why a reading was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reject {
    /// Not in the source's format.
    Malformed,
    /// A value that no radio can have, or that is not a number.
    Range,
    /// No value at all.
    Nothing,
    /// Made before the latest accepted reading of the same UE from the same source.
    Backwards,
    /// Made at the same time as that reading.
    Duplicate,
    /// Too old on arrival.
    Stale,
    /// Far from the previous reading, and not confirmed by the next one.
    Outlier,
    /// The same values as the previous reading, from a source that repeats itself.
    Repeat,
    /// More readings than a radio can make.
    Flood,
    /// Of a UE that is not known here.
    UnknownUe,
    /// Of a UE whose readings the sender may not write.
    Forbidden,
    /// The authentication code does not match a known key.
    Unauthenticated,
    /// An authenticated message that was received before, or is of an earlier session.
    Replayed,
    /// A source with precedence has a fresh reading.
    Outranked,
    /// No room for another link, in the radio map or in the quota of its source.
    NoRoom,
}

impl Reject {
    /// Every reason.
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::Range,
        Self::Nothing,
        Self::Backwards,
        Self::Duplicate,
        Self::Stale,
        Self::Outlier,
        Self::Repeat,
        Self::Flood,
        Self::UnknownUe,
        Self::Forbidden,
        Self::Unauthenticated,
        Self::Replayed,
        Self::Outranked,
        Self::NoRoom,
    ];

    /// Returns its label in metrics and logs.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Range => "range",
            Self::Nothing => "nothing",
            Self::Backwards => "backwards",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Outlier => "outlier",
            Self::Repeat => "repeat",
            Self::Flood => "flood",
            Self::UnknownUe => "unknown-ue",
            Self::Forbidden => "forbidden",
            Self::Unauthenticated => "unauthenticated",
            Self::Replayed => "replayed",
            Self::Outranked => "outranked",
            Self::NoRoom => "no-room",
        }
    }

    /// Whether the reason is part of normal operation, and so not logged.
    fn is_expected(self) -> bool {
        matches!(self, Self::Repeat | Self::Outranked)
    }
}

/// The rejections of one source.
#[derive(Debug, Default)]
pub struct Rejections {
    counts: [u64; Reject::ALL.len()],
    bursts: [Option<Burst>; Reject::ALL.len()],
}

#[derive(Debug, Clone, Copy)]
struct Burst {
    last: Instant,
    unsaid: u64,
}

impl Rejections {
    /// Counts a rejection; logs the first one of a burst, with `detail`.
    pub fn add(&mut self, source: &str, reason: Reject, detail: &dyn Display) {
        let i = reason as usize;
        self.counts[i] += 1;
        if reason.is_expected() {
            return;
        }
        let now = Instant::now();
        match &mut self.bursts[i] {
            Some(burst) => {
                burst.last = now;
                burst.unsaid += 1;
            }
            quiet => {
                *quiet = Some(Burst { last: now, unsaid: 0 });
                warn!("{source}: reading not applied: {}: {detail}", reason.label());
            }
        }
    }

    /// Ends the bursts that are over, and logs how large they were.
    pub fn end_bursts(&mut self, source: &str) {
        self.end_bursts_after(source, QUIET);
    }

    /// Ends all bursts, and logs how large they were.
    pub fn finish(&mut self, source: &str) {
        self.end_bursts_after(source, Duration::ZERO);
    }

    fn end_bursts_after(&mut self, source: &str, quiet: Duration) {
        for (reason, slot) in Reject::ALL.into_iter().zip(&mut self.bursts) {
            let Some(burst) = slot.filter(|b| b.last.elapsed() >= quiet) else { continue };
            if burst.unsaid > 0 {
                warn!("{source}: {} more readings not applied: {}", burst.unsaid, reason.label());
            }
            *slot = None;
        }
    }

    /// Returns the number of rejections by reason.
    pub fn counts(&self) -> impl Iterator<Item = (Reject, u64)> {
        Reject::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_their_places() {
        assert!(Reject::ALL.iter().enumerate().all(|(i, r)| *r as usize == i));
    }

    #[test]
    fn a_burst_is_one_line_and_its_end_another() {
        let mut rejections = Rejections::default();
        for _ in 0..5 {
            rejections.add("udp", Reject::Range, &"sinr_db 1000");
        }
        rejections.add("udp", Reject::Outranked, &"");
        assert_eq!(rejections.bursts[Reject::Range as usize].map(|b| b.unsaid), Some(4));
        assert!(rejections.bursts[Reject::Outranked as usize].is_none());
        let counted: Vec<_> = rejections.counts().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counted, [(Reject::Range, 5), (Reject::Outranked, 1)]);
        rejections.end_bursts("udp");
        assert!(rejections.bursts[Reject::Range as usize].is_some(), "it is not over yet");
        rejections.bursts[Reject::Range as usize] = Some(Burst { last: Instant::now() - QUIET, unsaid: 4 });
        rejections.end_bursts("udp");
        assert!(rejections.bursts[Reject::Range as usize].is_none());
    }
}
