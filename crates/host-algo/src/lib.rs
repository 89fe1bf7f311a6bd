//! hotcc's congestion controls, compiled for the host and embedded, to be driven one hook at a time.
//!
//! [`HostAlgo`] is one algorithm with tunables, clock, radio and path of its own; [`Flow`] is one connection under it.
//! Tests compare algorithms with models, and the simulator runs them.

use crate::layout::{Field, state_fields};
use crate::library::{open_copy, symbol};
use hotcc_abi::pep::PepFlow;
use libloading::Library;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::rc::Rc;

mod cubic;
mod flow;
mod kernel;
mod layout;
pub mod library;

pub use cubic::{Cubic, CubicCall, CubicDelegate, CubicWindow};
pub use flow::Flow;
pub use kernel::{
    EVENT_COMPLETE_CWR, EVENT_CWND_RESTART, EVENT_LOSS, EVENT_TX_START, INFINITE_SSTHRESH, RateSample, View, ca_state,
};

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

type Sock = *mut c_void;
type DelegateCall = unsafe extern "C" fn(*mut c_void, *mut CubicWindow, u32, u32, i32) -> u32;

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
    learned_begin: unsafe extern "C" fn(Sock, *const Learned),
    learned_end: unsafe extern "C" fn(*mut Learned),
    delegate_cubic: unsafe extern "C" fn(DelegateCall, *mut c_void),
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

/// What an algorithm hands over when its connection moves to another one: `struct hotcc_learned_v1`. 0: not known.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The socket that moves; the calls that take or return the record ignore it.
    pub socket: u64,
    /// Bandwidth, 1/256 byte/s.
    pub bandwidth_q8: u64,
    /// Growth of W, 1/65536 segment per RTT.
    pub n_q16: u64,
    /// Least RTT of the path, microseconds.
    pub base_us: u32,
    /// Fields that the new algorithm took: 1 bandwidth, 2 least RTT, 4 growth.
    pub taken: u32,
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
    cubic: Option<NonNull<Box<CubicDelegate>>>,
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
            learned_begin: symbol(&library, "host_learned_begin")?,
            learned_end: symbol(&library, "host_learned_end")?,
            delegate_cubic: symbol(&library, "host_delegate_cubic")?,
            cubic_calls: symbol(&library, "host_cubic_calls")?,
        };
        Ok(Self { library, hooks, fields: state_fields(name)?, group: None, cubic: None, single_threaded: PhantomData })
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

    /// Uses this in place of the stand-in for the kernel's CUBIC. It must not call the algorithm.
    pub fn delegate_cubic(&mut self, delegate: Box<CubicDelegate>) {
        self.end_delegate();
        let delegate = NonNull::from(Box::leak(Box::new(delegate)));
        self.cubic = Some(delegate);
        // SAFETY: the delegate lives until `end_delegate`, which self calls when it ends.
        unsafe { (self.hooks.delegate_cubic)(cubic::call_delegate, delegate.as_ptr().cast()) }
    }

    fn end_delegate(&mut self) {
        if let Some(delegate) = self.cubic.take() {
            // SAFETY: `delegate_cubic` leaked it, and the library does not call it any more.
            drop(unsafe { Box::from_raw(delegate.as_ptr()) });
        }
    }

    /// Returns how often a function of the kernel's CUBIC was called.
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

impl Drop for HostAlgo {
    fn drop(&mut self) {
        self.end_delegate();
    }
}
