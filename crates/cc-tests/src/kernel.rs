//! Acts as the kernel around an algorithm and its model: same connection, same events, and a comparison after each
//! hook.
//!
//! The order of calls and the kernel's own changes to W follow `net/ipv4/tcp_input.c`: `tcp_ack`, `tcp_enter_recovery`,
//! `tcp_enter_cwr`, `tcp_enter_loss`, `tcp_end_cwnd_reduction`, `tcp_undo_cwnd_reduction`; and `tcp_cwnd_restart`.

mod events;

pub use events::{Counts, Event};

use crate::models::{Model, show};
use crate::reports::{Stretch, aged_ns};
use bytemuck::Zeroable as _;
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::ca_state::{CWR, DISORDER, LOSS, OPEN, RECOVERY};
use hotcc_host_algo::{
    EVENT_COMPLETE_CWR, EVENT_CWND_RESTART, EVENT_LOSS, EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View,
};

/// The kernel's part of a connection.
pub struct Kernel<'a, M> {
    /// The connection as the kernel has it.
    pub sock: View,
    /// The model.
    pub model: M,
    /// Counts of what happened.
    pub counts: Counts,
    /// The algorithm under test; `None` if the model runs by itself.
    subject: Option<(&'a HostAlgo, Flow<'a>)>,
    pep_updates: u32,
    hint_sequence: u32,
    initial_cwnd: u32,
    prior_ssthresh: u32,
    undo_possible: bool,
    /// Whether the loss state is that of segments that were too large.
    is_oversized: bool,
}

impl<'a, M: Model> Kernel<'a, M> {
    /// Sets the model's tunables in the algorithm, removes all signals and calls `init` on both.
    ///
    /// # Errors
    /// If algorithm and model differ.
    pub fn start(algo: &'a HostAlgo, model: M, sock: View) -> Result<Self, String> {
        algo.set_radio(None);
        algo.set_path(0);
        algo.set_pep(None);
        algo.set_hint(0, 0, 0);
        Self::begin(Some((algo, Flow::new(algo))), model, sock)
    }

    /// As [`Kernel::start`], for the model by itself.
    ///
    /// # Errors
    /// If the model leaves the bounds that hold for any algorithm.
    pub fn alone(model: M, sock: View) -> Result<Self, String> {
        Self::begin(None, model, sock)
    }

    fn begin(subject: Option<(&'a HostAlgo, Flow<'a>)>, model: M, sock: View) -> Result<Self, String> {
        let mut kernel = Self {
            sock,
            model,
            counts: Counts::default(),
            subject,
            pep_updates: u32::MAX - 15, // even, and soon to wrap
            hint_sequence: 0,
            initial_cwnd: sock.snd_cwnd.min(10),
            prior_ssthresh: 0,
            undo_possible: false,
            is_oversized: false,
        };
        kernel.set_tunables();
        kernel.send();
        kernel.hook("init", |m, s| m.init(s), |f| f.init())?;
        Ok(kernel)
    }

    fn set_tunables(&self) {
        let Some((algo, _)) = &self.subject else { return };
        for (name, value) in self.model.tunables() {
            algo.set_tunable(name, value);
        }
    }

