//! The open TCP sockets of all network namespaces: programs in the kernel walk over them, to count, list or change
//! them.

pub mod count;
pub mod exported;
pub mod flows;
pub mod learned;
pub(crate) mod walk;
