//! NexGen D-TCP (Kanagarathinam et al., IEEE Access 2020): equations 1 to 16 as printed, and Algorithm 1.

mod agreement;
pub(super) mod sinr;
mod tunables;

pub use tunables::Tunables;

use super::named::counters;
use super::{BANDWIDTH_TOLERANCE, FAST, Model, Q8, SAMPLE, chosen, close, elapsed_us, reno, show, slow_start};
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{EVENT_TX_START, Flow, View};

/// Window of a connection that was taken over when it had sent data already (RFC 6928).
const USUAL_INITIAL_WINDOW: u32 = 10;
/// Largest N, whatever W.
const N_LIMIT: f64 = (1 << 20) as f64;
/// Least Q/W: keeps one epoch's growth of N representable.
const QUEUE_FLOOR: f64 = -1024.0;
/// Resolution of N, of the growth gathered for W's next segment, and of shares such as Q/W.
const Q16: f64 = 1.0 / 65_536.0;
/// Greatest relative error of N after any number of events. No absolute tolerance is needed, as N is at least 1.
const N_TOLERANCE: f64 = 1e-3;
/// Greatest error of W and the fraction of its next segment together, segments; greater ones are counted and added up.
const WINDOW_TOLERANCE: f64 = 0.05;

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Dtcp {
    /// Current tunables.
    pub tunables: Tunables,
    /// Tunables that it may change to while it runs.
    pub others: Vec<Tunables>,
    /// Filtered bandwidth B_I, bytes/s.
    pub filtered: f64,
    /// Congestion control factor N.
    pub n: f64,
    initial_window: u32,
    has_sample: bool,
    previous_sample: f64,
    growth: f64,
    base_us: Option<u32>,
    epoch: Epoch,
    ssthresh_before: Option<u32>,
    radio: Option<(u64, u32)>,
    /// Greatest distance of the algorithm's B_I from this one by rounding, bytes/s.
    resolution: f64,
    step: Step,
    /// Segments by which W would be off now if the model's had not been set to the algorithm's on the way.
    window_off: f64,
    /// The window after a loss with the algorithm's own N.
    own_ssthresh: u32,
    rounding: Rounding,
    coverage: Coverage,
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    start_us: u64,
    delivered: u32,
    app_limited: bool,
}

/// The effects of the hook just called, for the comparison with the algorithm.
#[derive(Clone, Debug, Default)]
struct Step {
    /// The algorithm's own N and gathered growth before the hook.
    n: f64,
    growth: f64,
    /// Whether the bandwidth filter took a sample.
    filtered: bool,
    /// Bounds of the algorithm's own N after eq 10, by the rounding of this one step.
    range: Option<(f64, f64)>,
    /// The possible N if BW_C and BW_E are so close that rounding decides which is larger.
    alternatives: Vec<f64>,
    /// The filter with and without an application-limited sample that is so close to B_I that rounding decides which is
    /// larger.
    app_limited: Option<[Filter; 2]>,
    /// W before it grew in congestion avoidance, and the segments acknowledged.
    avoidance: Option<(u32, u32)>,
}

/// The filter of eq 5 or eq 4.
#[derive(Clone, Copy, Debug)]
struct Filter {
    has_sample: bool,
    filtered: f64,
    previous_sample: f64,
    resolution: f64,
}

counters! {
    /// How often the limits of fixed point made a difference.
    Rounding {
        coarse_bandwidths: "samples that left a bandwidth beyond 0.1 %",
        sample_ties: "application-limited samples ranked the other way",
        comparison_ties: "BW_C and BW_E ranked the other way",
        coarse_n: "N beyond 0.1 %",
        window_ties: "W rounded the other way",
        clamped_ties: "growth at the clamp rounded the other way",
        coarse_fractions: "growth beyond 0.05 segments",
        coarse_windows: "W beyond a segment",
        parts_ties: "parts rounded the other way",
    }
}