    /// Applies one event.
    ///
    /// # Errors
    /// If algorithm and model differ; the message says where and how.
    pub fn apply(&mut self, event: Event) -> Result<(), String> {
        let state = self.sock.ca_state as u8;
        match event {
            Event::Ack { after_us, acked, rtt_us } => self.ack(after_us, acked, rtt_us)?,
            Event::Duplicate { after_us } => {
                self.counts.duplicates += 1;
                self.advance(after_us);
                self.hook("pkts_acked", |m, s| m.pkts_acked(s, None), |f| f.pkts_acked(0, None))?;
            }
            Event::Lost(segments) if state >= RECOVERY => self.lose(segments),
            Event::CwndLimited(limited) => {
                self.sock.is_cwnd_limited = u32::from(limited);
                self.sock.max_packets_out = if limited { self.sock.snd_cwnd } else { self.sock.snd_cwnd / 3 };
            }
            Event::AppLimited(limited) => {
                self.sock.app_limited = if limited { self.sock.delivered.wrapping_add(1).max(1) } else { 0 };
            }
            Event::Mss(mss) => self.sock.mss = mss,
            Event::Disorder if state == OPEN => self.enter(DISORDER)?,
            Event::Open if state == DISORDER || state == LOSS => self.enter(OPEN)?,
            Event::Recovery if state <= CWR => self.recovery()?,
            Event::Cwr if state < CWR => self.cwr()?,
            Event::Complete if state == CWR || state == RECOVERY => self.complete(true)?,
            Event::Undo if self.undo_possible && state >= RECOVERY => self.undo()?,
            Event::Timeout { ssthresh } => self.timeout(ssthresh || state <= DISORDER || self.is_oversized)?,
            Event::Oversized if state < LOSS => self.resend_smaller()?,
            Event::Idle { for_us, restart } if state == OPEN => self.idle(for_us, restart)?,
            Event::Retune(choice) => {
                self.model.retune(choice);
                self.set_tunables();
            }
            Event::Return => self.come_back()?,
            Event::Radio { sinr_q8, average_q8, age_ms, max_age_ms } => {
                let time_ms = ((self.sock.now_us / 1000) as u32).wrapping_sub(age_ms as u32);
                let sinr = hotcc_abi::radio::PackedSinr { sinr_q8_db: sinr_q8, average_q8_db: average_q8, time_ms };
                self.radio(Some((sinr.pack(), max_age_ms)));
            }
            Event::RadioGone(entry) => self.radio(entry.then_some((0, 0))),
            Event::Path(generation) => {
                self.subject.iter().for_each(|(algo, _)| algo.set_path(generation));
                self.model.set_path(generation);
            }
            Event::Pep(report) => {
                self.pep_updates = self.pep_updates.wrapping_add(2).max(2);
                self.pep(Some(report.flow(&self.sock, self.pep_updates)));
            }
            Event::NoPep { storage } => self.pep(storage.then(PepFlow::zeroed)),
            Event::Sack(blocks) => self.sack(&blocks),
            Event::Hint { hint, age_ms, new } => self.hint(hint, age_ms, new),
            _ => {}
        }
        self.send();
        Ok(())
    }

    /// Sends as many segments as the window, or the application, allows, but never so many that sequence numbers become
    /// ambiguous.
    fn send(&mut self) {
        let s = &mut self.sock;
        let segments = if s.is_cwnd_limited != 0 { s.snd_cwnd } else { s.snd_cwnd / 3 };
        let bytes = (u64::from(segments) * u64::from(s.mss)).min(1 << 30) as u32;
        if s.snd_nxt.wrapping_sub(s.snd_una) < bytes {
            s.snd_nxt = s.snd_una.wrapping_add(bytes);
        }
    }

    fn radio(&mut self, reading: Option<(u64, u32)>) {
        if let Some((algo, _)) = &self.subject {
            algo.set_radio(reading);
        }
        self.model.set_radio(reading);
    }

    fn pep(&mut self, flow: Option<PepFlow>) {
        if let Some((algo, _)) = &self.subject {
            algo.set_pep(flow);
        }
        self.model.set_pep(flow);
    }

    /// Sets the SACK blocks, in order of their starts as in `recv_sack_cache`.
    fn sack(&mut self, blocks: &[Stretch]) {
        let places = blocks.iter().map(|(start, end)| (start.sequence(&self.sock), end.sequence(&self.sock)));
        let mut blocks: Vec<(u32, u32)> = places.filter(|(start, end)| start != end).collect();
        blocks.sort_by_key(|(start, _)| start.wrapping_sub(self.sock.snd_una).cast_signed());
        if let Some((_, flow)) = &mut self.subject {
            flow.set_sack(&blocks);
        }
        self.model.set_sack(&blocks);
    }

    fn hint(&mut self, hint: u8, age_ms: i32, new: bool) {
        if new {
            self.hint_sequence = match self.hint_sequence {
                0 => u32::MAX - 7, // soon to wrap
                u32::MAX => 1,
                sequence => sequence + 1,
            };
        }
        let time_ns = aged_ns(self.sock.now_us, age_ms);
        if let Some((algo, _)) = &self.subject {
            algo.set_hint(time_ns, self.hint_sequence, hint);
        }
        self.model.set_hint(time_ns, self.hint_sequence, hint);
    }

    fn advance(&mut self, by_us: u64) {
        let before = self.sock.now_us;
        self.sock.now_us += by_us;
        match by_us >> 31 {
            0 => {}
            1 => self.counts.long_gaps += 1,
            _ => self.counts.very_long_gaps += 1,
        }
        self.counts.clock_wraps += u64::from(before >> 32 != self.sock.now_us >> 32)
            + u64::from((before / 1000) >> 32 != (self.sock.now_us / 1000) >> 32);
    }

