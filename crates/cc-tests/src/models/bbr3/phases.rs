//! BBRv3's phases (sections 5.3 and 5.4), their undo (5.5.11), and the window (5.6.4).

use super::{AckPhase, Bbr3, Connection, MIN_PIPE_CWND, NONE, RateSample, State};

impl Bbr3 {
    pub(super) fn check_full_bw(&mut self, rs: &RateSample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited || rs.delivery_rate == 0.0 {
            return;
        }
        if self.at_most(1.25 * self.full_bw, rs.delivery_rate) {
            self.reset_full_bw(rs.delivery_rate);
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn check_startup(&mut self, c: &Connection) {
        if self.state != State::Startup {
            return;
        }
        if self.startup_loss && !self.full_bw_reached {
            self.undo_state = Some(State::Startup);
            self.full_bw_reached = true;
            self.inflight_longterm = self.bdp(c, self.bw, 1.0).max(self.inflight_latest);
        }
        if self.full_bw_reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    pub(super) fn check_drain(&mut self, c: &Connection) {
        if self.state != State::Drain {
            return;
        }
        let enough = self.quantization_budget(c, self.bdp(c, self.bw, 1.0));
        if self.at_most(c.inflight, enough) || self.round_count > self.drain_start_round + 3 {
            self.start_down(c);
        }
    }

    fn adapt_long_term(&mut self, c: &Connection, rs: &RateSample) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.in_probe_bw() && !rs.is_app_limited && self.max_bw[0] > 0.0 {
                self.max_bw = [0.0, self.max_bw[0]];
            }
            if self.in_probe_bw() && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_refill(c);
                return true;
            }
        }
        if self.is_too_high(c, rs) || self.inflight_longterm == NONE {
            return false;
        }
        self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
        if self.state == State::Up && c.is_cwnd_limited && self.at_most(self.inflight_longterm, c.cwnd) {
            self.bw_probe_up_acked += rs.newly_acked;
            let whole = (self.bw_probe_up_acked / self.probe_up_acked_per_inc).floor();
            self.bw_probe_up_acked -= whole * self.probe_up_acked_per_inc;
            self.inflight_longterm += whole;
            if self.round_start {
                self.raise_slope(c);
            }
        }
        false
    }

    fn is_time_to_probe(&mut self, c: &Connection) -> bool {
        let rounds = self.target_inflight(c).min(63.0);
        let by_time = c.now_ms > self.cycle_stamp_ms + self.bw_probe_wait_ms;
        if !by_time && !self.at_most(rounds, self.rounds_since_probe_up) {
            return false;
        }
        self.start_refill(c);
        true
    }