counters! {
    /// Branches taken.
    Coverage {
        epochs: "epochs",
        fast_samples: "samples over 100 Gbit/s",
        first_samples: "first samples",
        app_limited_ignored: "application-limited epochs ignored",
        app_limited_filtered: "application-limited epochs filtered",
        updates: "updates of N",
        slow_start_epochs: "epochs in slow start",
        recovery_epochs: "epochs in recovery",
        fresh: "fresh signals",
        future: "signals from the future",
        stale: "stale signals",
        absent: "absent signals",
        clamped_terms: "SINR terms clamped",
        bandwidth_queues: "queues seen by bandwidth",
        negative_queues: "negative queues",
        rtt_queues: "queues seen by RTT",
        n_grew: "N grew",
        n_fell: "N fell",
        n_at_one: "N at one",
        n_at_limit: "N at its limit",
        alg1_doublings: "Algorithm 1 doublings",
        alg1_steps: "Algorithm 1 steps",
        near_ties: "Algorithm 1 near ties",
        slow_start_acks: "slow start ACKs",
        avoidance_acks: "congestion avoidance ACKs",
        unlimited_acks: "ACKs while not limited by the window",
        jumps: "ACKs that grew W by more than one",
        decreases: "decreases",
        minimum_decreases: "decreases to the minimum",
        timeouts: "timeouts",
        kept_thresholds: "thresholds kept over a timeout",
        fresh_starts: "fresh starts",
        windows_given_back: "unused windows given back",
        takeovers: "takeovers",
        restarts: "epochs restarted after idling",
        retuned: "tunables changed",
        estimates_not_positive: "estimates of zero or less",
    }
}

impl Dtcp {
    /// Returns a connection before `init`.
    #[must_use]
    pub fn new(tunables: Tunables) -> Self {
        Self {
            tunables,
            others: Vec::new(),
            filtered: 0.0,
            n: 1.0,
            initial_window: 0,
            has_sample: false,
            previous_sample: 0.0,
            growth: 0.0,
            base_us: None,
            epoch: Epoch::default(),
            ssthresh_before: None,
            radio: None,
            resolution: 0.0,
            step: Step::default(),
            window_off: 0.0,
            own_ssthresh: 0,
            rounding: Rounding::default(),
            coverage: Coverage::default(),
        }
    }

    fn state(&self) -> Filter {
        Filter {
            has_sample: self.has_sample,
            filtered: self.filtered,
            previous_sample: self.previous_sample,
            resolution: self.resolution,
        }
    }

    fn set_state_of_filter(&mut self, f: Filter) {
        (self.has_sample, self.filtered, self.previous_sample, self.resolution) =
            (f.has_sample, f.filtered, f.previous_sample, f.resolution);
    }

    /// Sets N to exactly 1, and the gathered growth to exactly 0.
    fn restart_growth(&mut self) {
        (self.n, self.growth) = (1.0, 0.0);
        (self.step.n, self.step.growth) = (1.0, 0.0);
        self.window_off = 0.0;
    }

    fn restart_epoch(&mut self, sock: &View) {
        self.epoch = Epoch { start_us: sock.now_us, delivered: sock.delivered, app_limited: sock.app_limited != 0 };
    }

    /// Returns the epoch's length (Algorithm 1 line 15: `update_epoch`).
    fn epoch_us(&self, sock: &View) -> u64 {
        match self.tunables.epoch_us {
            0 => u64::from(sock.srtt_us >> 3).max(if sock.in_slow_start() { 5000 } else { 20_000 }),
            set => u64::from(set),
        }
    }

