//! DualPI2 against an independent model, written from the pseudo-code of RFC 9332, appendix A, in floating point. No
//! stock kernel has DualPI2 to compare with.

use hotcc_lab_proto::queue::{Ecn, Header, Kind, Parameters, Queue, Queued};
use std::collections::VecDeque;

const PACKETS: usize = 100_000;
const BYTES: u32 = 1500;
const SERVICE_NS: u64 = 1_000_000;

/// The model's queues hold times of arrival, in seconds.
#[derive(Default)]
struct Model {
    low: VecDeque<f64>,
    classic: VecDeque<f64>,
    base: f64,
    before_s: f64,
    next_s: f64,
    share: f64,
    counts: [f64; 2],
    drops: u64,
    marks: u64,
}

impl Model {
    const TARGET_S: f64 = 0.015;
    const UPDATE_S: f64 = 0.016;
    const STEP_S: f64 = 0.001;
    const K: f64 = 2.0;

    /// `dualpi2_update`, whenever it is due.
    fn update(&mut self, now_s: f64) {
        while self.next_s + Self::UPDATE_S <= now_s {
            self.next_s += Self::UPDATE_S;
            let delay_s = |queue: &VecDeque<f64>| queue.front().map_or(0.0, |came_s| self.next_s - came_s);
            let delay_s = delay_s(&self.low).max(delay_s(&self.classic));
            self.base += 0.16 * (delay_s - Self::TARGET_S) + 3.2 * (delay_s - self.before_s);
            self.base = self.base.clamp(0.0, 1.0);
            self.before_s = delay_s;
        }
    }

    /// `recur`: signals at this rate without randomness.
    fn recurs(&mut self, queue: usize, likelihood: f64) -> bool {
        self.counts[queue] += likelihood;
        let signals = self.counts[queue] > 1.0;
        self.counts[queue] -= f64::from(u8::from(signals));
        signals
    }

    /// `dualpi2_dequeue`, with a weighted round-robin scheduler. Classic packets are not ECN-capable.
    fn dequeue(&mut self, now_s: f64) -> bool {
        self.update(now_s);
        loop {
            let both = !self.low.is_empty() && !self.classic.is_empty();
            if !self.low.is_empty() && (!both || self.share < 1.0) {
                let stayed_s = self.low.pop_front().map_or(0.0, |came_s| now_s - came_s);
                self.share += if both { 1.0 / 9.0 } else { 0.0 };
                let native = if stayed_s > Self::STEP_S { 1.0 } else { 0.0 };
                let likelihood = (Self::K * self.base).max(native).min(1.0);
                self.marks += u64::from(self.recurs(0, likelihood));
                return true;
            }
            if self.classic.pop_front().is_none() {
                return false;
            }
            if self.recurs(1, self.base * self.base) {
                self.drops += 1;
                continue;
            }
            self.share -= if both { 1.0 } else { 0.0 };
            return true;
        }
    }
}

/// Returns packets of which a third is L4S, at 1.04 times what the link carries.
fn arrivals() -> Vec<(u64, bool)> {
    let mut random = 1u64;
    let mut at_ns = 0;
    let mut next = |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at_ns += SERVICE_NS * 25 / 52 + (random >> 40) % (SERVICE_NS * 25 / 26);
        (at_ns, (random >> 33).is_multiple_of(3))
    };
    (0..PACKETS).map(&mut next).collect()
}

#[test]
fn drops_and_marks_are_those_of_the_rfcs_pseudo_code() {
    let arrivals = arrivals();
    let mut model = Model::default();
    let mut queue = Queue::new(u64::MAX, Some(Parameters::of_linux(Kind::Dualpi2, BYTES, 1)));
    let (mut drops, mut marks, mut dropped) = (0, 0, Vec::new());
    let [mut free_ns, mut model_free_ns] = [0, 0];
    for (at_ns, is_low) in arrivals {
        while free_ns < at_ns && !queue.is_empty() {
            let sent = queue.dequeue(free_ns, &mut dropped);
            drops += dropped.drain(..).count() as u64;
            marks += sent.as_ref().map_or(0, |packet| u64::from(packet.marked));
            free_ns += if sent.is_some() { SERVICE_NS } else { 0 };
        }
        while model_free_ns < at_ns && model.low.len() + model.classic.len() > 0 {
            let sent = model.dequeue(model_free_ns as f64 / 1e9);
            model_free_ns += if sent { SERVICE_NS } else { 0 };
        }
        free_ns = free_ns.max(at_ns);
        model_free_ns = model_free_ns.max(at_ns);
        model.update(at_ns as f64 / 1e9);
        if is_low { &mut model.low } else { &mut model.classic }.push_back(at_ns as f64 / 1e9);
        let header = Header { bytes: BYTES, ecn: if is_low { Ecn::Ect1 } else { Ecn::NotEct }, flow: 0 };
        queue.enqueue(at_ns, 0, Queued { came_ns: at_ns, header, marked: false, item: () }, &mut dropped);
    }
    println!("drops: {drops}, model {}; marks: {marks}, model {}", model.drops, model.marks);
    let near = |ours: u64, wanted: u64| ours.abs_diff(wanted) as f64 <= 0.02 * wanted as f64;
    assert!(model.drops > 2000 && model.marks > 5000);
    assert!(near(drops, model.drops), "{drops} drops, the model has {}", model.drops);
    assert!(near(marks, model.marks), "{marks} marks, the model has {}", model.marks);
}
