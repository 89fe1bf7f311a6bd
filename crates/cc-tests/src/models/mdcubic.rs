//! Multi-domain CUBIC (Mihály et al., sections II and III): an ACKing PEP at the border between the Internet (domain 1)
//! and the access network (domain 2) reports to the sender which segments reached it.
//!
//! CUBIC itself is the kernel's. Here, as in the host build, NewReno's growth and a window of 7/10 after a loss replace
//! it. The model covers which losses and which ACKs CUBIC gets, and with what window.

mod agreement;
mod bound;
mod growth;
mod reduction;
mod tunables;
mod view;

pub use tunables::Tunables;

use super::named::counters;
use super::{Model, chosen, elapsed_us, reno, show};
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::ca_state::{CWR, LOSS, RECOVERY};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, Flow, View};

/// How far in the future a report may be, microseconds: an ACK's timestamp is a little older than the report's.
const FUTURE_US: u64 = 10_000;

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Mdcubic {
    /// Current tunables.
    pub tunables: Tunables,
    /// Tunables that it may change to while it runs.
    pub others: Vec<Tunables>,
    /// Segments of W that are in domain 2, as far as the PEP knows.
    pub d2_segments: u32,
    /// `snd_una` plus the number of bytes above it that the PEP has; the highest value so far.
    pub covered_to: u32,
    /// Losses in domain 2 in this round.
    pub events: u32,
    /// Recoveries for losses in domains 1 and 2.
    pub losses: [u32; 2],
    /// Whether the PEP's report was used with the last ACK.
    pub usable: bool,
    /// Whether the PEP's ACKs also clocked growth then.
    pub clocked: bool,
    /// Whether the current reduction is for losses in domain 2: then W is not reduced.
    pub in_domain_2: bool,
    /// Whether the client is ahead of the PEP: then the PEP's reports are not used.
    pub fallen_back: bool,
    /// Whether a queue of domain 2 has dropped a segment since the PEP became the clock.
    pub was_full: bool,
    /// Bytes that the PEP acknowledged beyond whole segments.
    pub remainder: u32,
    round_end: u32,
    lost_mark: u32,
    behind_since_us: Option<u64>,
    updates_fallen_back: u32,
    /// W and ssthresh before the current reduction.
    before: Option<(u32, u32)>,
    /// ssthresh before the last reduction, to be restored after an undo, in which the kernel makes it too large.
    before_ssthresh: u32,
    undone: bool,
    /// Largest W that an undo of a timeout restores.
    undo_limit: u32,
    /// The PEP's record in the storage.
    pub pep: Option<PepFlow>,
    sack: Vec<(u32, u32)>,
    /// Whether the hook just called was `pkts_acked`.
    looked: bool,
    coverage: Coverage,
}

