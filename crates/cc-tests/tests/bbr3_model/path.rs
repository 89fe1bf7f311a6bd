//! A simulated path, packet by packet: a queue of changing rate that keeps the order, random losses, ACKs in bundles.

use hotcc_cc_tests::random::Random;
use std::collections::VecDeque;

pub const MSS: u32 = 1448;

/// Segments; it is limited because each ACK visits all segments in flight.
const MAX_BDP: f64 = 1000.0;

/// A segment in flight, with the draft's per-packet state.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub sent_us: u64,
    pub first_sent_us: u64,
    pub delivered: u32,
    pub delivered_us: u64,
    pub lost: u32,
    pub tx_in_flight: u32,
    pub is_app_limited: bool,
    /// When its ACK arrives; `None`: it does not reach the receiver.
    pub acked_us: Option<u64>,
    /// Segments sent later that were acknowledged before it.
    pub passed: u32,
}

/// The path, with randomly drawn properties.
#[derive(Debug)]
pub struct Path {
    segments_per_s: f64,
    most_per_s: f64,
    pub base_us: u64,
    queue: f64,
    loss: f64,
    bundle: u64,
    free_us: f64,
    changes_us: u64,
}

impl Path {
    pub fn draw(random: &mut Random) -> Self {
        let base_us = random.scale(300.0, 200_000.0);
        let most_per_s = f64::min(200_000.0, MAX_BDP * 1e6 / base_us);
        Self {
            segments_per_s: random.scale(100.0, most_per_s),
            most_per_s,
            base_us: base_us as u64,
            queue: random.scale(0.1, 4.0),
            loss: if random.once_in(2) { 0.0 } else { random.scale(0.0005, 0.05) },
            bundle: if random.once_in(3) { random.between(1, 60_000) } else { 1 },
            free_us: 0.0,
            changes_us: 0,
        }
    }

    /// Returns when the ACK of a segment that is sent now arrives; `None` if the segment is lost.
    pub fn forward(&mut self, random: &mut Random, now_us: u64) -> Option<u64> {
        if now_us > self.changes_us {
            self.changes_us = now_us + random.between(200_000, 8_000_000);
            self.segments_per_s = (self.segments_per_s * random.scale(0.5, 2.0)).clamp(100.0, self.most_per_s);
            if random.once_in(6) {
                self.base_us = (self.base_us as f64 * random.scale(0.7, 1.5)) as u64 + 1;
            }
        }
        let start_us = self.free_us.max(now_us as f64);
        let room_us = self.queue * self.base_us as f64 + 4e6 / self.segments_per_s;
        if start_us - now_us as f64 > room_us || random.unit() < self.loss {
            return None;
        }
        self.free_us = start_us + 1e6 / self.segments_per_s;
        let acked_us = self.free_us as u64 + self.base_us;
        Some(acked_us.next_multiple_of(self.bundle))
    }
}

/// The segments in flight, as the sender knows them.
#[derive(Debug, Default)]
pub struct Flight {
    pub packets: VecDeque<Packet>,
    first_sent_us: u64,
    delivered_us: u64,
}

/// The effects of an ACK.
#[derive(Debug)]
pub struct Acked {
    /// The segment sent last among those acknowledged.
    pub newest: Packet,
    pub count: u32,
    pub lost: u32,
    pub interval_us: u64,
}

impl Flight {
    pub fn next_ack_us(&self) -> Option<u64> {
        self.packets.iter().find_map(|packet| packet.acked_us)
    }

    pub fn send(&mut self, now_us: u64, acked_us: Option<u64>, counts: (u32, u32, bool)) {
        if self.packets.is_empty() {
            (self.first_sent_us, self.delivered_us) = (now_us, now_us);
        }
        let (delivered, lost, is_app_limited) = counts;
        self.packets.push_back(Packet {
            sent_us: now_us,
            first_sent_us: self.first_sent_us,
            delivered,
            delivered_us: self.delivered_us,
            lost,
            tx_in_flight: self.packets.len() as u32 + 1,
            is_app_limited,
            acked_us,
            passed: 0,
        });
    }

    /// Removes the segments whose ACKs have arrived by now, and as lost those that are three segments behind.
    pub fn acknowledge(&mut self, now_us: u64) -> Acked {
        let has_come = |packet: &Packet| packet.acked_us.is_some_and(|acked_us| acked_us <= now_us);
        let newest = *self.packets.iter().rfind(|packet| has_come(packet)).unwrap();
        let (mut count, mut after) = (0, 0);
        for packet in self.packets.iter_mut().rev() {
            packet.passed += after;
            after += u32::from(has_come(packet));
        }
        count += after;
        self.packets.retain(|packet| !has_come(packet));
        let before = self.packets.len();
        self.packets.retain(|packet| packet.passed < 3);
        let send_us = newest.sent_us - newest.first_sent_us;
        let interval_us = send_us.max(now_us - newest.delivered_us);
        (self.first_sent_us, self.delivered_us) = (newest.sent_us, now_us);
        Acked { newest, count, lost: (before - self.packets.len()) as u32, interval_us }
    }
}
