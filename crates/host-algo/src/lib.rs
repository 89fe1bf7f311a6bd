//! hotcc's congestion controls, compiled for the host and embedded, to be driven one hook at a time.
//!
//! [`HostAlgo`] is one algorithm with tunables, clock, radio and path of its own; [`Flow`] is one connection under it.
//! Tests compare algorithms with models, and the simulator runs them.

use crate::library::{open_copy, symbol};
use hotcc_abi::pep::PepFlow;
use libbpf_rs::btf::types::{Composite, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use libloading::Library;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;

pub mod library;

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The states of congestion control (`enum tcp_ca_state`).
pub mod ca_state {
    /// `TCP_CA_Open`.
    pub const OPEN: u8 = 0;
    /// `TCP_CA_Disorder`: the highest state in which W is free to grow.
    pub const DISORDER: u8 = 1;
    /// `TCP_CA_CWR`.
    pub const CWR: u8 = 2;
    /// `TCP_CA_Recovery`.
    pub const RECOVERY: u8 = 3;
    /// `TCP_CA_Loss`.
    pub const LOSS: u8 = 4;
}

/// `CA_EVENT_TX_START`: first transmission when nothing was in flight.
pub const EVENT_TX_START: u32 = 0;
/// `CA_EVENT_CWND_RESTART`: congestion window restart.
pub const EVENT_CWND_RESTART: u32 = 1;
/// `CA_EVENT_COMPLETE_CWR`: end of a recovery or reduction.
pub const EVENT_COMPLETE_CWR: u32 = 2;
/// `CA_EVENT_LOSS`: retransmission timeout.
pub const EVENT_LOSS: u32 = 3;

/// `TCP_INFINITE_SSTHRESH`: ssthresh of a new connection.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The part of the kernel's state that an algorithm sees: `struct host_view` of `host/harness.c`, with the field names
/// of `tcp_sock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `tcp_mstamp`, microseconds.
    pub now_us: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Pacing rate, bytes/s.
    pub pacing_rate: u64,
    /// Window W, segments.
    pub snd_cwnd: u32,
    /// Segments counted towards the next increase by `tcp_cong_avoid_ai`.
    pub snd_cwnd_cnt: u32,
    /// Upper limit of W, segments.
    pub snd_cwnd_clamp: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// W at the start of the recovery, segments.
    pub prior_cwnd: u32,
    /// 8 x smoothed RTT, microseconds.
    pub srtt_us: u32,
    /// The kernel's windowed minimum RTT, microseconds.
    pub min_rtt_us: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// Segments delivered, modulo 2^32.
    pub delivered: u32,
    /// 0, or the value of `delivered` at which the application limitation ends.
    pub app_limited: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Most segments in flight over the last round.
    pub max_packets_out: u32,
    /// `enum tcp_ca_state`.
    pub ca_state: u32,
    /// Whether W held the sender back.
    pub is_cwnd_limited: u32,
    /// First sequence number not acknowledged.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// Segments ever marked as lost.
    pub lost: u32,
    /// Segments of the last delivery rate sample.
    pub rate_delivered: u32,
    /// Time of the last delivery rate sample, microseconds.
    pub rate_interval_us: u32,
    /// Segments sent and not acknowledged in order.
    pub packets_out: u32,
    /// Those of `packets_out` that SACK covers.
    pub sacked_out: u32,
    /// Those of `packets_out` that are considered lost.
    pub lost_out: u32,
    /// Those of `packets_out` that were retransmitted.
    pub retrans_out: u32,
    /// Whether the peer sends SACK blocks: not 0.
    pub sack_ok: u32,
}

impl View {
    /// `tcp_in_slow_start`.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Whether neither a reduction nor a timeout is in progress, so that W is free to grow.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        self.ca_state <= u32::from(ca_state::DISORDER)
    }

    /// `tcp_is_cwnd_limited`: W may grow only if it held the sender back.
    #[must_use]
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited != 0
            || self.in_slow_start() && u64::from(self.snd_cwnd) < 2 * u64::from(self.max_packets_out)
    }
}

