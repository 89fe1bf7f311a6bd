//! Multi-domain CUBIC's tunables and their values in both profiles.

/// The tunables, named as in the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// Domain 2: loses segments (0, type b) or does not (1, type a). Sets the default of the next tunable.
    pub kind: u32,
    /// Losses in domain 2 within one RTT from which CUBIC reacts; 0: 10 if domain 2 loses segments, else 1.
    pub d2_loss_events: u32,
    /// If `d2_loss_events` is 0 and W is small: one loss for this many segments instead of 10; 0: always 10.
    pub d2_segments_per_loss: u32,
    /// Reduction of W1 if domain 2 has a queue; 0: by the segments lost, or by half of a long queue at its first loss;
    /// 1: CUBIC's.
    pub d2_reduction: u32,
    /// Bound below which D2 counts in full, kB; 0: no bound.
    pub d2_bound_kb: u32,
    /// 1: without a PEP, losses are attributed to domain 2.
    pub without_pep: u32,
    /// Greatest age of a report that is used, milliseconds.
    pub pep_max_age_ms: u32,
    /// 1: the PEP's ACKs clock the growth of W.
    pub pep_clock: u32,
}

impl Tunables {
    /// Profile `default`.
    pub const DEFAULT: Self = Self { d2_segments_per_loss: 16, d2_reduction: 0, d2_bound_kb: 400, ..Self::PAPER };
    /// Profile `paper`.
    pub const PAPER: Self = Self {
        kind: 0,
        d2_loss_events: 0,
        d2_segments_per_loss: 0,
        d2_reduction: 1,
        d2_bound_kb: 0,
        without_pep: 0,
        pep_max_age_ms: 1000,
        pep_clock: 1,
    };

    /// Returns names and values.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, u32)> {
        vec![
            ("type", self.kind),
            ("d2_loss_events", self.d2_loss_events),
            ("d2_segments_per_loss", self.d2_segments_per_loss),
            ("d2_reduction", self.d2_reduction),
            ("d2_bound_kb", self.d2_bound_kb),
            ("without_pep", self.without_pep),
            ("pep_max_age_ms", self.pep_max_age_ms),
            ("pep_clock", self.pep_clock),
        ]
    }

    /// Returns the number of losses from which CUBIC reacts. Section III: "at least 10 packet loss events per RTT",
    /// which is a large part of a small window. A domain that hides its losses has none to forgive.
    pub(super) fn loss_limit(&self, window: u32) -> u32 {
        match (self.d2_loss_events, self.kind) {
            (0, 0) => window.checked_div(self.d2_segments_per_loss).map_or(10, |losses| losses.clamp(3, 10)),
            (0, _) => 1,
            (set, _) => set,
        }
    }
}
