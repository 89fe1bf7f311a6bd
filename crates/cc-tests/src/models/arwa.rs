//! ARWA's sender (Adesh and Renuka 2019, section 3.4, Algorithm 2). Hints come in a TCP option, not in the advertised
//! window, so lines 19 to 21 (a window below both) are TCP's own. Without hints it is NewReno.

use super::named::{counters, tunables};
use super::{Model, chosen, elapsed_us, reno, show};
use hotcc_host_algo::{Flow, View};

/// How far in the future a hint may be, microseconds: an ACK's timestamp is a little older than the hint's.
const FUTURE_US: u64 = 10_000;
/// RTT that is assumed before there is a sample, microseconds.
const NO_RTT_US: u64 = 1000;
/// Growth is accounted in these parts of a segment: a percent of W, or half of one, is a whole number of them.
const PARTS: u64 = 200;

tunables! {
    /// Least W after a cut, bytes (`targetlimit_low`, line 9).
    floor_bytes = 3000 / 3000;
    /// W above which it grows at half the rate, bytes (`targetlimit_high`, line 13).
    gentle_bytes = 10_000 / 10_000;
    /// 1: acts on one hint per RTT.
    once_per_rtt = 1 / 0;
    /// 1: a cut ends slow start.
    cut_sets_ssthresh = 1 / 0;
    /// 0: growth ends at the ssthresh of the last loss.
    grow_beyond_loss = 0 / 1;
    /// Greatest age of a hint that is used, milliseconds.
    max_age_ms = 1000 / 1000;
}

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Arwa {
    /// Current tunables.
    pub tunables: Tunables,
    /// Tunables that it may change to while it runs.
    pub others: Vec<Tunables>,
    /// The last hint acted on, 0: none yet.
    pub last_hint: u8,
    /// The sequence number of the last hint seen.
    pub handled: u32,
    acted_us: u64,
    /// Last result of `ssthresh`; `None`: none yet.
    pub loss_window: Option<u32>,
    /// Time, sequence number and hint in the storage.
    stored: Option<(u64, u32, u8)>,
    /// Credit: growth that is due and not yet in W, in [`PARTS`] of a segment.
    credit: u64,
    /// Additions to `credit` since it was last 0: each may cost the algorithm the last digit of Q16.
    additions: u64,
    /// Whether the clamp took a segment that the algorithm's rounding may have left in its credit.
    left_at_clamp: bool,
    /// Whether a hint raised W in the hook just called.
    grew: bool,
    rounding: Rounding,
    coverage: Coverage,
}

counters! {
    /// How often fixed point mattered.
    Rounding {
        late: "segments paid out one hint later",
    }
}

counters! {
    /// Branches taken.
    Coverage {
        seen: "hints seen",
        invalid: "hints that say nothing",
        future: "hints from the future",
        slightly_future: "hints of a clock a little ahead",
        stale: "hints too old",
        recovering: "hints in a recovery",
        too_soon: "second hints in an RTT",
        too_soon_without_rtt: "second hints in a millisecond before the first RTT sample",
        cuts: "cuts",
        cuts_to_floor: "cuts to the floor",
        cuts_below_floor: "cuts of a window below the floor",
        cuts_to_threshold: "cuts that set ssthresh",
        cuts_without_threshold: "cuts that leave ssthresh",
        full_growth: "growth in full",
        gentle_growth: "growth by half",
        unlimited_growth: "growth not needed",
        growth_after_loss: "growth after a loss, up to where it left ssthresh",
        no_growth_after_loss: "no growth beyond that",
        whole_segments: "growth of whole segments",
        clamped_growth: "growth cut off by the clamp",
        unchanged: "ACKs without a new hint",
        rewritten: "hints half written",
        slow_start: "slow start ACKs",
        avoidance: "congestion avoidance ACKs",
        unlimited: "ACKs while not limited by the window",
        losses: "losses",
        undos: "undone losses",
        retuned: "tunables changed",
    }
}

