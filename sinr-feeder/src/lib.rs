//! Feeds radio readings to congestion control in the kernel.
//!
//! A [`source`] says what it measures ([`reading`]); [`condition`] checks, ages and averages it; [`feed`] decides whose it
//! is and which source has precedence, and puts it where algorithms look ([`hotcc_radio_map`]: one store into mapped
//! memory per reading, no system call) or sends it to other hosts ([`publish`]). The `sinr-feeder` command is these
//! parts put together.

mod args;
pub mod condition;
pub mod error;
pub mod feed;
pub mod line;
pub mod link;
pub mod nats;
pub mod publish;
pub mod reading;
pub mod reject;
pub mod source;
