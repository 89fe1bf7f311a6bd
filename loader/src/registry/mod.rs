//! What is pinned in bpffs, and what of it serves: all state this project has.
//!
//! ```text
//! /sys/fs/bpf/hotcc/counters              what commands did
//! /sys/fs/bpf/hotcc/algo/NAME/link        the registration; what it points to is the version that serves
//! /sys/fs/bpf/hotcc/algo/NAME/vID/        one version each; ID is its struct_ops map's
//!     map  prog  meta  tunables  constants
//! /sys/fs/bpf/hotcc/algo/NAME/run/        there where it was loaded for `hotcc run` only; locked by each run
//! /sys/fs/bpf/hotcc/algo/NAME/defaults    defaults of network namespaces before it was loaded
//! /sys/fs/bpf/hotcc/algo/NAME/stats       counters of all versions, those included that are gone
//! ```
//! A version directory is complete before its version serves, and the kernel says which one serves, so a command
//! killed anywhere leaves nothing that the next one would misread. Before 6.4 there are no struct_ops links: the
//! map itself is the registration, and its state says whether it serves.

mod algo;
mod bpffs;
mod cells;
pub mod counters;
pub(crate) mod defaults;
pub(crate) mod files;
pub(crate) mod install;
mod lock;
pub mod registrations;
pub(crate) mod runs;
mod version;

pub use algo::Algo;
pub(crate) use algo::load_advice;
pub use bpffs::{need_bpffs, remove_tree};
pub use install::open_link;
pub(crate) use lock::begin;
pub use lock::lock;
pub use version::Version;