counters! {
    /// Branches taken.
    Coverage {
        absent: "ACKs without a PEP",
        unwritten: "ACKs with a PEP that never wrote",
        torn: "ACKs in the middle of a report",
        stale: "reports too old",
        future: "reports from the future",
        slightly_future: "reports of a clock a little ahead",
        usable: "ACKs with a usable report",
        clocked: "ACKs clocked by the PEP",
        clock_starts: "clockings begun",
        clock_ends: "clockings ended",
        windows_back: "windows without D2 again",
        risen: "ACKs with news from the PEP",
        no_news: "ACKs without news from the PEP",
        fallen_news: "reports of less than before",
        news_unused: "news outside the open state",
        remainders: "remainders carried",
        grown: "growth by the PEP's ACKs",
        grown_slow_start: "slow start by the PEP's ACKs",
        grown_avoidance: "congestion avoidance by the PEP's ACKs",
        grown_in_recovery: "growth in recoveries of domain 2",
        clients_recoveries: "ACKs of such without the PEP's clock",
        slow_starts_waiting: "slow starts that wait for the end of a recovery",
        growth_unlimited: "news while not limited by the window",
        floors: "windows of less than D2",
        clamped: "windows cut off by the clamp",
        d2_bounded: "D2 that counts in part",
        bounded_after_full: "D2 that counts in part after a queue of domain 2 was full",
        w1_bounded: "W1 cut to domain 2's rate",
        starts_held: "slow starts held before domain 2 is full",
        rates_bound: "bounds by domain 2's rate",
        behind: "ACKs ahead of the PEP",
        fallbacks: "fallbacks",
        still_fallen_back: "ACKs level with a PEP without a new report, after a fallback",
        fallbacks_ended: "fallbacks ended",
        rounds: "rounds",
        ranges_used: "ranges above what came in order",
        ranges_skipped: "ranges without bytes in flight",
        ranges_cut: "ranges cut",
        ranges_overlapping: "ranges that overlap",
        ranges_too_many: "reports of more than four ranges",
        first_unseen: "losses of a segment that the PEP did not see",
        holes_seen: "losses with all SACK holes seen by the PEP",
        holes_unseen: "losses with a SACK hole that the PEP did not see",
        unusable_losses: "losses without a usable report",
        too_many_losses: "losses beyond the limit",
        domain_1: "reductions for domain 1",
        domain_2: "losses in domain 2",
        queues: "losses in domain 2 where it has a queue",
        no_queues: "losses in domain 2 where it has none",
        reduced_by_losses: "reductions by what domain 2 lost",
        reduced_by_queue: "reductions by half of domain 2's queue",
        starts_ended: "slow starts that a queue in domain 2 ends with what the rate fills",
        counted_as_held: "reductions at whose end D2 counts as what the rate fills",
        first_of_queue: "losses of a long queue in domain 2",
        lost_later: "ACKs that find more lost in domain 2",
        revoked_events: "recoveries moved to domain 1 by their number of losses",
        revoked_holes: "recoveries moved to domain 1 by a hole",
        kept_unusable: "ACKs of recoveries left to domain 2 without a report",
        revoked_unusable: "recoveries moved to domain 1 without a report",
        marks_in_domain_2: "congestion marks taken for domain 2 first",
        timeouts_in_domain_2: "timeouts taken for domain 2 first",
        timeouts_in_domain_1: "timeouts taken for domain 1",
        interrupted_domain_2: "recoveries in domain 2 that time out",
        interrupted_domain_1: "reductions in domain 1 that time out",
        completed_domain_2: "recoveries in domain 2 that end",
        completed_domain_1: "reductions in domain 1 that end",
        renewed: "reductions that end with the D2 of then",
        reductions_limited: "reductions that D2 would have made growth",
        undos: "undone reductions",
        reconciled: "ssthresh put right after an undo",
        client_growth: "growth by the client's ACKs",
        loss_growth: "growth in the loss state while the PEP's ACKs are the clock",
        held_growth: "client's ACKs that grow nothing",
        inits: "delegate init",
        recalculations: "delegate recalc_ssthresh",
        avoidances: "delegate cong_avoid",
        states: "delegate state",
        samples: "delegate acked",
        events: "delegate cwnd_event",
        retuned: "tunables changed",
    }
}

impl Mdcubic {
    /// Returns a connection before `init`.
    #[must_use]
    pub fn new(tunables: Tunables) -> Self {
        Self {
            tunables,
            others: Vec::new(),
            d2_segments: 0,
            covered_to: 0,
            events: 0,
            losses: [0; 2],
            usable: false,
            clocked: false,
            in_domain_2: false,
            fallen_back: false,
            was_full: false,
            remainder: 0,
            round_end: 0,
            lost_mark: 0,
            behind_since_us: None,
            updates_fallen_back: 0,
            before: None,
            before_ssthresh: 0,
            undone: false,
            undo_limit: u32::MAX,
            pep: None,
            sack: Vec::new(),
            looked: false,
            coverage: Coverage::default(),
        }
    }

