//! The open TCP sockets of all network namespaces: walked by programs in the kernel, counted, listed one by one.

pub mod count;
pub mod flows;
pub(crate) mod walk;