    /// Filters a sample, eq 5 or eq 4.
    fn filter(&mut self, sample: f64) {
        let kappa = f64::from(self.tunables.filter_permille) / 1000.0;
        if !self.has_sample {
            self.coverage.first_samples += 1;
            self.has_sample = sample >= SAMPLE; // below that, it is 0 in whole bytes/s
            self.filtered = sample;
            self.resolution = SAMPLE;
        } else if self.tunables.filter == 0 {
            self.filtered = kappa * self.filtered + (1.0 - kappa) * sample;
        } else {
            self.filtered = kappa * self.filtered + (1.0 - kappa) * (sample + self.previous_sample) / 2.0;
        }
        if self.has_sample {
            self.has_sample = self.filtered >= Q8; // a filter that fell to 0 starts again with the next sample
        }
        self.resolution = kappa * self.resolution + (1.0 - kappa) * SAMPLE + Q8;
        self.previous_sample = sample;
    }

    /// Returns queue over window from RTTs: the share of packets in flight that wait in a queue (TCP-FIT).
    fn rtt_queue(&self, sock: &View) -> f64 {
        let rtt = f64::from(sock.srtt_us >> 3);
        match self.base_us.map(f64::from) {
            Some(base) if rtt > base => (rtt - base) / rtt,
            _ => 0.0,
        }
    }

    /// Returns the upper limit of N: W or a quarter of it, and the limit that is set.
    fn n_limit(&self, sock: &View) -> f64 {
        let n_max = if self.tunables.n_max == 0 { N_LIMIT } else { f64::from(self.tunables.n_max) };
        let share = if self.tunables.n_rule == 2 { 1.0 } else { 0.25 };
        (f64::from(sock.snd_cwnd) * share).min(N_LIMIT).min(n_max).max(1.0)
    }

    /// Updates N by eqs 6, 7, 10, 11 or Algorithm 1 lines 14 to 25, for the sample `current` that was just filtered.
    fn update_n(&mut self, sock: &View, current: f64) {
        self.coverage.updates += 1;
        let before = self.n;
        let limit = self.n_limit(sock);
        let g = f64::from(self.tunables.g_permille) / 1000.0;
        let (term, term_error) = self.sinr_term(sock);
        // eqs 6, 7: B_I + g * ((B_i - B_I) + S), arranged so that rounding here does not make equal values differ
        let estimated = current + ((1.0 - g) * (self.filtered - current) + g * term);
        self.coverage.estimates_not_positive += u64::from(estimated <= 0.0);
        // B_i, B_I, S and the products are in whole bytes/s; plus the filter's accumulated error
        let error = (1.0 - g) * (self.resolution + 1.0) + g * (1.0 + term_error) + 1.0;
        if self.tunables.n_rule == 1 {
            self.algorithm_1(current, estimated, error, limit);
        } else {
            self.equation_10(sock, current, estimated, error, limit);
        }
        self.coverage.n_grew += u64::from(self.n > before);
        self.coverage.n_fell += u64::from(self.n < before);
        self.coverage.n_at_one += u64::from(self.n == 1.0);
        self.coverage.n_at_limit += u64::from(self.n == limit);
    }

    /// Applies eqs 10 and 11 (eq 12 prints W_i where these two give N_i).
    fn equation_10(&mut self, sock: &View, current: f64, estimated: f64, error: f64, limit: f64) {
        let queue_of = |current: f64, estimated: f64| {
            if estimated > 0.0 { ((estimated - current) / estimated).max(QUEUE_FLOOR) } else { 0.0 }
        };
        let from_bandwidth = queue_of(current, estimated);
        // the extremes within the resolution of BW_C and BW_E; an estimate that may be zero or less may mean no queue
        let (low, high) = (estimated - error, estimated + error);
        let mut least = if low > 0.0 { queue_of(current, low) } else { QUEUE_FLOOR };
        let mut most = queue_of((current - 1.0).max(0.0), high);
        if low <= 0.0 {
            most = most.max(0.0);
        }
        if high <= 0.0 {
            least = 0.0;
        }
        let from_rtt = self.rtt_queue(sock);
        let queue = match self.tunables.queue {
            0 => from_bandwidth,
            1 => {
                (least, most) = (from_rtt, from_rtt);
                from_rtt
            }
            _ => {
                (least, most) = (least.max(from_rtt), most.max(from_rtt));
                from_bandwidth.max(from_rtt)
            }
        };
        self.coverage.bandwidth_queues += u64::from(queue == from_bandwidth && queue > 0.0);
        self.coverage.rtt_queues += u64::from(queue == from_rtt && queue > 0.0);
        self.coverage.negative_queues += u64::from(queue < 0.0);
        let alpha = f64::from(self.tunables.alpha_permille) / 1000.0;
        let next = |n: f64, queue: f64| (n + 1.0 - n * queue / alpha).max(1.0).min(limit);
        let own = self.step.n;
        self.step.range = Some((next(own, most + Q16) - 2.0 * Q16, next(own, least - Q16) + 2.0 * Q16));
        self.n = next(self.n, queue);
    }