    /// Returns W1, the part of a window that is CUBIC's.
    #[must_use]
    pub fn w1(&self, window: u32) -> u32 {
        window.saturating_sub(self.d2_segments).max(2)
    }

    /// Returns W for a W1.
    fn whole_window(&mut self, sock: &View, w1: u32) -> u32 {
        let whole = u64::from(w1) + u64::from(self.d2_segments);
        self.coverage.clamped += u64::from(whole > u64::from(sock.snd_cwnd_clamp));
        whole.min(u64::from(sock.snd_cwnd_clamp)) as u32
    }

    /// Returns whether there is no PEP and no state left from one.
    fn is_plain(&self) -> bool {
        let left = self.events > 0
            || self.usable
            || self.clocked
            || self.in_domain_2
            || self.fallen_back
            || self.d2_segments > 0;
        self.pep.is_none() && !left
    }

    /// Restores ssthresh if an undo included D2 in it.
    fn reconcile(&mut self, sock: &mut View) {
        if std::mem::take(&mut self.undone) {
            self.coverage.reconciled += 1;
            sock.snd_ssthresh = self.before_ssthresh;
        }
    }

    /// Returns ssthresh without D2.
    fn threshold_without_d2(&self, sock: &View) -> u32 {
        sock.snd_ssthresh.saturating_sub(self.d2_segments).max(2)
    }

    /// Sets D2 to the segments in domain 2, and keeps W1.
    fn renew_d2(&mut self, sock: &mut View) {
        let w1 = self.w1(sock.snd_cwnd);
        self.d2_segments = self.in_domain_2_now(sock);
        sock.snd_cwnd = self.whole_window(sock, w1);
    }

    /// Returns to plain CUBIC: the PEP is silent or not trusted. Only speed is lost.
    fn give_back(&mut self, sock: &mut View) {
        if self.d2_segments > 0 {
            self.coverage.windows_back += 1;
            sock.snd_cwnd = self.w1(sock.snd_cwnd).min(sock.snd_cwnd_clamp);
            self.d2_segments = 0;
        }
    }

    /// Continues a recovery. Section III: losses in domain 2 are forgiven up to a number per RTT, losses in domain 1
    /// never.
    fn recover(&mut self, sock: &mut View) {
        let lost = sock.lost.wrapping_sub(self.lost_mark);
        self.lost_mark = sock.lost;
        let (true, Some((window, _))) = (self.in_domain_2, self.before) else { return };
        self.coverage.lost_later += u64::from(lost > 0);
        self.events = self.events.saturating_add(lost);
        self.in_domain_2 = false;
        if !self.usable && self.tunables.without_pep == 0 {
            self.coverage.revoked_unusable += 1;
            sock.snd_ssthresh = self.reduced(window);
        } else if self.usable && !self.saw_all_holes(sock) {
            self.coverage.revoked_holes += 1;
            sock.snd_ssthresh = self.reduced(window);
        } else if self.events >= self.tunables.loss_limit(window) {
            self.coverage.revoked_events += 1;
            sock.snd_ssthresh = self.reduced_by_losses(sock, window);
        } else {
            self.coverage.kept_unusable += u64::from(!self.usable);
            self.in_domain_2 = true;
        }
    }

    /// Returns whether the loss was in domain 2. Section II-B: segments that the PEP has and the client has not were
    /// lost after the PEP, in domain 2.
    fn was_in_domain_2(&mut self, sock: &View) -> bool {
        let usable = self.is_usable(sock);
        let first = self.saw_first(sock);
        let holes = self.saw_all_holes(sock);
        let c = &mut self.coverage;
        c.unusable_losses += u64::from(!usable);
        if !usable {
            return self.tunables.without_pep == 1;
        }
        c.first_unseen += u64::from(!first);
        c.holes_unseen += u64::from(first && !holes);
        c.holes_seen += u64::from(first && holes && !self.sack.is_empty());
        first && holes
    }
}