impl Arwa {
    /// Returns a connection before `init`.
    #[must_use]
    pub fn new(tunables: Tunables) -> Self {
        Self {
            tunables,
            others: Vec::new(),
            last_hint: 0,
            handled: 0,
            acted_us: 0,
            loss_window: None,
            stored: None,
            credit: 0,
            additions: 0,
            left_at_clamp: false,
            grew: false,
            rounding: Rounding::default(),
            coverage: Coverage::default(),
        }
    }

    fn empty_account(&mut self) {
        (self.credit, self.additions, self.left_at_clamp) = (0, 0, false);
    }

    /// Returns a hint that was not seen before (line 4).
    fn next_hint(&mut self) -> Option<(u64, u8)> {
        let (time_ns, sequence, hint) = self.stored?;
        if sequence == self.handled {
            self.coverage.unchanged += 1;
            return None;
        }
        self.handled = sequence;
        self.coverage.seen += 1;
        Some((time_ns, hint))
    }

    /// Returns whether to follow a hint. 0, 71 to 100, and values above 120 are invalid: Algorithm 1 never sends them.
    fn is_followed(&mut self, sock: &View, time_ns: u64, hint: u8) -> bool {
        let time_us = time_ns / 1000;
        let ahead_us = time_us.saturating_sub(sock.now_us);
        let age_us = sock.now_us.saturating_sub(time_us);
        let pause_us = match sock.srtt_us >> 3 {
            0 => NO_RTT_US,
            srtt => u64::from(srtt),
        };
        let since_us = elapsed_us(self.acted_us, sock.now_us);
        let too_soon = self.tunables.once_per_rtt == 1 && self.last_hint != 0 && since_us < pause_us;
        let c = &mut self.coverage;
        let reason = match hint {
            0 | 71..=100 | 121.. => &mut c.invalid,
            _ if ahead_us > FUTURE_US => &mut c.future,
            _ if age_us > u64::from(self.tunables.max_age_ms) * 1000 => &mut c.stale,
            _ if !sock.may_grow() => &mut c.recovering,
            _ if too_soon && sock.srtt_us >> 3 == 0 => &mut c.too_soon_without_rtt,
            _ if too_soon => &mut c.too_soon,
            _ => {
                c.slightly_future += u64::from(ahead_us > 0);
                return true;
            }
        };
        *reason += 1;
        false
    }

    /// Applies lines 6 to 11. The floor limits cuts; a cut never raises W to the floor.
    fn cut(&mut self, sock: &mut View, percent: u8) {
        let before = sock.snd_cwnd;
        let floor = self.tunables.floor_bytes.div_ceil(sock.mss).max(2);
        let cut = before - (u64::from(before) * u64::from(percent) / 100) as u32;
        sock.snd_cwnd = cut.max(floor).min(before);
        self.coverage.cuts += 1;
        self.coverage.cuts_to_floor += u64::from(cut < floor && floor <= before);
        self.coverage.cuts_below_floor += u64::from(before < floor);
        self.empty_account();
        if self.tunables.cut_sets_ssthresh == 1 {
            self.coverage.cuts_to_threshold += 1;
            sock.snd_ssthresh = sock.snd_cwnd.max(2);
        } else {
            self.coverage.cuts_without_threshold += 1;
        }
    }

    /// Applies lines 12 to 18.
    fn grow(&mut self, sock: &mut View, percent: u8) {
        if !sock.cwnd_limited() {
            self.coverage.unlimited_growth += 1;
            return;
        }
        let window = u64::from(sock.snd_cwnd);
        let mut limit = sock.snd_cwnd_clamp;
        if let Some(left) = self.loss_window.filter(|_| self.tunables.grow_beyond_loss == 0) {
            if sock.snd_cwnd >= left {
                self.coverage.no_growth_after_loss += 1;
                return;
            }
            self.coverage.growth_after_loss += 1;
            limit = limit.min(left);
        }
        let gentle = window * u64::from(sock.mss) > u64::from(self.tunables.gentle_bytes); // line 13
        self.coverage.gentle_growth += u64::from(gentle);
        self.coverage.full_growth += u64::from(!gentle);
        self.credit += window * u64::from(percent) * if gentle { 1 } else { 2 };
        self.additions += 1;
        self.grew = true;
        let whole = self.credit / PARTS;
        self.credit %= PARTS;
        let grown = (window + whole).min(u64::from(limit));
        self.coverage.whole_segments += u64::from(whole > 0);
        if grown < window + whole {
            self.coverage.clamped_growth += 1;
            self.left_at_clamp |= self.may_be_late();
        }
        sock.snd_cwnd = grown as u32;
    }