/// `struct rate_sample`, as in `hotcc/kernel.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Start of the sample's interval, microseconds.
    pub prior_mstamp: u64,
    /// `delivered` at the interval's start.
    pub prior_delivered: u32,
    /// Segments delivered over the interval; negative: no sample.
    pub delivered: i32,
    /// Length of the interval, microseconds; negative: no sample.
    pub interval_us: i64,
    /// RTT of the last segment that this ACK acknowledged; negative: none.
    pub rtt_us: i64,
    /// Segments newly acknowledged or covered by SACK.
    pub acked_sacked: u32,
    /// Whether the application had too little to send at the interval's start.
    pub is_app_limited: bool,
    /// Whether the sample is from a retransmitted segment.
    pub is_retrans: bool,
}

/// A function of the kernel's CUBIC, for which the host build has a stand-in.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Cubic {
    /// `cubictcp_init`.
    Init,
    /// `cubictcp_recalc_ssthresh`.
    RecalcSsthresh,
    /// `cubictcp_cong_avoid`.
    CongAvoid,
    /// `cubictcp_state`.
    State,
    /// `cubictcp_acked`.
    Acked,
    /// `cubictcp_cwnd_event`.
    Event,
}

type Sock = *mut c_void;

/// The harness's functions; valid as long as the library they come from.
struct Hooks {
    new: unsafe extern "C" fn() -> Sock,
    free: unsafe extern "C" fn(Sock),
    set: unsafe extern "C" fn(Sock, *const View),
    get: unsafe extern "C" fn(Sock, *mut View),
    private: unsafe extern "C" fn(Sock) -> *const u8,
    stats: unsafe extern "C" fn() -> *const u64,
    init: unsafe extern "C" fn(Sock),
    release: unsafe extern "C" fn(Sock),
    pkts_acked: unsafe extern "C" fn(Sock, u32, i32, u32),
    cong_avoid: unsafe extern "C" fn(Sock, u32, u32),
    has_cong_control: unsafe extern "C" fn() -> bool,
    cong_control: unsafe extern "C" fn(Sock, u32, i32, *const RateSample),
    ssthresh: unsafe extern "C" fn(Sock) -> u32,
    undo_cwnd: unsafe extern "C" fn(Sock) -> u32,
    set_state: unsafe extern "C" fn(Sock, u8),
    cwnd_event: unsafe extern "C" fn(Sock, u32),
    radio: unsafe extern "C" fn(u64, u64, u32, u32, u32),
    path: unsafe extern "C" fn(u32),
    share: unsafe extern "C" fn(*mut u64),
    pep: unsafe extern "C" fn(*const PepFlow),
    sack: unsafe extern "C" fn(Sock, u32, *const u32),
    hint: unsafe extern "C" fn(u64, u32, u32),
    cubic_calls: unsafe extern "C" fn(u32) -> u32,
}

/// The words of a radio map's line that algorithms read.
#[derive(Clone, Copy, Debug, Default)]
pub struct RadioLine {
    /// A packed [`hotcc_abi::radio::PackedSinr`], or 0.
    pub sinr: u64,
    /// A packed [`hotcc_abi::radio::Capacity`], or 0.
    pub capacity: u64,
    /// Generation of the serving cell.
    pub cell: u32,
    /// Maximum age of both.
    pub max_age_ms: u32,
}

/// Place and size of a field of the private state, in bytes.
#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    size: usize,
}

/// Memory that the algorithms of one host's flows to one receiver share.
#[derive(Clone, Debug, Default)]
pub struct Group(Rc<UnsafeCell<[u64; 8]>>);

/// One algorithm with globals (tunables, clock, radio, path) of its own: every load makes a separate copy in the
/// process.
pub struct HostAlgo {
    library: Library,
    hooks: Hooks,
    fields: BTreeMap<String, Field>,
    group: Option<Group>,
    single_threaded: PhantomData<*const ()>, // its globals are not synchronised
}