impl Model for Mdcubic {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
            self.coverage.retuned += 1;
        }
    }

    fn init(&mut self, sock: &mut View) {
        let (coverage, others) = (std::mem::take(&mut self.coverage), std::mem::take(&mut self.others));
        let sack = std::mem::take(&mut self.sack);
        *self = Self { coverage, others, sack, pep: self.pep, round_end: sock.snd_nxt, ..Self::new(self.tunables) };
        self.coverage.inits += 1;
    }

    /// Hides the RTT of the client's ACKs from CUBIC while the PEP's ACKs clock: HyStart would leave slow start for it.
    fn pkts_acked(&mut self, sock: &mut View, _: Option<u32>) {
        self.looked = true;
        if self.is_plain() {
            self.coverage.absent += 1;
            self.coverage.samples += 1;
            return;
        }
        self.reconcile(sock);
        self.watch_for_fallback(sock);
        let was_usable = std::mem::replace(&mut self.usable, false);
        self.usable = self.is_usable(sock);
        let was_clocked = std::mem::replace(&mut self.clocked, self.usable && self.tunables.pep_clock == 1);
        self.coverage.usable += u64::from(self.usable);
        self.coverage.clocked += u64::from(self.clocked);
        self.coverage.samples += u64::from(!self.clocked);
        self.coverage.clock_starts += u64::from(self.clocked && !was_clocked);
        self.coverage.clock_ends += u64::from(!self.clocked && was_clocked);
        self.was_full &= self.clocked;
        let risen = if self.clocked { self.news(sock, was_clocked) } else { self.clients_news(sock) };
        if self.usable && !was_usable || sock.snd_una.wrapping_sub(self.round_end).cast_signed() >= 0 {
            self.coverage.rounds += 1;
            self.round_end = sock.snd_nxt;
            self.events = 0;
            self.lost_mark = sock.lost;
        }
        match sock.ca_state as u8 {
            RECOVERY if self.in_domain_2 => {
                self.coverage.clients_recoveries += u64::from(!self.clocked);
                self.clock_recovery(sock, risen);
                self.recover(sock);
                return;
            }
            RECOVERY => self.recover(sock),
            CWR | LOSS => {}
            _ if self.clocked => {
                self.clock(sock, risen);
                return;
            }
            _ => self.give_back(sock),
        }
        self.coverage.news_unused += u64::from(risen > 0);
    }

    /// Does not grow W for segments that it already grew for when the PEP acknowledged them. After a timeout, though,
    /// the client's ACKs are the clock.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        if self.clocked && sock.may_grow() {
            self.coverage.held_growth += 1;
            return;
        }
        self.coverage.avoidances += 1;
        self.coverage.loss_growth += u64::from(self.clocked);
        self.coverage.client_growth += u64::from(!self.clocked);
        reno::cong_avoid(sock, acked);
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.reconcile(sock);
        let over = sock.snd_una.wrapping_sub(self.round_end).cast_signed() >= 0;
        // an end that is not yet sent is of before the sequence numbers wrapped
        if over || sock.snd_nxt.wrapping_sub(self.round_end).cast_signed() < 0 {
            self.round_end = sock.snd_nxt;
            self.events = 0;
            self.lost_mark = sock.lost.wrapping_sub(sock.lost_out); // what is missing now is of the new round
        }
        self.before = Some((sock.snd_cwnd, sock.snd_ssthresh));
        self.before_ssthresh = sock.snd_ssthresh;
        self.undo_limit = sock.snd_cwnd;
        self.in_domain_2 = false;
        if !self.clocked {
            (self.covered_to, self.remainder) = (sock.snd_una, 0);
        }
        if !self.was_in_domain_2(sock) {
            self.coverage.domain_1 += 1;
            return self.reduced(sock.snd_cwnd);
        }
        self.events = self.events.saturating_add(1);
        let queue = if self.is_usable(sock) { self.waiting_in_domain_2(sock, sock.snd_cwnd, 7.0) } else { 0 };
        if queue > 0 {
            self.coverage.first_of_queue += 1;
            return self.reduced_by_queue(sock, sock.snd_cwnd, queue);
        }
        if self.events >= self.tunables.loss_limit(sock.snd_cwnd) {
            self.coverage.too_many_losses += 1;
            return self.reduced_by_losses(sock, sock.snd_cwnd);
        }
        self.coverage.domain_2 += 1;
        self.in_domain_2 = true;
        sock.snd_cwnd.max(2)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.coverage.undos += 1;
        self.undone |= self.in_domain_2 || self.d2_segments > 0;
        self.in_domain_2 = false;
        self.before = None;
        if sock.ca_state as u8 == LOSS {
            // the timeout has set D2 to 0
            return sock.snd_cwnd.max(sock.prior_cwnd.min(self.undo_limit));
        }
        reno::undo_cwnd(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        self.coverage.states += 1;
        match state {
            // an ECN mark means congestion, wherever it was set: it counts for domain 1
            CWR if self.in_domain_2 => {
                self.coverage.marks_in_domain_2 += 1;
                self.in_domain_2 = false;
                sock.snd_ssthresh = self.reduced(sock.snd_cwnd);
            }
            RECOVERY => self.losses[usize::from(self.in_domain_2)] += 1,
            LOSS => {
                // a timeout within a reduction: the kernel asks for no new ssthresh, so the reduction's ssthresh counts
                if let Some((window, _)) = self.before.take() {
                    if self.in_domain_2 {
                        self.coverage.interrupted_domain_2 += 1;
                        sock.snd_ssthresh = self.recalculated(window);
                    } else {
                        self.coverage.interrupted_domain_1 += 1;
                        sock.snd_ssthresh = self.threshold_without_d2(sock);
                    }
                }
                self.in_domain_2 = false;
                if !sock.timed_out() && self.d2_segments > 0 {
                    sock.snd_cwnd = self.w1(sock.snd_cwnd);
                }
                self.undo_limit = self.w1(self.undo_limit);
                self.d2_segments = 0;
                self.covered_to = sock.snd_una;
            }
            _ => {}
        }
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        match event {
            EVENT_COMPLETE_CWR => {
                let before = self.before.take();
                let renews = self.clocked && self.is_usable(sock);
                if let (true, Some((window, threshold))) = (self.in_domain_2, before) {
                    self.coverage.completed_domain_2 += 1;
                    sock.snd_cwnd = sock.snd_cwnd.max(window).min(sock.snd_cwnd_clamp);
                    sock.snd_ssthresh = threshold;
                } else {
                    self.coverage.completed_domain_1 += 1;
                    if renews && self.was_full {
                        self.count_d2_as_held(sock);
                    }
                    sock.snd_ssthresh = self.threshold_without_d2(sock);
                }
                self.in_domain_2 = false;
                // the kernel's window includes the D2 of the reduction's start
                if renews {
                    self.coverage.renewed += 1;
                    self.renew_d2(sock);
                    self.bound(sock);
                }
            }
            EVENT_LOSS => {
                self.before = None;
                if self.in_domain_2 {
                    self.coverage.timeouts_in_domain_2 += 1;
                    sock.snd_ssthresh = self.recalculated(sock.snd_cwnd);
                } else {
                    self.coverage.timeouts_in_domain_1 += 1;
                    sock.snd_ssthresh = self.threshold_without_d2(sock);
                }
                self.in_domain_2 = false;
            }
            _ => self.coverage.events += 1,
        }
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn set_pep(&mut self, flow: Option<PepFlow>) {
        self.pep = flow;
    }

    fn set_sack(&mut self, blocks: &[(u32, u32)]) {
        self.sack = blocks.to_vec();
    }

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.compare(want, got, flow)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        if want == got { Ok(()) } else { Err(format!("ssthresh() is {got}, the model's {want}")) }
    }

    /// Returns nothing: the model only has whole numbers.
    fn rounding(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.coverage.named()
    }
}
