//! Loads TCP congestion controls written in BPF, tunes and swaps them while traffic flows, and reports what they do.
//!
//! All state is in the kernel, pinned in bpffs. The functions here keep no state, and report what they read back from
//! the kernel.
//!
//! Each folder depends only on folders earlier in this list:
//!
//! - [`tunables`]: the tunables of an object, as text and in the kernel
//! - [`object`]: finding, describing and loading objects
//! - [`registry`]: what is pinned, which version serves, and how one version replaces another
//! - [`sockets`]: walking, counting and listing open sockets
//! - [`policy`]: rules that choose a congestion control for a socket
//! - [`canary`]: a share of the connections under another congestion control, promoted or rolled back by comparison
//! - [`ops`]: load, swap, unload, set, migrate, run
//! - [`trace`]: what each ACK found, into a file
//! - [`paths`] and [`rx`]: path changes, and receivers
//! - [`declared`]: the file that declares what should be loaded, compared with the kernel
//! - [`live`]: what the live views show
//! - [`advise`]: what other congestion control could serve the open connections better
//! - [`exporter`]: Prometheus metrics, and a page with a live view

pub mod advise;
pub mod canary;
pub mod cgroup;
pub mod declared;
pub mod doctor;
pub mod exporter;
#[doc(hidden)]
pub mod failpoint;
pub mod live;
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
pub mod trace;
pub mod tunables;
