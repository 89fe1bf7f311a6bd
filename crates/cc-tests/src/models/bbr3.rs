//! BBRv3 in real numbers, from draft-ietf-ccwg-bbr-06 alone; section numbers are the draft's. Volumes are in segments,
//! times in seconds, bandwidths in bytes/s.

mod phases;

/// The draft's Infinity.
pub const NONE: f64 = f64::INFINITY;

const STARTUP_PACING_GAIN: f64 = 2.77;
const LOSS_THRESH: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
const MIN_PIPE_CWND: f64 = 4.0;
const STARTUP_FULL_LOSS_COUNT: f64 = 6.0;
const FILTER_ROUNDS: u64 = 10;

/// A volume up to this many segments has a greater relative error than others, if it is rounded to a whole number.
const ROUNDED: f64 = 500.0;

/// `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the draft's names")]
pub enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// `BBR.ack_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the draft's names")]
pub enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The draft's C: the connection.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the draft's names")]
pub struct Connection {
    pub now_s: f64,
    /// The time in whole milliseconds, the resolution of timestamps.
    pub now_ms: f64,
    pub mss: f64,
    pub srtt_s: f64,
    pub delivered: f64,
    pub inflight: f64,
    pub cwnd: f64,
    pub pacing_rate: f64,
    pub is_cwnd_limited: bool,
    pub is_app_limited: bool,
    pub has_selective_acks: bool,
    /// Whether it is in fast recovery.
    pub recovers: bool,
    /// Whether it is in fast recovery or after a timeout.
    pub in_loss_recovery: bool,
}

/// The draft's RS: the rate sample of an ACK.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the draft's names")]
pub struct RateSample {
    pub delivered: f64,
    pub prior_delivered: f64,
    /// 0: no valid rate.
    pub delivery_rate: f64,
    pub newly_acked: f64,
    pub newly_lost: f64,
    pub lost: f64,
    pub tx_in_flight: f64,
    pub rtt_s: Option<f64>,
    pub is_app_limited: bool,
}

/// Results of random draws (section 5.3.3.8.3), which are set in the model.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// First value of `rounds_since_probe_up`.
    pub rounds: f64,
    /// `bw_probe_wait`.
    pub wait_ms: f64,
}

/// BBR for one connection.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the draft's names")]
pub struct Bbr3 {
    pub state: State,
    pub ack_phase: AckPhase,
    pub bw: f64,
    /// Of this cycle and the one before.
    pub max_bw: [f64; 2],
    pub bw_latest: f64,
    pub bw_shortterm: f64,
    pub full_bw: f64,
    pub inflight_latest: f64,
    pub inflight_shortterm: f64,
    pub inflight_longterm: f64,
    pub min_rtt_s: f64,
    pub min_rtt_stamp_ms: f64,
    pub probe_rtt_min_s: f64,
    pub probe_rtt_min_stamp_ms: f64,
    pub probe_rtt_done_ms: Option<f64>,
    pub next_round_delivered: f64,
    pub loss_round_delivered: f64,
    pub round_count: u64,
    pub drain_start_round: u64,
    pub cycle_stamp_ms: f64,
    pub bw_probe_wait_ms: f64,
    pub prior_cwnd: f64,
    pub undo_state: Option<State>,
    pub full_bw_count: u32,
    pub full_bw_reached: bool,
    pub full_bw_now: bool,
    pub rounds_since_probe_up: f64,
    /// ACKs of the round that reported losses, for the draft's lost ranges.
    pub loss_events: f64,
    pub is_loss_in_round: bool,
    pub is_bw_probe_sample: bool,
    pub prev_probe_too_high: bool,
    pub prev_probe_precautionary: bool,
    pub idle_restart: bool,
    pub probe_rtt_expired: bool,
    pub probe_rtt_round_done: bool,
    undo_bw_shortterm: f64,
    undo_inflight_shortterm: f64,
    undo_inflight_longterm: f64,
    bw_probe_up_acked: f64,
    bw_probe_up_rounds: i32,
    probe_up_acked_per_inc: f64,
    extra_acked_start_s: f64,
    extra_acked_delivered: f64,
    /// Rounds, and the greatest value in each.
    extra_acked: Vec<(u64, f64)>,
    initial_cwnd: f64,
    round_start: bool,
    loss_round_start: bool,
    startup_loss: bool,
    /// Results of the next draw.
    pub chance: Chance,
    /// How near the last decision was to the other one, as a share.
    pub margin: f64,
}

