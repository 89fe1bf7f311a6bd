//! What userspace and BPF programs agree on: map layouts, where maps are pinned, and the one clock.
//!
//! Every structure here is `repr(C)` and carries (or is reached through a header that carries) a version. A reader
//! that meets another version says so and stops. `bpf/abi` and `bpf/include/hotcc` hold the C side;
//! a test compares both through BTF.

pub mod border;
pub mod clock;
pub mod hint;
pub mod path;
pub mod pep;
pub mod pins;
pub mod radio;
pub mod rx;
pub mod stats;
pub mod version;
