//! The algorithms in f64, from the papers (crest: from its page); nothing here follows the BPF sources.

pub mod arwa;
pub mod bbr3;
pub mod crest;
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

/// A reference model: it sees each hook with the connection as the kernel shows it, and changes what the algorithm must.
///
/// Its own state (filters, factors, fractions of a segment) is real-valued and runs on its own through a whole
/// connection. Where the algorithm's rounding decided between two ways to go on, it goes the algorithm's, and counts.
pub trait Model {
    /// Tunables to set in the algorithm under test, by symbol name.
    fn tunables(&self) -> Vec<(&'static str, u32)>;
    /// Takes other tunables into force, the `choice`th (modulo how many there are) of those to choose from.
    fn retune(&mut self, choice: u64);
    /// `init`: forgets all but the tunables, the radio map and the path map.
    fn init(&mut self, sock: &mut View);
    /// `release`.
    fn release(&mut self, _: &mut View) {}
    /// `pkts_acked`: once for each ACK while data are in flight, also for one that acknowledges nothing.
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
    /// What the radio map holds from now on: a packed decision and its maximum age in ms.
    fn set_radio(&mut self, reading: Option<(u64, u32)>);
    /// What the path map holds for the peer from now on, 0: no entry.
    fn set_path(&mut self, _generation: u32) {}
    /// What the flow's storage holds of a PEP's reports from now on.
    fn set_pep(&mut self, _: Option<PepFlow>) {}
    /// The SACK blocks of the last ACK, each a start and an end, in order of their starts.
    fn set_sack(&mut self, _blocks: &[(u32, u32)]) {}
    /// What the flow's storage holds of a receiver's hints from now on; sequence 0: nothing yet.
    fn set_hint(&mut self, _time_ns: u64, _sequence: u32, _hint: u8) {}
    /// Compares what a hook made of the connection, and its private state, with the model's.
    ///
    /// # Errors
    /// They differ by more than fixed point explains; says how.
    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String>;
    /// Compares what `ssthresh()` returned with the model's.
    ///
    /// # Errors
    /// They differ by more than fixed point explains; says how.
    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String>;
    /// How often the limits of fixed point made a difference, by kind: must be rare.
    fn rounding(&self) -> Vec<(&'static str, u64)>;
    /// How often each branch was taken, for tests to check that they tested something.
    fn coverage(&self) -> Vec<(&'static str, u64)>;
}

/// 100 Gbit/s in bytes/s: samples beyond are counted.
const FAST: f64 = 12.5e9;

/// What a bandwidth may be off by after any number of events, relative.
pub const BANDWIDTH_TOLERANCE: f64 = 1e-3;
/// Resolution of a stored bandwidth, bytes/s.
pub const Q8: f64 = 1.0 / 256.0;
/// Resolution of a bandwidth sample: whole bytes/s.
pub const SAMPLE: f64 = 1.0;

/// `|a - b|` within `relative` of `b` or within `absolute`.
#[must_use]
pub fn close(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    (a - b).abs() <= (relative * b.abs()).max(absolute)
}

/// The `choice`th of some (modulo how many there are), if there are any.
fn chosen<T: Copy>(some: &[T], choice: u64) -> Option<T> {
    (!some.is_empty()).then(|| some[(choice % some.len() as u64) as usize])
}

/// `tcp_slow_start`: grows to ssthresh at most; gives back what is left for congestion avoidance.
pub fn slow_start(sock: &mut View, acked: u32) -> u32 {
    let target = (u64::from(sock.snd_cwnd) + u64::from(acked)).min(u64::from(sock.snd_ssthresh)) as u32;
    let left = acked - (target - sock.snd_cwnd);
    sock.snd_cwnd = target.min(sock.snd_cwnd_clamp);
    left
}

/// Time passed between two stamps in microseconds. The algorithms keep 32 bits of a stamp: an interval of 2^32 us (71
/// minutes) and more counts by what exceeds a multiple of that, and all intervals below in full.
#[must_use]
pub fn elapsed_us(since: u64, now: u64) -> u64 {
    (now - since) % (1 << 32)
}

/// W, its count and ssthresh as text.
#[must_use]
pub fn show(v: &View) -> String {
    format!("W {} + {}, ssthresh {}", v.snd_cwnd, v.snd_cwnd_cnt, v.snd_ssthresh)
}