impl Bbr3 {
    /// Applies `OnInit`, and also sets the pacing rate.
    #[must_use]
    pub fn new(c: &mut Connection) -> Self {
        let min_rtt_s = if c.srtt_s > 0.0 { c.srtt_s } else { NONE };
        let bbr = Self {
            state: State::Startup,
            ack_phase: AckPhase::Init,
            bw: 0.0,
            max_bw: [0.0; 2],
            bw_latest: 0.0,
            bw_shortterm: NONE,
            full_bw: 0.0,
            inflight_latest: 0.0,
            inflight_shortterm: NONE,
            inflight_longterm: NONE,
            min_rtt_s,
            min_rtt_stamp_ms: c.now_ms,
            probe_rtt_min_s: min_rtt_s,
            probe_rtt_min_stamp_ms: c.now_ms,
            probe_rtt_done_ms: None,
            next_round_delivered: c.delivered,
            loss_round_delivered: c.delivered,
            round_count: 0,
            drain_start_round: 0,
            cycle_stamp_ms: 0.0,
            bw_probe_wait_ms: 0.0,
            prior_cwnd: 0.0,
            undo_state: None,
            full_bw_count: 0,
            full_bw_reached: false,
            full_bw_now: false,
            rounds_since_probe_up: 0.0,
            loss_events: 0.0,
            is_loss_in_round: false,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            idle_restart: false,
            probe_rtt_expired: false,
            probe_rtt_round_done: false,
            undo_bw_shortterm: 0.0,
            undo_inflight_shortterm: 0.0,
            undo_inflight_longterm: 0.0,
            bw_probe_up_acked: 0.0,
            bw_probe_up_rounds: 0,
            probe_up_acked_per_inc: NONE,
            extra_acked_start_s: c.now_s,
            extra_acked_delivered: 0.0,
            extra_acked: Vec::new(),
            initial_cwnd: c.cwnd,
            round_start: false,
            loss_round_start: false,
            startup_loss: false,
            chance: Chance { rounds: 0.0, wait_ms: 2000.0 },
            margin: NONE,
        };
        bbr.init_pacing_rate(c);
        bbr
    }

    fn init_pacing_rate(&self, c: &mut Connection) {
        let srtt_s = if c.srtt_s > 0.0 { c.srtt_s } else { 1e-3 };
        c.pacing_rate = STARTUP_PACING_GAIN * self.initial_cwnd * c.mss / srtt_s;
    }

    /// Returns whether `a` is at most `b`, and records how near they are.
    fn at_most(&mut self, a: f64, b: f64) -> bool {
        if a.is_finite() && b.is_finite() {
            self.margin = self.margin.min((a - b).abs() / b.abs().max(ROUNDED));
        }
        a <= b
    }

