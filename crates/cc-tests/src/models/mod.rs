//! The algorithms in f64, written from the papers (crest: from its page), not from the BPF sources.

pub mod arwa;
pub mod bbr3;
pub mod crest;
pub mod crest_rounds;
pub mod dcm;
pub mod dcmplus;
pub mod dtcp;
pub mod dtcp_default;
pub mod fbtcp;
mod growth;
mod interval;
pub mod mdcubic;
mod named;
mod rate_ca;
pub mod reno;
pub mod watched;
mod westwood;
pub mod westwood_bpf;
pub mod westwoodp;

use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::{Flow, View};

/// A reference model: it gets each hook with the connection as the kernel has it, and makes the changes that the
/// algorithm must make.
///
/// Its own state (filters, factors, fractions of a segment) is real-valued and evolves independently through a whole
/// connection. If the algorithm's rounding decides between two branches, the model takes the algorithm's branch, and
/// counts this.
pub trait Model {
    /// Returns the tunables to set in the algorithm under test, by symbol name.
    fn tunables(&self) -> Vec<(&'static str, u32)>;
    /// Changes the tunables to the `choice`th alternative (modulo their number).
    fn retune(&mut self, choice: u64);
    /// `init`: resets everything but the tunables, the radio map and the path map.
    fn init(&mut self, sock: &mut View);
    /// `release`.
    fn release(&mut self, _: &mut View) {}
    /// `pkts_acked`: called once per ACK while data are in flight, even if the ACK acknowledges nothing.
    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>);
    /// `cong_avoid`.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32);
    /// `ssthresh`.
    fn ssthresh(&mut self, sock: &mut View) -> u32;
    /// `undo_cwnd`.
    fn undo_cwnd(&mut self, sock: &mut View) -> u32;
    /// `set_state`, called before the state changes.
    fn set_state(&mut self, sock: &mut View, state: u8);
    /// `cwnd_event`.
    fn cwnd_event(&mut self, sock: &mut View, event: u32);
    /// Sets the radio map's reading: a packed SINR word and its maximum age in ms.
    fn set_radio(&mut self, reading: Option<(u64, u32)>);
    /// Sets the peer's generation in the path map; 0: no entry.
    fn set_path(&mut self, _generation: u32) {}
    /// Sets the PEP's record in the flow's storage.
    fn set_pep(&mut self, _: Option<PepFlow>) {}
    /// Sets the SACK blocks of the last ACK, each a start and an end, in order of their starts.
    fn set_sack(&mut self, _blocks: &[(u32, u32)]) {}
    /// Sets the receiver's hint in the flow's storage; sequence 0: none yet.
    fn set_hint(&mut self, _time_ns: u64, _sequence: u32, _hint: u8) {}
    /// Compares the connection after a hook, and the algorithm's private state, with the model's.
    ///
    /// # Errors
    /// If they differ by more than fixed point explains; the message says how.
    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String>;
    /// Compares the result of `ssthresh()` with the model's.
    ///
    /// # Errors
    /// If they differ by more than fixed point explains; the message says how.
    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String>;
    /// Returns how often the limits of fixed point made a difference, by kind. This must be rare.
    fn rounding(&self) -> Vec<(&'static str, u64)>;
    /// Returns how often each branch was taken, so that tests can check their coverage.
    fn coverage(&self) -> Vec<(&'static str, u64)>;
}

/// 100 Gbit/s in bytes/s: faster samples are counted.
const FAST: f64 = 12.5e9;

/// Greatest relative error of a bandwidth after any number of events.
pub const BANDWIDTH_TOLERANCE: f64 = 1e-3;
/// Resolution of a stored bandwidth, bytes/s.
pub const Q8: f64 = 1.0 / 256.0;
/// Resolution of a bandwidth sample: whole bytes/s.
pub const SAMPLE: f64 = 1.0;

/// Returns whether `|a - b|` is within `relative` of `b` or within `absolute`.
#[must_use]
pub fn close(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    (a - b).abs() <= (relative * b.abs()).max(absolute)
}

/// Returns the `choice`th of some (modulo their number), if there are any.
fn chosen<T: Copy>(some: &[T], choice: u64) -> Option<T> {
    (!some.is_empty()).then(|| some[(choice % some.len() as u64) as usize])
}

/// `tcp_slow_start`: grows W to ssthresh at most, and returns the segments left for congestion avoidance.
pub fn slow_start(sock: &mut View, acked: u32) -> u32 {
    let target = (u64::from(sock.snd_cwnd) + u64::from(acked)).min(u64::from(sock.snd_ssthresh)) as u32;
    let left = acked - (target - sock.snd_cwnd);
    sock.snd_cwnd = target.min(sock.snd_cwnd_clamp);
    left
}

/// Returns the time between two timestamps in microseconds. The algorithms keep 32 bits of a timestamp, so an interval
/// counts modulo 2^32 us (71 minutes).
#[must_use]
pub fn elapsed_us(since: u64, now: u64) -> u64 {
    (now - since) % (1 << 32)
}

/// Returns W, its count and ssthresh as text.
#[must_use]
pub fn show(v: &View) -> String {
    format!("W {} + {}, ssthresh {}", v.snd_cwnd, v.snd_cwnd_cnt, v.snd_ssthresh)
}
