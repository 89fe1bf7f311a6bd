//! What hotcc's commands and daemons share at the edge of the system, each thing once.

pub mod bpffs;
pub mod capabilities;
pub mod cstr;
pub mod error;
pub mod lock;
pub mod metrics_server;
pub mod nearest;
pub mod netlink;
pub mod netns;
pub mod service;
