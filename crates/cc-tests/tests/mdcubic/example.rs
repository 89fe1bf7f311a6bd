//! A connection for the examples, and its events.

use crate::OPEN;
use hotcc_abi::pep::{PepFlow, PepRange};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, Flow, HostAlgo, INFINITE_SSTHRESH, View};

/// First sequence number of the examples; the sequence numbers wrap during an example.
const BASE: u32 = 0u32.wrapping_sub(10_000);

pub fn seq(offset: u32) -> u32 {
    BASE.wrapping_add(offset)
}

/// A connection under test. Sequence numbers are offsets from [`BASE`].
pub struct Example<'a> {
    algo: &'a HostAlgo,
    pub flow: Flow<'a>,
    pub view: View,
    updates: u32,
}

impl<'a> Example<'a> {
    /// Returns a connection at 10 s: W = 20 segments of 1000 bytes, all in flight, slow start, RTT 50 ms, which is the
    /// least.
    pub fn new(algo: &'a HostAlgo) -> Self {
        let view = View {
            now_us: 10_000_000,
            snd_cwnd: 20,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            srtt_us: 8 * 50_000,
            min_rtt_us: 50_000, // no queue anywhere
            mss: 1000,
            data_segs_out: 5000,
            is_cwnd_limited: 1,
            snd_una: seq(0),
            snd_nxt: seq(20_000),
            ..View::default()
        };
        algo.set_pep(None);
        let mut flow = Flow::new(algo);
        flow.set(&view);
        flow.init();
        assert_eq!(flow.get(&view), view); // a connection keeps its window
        Self { algo, flow, view, updates: 0 }
    }

    /// Writes a record as of now: the PEP saw all below `in_order`, and these ranges.
    pub fn pep(&mut self, in_order: u32, ranges: &[(u32, u32)]) {
        self.updates += 2;
        self.algo.set_pep(Some(self.record(in_order, ranges)));
    }

    pub fn record(&self, in_order: u32, ranges: &[(u32, u32)]) -> PepFlow {
        let mut record = PepFlow {
            updates: self.updates,
            in_order: seq(in_order),
            range_count: ranges.len() as u32,
            time_ns: self.view.now_us * 1000,
            ..PepFlow::default()
        };
        for (range, &(start, end)) in record.ranges.iter_mut().zip(ranges) {
            *range = PepRange { start: seq(start), end: seq(end) };
        }
        record
    }

    pub fn sack(&mut self, blocks: &[(u32, u32)]) {
        let blocks: Vec<_> = blocks.iter().map(|&(start, end)| (seq(start), seq(end))).collect();
        self.flow.set_sack(&blocks);
    }

    /// Receives an ACK up to `una`, and sends what the window then allows.
    pub fn ack(&mut self, una: u32) {
        self.view.snd_una = seq(una);
        self.flow.set(&self.view);
        self.flow.pkts_acked(0, None);
        self.view = self.flow.get(&self.view);
    }

    pub fn enter(&mut self, state: u32) {
        self.flow.set(&self.view);
        self.flow.set_state(state as u8);
        self.view = self.flow.get(&self.view);
        self.view.ca_state = state;
    }

    pub fn event(&mut self, event: u32) {
        self.flow.set(&self.view);
        self.flow.cwnd_event(event);
        self.view = self.flow.get(&self.view);
    }

    /// Calls `ssthresh()`, as the kernel does, and returns its result.
    pub fn reduce(&mut self) -> u32 {
        self.view.prior_cwnd = self.view.snd_cwnd;
        self.flow.set(&self.view);
        let answer = self.flow.ssthresh();
        assert_eq!(self.flow.get(&self.view), self.view);
        self.view.snd_ssthresh = answer;
        answer
    }

    /// `tcp_end_cwnd_reduction`.
    pub fn complete(&mut self) {
        self.view.snd_cwnd = self.view.snd_ssthresh;
        self.event(EVENT_COMPLETE_CWR);
        self.enter(OPEN);
    }

    pub fn private(&self, name: &str) -> u64 {
        self.flow.private(name)
    }

    pub fn window(&self) -> (u32, u64) {
        (self.view.snd_cwnd, self.private("d2_segments"))
    }
}