    /// `tcp_ack`: RTT and delivery first, then the hooks.
    fn ack(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>) -> Result<(), String> {
        self.counts.acks += 1;
        self.counts.small_windows += u64::from(self.sock.snd_cwnd <= 2);
        self.counts.large_windows += u64::from(self.sock.snd_cwnd >= 100_000);
        self.counts.zero_intervals += u64::from(after_us == 0);
        self.advance(after_us);
        let bytes = acked.saturating_mul(self.sock.mss).min(1 << 30);
        let s = &mut self.sock;
        self.counts.sequence_wraps += u64::from(s.snd_una.checked_add(bytes).is_none());
        s.snd_una = s.snd_una.wrapping_add(bytes);
        if s.snd_nxt.wrapping_sub(s.snd_una) > 1 << 31 {
            s.snd_nxt = s.snd_una;
        }
        self.counts.delivered_wraps += u64::from(s.delivered.checked_add(acked).is_none());
        s.delivered = s.delivered.wrapping_add(acked);
        s.bytes_acked += u64::from(acked) * u64::from(s.mss);
        self.counts.acked_bytes += u64::from(acked) * u64::from(s.mss);
        s.data_segs_out = s.data_segs_out.wrapping_add(acked);
        if let Some(rtt) = rtt_us {
            let first = s.srtt_us == 0;
            s.srtt_us = if first { rtt << 3 } else { (s.srtt_us - (s.srtt_us >> 3) + rtt).max(1) };
            // a windowed minimum: an algorithm must not take the connection's least RTT from it
            s.min_rtt_us = if first || s.delivered.is_multiple_of(97) { rtt } else { s.min_rtt_us.min(rtt) };
        }
        let flight = s.snd_nxt.wrapping_sub(s.snd_una) / s.mss;
        self.hook("pkts_acked", |m, s| m.pkts_acked(s, rtt_us), |f| f.pkts_acked(acked, rtt_us))?;
        if let Some(rtt) = rtt_us {
            // `tcp_rate_gen`, after the hook: the flight is delivered in one RTT
            (self.sock.rate_delivered, self.sock.rate_interval_us) = (flight.saturating_add(acked), rtt);
        }
        if matches!(self.sock.ca_state as u8, CWR | RECOVERY) {
            // proportional rate reduction, on the way to ssthresh
            let w = self.sock.snd_cwnd;
            self.sock.snd_cwnd = w.saturating_sub(acked.div_ceil(2)).max(self.sock.snd_ssthresh.min(w));
            return Ok(());
        }
        self.hook("cong_avoid", |m, s| m.cong_avoid(s, acked), |f| f.cong_avoid(acked))
    }

    /// `tcp_set_ca_state`: the hook still sees the old state.
    fn enter(&mut self, state: u8) -> Result<(), String> {
        self.hook("set_state", |m, s| m.set_state(s, state), |f| f.set_state(state))?;
        self.sock.ca_state = u32::from(state);
        self.is_oversized = false;
        if state == OPEN {
            self.sock.lost_out = 0;
        }
        Ok(())
    }

    fn event(&mut self, event: u32) -> Result<(), String> {
        self.hook("cwnd_event", |m, s| m.cwnd_event(s, event), |f| f.cwnd_event(event))
    }

    /// Stores `tcp_current_ssthresh`, the value that an undo restores.
    fn remember_ssthresh(&mut self) {
        let s = &self.sock;
        self.prior_ssthresh = match s.ca_state as u8 {
            CWR | RECOVERY => s.snd_ssthresh,
            _ => s.snd_ssthresh.max((s.snd_cwnd >> 1) + (s.snd_cwnd >> 2)),
        };
    }

    /// Asks the algorithm for the new ssthresh.
    fn reduce(&mut self) -> Result<(), String> {
        self.sock.prior_cwnd = self.sock.snd_cwnd;
        let (mut want, mut got) = (0, 0);
        self.hook("ssthresh", |m, s| want = m.ssthresh(s), |f| got = f.ssthresh())?;
        if self.subject.is_none() {
            got = want;
        }
        self.model.agree_on_ssthresh(want, got)?;
        if got < 2 {
            return Err(format!("ssthresh() is {got}, under 2"));
        }
        self.sock.snd_ssthresh = got;
        Ok(())
    }

    /// Marks segments as lost.
    fn lose(&mut self, segments: u32) {
        self.sock.lost = self.sock.lost.wrapping_add(segments);
        self.sock.lost_out = self.sock.lost_out.wrapping_add(segments);
    }

    fn recovery(&mut self) -> Result<(), String> {
        self.counts.recoveries += 1;
        self.lose(1 + self.sock.snd_cwnd / 8);
        if self.sock.ca_state as u8 != CWR {
            self.remember_ssthresh();
            self.sock.snd_cwnd_cnt = 0;
            self.reduce()?;
        }
        self.undo_possible = self.prior_ssthresh != 0;
        self.enter(RECOVERY)
    }

