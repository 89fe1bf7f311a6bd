//! The sending half of Linux's TCP (6.12), in whole segments. The comment of a function that follows one of the
//! kernel's gives that function's name.

mod ack;
mod application;
mod output;
mod pep;
mod rack;
mod rate;
mod recovery;
mod rtt;
mod scoreboard;
mod state;
#[cfg(test)]
mod testing;
mod timers;

use crate::clock::JIFFY_NS;
use crate::congestion::{CongestionControl, INFINITE_SSTHRESH, Sock};
use crate::packet::Content;
use bytemuck::Zeroable;
use hotcc_lab_proto::plan::PlannedFlow;
use hotcc_lab_proto::records::AckRecord;
use output::INITIAL_WINDOW;
pub(crate) use rtt::RTO_MIN_US;
use rtt::Rtt;
use scoreboard::Scoreboard;
use state::{Application, Rack, Recovery, Sample, Timers};
pub(crate) use state::{Config, Flight, Sender};

impl Sender {
    /// Creates a sender that has not opened its connection yet. `watched` is a field of the congestion control's state
    /// to record.
    pub fn new(config: Config, flow: &PlannedFlow, cc: Box<dyn CongestionControl>, watched: Option<String>) -> Self {
        Self {
            config,
            sock: Sock {
                snd_cwnd: INITIAL_WINDOW,
                snd_ssthresh: INFINITE_SSTHRESH,
                snd_cwnd_clamp: u32::MAX,
                mss: config.mss,
                pacing_rate: u64::MAX,
                needs_pacing: config.paced,
                ..Sock::default()
            },
            cc,
            board: Scoreboard::default(),
            rack: Rack::default(),
            rtt: Rtt::default(),
            recovery: Recovery::default(),
            timers: Timers::default(),
            sample: Sample::default(),
            application: Application::of(flow),
            una: 0,
            next: 0,
            written: 0,
            window_end: config.window_bytes,
            delivered_ece: 0,
            small_end: 0,
            echo_ms: None,
            first_sent_ns: 0,
            usage_end: 0,
            cwnd_used: 0,
            cwnd_stamp_ns: 0,
            duplicates: 0,
            must_send_cwr: false,
            is_connected: false,
            watched,
            out: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Establishes the connection when the answer to the SYN arrives, after `rtt_us`. The congestion control is chosen
    /// now.
    pub fn connected(&mut self, now_ns: u64, rtt_us: u32) {
        self.sock.now_ns = now_ns;
        self.is_connected = true;
        self.sock.delivered = 1; // the SYN counts
        self.sock.delivered_ns = now_ns;
        self.first_sent_ns = now_ns;
        self.cwnd_stamp_ns = now_ns;
        self.take_rtt(rtt_us, rtt_us, false);
        self.update_pacing_rate();
        self.share_sequence();
        self.out.push(Content::Empty);
        self.cc.init(&mut self.sock);
        self.begin_writing();
        self.share_sequence();
    }

    /// Replaces the connection's congestion control.
    pub fn replace(&mut self, now_ns: u64, cc: Box<dyn CongestionControl>) {
        self.sock.now_ns = now_ns;
        self.cc = cc;
        if self.is_connected {
            self.recovery.prior_ssthresh = 0;
            self.cc.init(&mut self.sock);
        }
    }

    /// Returns the congestion control.
    pub fn congestion_control(&mut self) -> &mut dyn CongestionControl {
        &mut *self.cc
    }

    /// Returns whether the connection was opened.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns when a timer or the application is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.timers.next_ns().into_iter().chain(self.next_write_ns()).min()
    }

    /// Returns the number of retransmissions and the number of timeouts.
    pub fn repeats(&self) -> (u64, u64) {
        (self.sock.total_retrans.into(), self.timers.timeouts)
    }

    /// Returns the number of segments that were acknowledged with ECE.
    pub fn ece_segments(&self) -> u64 {
        self.delivered_ece
    }

    /// `tcp_update_pacing_rate`: sets the rate to twice the window per RTT in slow start, and 1.2 times later.
    fn update_pacing_rate(&mut self) {
        let sock = &mut self.sock;
        let percent = if sock.snd_cwnd < sock.snd_ssthresh / 2 { 200 } else { 120 };
        let rate = u64::from(sock.mss) * 80_000 * percent * u64::from(sock.snd_cwnd.max(sock.packets_out));
        sock.pacing_rate = if sock.srtt_us > 0 { rate / u64::from(sock.srtt_us) } else { rate };
    }

    /// `tcp_highest_sack_seq`.
    fn highest_sack(&self) -> u64 {
        if self.sock.sacked_out == 0 { self.una } else { self.board.highest_sack.max(self.una) }
    }

    /// Shows the congestion control the sequence numbers in 32 bits, as in the packet.
    fn share_sequence(&mut self) {
        self.sock.snd_una = self.una as u32;
        self.sock.snd_nxt = self.next as u32;
        self.check_space();
    }

    /// Records the current state of the connection.
    fn record(&mut self, is_retransmission: bool) {
        let sock = &self.sock;
        let detail = self.watched.as_ref().map_or(0, |name| self.cc.detail(name));
        let mut record = AckRecord::zeroed();
        record.time_ns = sock.now_ns;
        record.bytes_acked = self.una;
        record.cwnd = sock.snd_cwnd;
        record.ssthresh = sock.snd_ssthresh;
        record.in_flight = sock.in_flight();
        record.retransmits = sock.total_retrans;
        record.srtt_us = sock.srtt_us >> 3;
        record.rtt_us = self.rack.rtt_us;
        record.min_rtt_us = sock.min_rtt_us;
        record.rto_ms = (self.rtt.rto_ticks * JIFFY_NS / 1_000_000).min(u16::MAX.into()) as u16;
        record.detail = detail;
        record.flow = self.config.flow;
        record.timeouts = self.timers.timeouts as u16;
        record.ca_state = sock.ca_state as u8;
        record.is_retransmission = is_retransmission.into();
        self.records.push(record);
    }
}