    /// Applies Algorithm 1. prevN equals N wherever it matters: before the first change it is 0, but then both N and
    /// `max(1, prevN)` are 1.
    fn algorithm_1(&mut self, current: f64, estimated: f64, error: f64, limit: f64) {
        let doubled = (2.0 * self.n).min(limit).max(1.0); // lines 18, 19
        let stepped = (self.n + 1.0).min(limit).max(1.0); // line 23
        let kept = self.n.min(limit).max(1.0);
        if current < estimated {
            self.coverage.alg1_doublings += 1;
            self.n = doubled; // lines 17 to 21
        } else if current > estimated {
            self.coverage.alg1_steps += 1;
            self.n = stepped; // lines 22 to 24
        } else {
            self.n = kept;
        }
        if (current - estimated).abs() <= error + 1.0 {
            self.coverage.near_ties += 1;
            self.step.alternatives = vec![kept, doubled, stepped];
        } else {
            self.step.alternatives = vec![self.n];
        }
    }

    /// Returns W after a loss by eqs 15 and 16 for some N.
    fn decreased(&self, window: u32, n: f64) -> f64 {
        let eta = f64::from(self.tunables.eta);
        let parts = ((2.0 * eta - 1.0) * n).ceil() + 1.0;
        (f64::from(window) * (parts - eta) / parts).floor()
    }
}