impl HostAlgo {
    /// Opens an algorithm as [`HostAlgo::open`] does, but panics if that fails; for tests.
    ///
    /// If the environment variable `HOTCC_HOST_OBJECTS` names a directory, a `NAME.so` there replaces this crate's own
    /// build. This is how mutants are tested.
    #[must_use]
    pub fn load(name: &str) -> Self {
        let named = std::env::var_os("HOTCC_HOST_OBJECTS").map(|dir| PathBuf::from(dir).join(format!("{name}.so")));
        let opened = match named.filter(|path| path.exists()) {
            Some(path) => std::fs::read(&path).and_then(|bytes| Self::from_object(name, &bytes)),
            None => Self::open(name),
        };
        opened.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Loads the host build of `bpf/algos/NAME.bpf.c`, or of the peer `bench/peers/NAME.bpf.c`.
    pub fn open(name: &str) -> io::Result<Self> {
        let object = OBJECTS.iter().find(|(known, _)| *known == name);
        let (_, bytes) = object.ok_or_else(|| io::Error::other(format!("no built-in algorithm `{name}`")))?;
        Self::from_object(name, bytes)
    }

    fn from_object(name: &str, bytes: &[u8]) -> io::Result<Self> {
        let library = open_copy(bytes)?;
        let hooks = Hooks {
            new: symbol(&library, "host_new")?,
            free: symbol(&library, "host_free")?,
            set: symbol(&library, "host_set")?,
            get: symbol(&library, "host_get")?,
            private: symbol(&library, "host_priv")?,
            stats: symbol(&library, "host_stats_words")?,
            init: symbol(&library, "host_init")?,
            release: symbol(&library, "host_release")?,
            pkts_acked: symbol(&library, "host_pkts_acked")?,
            cong_avoid: symbol(&library, "host_cong_avoid")?,
            has_cong_control: symbol(&library, "host_has_cong_control")?,
            cong_control: symbol(&library, "host_cong_control")?,
            ssthresh: symbol(&library, "host_ssthresh")?,
            undo_cwnd: symbol(&library, "host_undo_cwnd")?,
            set_state: symbol(&library, "host_set_state")?,
            cwnd_event: symbol(&library, "host_cwnd_event")?,
            radio: symbol(&library, "host_radio")?,
            path: symbol(&library, "host_path")?,
            share: symbol(&library, "host_share")?,
            pep: symbol(&library, "host_pep")?,
            sack: symbol(&library, "host_sack")?,
            hint: symbol(&library, "host_hint")?,
            cubic_calls: symbol(&library, "host_cubic_calls")?,
        };
        Ok(Self { library, hooks, fields: state_fields(name)?, group: None, single_threaded: PhantomData })
    }

    /// Returns the library, to call further functions of it.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns whether the algorithm sets W and the pacing rate itself, in `cong_control` instead of `cong_avoid`.
    #[must_use]
    pub fn has_cong_control(&self) -> bool {
        // SAFETY: takes nothing and reads a constant of the library.
        unsafe { (self.hooks.has_cong_control)() }
    }

    /// Returns whether the algorithm has a tunable of that name.
    #[must_use]
    pub fn has_tunable(&self, name: &str) -> bool {
        // SAFETY: a data symbol's value is its address; nothing is read through it here.
        unsafe { self.library.get::<*mut u32>(name.as_bytes()) }.is_ok()
    }

    /// Returns whether a connection's state has a field of that name.
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Returns the name of the field of a connection's state at that offset, in bytes.
    #[must_use]
    pub fn field_at(&self, offset: usize) -> Option<&str> {
        self.fields.iter().find(|(_, field)| field.offset == offset).map(|(name, _)| name.as_str())
    }

    fn tunable_address(&self, name: &str) -> *mut u32 {
        // SAFETY: a data symbol's value is its address; nothing is read through it here.
        let found = unsafe { self.library.get::<*mut u32>(name.as_bytes()) };
        match found {
            Ok(address) => *address,
            Err(error) => panic!("no tunable {name}: {error}"),
        }
    }

    /// Returns a tunable's value; panics if there is no such tunable.
    #[must_use]
    pub fn tunable(&self, name: &str) -> u32 {
        // SAFETY: every tunable is an aligned u32 of the library, which lives as long as self.
        unsafe { self.tunable_address(name).read_volatile() }
    }

    /// Sets a tunable; panics if there is no such tunable.
    pub fn set_tunable(&self, name: &str, value: u32) {
        // SAFETY: every tunable is an aligned, writable u32 of the library, and self stays on one thread.
        unsafe { self.tunable_address(name).write_volatile(value) }
    }

    /// Sets the peer's reading in the radio map: a packed [`hotcc_abi::radio::PackedSinr`] and its maximum age; `None`
    /// removes the entry.
    pub fn set_radio(&self, reading: Option<(u64, u32)>) {
        self.set_radio_line(reading.map(|(sinr, max_age_ms)| RadioLine { sinr, max_age_ms, ..RadioLine::default() }));
    }

    /// Sets the peer's line of the radio map; `None` removes the entry from the index.
    pub fn set_radio_line(&self, line: Option<RadioLine>) {
        let RadioLine { sinr, capacity, cell, max_age_ms } = line.unwrap_or_default();
        // SAFETY: plain values in; the library's globals are touched from this thread only.
        unsafe { (self.hooks.radio)(sinr, capacity, cell, max_age_ms, u32::from(line.is_some())) }
    }

    /// Sets the peer's generation in the path map, and advances the map's clock; 0 removes the entry.
    pub fn set_path(&self, generation: u32) {
        // SAFETY: a plain value in; the library's globals are touched from this thread only.
        unsafe { (self.hooks.path)(generation) }
    }

    /// Makes the algorithm's flows members of `group`.
    pub fn join(&mut self, group: &Group) {
        // SAFETY: self keeps the memory alive as long as the library, which touches it from this thread only.
        unsafe { (self.hooks.share)(group.0.get().cast()) }
        self.group = Some(group.clone());
    }

    /// Sets the record in the flow's storage of its PEP, as an agent would; `None` removes the storage.
    pub fn set_pep(&self, record: Option<PepFlow>) {
        let record = record.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: null, or a record that lives through the call, which copies it.
        unsafe { (self.hooks.pep)(record) }
    }

    /// Sets the hint in the flow's storage of its receiver's hints, as the receiver's program would.
    pub fn set_hint(&self, time_ns: u64, sequence: u32, hint: u8) {
        // SAFETY: plain values in; the library's globals are touched from this thread only.
        unsafe { (self.hooks.hint)(time_ns, sequence, u32::from(hint)) }
    }

    /// Returns how often a function of the stand-in for the kernel's CUBIC was called.
    #[must_use]
    pub fn cubic_calls(&self, function: Cubic) -> u32 {
        // SAFETY: every `Cubic` is an index into the counts.
        unsafe { (self.hooks.cubic_calls)(function as u32) }
    }

    /// Returns the `index`th word of the algorithm's counters (`crates/abi/src/stats.rs`).
    #[must_use]
    pub fn stat(&self, index: usize) -> u64 {
        assert!(index < size_of::<hotcc_abi::stats::AlgoStats>() / 8, "no such counter");
        // SAFETY: the counters are a static struct of the library with that many u64.
        unsafe { (self.hooks.stats)().add(index).read_volatile() }
    }
}

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

/// Reads the private state's layout from the BPF object's type information; the host's 64-bit layout is the same.
fn state_fields(name: &str) -> io::Result<BTreeMap<String, Field>> {
    let object = hotcc_bpf::algo(name).ok_or_else(|| io::Error::other(format!("no algorithm `{name}`")))?;
    let file = library::temporary(object.bytes)?;
    let btf = Btf::from_path(file.path()).map_err(io::Error::other)?;
    // by kind: the ops table has the same name
    let state = btf.type_by_kind::<Struct<'_>>().find(|s| s.name().is_some_and(|n| n == name));
    let state = state.ok_or_else(|| io::Error::other(format!("no struct {name} in the object")))?;
    let mut fields = BTreeMap::new();
    add_fields(&btf, Composite::from(state), "", 0, &mut fields);
    Ok(fields)
}

fn add_fields(btf: &Btf<'_>, of: Composite<'_>, prefix: &str, base: usize, into: &mut BTreeMap<String, Field>) {
    for member in of.iter() {
        let (Some(name), MemberAttr::Normal { offset }) = (member.name, member.attr) else { continue };
        let name = format!("{prefix}{}", name.to_string_lossy());
        let offset = base + offset as usize / 8;
        let Some(ty) = btf.type_by_id::<BtfType<'_>>(member.ty).map(|t| t.skip_mods_and_typedefs()) else { continue };
        if let Ok(int) = Int::try_from(ty) {
            into.insert(name, Field { offset, size: int.size() });
        } else if let Ok(nested) = Composite::try_from(ty) {
            add_fields(btf, nested, &format!("{name}."), offset, into);
        }
    }
}
