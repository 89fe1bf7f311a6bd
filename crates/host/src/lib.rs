//! What hotcc's commands and daemons share at the edge of the system, each thing once.
//!
//! The feature `daemon` adds what only daemons need: metrics pages, the service manager, giving up privileges.

pub mod bpffs;
#[cfg(feature = "daemon")]
pub mod capabilities;
pub mod cstr;
pub mod error;
pub mod lock;
#[cfg(feature = "daemon")]
pub mod metrics_server;
pub mod nearest;
pub mod netlink;
pub mod netns;
pub mod printable;
pub mod root_dir;
#[cfg(feature = "daemon")]
pub mod service;
