//! Feeds radio readings to congestion control in the kernel.
//!
//! [`trace`] reads recorded or generated readings, [`replay`] says when each of them is due, [`map`] publishes them
//! where algorithms look: one store into mapped memory per reading, no system call. [`link`] is how people write the
//! key of a link. The `sinr-feeder` command is these parts put together.

pub mod link;
pub mod map;
pub mod replay;
pub mod trace;
