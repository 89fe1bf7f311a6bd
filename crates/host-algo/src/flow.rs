//! A connection under an algorithm: its socket, and the algorithm's operations.

use crate::{HostAlgo, Learned, RateSample, Sock, View};
use std::ffi::c_void;
use std::ops::Deref;

/// One connection under an algorithm.
pub struct Flow<'a> {
    algo: Algo<'a>,
    sock: Sock,
}

enum Algo<'a> {
    Shared(&'a HostAlgo),
    Own(Box<HostAlgo>),
}

impl Deref for Algo<'_> {
    type Target = HostAlgo;

    fn deref(&self) -> &HostAlgo {
        match self {
            Self::Shared(algo) => algo,
            Self::Own(algo) => algo,
        }
    }
}

impl Flow<'static> {
    /// Creates a socket that owns its algorithm.
    #[must_use]
    pub fn with_own(algo: HostAlgo) -> Self {
        // SAFETY: takes nothing; gives a socket that is ours until `host_free`.
        let sock = unsafe { (algo.hooks.new)() };
        Self { algo: Algo::Own(Box::new(algo)), sock }
    }
}

impl<'a> Flow<'a> {
    /// Creates a socket on which no hook was called yet.
    #[must_use]
    pub fn new(algo: &'a HostAlgo) -> Self {
        // SAFETY: takes nothing; gives a socket that is ours until `host_free`.
        let sock = unsafe { (algo.hooks.new)() };
        Self { algo: Algo::Shared(algo), sock }
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algo(&self) -> &HostAlgo {
        &self.algo
    }

    /// Returns the socket, to call further functions of the library.
    #[must_use]
    pub fn socket(&self) -> *const c_void {
        self.sock
    }

    /// Sets the state of the connection that the algorithm sees.
    pub fn set(&mut self, view: &View) {
        // SAFETY: the socket is live; View has the layout of struct host_view.
        unsafe { (self.algo.hooks.set)(self.sock, view) }
    }

    /// Sets the SACK blocks of the last ACK, each from its first byte to the one after its last; at most four.
    pub fn set_sack(&mut self, blocks: &[(u32, u32)]) {
        assert!(blocks.len() <= 4, "an ACK has no room for more");
        let pairs: Vec<u32> = blocks.iter().flat_map(|&(start, end)| [start, end]).collect();
        // SAFETY: the socket is live; there are as many pairs as said.
        unsafe { (self.algo.hooks.sack)(self.sock, blocks.len() as u32, pairs.as_ptr()) }
    }

    /// Returns `before` with the fields that the algorithm may have changed: W, its count, ssthresh, the pacing rate,
    /// and `app_limited`.
    #[must_use]
    pub fn get(&self, before: &View) -> View {
        let mut view = *before;
        // SAFETY: the socket is live; View has the layout of struct host_view.
        unsafe { (self.algo.hooks.get)(self.sock, &mut view) }
        view
    }

    /// Returns a field of the private state by name (`outer.inner` if nested), zero-extended; panics on an unknown
    /// name.
    #[must_use]
    pub fn private(&self, name: &str) -> u64 {
        let Some(field) = self.algo.fields.get(name) else {
            panic!("no state field {name}; there are {:?}", self.algo.fields.keys());
        };
        let mut bytes = [0u8; 8];
        // SAFETY: the layout is that of the algorithm's state, which fits icsk_ca_priv; size is at most 8.
        unsafe {
            let from = (self.algo.hooks.private)(self.sock).add(field.offset);
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), field.size);
        }
        u64::from_le_bytes(bytes)
    }

    /// Calls `init`: the algorithm takes over the connection.
    pub fn init(&mut self) {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.init)(self.sock) }
    }

    /// Calls `release`: the connection ends or changes to another algorithm.
    pub fn release(&mut self) {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.release)(self.sock) }
    }

    /// Calls `release` as the kernel does when the connection moves, and returns what the algorithm hands over.
    pub fn leave(&mut self) -> Learned {
        self.moving(&Learned::default(), Self::release)
    }

    /// Calls `init` as the kernel does when the connection moves, and returns what was handed over, with `taken`.
    pub fn take_over(&mut self, from: &Learned) -> Learned {
        self.moving(from, Self::init)
    }

    fn moving(&mut self, from: &Learned, hook: fn(&mut Self)) -> Learned {
        let mut learned = Learned::default();
        // SAFETY: the socket is live; Learned has the layout of struct hotcc_learned_v1, and lives through the calls.
        unsafe { (self.algo.hooks.learned_begin)(self.sock, from) };
        hook(self);
        // SAFETY: as above.
        unsafe { (self.algo.hooks.learned_end)(&mut learned) };
        Learned { socket: 0, ..learned }
    }

    /// Calls `pkts_acked`: an ACK acknowledged `acked` segments, with or without an RTT sample in microseconds.
    pub fn pkts_acked(&mut self, acked: u32, rtt_us: Option<u32>) {
        let rtt = rtt_us.map_or(-1, |r| i32::try_from(r).unwrap_or(i32::MAX));
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.pkts_acked)(self.sock, acked, rtt, 0) }
    }

    /// Calls `cong_avoid`: W may grow for `acked` segments.
    pub fn cong_avoid(&mut self, acked: u32) {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.cong_avoid)(self.sock, 0, acked) }
    }

    /// Calls `cong_control` as kernels before 6.10 do: without the sequence number and the flags. Panics if the
    /// algorithm has none.
    pub fn cong_control(&mut self, sample: &RateSample) {
        assert!(self.algo.has_cong_control(), "no cong_control");
        // SAFETY: the socket is live; the sample lives through the call and has the layout of struct rate_sample.
        unsafe { (self.algo.hooks.cong_control)(self.sock, 0, -1, sample) }
    }

    /// Calls `ssthresh` and returns the new ssthresh, at the start of a reduction.
    #[must_use]
    pub fn ssthresh(&mut self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.ssthresh)(self.sock) }
    }

    /// Calls `undo_cwnd` and returns the window after a spurious reduction.
    #[must_use]
    pub fn undo_cwnd(&mut self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.undo_cwnd)(self.sock) }
    }

    /// Calls `set_state`: the connection enters a congestion state (`enum tcp_ca_state`).
    pub fn set_state(&mut self, state: u8) {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.set_state)(self.sock, state) }
    }

    /// Calls `cwnd_event` with one of the `EVENT_*`.
    pub fn cwnd_event(&mut self, event: u32) {
        // SAFETY: the socket is live.
        unsafe { (self.algo.hooks.cwnd_event)(self.sock, event) }
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        // SAFETY: the socket is ours and not used again.
        unsafe { (self.algo.hooks.free)(self.sock) }
    }
}
