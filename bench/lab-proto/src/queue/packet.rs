//! Packets in queues, and the parameters of queueing disciplines.

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
    pub(super) fn mark(&mut self) -> bool {
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

/// Packets in order of arrival.
#[derive(Debug)]
pub(super) struct Fifo<T> {
    pub(super) packets: VecDeque<Queued<T>>,
    pub(super) bytes: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Fifo<T> {
    pub(super) fn push(&mut self, packet: Queued<T>) {
        self.bytes += u64::from(packet.header.bytes);
        self.packets.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<Queued<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.header.bytes);
        Some(packet)
    }

    pub(super) fn oldest_ns(&self) -> Option<u64> {
        self.packets.front().map(|packet| packet.came_ns)
    }

    pub(super) fn drain(&mut self) -> Vec<Queued<T>> {
        self.bytes = 0;
        self.packets.drain(..).collect()
    }
}
