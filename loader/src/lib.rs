//! Loads TCP congestion controls written in BPF, tunes and swaps them while traffic flows, and tells what they do.
//!
//! The kernel is the database: everything that matters is pinned in bpffs, every function here is stateless, and what
//! is reported was read back.
//!
//! Each folder depends only on folders earlier in this list:
//!
//! - [`tunables`]: what can be set, as text and in the kernel
//! - [`object`]: objects found, described, loaded
//! - [`registry`]: what is pinned, which version serves, how a version takes another's place
//! - [`sockets`]: open sockets walked, counted, listed
//! - [`policy`]: rules that choose a congestion control for a socket
//! - [`ops`]: load, swap, unload, set, migrate, run
//! - [`paths`] and [`rx`]: path changes, and the receiver's side
//! - [`declared`]: the file that says what should be loaded, compared with the kernel
//! - [`exporter`]: Prometheus metrics

pub mod cgroup;
pub mod declared;
pub mod doctor;
pub mod exporter;
mod failpoint;
pub mod object;
pub mod ops;
pub mod paths;
pub mod policy;
pub mod registry;
pub mod report;
pub mod rx;
pub mod sockets;
pub mod status;
pub mod sys;
pub mod sysctl;
pub mod tunables;