    pub(super) fn cycle(&mut self, c: &Connection, rs: &RateSample) {
        if !self.full_bw_reached || self.adapt_long_term(c, rs) {
            return;
        }
        match self.state {
            State::Down => {
                let (headroom, full) =
                    (self.with_headroom(), self.quantization_budget(c, self.bdp(c, self.highest_bw(), 1.0)));
                if !self.is_time_to_probe(c) && self.at_most(c.inflight, headroom) && self.at_most(c.inflight, full) {
                    self.state = State::Cruise;
                }
            }
            State::Cruise => {
                self.is_time_to_probe(c);
            }
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up(c, rs);
            }
            State::Up => self.leave_up(c, rs),
            _ => {}
        }
    }

    fn leave_up(&mut self, c: &Connection, rs: &RateSample) {
        if self.is_time_to_go_down(c, rs) {
            self.prev_probe_too_high = false;
            self.start_down(c);
        }
    }

    fn is_time_to_go_down(&mut self, c: &Connection, rs: &RateSample) -> bool {
        if self.prev_probe_too_high && self.at_most(self.inflight_longterm, c.inflight) {
            self.prev_probe_precautionary = true;
            return true;
        }
        if c.is_cwnd_limited && self.at_most(self.inflight_longterm, c.cwnd) {
            self.reset_full_bw(rs.delivery_rate);
            return false;
        }
        self.full_bw_now
    }

    pub(super) fn min_rtt(&mut self, c: &mut Connection, rs: &RateSample) {
        let is_first = self.min_rtt_s == NONE;
        self.probe_rtt_expired = c.now_ms > self.probe_rtt_min_stamp_ms + 5000.0;
        if let Some(rtt_s) = rs.rtt_s
            && (rtt_s < self.probe_rtt_min_s || self.probe_rtt_expired)
        {
            (self.probe_rtt_min_s, self.probe_rtt_min_stamp_ms) = (rtt_s, c.now_ms);
        }
        if self.probe_rtt_min_s < self.min_rtt_s || c.now_ms > self.min_rtt_stamp_ms + 10_000.0 {
            (self.min_rtt_s, self.min_rtt_stamp_ms) = (self.probe_rtt_min_s, self.probe_rtt_min_stamp_ms);
        }
        if is_first && self.min_rtt_s != NONE {
            self.init_pacing_rate(c);
        }
    }

    fn probe_rtt_cwnd(&self, c: &Connection) -> f64 {
        self.bdp(c, self.bw, 0.5).max(MIN_PIPE_CWND)
    }

    pub(super) fn check_probe_rtt(&mut self, c: &mut Connection, rs: &RateSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd(c);
            self.probe_rtt_done_ms = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round(c);
        }
        if self.state == State::ProbeRtt {
            c.is_app_limited = true;
            let low = self.probe_rtt_cwnd(c);
            if self.probe_rtt_done_ms.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(c);
                }
            } else if self.at_most(c.inflight, low) {
                self.probe_rtt_done_ms = Some(c.now_ms + 200.0);
                self.probe_rtt_round_done = false;
                self.start_round(c);
            }
        }
        if rs.delivered > 0.0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, c: &mut Connection) {
        if self.probe_rtt_done_ms.is_none_or(|done_ms| c.now_ms <= done_ms) {
            return;
        }
        self.probe_rtt_min_stamp_ms = c.now_ms;
        c.cwnd = c.cwnd.max(self.prior_cwnd);
        self.reset_short_term();
        self.state = State::Startup;
        if self.full_bw_reached {
            self.start_down(c);
            self.state = State::Cruise;
        }
    }

    /// Applies `HandleRestartFromIdle`.
    pub fn restart(&mut self, c: &mut Connection) {
        if !c.is_app_limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_start_s = c.now_s;
        if self.in_probe_bw() {
            self.set_pacing_rate(c, 1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(c);
        }
    }

    /// Applies 5.5.11.2.
    pub fn undo(&mut self, c: &mut Connection) {
        c.cwnd = c.cwnd.max(self.prior_cwnd);
        self.is_loss_in_round = false;
        self.reset_full_bw(0.0);
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        match self.undo_state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(c),
            _ => {}
        }
    }

    /// Applies 5.6.4.6 and 5.6.4.7.
    pub(super) fn set_cwnd(&mut self, c: &mut Connection, rs: &RateSample) {
        let most = self.quantization_budget(c, self.bdp(c, self.bw, self.gains().1) + self.most_extra());
        if self.full_bw_reached {
            c.cwnd = (c.cwnd + rs.newly_acked).min(most);
        } else if !self.at_most(most, c.cwnd) || c.delivered < self.initial_cwnd {
            c.cwnd += rs.newly_acked;
        }
        c.cwnd = c.cwnd.max(MIN_PIPE_CWND);
        let cap = match self.state {
            State::ProbeRtt => {
                c.cwnd = c.cwnd.min(self.probe_rtt_cwnd(c));
                self.with_headroom()
            }
            State::Cruise => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Startup | State::Drain => NONE,
        };
        c.cwnd = c.cwnd.min(cap.min(self.inflight_shortterm).max(MIN_PIPE_CWND));
    }
}