    fn in_probe_bw(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    fn highest_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Returns pacing and window gains, from the table of 5.6.1.
    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (STARTUP_PACING_GAIN, 2.0),
            State::Drain => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        }
    }

    fn bdp(&self, c: &Connection, bw: f64, gain: f64) -> f64 {
        if self.min_rtt_s == NONE { self.initial_cwnd } else { gain * bw * self.min_rtt_s / c.mss }
    }

    fn quantization_budget(&self, c: &Connection, volume: f64) -> f64 {
        let quantum = (c.pacing_rate * 1e-3).min(65536.0).max(2.0 * c.mss) / c.mss;
        let more = if self.state == State::Up { 2.0 } else { 0.0 };
        volume.max(3.0 * quantum).max(MIN_PIPE_CWND) + more
    }

    fn target_inflight(&self, c: &Connection) -> f64 {
        self.bdp(c, self.bw, 1.0).min(c.cwnd)
    }

    fn with_headroom(&self) -> f64 {
        if self.inflight_longterm == NONE {
            return NONE;
        }
        (self.inflight_longterm - (HEADROOM * self.inflight_longterm).max(1.0)).max(MIN_PIPE_CWND)
    }

    fn set_pacing_rate(&self, c: &mut Connection, gain: f64) {
        let rate = gain * self.bw * 0.99;
        if self.bw > 0.0 && (self.full_bw_reached || rate > c.pacing_rate) {
            c.pacing_rate = rate;
        }
    }

    fn start_round(&mut self, c: &Connection) {
        self.next_round_delivered = c.delivered;
    }

    fn reset_full_bw(&mut self, full_bw: f64) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (full_bw, 0, false);
    }

    fn reset_short_term(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (NONE, NONE);
    }

    /// Applies 5.6.4.4.
    fn save_cwnd(&mut self, c: &Connection) {
        let keeps = c.in_loss_recovery || self.state == State::ProbeRtt;
        self.prior_cwnd = if keeps { self.prior_cwnd.max(c.cwnd) } else { c.cwnd };
    }

    /// Applies 5.5.11.1, without the window.
    fn save_model(&mut self) {
        self.undo_state = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// Begins a recovery, by losses or a timeout.
    pub fn enter_recovery(&mut self, c: &Connection) {
        self.save_cwnd(c);
        self.save_model();
    }

    /// Ends a recovery: all losses are repaired.
    pub fn leave_recovery(&self, c: &mut Connection) {
        c.cwnd = c.cwnd.max(self.prior_cwnd);
    }

    /// Handles a timeout that lost `lost`, after the kernel has cut the window.
    pub fn time_out(&mut self, c: &Connection, lost: f64) {
        let prior = self.prior_cwnd;
        self.lose(c, &RateSample { newly_lost: lost, lost, tx_in_flight: c.inflight + lost, ..RateSample::default() });
        self.prior_cwnd = self.prior_cwnd.max(prior);
    }

    /// Handles a reduction for ECN marks, which counts as a loss.
    pub fn mark(&mut self, c: &Connection) {
        self.note_loss(c);
    }

    fn start_down(&mut self, c: &Connection) {
        (self.is_loss_in_round, self.loss_events, self.bw_latest, self.inflight_latest) = (false, 0.0, 0.0, 0.0);
        self.probe_up_acked_per_inc = NONE;
        (self.rounds_since_probe_up, self.bw_probe_wait_ms) = (self.chance.rounds, self.chance.wait_ms);
        self.cycle_stamp_ms = c.now_ms;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(c);
        self.state = State::Down;
    }

    fn start_refill(&mut self, c: &Connection) {
        self.reset_short_term();
        (self.bw_probe_up_rounds, self.bw_probe_up_acked) = (0, 0.0);
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(c);
        self.state = State::Refill;
    }

    /// Raises the slope, in whole segments, as the window is.
    fn raise_slope(&mut self, c: &Connection) {
        let growth = f64::from(1 << self.bw_probe_up_rounds);
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (c.cwnd / growth).floor().max(1.0);
    }

    fn start_up(&mut self, c: &Connection, rs: &RateSample) {
        self.ack_phase = AckPhase::Starting;
        self.start_round(c);
        self.reset_full_bw(rs.delivery_rate);
        self.state = State::Up;
        self.raise_slope(c);
    }

    fn is_too_high(&mut self, c: &Connection, rs: &RateSample) -> bool {
        if c.has_selective_acks { !self.at_most(rs.lost, rs.tx_in_flight * LOSS_THRESH) } else { rs.lost > 0.0 }
    }

    fn note_loss(&mut self, c: &Connection) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = c.delivered;
            self.enter_recovery(c);
        }
        self.is_loss_in_round = true;
    }

    /// Applies 5.5.10.2, to all losses of an ACK as one packet.
    fn lose(&mut self, c: &Connection, rs: &RateSample) {
        if rs.newly_lost == 0.0 {
            return;
        }
        self.note_loss(c);
        self.loss_events += 1.0;
        if !self.is_bw_probe_sample || !self.is_too_high(c, rs) {
            return;
        }
        let (before, lost_before) = (rs.tx_in_flight - rs.newly_lost, rs.lost - rs.newly_lost);
        let at_loss = (before + (LOSS_THRESH * before - lost_before) / (1.0 - LOSS_THRESH)).max(0.0);
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !rs.is_app_limited {
            self.inflight_longterm = at_loss.max(self.target_inflight(c) * BETA);
        }
        if self.state == State::Up {
            self.undo_state = Some(State::Up);
            self.start_down(c);
        }
    }

    /// Applies `UpdateOnACK`, after the losses that the ACK reports.
    pub fn ack(&mut self, c: &mut Connection, rs: &RateSample) {
        self.margin = NONE;
        let of_lost = RateSample { lost: rs.lost.max(rs.newly_lost), ..*rs };
        let of_lost = if rs.delivered > 0.0 {
            RateSample { tx_in_flight: rs.delivered + of_lost.lost, ..of_lost }
        } else {
            RateSample { lost: rs.newly_lost, tx_in_flight: c.inflight + rs.newly_lost, ..of_lost }
        };
        self.lose(c, &of_lost);
        self.latest_signals(c, rs);
        self.congestion_signals(c, rs);
        self.aggregation(c, rs);
        self.check_full_bw(rs);
        self.check_startup(c);
        self.check_drain(c);
        self.cycle(c, rs);
        self.min_rtt(c, rs);
        self.check_probe_rtt(c, rs);
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (rs.delivery_rate, rs.delivered);
        }
        self.bw = self.highest_bw().min(self.bw_shortterm);
        self.set_pacing_rate(c, self.gains().0);
        self.set_cwnd(c, rs);
    }

    fn latest_signals(&mut self, c: &Connection, rs: &RateSample) {
        self.bw_latest = self.bw_latest.max(rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        self.loss_round_start = rs.delivered > 0.0 && rs.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = c.delivered;
        }
    }

    fn congestion_signals(&mut self, c: &Connection, rs: &RateSample) {
        self.round_start = rs.delivered > 0.0 && rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(c);
            self.round_count += 1;
            self.rounds_since_probe_up += 1.0;
        }
        if rs.delivery_rate > 0.0 && (!rs.is_app_limited || self.at_most(self.highest_bw(), rs.delivery_rate)) {
            self.max_bw[0] = self.max_bw[0].max(rs.delivery_rate);
        }
        self.startup_loss = false;
        if !self.loss_round_start {
            return;
        }
        let probes = matches!(self.state, State::Startup | State::Refill | State::Up);
        if self.is_loss_in_round && !probes {
            let bw = if self.bw_shortterm == NONE { self.highest_bw() } else { self.bw_shortterm };
            let flight = if self.inflight_shortterm == NONE { c.cwnd } else { self.inflight_shortterm };
            self.bw_shortterm = self.bw_latest.max(BETA * bw);
            self.inflight_shortterm = self.inflight_latest.max(BETA * flight);
        }
        let many = self.loss_events >= STARTUP_FULL_LOSS_COUNT || !c.has_selective_acks;
        self.startup_loss = self.is_loss_in_round && c.recovers && many && self.is_too_high(c, rs);
        (self.is_loss_in_round, self.loss_events) = (false, 0.0);
    }

    fn aggregation(&mut self, c: &Connection, rs: &RateSample) {
        let mut expected = self.bw * (c.now_s - self.extra_acked_start_s) / c.mss;
        if self.at_most(self.extra_acked_delivered, expected + 1e-9) {
            (self.extra_acked_delivered, self.extra_acked_start_s, expected) = (0.0, c.now_s, 0.0);
        }
        self.extra_acked_delivered += rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected).min(c.cwnd);
        match self.extra_acked.last_mut() {
            Some((round, most)) if *round == self.round_count => *most = most.max(extra),
            _ => self.extra_acked.push((self.round_count, extra)),
        }
        let oldest = self.round_count.saturating_sub(FILTER_ROUNDS - 1);
        self.extra_acked.retain(|(round, _)| *round >= oldest);
    }

    fn most_extra(&self) -> f64 {
        let counts = |round: u64| self.full_bw_reached || round == self.round_count;
        self.extra_acked.iter().filter(|(round, _)| counts(*round)).map(|(_, extra)| *extra).fold(0.0, f64::max)
    }
}