    /// Returns whether the last segment paid out may not be a whole one in Q16 yet.
    fn may_be_late(&self) -> bool {
        self.credit * 65_536 < self.additions * PARTS
    }

    /// Compares the private state, by name.
    fn agree_on_state(&self, flow: &Flow<'_>) -> Result<(), String> {
        let mut fields = vec![
            ("hint_sequence", self.handled),
            ("last_hint", u32::from(self.last_hint)),
            ("loss_window", self.loss_window.unwrap_or(0)),
        ];
        if self.last_hint != 0 {
            fields.push(("acted_us", self.acted_us as u32));
        }
        for (name, want) in fields {
            let got = flow.private(name) as u32;
            if got != want {
                return Err(format!("{name} is {got}, the model's {want}"));
            }
        }
        Ok(())
    }
}

impl Model for Arwa {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
            self.coverage.retuned += 1;
        }
    }

    fn init(&mut self, _: &mut View) {
        let (coverage, rounding) = (std::mem::take(&mut self.coverage), std::mem::take(&mut self.rounding));
        let others = std::mem::take(&mut self.others);
        *self = Self { coverage, rounding, others, stored: self.stored, ..Self::new(self.tunables) };
    }

    /// Applies Algorithm 2, once per hint.
    fn pkts_acked(&mut self, sock: &mut View, _: Option<u32>) {
        let Some((time_ns, hint)) = self.next_hint() else { return };
        if !self.is_followed(sock, time_ns, hint) {
            return;
        }
        (self.last_hint, self.acted_us) = (hint, sock.now_us);
        match hint {
            ..=100 => self.cut(sock, hint),
            _ => self.grow(sock, hint - 100),
        }
    }

    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        let growth = reno::cong_avoid(sock, acked);
        self.coverage.slow_start += u64::from(growth.slow_start);
        self.coverage.avoidance += u64::from(growth.avoidance);
        self.coverage.unlimited += u64::from(growth == reno::Growth::default());
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.coverage.losses += 1;
        self.empty_account();
        let threshold = reno::ssthresh(sock);
        self.loss_window = Some(threshold);
        threshold
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.coverage.undos += 1;
        reno::undo_cwnd(sock)
    }

    fn set_state(&mut self, _: &mut View, _: u8) {}

    fn cwnd_event(&mut self, _: &mut View, _: u32) {}

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn set_hint(&mut self, time_ns: u64, sequence: u32, hint: u8) {
        self.coverage.rewritten += u64::from(self.stored.is_some_and(|(_, before, _)| before == sequence));
        self.stored = (sequence != 0).then_some((time_ns, sequence, hint));
    }

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        let different = || format!("{}; the model has {}", show(got), show(want));
        let grew = std::mem::take(&mut self.grew);
        if (want.snd_ssthresh, want.snd_cwnd_cnt) != (got.snd_ssthresh, got.snd_cwnd_cnt) {
            return Err(different());
        }
        if want.snd_cwnd.wrapping_sub(got.snd_cwnd) == 1 && grew && self.may_be_late() {
            self.rounding.late += 1;
            self.credit += PARTS; // it is paid out with the next growth
        } else if got.snd_cwnd.wrapping_sub(want.snd_cwnd) == 1 && grew && self.left_at_clamp {
            self.rounding.late += 1;
            self.left_at_clamp = false;
        } else if got.snd_cwnd != want.snd_cwnd {
            return Err(different());
        }
        self.agree_on_state(flow)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        if want == got { Ok(()) } else { Err(format!("ssthresh() is {got}, the model's {want}")) }
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        self.rounding.named()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.coverage.named()
    }
}
