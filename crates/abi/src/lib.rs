//! Definitions that userspace and BPF programs share: map layouts, where maps are pinned, and the clock.
//!
//! Every structure here is `repr(C)` and carries a version, or is reached through a header that carries one. A reader
//! that finds another version reports it and stops. `bpf/abi` and `bpf/include/hotcc` hold the C side; a test compares
//! both sides through BTF.

pub mod border;
pub mod clock;
pub mod hint;
pub mod histogram;
pub mod path;
pub mod pep;
pub mod pins;
pub mod radio;
pub mod rx;
pub mod stats;
pub mod version;
