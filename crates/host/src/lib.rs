//! Interfaces to the host that hotcc's commands and daemons share.
//!
//! The feature `daemon` adds what only daemons need: metrics pages, the service manager, dropping privileges.

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
pub mod stdout;
