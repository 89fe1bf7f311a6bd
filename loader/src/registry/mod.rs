//! What is pinned in bpffs, and which version of each algorithm serves: all state of this project.
//!
//! ```text
//! /sys/fs/bpf/hotcc/counters              counters of commands
//! /sys/fs/bpf/hotcc/algo/NAME/link        the registration; it refers to the version that serves
//! /sys/fs/bpf/hotcc/algo/NAME/vID/        one version; ID is that of its struct_ops map
//!     map  prog  meta  tunables  constants
//! /sys/fs/bpf/hotcc/algo/NAME/run/        exists if it was loaded for `hotcc run` only; each run locks it
//! /sys/fs/bpf/hotcc/algo/NAME/defaults    defaults of network namespaces before it was loaded
//! /sys/fs/bpf/hotcc/algo/NAME/stats       counters of all versions, including removed ones
//! ```
//! A version directory is complete before its version serves, and the kernel records which version serves. So a command
//! that is killed at any point leaves nothing that the next command would misread. Before Linux 6.4 there are no
//! struct_ops links: the map itself is the registration, and its state indicates whether it serves.

mod algo;
mod bpffs;
pub mod counters;
pub(crate) mod defaults;
pub(crate) mod files;
mod held;
pub(crate) mod install;
mod lock;
pub mod registrations;
pub(crate) mod runs;
mod value_map;
mod version;

pub use algo::Algo;
pub(crate) use algo::load_advice;
pub use bpffs::{need_bpffs, remove_tree};
pub(crate) use held::Held;
pub use install::open_link;
pub(crate) use lock::begin;
pub use lock::lock;
pub use version::Version;
