//! hotcc's BPF objects, compiled by clang in this crate's build and embedded in the programs that use this crate.
//!
//! One object per file of `bpf/algos` (a congestion control each, described by its BTF), `bpf/progs` (other programs),
//! `bpf/lab` (the lab's network), `bpf/test-objects` (for tests), and `bench/peers` (others' congestion controls, for
//! comparisons).

pub mod host;

/// A compiled BPF object.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// File name without `.bpf.c`.
    pub name: &'static str,
    /// The ELF file, aligned to eight bytes as ELF readers require.
    pub bytes: &'static [u8],
}

#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

macro_rules! aligned {
    ($path:literal) => {{
        static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &OBJECT.0
    }};
}

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// The object of `bpf/algos/NAME.bpf.c`, or of a peer that algorithms are compared with, `bench/peers/NAME.bpf.c`.
#[must_use]
pub fn algo(name: &str) -> Option<&'static Object> {
    ALGOS.iter().chain(PEERS).find(|o| o.name == name)
}

/// The object of `bpf/progs/NAME.bpf.c`.
#[must_use]
pub fn prog(name: &str) -> Option<&'static Object> {
    PROGS.iter().find(|o| o.name == name)
}

/// The object of `bpf/lab/NAME.bpf.c`.
#[must_use]
pub fn lab(name: &str) -> Option<&'static Object> {
    LAB.iter().find(|o| o.name == name)
}