    fn cwr(&mut self) -> Result<(), String> {
        self.counts.marks += 1;
        self.prior_ssthresh = 0;
        self.undo_possible = false;
        self.sock.snd_cwnd_cnt = 0;
        self.reduce()?;
        self.enter(CWR)
    }

    /// `tcp_end_cwnd_reduction`; after an undo, W is kept.
    fn complete(&mut self, lower: bool) -> Result<(), String> {
        if lower && self.sock.snd_ssthresh < INFINITE_SSTHRESH {
            self.sock.snd_cwnd = self.sock.snd_ssthresh;
        }
        self.event(EVENT_COMPLETE_CWR)?;
        self.undo_possible = false;
        self.enter(OPEN)
    }

    fn undo(&mut self) -> Result<(), String> {
        self.counts.undos += 1;
        let (mut want, mut got) = (0, 0);
        self.hook("undo_cwnd", |m, s| want = m.undo_cwnd(s), |f| got = f.undo_cwnd())?;
        if self.subject.is_none() {
            got = want;
        }
        if want != got {
            return Err(format!("undo_cwnd() is {got}, the model's {want}"));
        }
        self.sock.snd_cwnd = got;
        self.sock.snd_ssthresh = self.sock.snd_ssthresh.max(self.prior_ssthresh);
        self.undo_possible = false;
        if self.sock.ca_state as u8 == LOSS { self.enter(OPEN) } else { self.complete(false) }
    }

    fn timeout(&mut self, ssthresh: bool) -> Result<(), String> {
        self.counts.timeouts += 1;
        self.lose(self.sock.snd_cwnd);
        if ssthresh {
            self.remember_ssthresh();
            self.reduce()?;
            self.event(EVENT_LOSS)?;
            self.undo_possible = true;
        }
        self.fly(0);
        self.sock.snd_cwnd = 1;
        self.sock.snd_cwnd_cnt = 0;
        self.enter(LOSS)
    }

    fn resend_smaller(&mut self) -> Result<(), String> {
        self.counts.oversized += 1;
        self.remember_ssthresh();
        self.sock.snd_ssthresh = self.prior_ssthresh;
        self.prior_ssthresh = 0;
        self.undo_possible = false;
        self.fly(self.sock.snd_cwnd);
        self.enter(LOSS)?;
        self.is_oversized = true;
        Ok(())
    }

    /// Sets the number of segments in flight.
    fn fly(&mut self, segments: u32) {
        self.sock.packets_out = self.sock.lost_out.wrapping_add(segments);
    }

    /// Calls `release`, then `init` over the state that it left.
    fn come_back(&mut self) -> Result<(), String> {
        self.counts.returns += 1;
        self.finish()?;
        self.hook("init", |m, s| m.init(s), |f| f.init())
    }

    /// Calls `release`.
    ///
    /// # Errors
    /// If algorithm and model differ.
    pub fn finish(&mut self) -> Result<(), String> {
        self.hook("release", |m, s| m.release(s), |f| f.release())
    }

    fn idle(&mut self, for_us: u64, restart: bool) -> Result<(), String> {
        self.counts.idles += 1;
        self.advance(for_us);
        if restart {
            self.event(EVENT_CWND_RESTART)?;
            self.remember_ssthresh();
            self.sock.snd_ssthresh = self.prior_ssthresh;
            let floor = self.initial_cwnd.min(self.sock.snd_cwnd);
            let halvings = for_us / u64::from(self.sock.srtt_us / 4).max(200_000);
            self.sock.snd_cwnd = (self.sock.snd_cwnd >> halvings.min(31)).max(floor);
        }
        self.event(EVENT_TX_START)
    }

    /// Calls a hook of both with the same view, compares the results, and continues with the algorithm's W and
    /// ssthresh; the model keeps the rest of its state.
    fn hook(
        &mut self,
        name: &str,
        model: impl FnOnce(&mut M, &mut View),
        host: impl FnOnce(&mut Flow<'a>),
    ) -> Result<(), String> {
        self.counts.hooks += 1;
        let mut want = self.sock;
        model(&mut self.model, &mut want);
        let got = match &mut self.subject {
            Some((_, flow)) => {
                flow.set(&self.sock);
                host(flow);
                flow.get(&self.sock)
            }
            None => want,
        };
        if got.snd_cwnd < 1 || got.snd_cwnd > got.snd_cwnd_clamp || got.snd_ssthresh < 2 {
            return Err(format!("{name}: out of bounds: {} (clamp {})", show(&got), got.snd_cwnd_clamp));
        }
        self.sock = got;
        match &self.subject {
            Some((_, flow)) => self.model.agree(&want, &got, flow).map_err(|e| format!("{name}: {e}")),
            None => Ok(()),
        }
    }
}
