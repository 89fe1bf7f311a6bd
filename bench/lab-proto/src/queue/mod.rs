//! Queueing disciplines: which packet a queue sends next, and which it drops or marks.
//!
//! The lab's thread that carries packets and the simulator use the same code. Its only randomness comes from a seed.

mod codel;
mod dualpi2;
mod fq_codel;

use codel::Codel;
use dualpi2::DualPi2;
use fq_codel::FqCodel;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The ECN field of an IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(1): the sender expects the marking of L4S.
    Ect1,
    /// ECT(0).
    Ect0,
    /// Marked on another link.
    Ce,
}

impl Ecn {
    /// Returns the value of the two lowest bits of IPv4's type of service, or IPv6's traffic class.
    #[must_use]
    pub fn of_bits(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// What a discipline needs to know about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Length of the IP packet.
    pub bytes: u32,
    /// ECN field.
    pub ecn: Ecn,
    /// Identifies the flow and the direction of the packet.
    pub flow: u32,
}

/// Returns the key of a flow and a direction.
#[must_use]
pub fn flow_key(flow: u16, towards_receiver: bool) -> u32 {
    u32::from(flow) << 1 | u32::from(towards_receiver)
}

/// A packet in a queue. `T` is a value that accompanies the packet.
#[derive(Debug)]
pub struct Queued<T> {
    /// Time of arrival.
    pub came_ns: u64,
    /// What the discipline needs to know.
    pub header: Header,
    /// Whether the discipline has marked it.
    pub marked: bool,
    /// The value.
    pub item: T,
}

impl<T> Queued<T> {
    /// Marks the packet, if it is ECN-capable. Returns whether it is.
    fn mark(&mut self) -> bool {
        self.marked |= self.header.ecn != Ecn::NotEct;
        self.header.ecn != Ecn::NotEct
    }
}

/// Names of the disciplines, apart from drop-tail.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// CoDel, RFC 8289.
    Codel,
    /// FQ-CoDel, RFC 8290.
    FqCodel,
    /// DualPI2, RFC 9332.
    Dualpi2,
}

/// A discipline with its parameters. Those that are not listed have the values of Linux.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Parameters {
    /// The discipline.
    pub kind: Kind,
    /// Delay that the discipline aims at.
    pub target_ns: u64,
    /// CoDel's interval; the period after which DualPI2 updates its probability.
    pub interval_ns: u64,
    /// Whether CoDel marks ECN-capable packets instead of dropping them. DualPI2 always does.
    pub ecn: bool,
    /// Largest packet: CoDel does not drop if less is queued; the quantum of FQ-CoDel; half of what DualPI2 leaves
    /// alone.
    pub mtu_bytes: u32,
    /// Seed of random numbers.
    pub seed: u64,
}

impl Parameters {
    /// Returns Linux's parameters of a discipline.
    #[must_use]
    pub fn of_linux(kind: Kind, mtu_bytes: u32, seed: u64) -> Self {
        let (target_ms, interval_ms) = if kind == Kind::Dualpi2 { (15, 16) } else { (5, 100) };
        let (target_ns, interval_ns) = (target_ms * 1_000_000, interval_ms * 1_000_000);
        Self { kind, target_ns, interval_ns, ecn: kind != Kind::Codel, mtu_bytes, seed }
    }
}

/// A queue.
#[derive(Debug)]
pub struct Queue<T> {
    discipline: Discipline<T>,
    limit_bytes: u64,
}

#[derive(Debug)]
enum Discipline<T> {
    DropTail(Fifo<T>),
    Codel(Fifo<T>, Codel),
    FqCodel(Box<FqCodel<T>>),
    DualPi2(Box<DualPi2<T>>),
}

impl<T> Queue<T> {
    /// Creates an empty queue; without `parameters`, it is drop-tail.
    #[must_use]
    pub fn new(limit_bytes: u64, parameters: Option<Parameters>) -> Self {
        let discipline = match parameters {
            None => Discipline::DropTail(Fifo::default()),
            Some(p) => match p.kind {
                Kind::Codel => Discipline::Codel(Fifo::default(), Codel::new(&p)),
                Kind::FqCodel => Discipline::FqCodel(Box::new(FqCodel::new(&p))),
                Kind::Dualpi2 => Discipline::DualPi2(Box::new(DualPi2::new(&p))),
            },
        };
        Self { discipline, limit_bytes }
    }

    /// Adds a packet. `ahead_bytes` have left the queue, but count towards its limit. Appends the packets that are
    /// dropped for lack of room to `dropped`.
    pub fn enqueue(&mut self, now_ns: u64, ahead_bytes: u64, packet: Queued<T>, dropped: &mut Vec<Queued<T>>) {
        let fits = self.bytes() + ahead_bytes + u64::from(packet.header.bytes) <= self.limit_bytes;
        match &mut self.discipline {
            Discipline::FqCodel(queue) => {
                queue.enqueue(packet);
                if !fits {
                    queue.shrink(self.limit_bytes.saturating_sub(ahead_bytes), dropped);
                }
            }
            _ if !fits => dropped.push(packet),
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.push(packet),
            Discipline::DualPi2(queue) => queue.enqueue(now_ns, packet),
        }
    }

    /// Takes the packet to send next. Appends the packets that the discipline drops to `dropped`.
    pub fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Queued<T>>) -> Option<Queued<T>> {
        match &mut self.discipline {
            Discipline::DropTail(queue) => queue.pop(),
            Discipline::Codel(queue, codel) => codel.dequeue(now_ns, queue, 0, dropped),
            Discipline::FqCodel(queue) => queue.dequeue(now_ns, dropped),
            Discipline::DualPi2(queue) => queue.dequeue(now_ns, dropped),
        }
    }

    /// Returns the bytes in the queue.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.bytes,
            Discipline::FqCodel(queue) => queue.bytes(),
            Discipline::DualPi2(queue) => queue.bytes(),
        }
    }

    /// Returns whether no packet waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Returns the time of arrival of the oldest packet.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        match &self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.oldest_ns(),
            Discipline::FqCodel(queue) => queue.oldest_ns(),
            Discipline::DualPi2(queue) => queue.oldest_ns(),
        }
    }

    /// Takes all packets, as they are.
    pub fn drain(&mut self) -> Vec<Queued<T>> {
        match &mut self.discipline {
            Discipline::DropTail(queue) | Discipline::Codel(queue, _) => queue.drain(),
            Discipline::FqCodel(queue) => queue.drain(),
            Discipline::DualPi2(queue) => queue.drain(),
        }
    }
}

/// Packets in order of arrival.
#[derive(Debug)]
struct Fifo<T> {
    packets: VecDeque<Queued<T>>,
    bytes: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Fifo<T> {
    fn push(&mut self, packet: Queued<T>) {
        self.bytes += u64::from(packet.header.bytes);
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Queued<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.header.bytes);
        Some(packet)
    }

    fn oldest_ns(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.came_ns)
    }

    fn drain(&mut self) -> Vec<Queued<T>> {
        self.bytes = 0;
        self.packets.drain(..).collect()
    }
}

/// Returns a number that depends on all bits of `number` (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod testing;
