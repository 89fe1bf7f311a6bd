//! A bulk transfer over one bottleneck with a drop-tail buffer and random losses, in virtual time.

use hotcc_cc_tests::models::Model;
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::{EVENT_COMPLETE_CWR, INFINITE_SSTHRESH, View};
use std::collections::VecDeque;

const MSS: u32 = 1000;
const OPEN: u32 = 0;
const RECOVERY: u32 = 3;
/// Segments that may overtake one before it counts as lost.
const REORDERING: u64 = 3;

/// The path.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// Segments per second.
    pub rate: f64,
    /// RTT without a queue, microseconds.
    pub base_us: u32,
    /// Largest queue, segments.
    pub buffer: f64,
    /// Part of the segments that is lost at random.
    pub loss: f64,
}

/// Results of the transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Part of the bottleneck's rate that was used in the second half.
    pub utilisation: f64,
    /// Mean RTT over the least one, over the second half.
    pub stretch: f64,
    /// Time until slow start ended, s.
    pub slow_start_s: Option<f64>,
    pub recoveries: u64,
    /// Part of the transmissions that was lost.
    pub lost: f64,
    /// W at the end, segments.
    pub window: u32,
    /// Segments.
    pub ssthresh: u32,
}

/// A transmission in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    segment: u64,
    order: u64,
    at_s: f64,
    /// When its acknowledgment arrives; `None`: never.
    back_s: Option<f64>,
}

struct Transfer<M> {
    model: M,
    view: View,
    path: Bottleneck,
    random: Random,
    now_s: f64,
    /// When the bottleneck will have sent its queue.
    busy_until_s: f64,
    under_way: VecDeque<Sent>,
    order: u64,
    /// First segment not acknowledged; `arrived` says which segments from it on arrived.
    first: u64,
    arrived: VecDeque<bool>,
    /// First segment never sent at the start of the recovery.
    recovery_point: u64,
    recoveries: u64,
}

impl<M: Model> Transfer<M> {
    fn next_segment(&self) -> u64 {
        self.first + self.arrived.len() as u64
    }

    fn transmit(&mut self, segment: u64) {
        let half_s = f64::from(self.path.base_us) / 2e6;
        let service_s = 1.0 / self.path.rate;
        let waiting = ((self.busy_until_s - self.now_s) / service_s).max(0.0);
        let dropped = waiting > self.path.buffer || self.random.unit() < self.path.loss;
        if waiting <= self.path.buffer {
            self.busy_until_s = self.busy_until_s.max(self.now_s) + service_s;
        }
        let back_s = (!dropped).then_some(self.busy_until_s + 2.0 * half_s);
        self.under_way.push_back(Sent { segment, order: self.order, at_s: self.now_s, back_s });
        self.order += 1;
    }

    fn send(&mut self) {
        while self.under_way.len() < self.view.snd_cwnd as usize {
            self.transmit(self.next_segment());
            self.arrived.push_back(false);
            self.view.data_segs_out += 1;
        }
        self.view.snd_nxt = (self.next_segment() as u32).wrapping_mul(MSS);
    }

    /// Does for one segment what `tcp_ack` does.
    fn acknowledge(&mut self, sent: Sent) {
        self.view.now_us = (self.now_s * 1e6) as u64;
        self.view.delivered += 1;
        if sent.segment >= self.first {
            self.arrived[(sent.segment - self.first) as usize] = true;
        }
        while self.arrived.front() == Some(&true) {
            self.arrived.pop_front();
            self.first += 1;
        }
        self.view.snd_una = (self.first as u32).wrapping_mul(MSS);
        // segments overtaken by three are lost, and sent again
        let mut lost = Vec::new();
        while let Some(oldest) = self.under_way.pop_front_if(|s| s.order + REORDERING < sent.order) {
            lost.push(oldest);
        }
        self.view.lost += lost.len() as u32;
        let rtt_us = ((self.now_s - sent.at_s) * 1e6) as u32;
        self.model.pkts_acked(&mut self.view, Some(rtt_us));
        if !lost.is_empty() && self.view.ca_state == OPEN {
            self.recoveries += 1;
            self.recovery_point = self.next_segment();
            self.view.prior_cwnd = self.view.snd_cwnd;
            self.view.snd_ssthresh = self.model.ssthresh(&mut self.view);
            self.enter(RECOVERY);
        } else if self.view.ca_state == RECOVERY && self.first >= self.recovery_point {
            self.view.snd_cwnd = self.view.snd_ssthresh.min(self.view.snd_cwnd);
            self.model.cwnd_event(&mut self.view, EVENT_COMPLETE_CWR);
            self.enter(OPEN);
        }
        if self.view.ca_state == OPEN {
            self.model.cong_avoid(&mut self.view, 1);
        } else {
            self.view.snd_cwnd = self.view.snd_cwnd.min(self.view.snd_ssthresh);
        }
        for again in lost {
            self.transmit(again.segment);
            self.view.total_retrans += 1;
        }
    }

    fn enter(&mut self, state: u32) {
        self.model.set_state(&mut self.view, state as u8);
        self.view.ca_state = state;
    }
}

/// Runs a transfer of so many seconds.
pub fn run<M: Model>(model: M, path: Bottleneck, seconds: f64) -> Report {
    let view = View {
        snd_cwnd: 10,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: INFINITE_SSTHRESH,
        mss: MSS,
        is_cwnd_limited: 1,
        max_packets_out: 10,
        ..View::default()
    };
    let mut transfer = Transfer {
        model,
        view,
        path,
        random: Random::new(1),
        now_s: 1.0,
        busy_until_s: 0.0,
        under_way: VecDeque::new(),
        order: 0,
        first: 0,
        arrived: VecDeque::new(),
        recovery_point: 0,
        recoveries: 0,
    };
    transfer.view.now_us = 1_000_000;
    transfer.model.init(&mut transfer.view);
    let (start_s, end_s) = (transfer.now_s, transfer.now_s + seconds);
    let (mut slow_start_s, mut rtts_s, mut samples) = (None, 0.0, 0.0);
    transfer.send();
    // dropped segments at the front are found lost when later ones overtake them
    while let Some(at) = transfer.under_way.iter().position(|s| s.back_s.is_some()) {
        let Some(sent) = transfer.under_way.remove(at) else { break };
        let Some(back_s) = sent.back_s.filter(|&s| s < end_s) else { break };
        transfer.now_s = back_s;
        if back_s > start_s + seconds / 2.0 {
            samples += 1.0;
            rtts_s += back_s - sent.at_s;
        }
        transfer.acknowledge(sent);
        if slow_start_s.is_none() && !transfer.view.in_slow_start() {
            slow_start_s = Some(back_s - start_s);
        }
        transfer.send();
    }
    Report {
        utilisation: samples / (seconds / 2.0) / path.rate,
        stretch: rtts_s / samples / (f64::from(path.base_us) / 1e6),
        slow_start_s,
        recoveries: transfer.recoveries,
        lost: f64::from(transfer.view.lost) / transfer.order as f64,
        window: transfer.view.snd_cwnd,
        ssthresh: transfer.view.snd_ssthresh,
    }
}
