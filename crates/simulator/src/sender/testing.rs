//! A connection in a known state, for the tests of the sender's parts.

use super::state::{Config, Sender};
use crate::packet::Ack;
use crate::reno::Reno;
use hotcc_lab_proto::plan::PlannedFlow;
use std::net::Ipv4Addr;
use std::ops::Range;

/// Bytes of a segment.
pub const MSS: u64 = 1000;
/// A millisecond.
pub const MS: u64 = 1_000_000;
/// Time at which the connection is established and sends its first segments, in ms.
pub const START_MS: u64 = 1000;

/// Single segments, without pacing and without a limit by the receiver.
pub const CONFIG: Config =
    Config { flow: 0, mss: MSS as u32, offload_segments: 1, paced: false, ecn: false, window_bytes: u64::MAX >> 1 };

/// Returns a sender under Reno with an RTT of 100 ms that has just sent `in_flight` segments. The first ten of them
/// fill the first window.
pub fn sender(in_flight: u32, segments: Option<u64>) -> Sender {
    sender_with(CONFIG, in_flight, segments)
}

/// Returns such a sender with this configuration.
pub fn sender_with(config: Config, in_flight: u32, segments: Option<u64>) -> Sender {
    let flow = PlannedFlow {
        name: "reno".to_owned(),
        from: 0,
        to: 1,
        address: Ipv4Addr::LOCALHOST,
        cc: None,
        watch: None,
        start_ns: 0,
        stop_ns: u64::MAX,
        bytes: segments.map(|segments| segments * MSS),
        pace: None,
        paced: false,
        way: Vec::new(),
    };
    let mut sender = Sender::new(config, &flow, Box::new(Reno), None);
    sender.connected(START_MS * MS, 100_000);
    sender.sock.snd_cwnd = in_flight.max(sender.sock.snd_cwnd);
    sender.push();
    assert_eq!(sender.sock.packets_out, in_flight);
    sender
}

/// Returns an ACK of all segments before `in_order` and of those in `sacked`, with this echoed timestamp.
pub fn ack(in_order: u64, sacked: Range<u64>, echo_ms: u64) -> Ack {
    Ack {
        cumulative: in_order * MSS,
        sack: [(sacked.start * MSS, sacked.end * MSS), (0, 0), (0, 0)],
        blocks: u8::from(!sacked.is_empty()),
        echo_ms: echo_ms as u32,
        window_end: u64::MAX >> 1,
        ..Ack::default()
    }
}