impl Model for Dtcp {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
            self.coverage.retuned += 1;
        }
    }

    /// Applies Algorithm 1 lines 1 to 4.
    fn init(&mut self, sock: &mut View) {
        let (coverage, rounding) = (std::mem::take(&mut self.coverage), std::mem::take(&mut self.rounding));
        let others = std::mem::take(&mut self.others);
        *self = Self { coverage, rounding, others, radio: self.radio, ..Self::new(self.tunables) };
        self.restart_growth();
        let untouched = sock.data_segs_out == 0;
        self.initial_window = if untouched { sock.snd_cwnd.min(65_535) } else { USUAL_INITIAL_WINDOW };
        // the kernel's own least RTT, if it has one
        self.base_us = Some(sock.min_rtt_us).filter(|&least| !untouched && least != 0 && least != u32::MAX);
        self.coverage.fresh_starts += u64::from(untouched);
        self.coverage.takeovers += u64::from(!untouched);
        if untouched {
            sock.snd_cwnd = (self.tunables.initial_windows * sock.snd_cwnd).min(sock.snd_cwnd_clamp);
            if self.tunables.initial_ssthresh_bytes != 0 {
                sock.snd_ssthresh = (self.tunables.initial_ssthresh_bytes / sock.mss).max(2);
            }
        }
        self.restart_epoch(sock); // line 10
    }

    /// Gives back a first window that was never used, so that swaps back and forth do not add up.
    fn release(&mut self, sock: &mut View) {
        if sock.data_segs_out == 0 && sock.snd_cwnd == self.tunables.initial_windows * self.initial_window {
            self.coverage.windows_given_back += 1;
            sock.snd_cwnd = self.initial_window;
        }
    }

    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        // a sample of zero is ignored: no path has length 0
        if let Some(rtt) = rtt_us.filter(|&r| r > 0) {
            self.base_us = Some(self.base_us.map_or(rtt, |b| b.min(rtt)));
        }
        let elapsed = elapsed_us(self.epoch.start_us, sock.now_us);
        if elapsed < self.epoch_us(sock) {
            return;
        }
        self.coverage.epochs += 1;
        let segments = sock.delivered.wrapping_sub(self.epoch.delivered);
        let current = f64::from(segments) * f64::from(sock.mss) / (elapsed as f64 / 1e6); // eq 1
        self.coverage.fast_samples += u64::from(current > FAST);
        let app_limited = self.epoch.app_limited || sock.app_limited != 0;
        self.restart_epoch(sock); // line 16
        let before = self.state();
        self.filter(current);
        self.step.filtered = true;
        if app_limited {
            let after = self.state();
            if (current - before.filtered).abs() <= SAMPLE + before.resolution {
                self.step.app_limited = Some([before, after]);
            }
            if current <= before.filtered {
                self.coverage.app_limited_ignored += 1;
                self.set_state_of_filter(before);
                return;
            }
            self.coverage.app_limited_filtered += 1;
        } else if sock.in_slow_start() {
            self.coverage.slow_start_epochs += 1;
        } else if !sock.may_grow() {
            self.coverage.recovery_epochs += 1;
        } else {
            self.update_n(sock, current);
        }
    }

    /// Applies eq 14: N per W acknowledged.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        if !sock.cwnd_limited() {
            self.coverage.unlimited_acks += 1;
            return;
        }
        let mut left = acked;
        if sock.in_slow_start() {
            self.coverage.slow_start_acks += 1;
            left = slow_start(sock, acked);
            if left == 0 {
                return;
            }
        }
        self.coverage.avoidance_acks += 1;
        self.step.avoidance = Some((sock.snd_cwnd, left));
        self.growth += self.n * f64::from(left);
        let window = f64::from(sock.snd_cwnd);
        if self.growth >= window {
            let whole = (self.growth / window).floor();
            self.coverage.jumps += u64::from(whole > 1.0);
            self.growth -= whole * window;
            sock.snd_cwnd = (window + whole).min(f64::from(sock.snd_cwnd_clamp)) as u32;
        }
    }

    /// Applies eqs 15 and 16, Algorithm 1 lines 6 and 7.
    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.coverage.decreases += 1;
        self.ssthresh_before = Some(sock.snd_ssthresh);
        let kept = self.decreased(sock.snd_cwnd, self.n);
        self.coverage.minimum_decreases += u64::from(kept < 2.0);
        self.own_ssthresh = self.decreased(sock.snd_cwnd, self.step.n).max(2.0) as u32;
        kept.max(2.0) as u32
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        reno::undo_cwnd(sock)
    }

    /// Applies Algorithm 1 lines 11 to 13 and 8 to 10.
    fn set_state(&mut self, sock: &mut View, state: u8) {
        if state != LOSS {
            self.ssthresh_before = Some(sock.snd_ssthresh); // restored by a timeout within it, or right after it
            return;
        }
        if !sock.timed_out() {
            return;
        }
        self.coverage.timeouts += 1;
        sock.snd_cwnd = (2 * self.initial_window).min(sock.snd_cwnd_clamp);
        if let (1, Some(before)) = (self.tunables.rto_ssthresh, self.ssthresh_before) {
            self.coverage.kept_thresholds += 1;
            sock.snd_ssthresh = before;
        }
        if self.tunables.rto_ssthresh == 0 {
            sock.snd_cwnd = sock.snd_cwnd.min(sock.snd_ssthresh);
        }
        self.restart_growth();
        self.restart_epoch(sock);
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        if event == EVENT_TX_START {
            self.coverage.restarts += 1;
            self.restart_epoch(sock);
        }
    }

    fn set_radio(&mut self, reading: Option<(u64, u32)>) {
        self.radio = reading;
    }

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.compare(want, got, flow)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.compare_ssthresh(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        self.rounding.named()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.coverage.named()
    }
}
