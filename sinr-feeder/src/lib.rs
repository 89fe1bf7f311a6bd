//! Feeds radio readings to congestion control in the kernel.
//!
//! A [`source`] delivers what it measures ([`reading`]). [`condition`] checks, dates and averages it. [`feed`] decides
//! which link it belongs to and which source has precedence, and writes it to the map where algorithms look it up
//! ([`hotcc_radio_map`]: one store into mapped memory per reading, no system call) or sends it to other hosts
//! ([`publish`]). The `sinr-feeder` command combines these parts.

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
