//! The radio maps, where feeders put readings and algorithms find them: one reader and one writer.
//!
//! [`RadioMap`] writes, [`RadioView`] only reads. Both work on the maps pinned below a pin root, by default
//! [`hotcc_abi::pins::ROOT`] for root and [`hotcc_abi::pins::FEEDERS`] for others; nothing is remembered anywhere else, so a feeder that was killed loses nothing. An update
//! is a store into mapped memory ([`RadioSlots`]), a look is a load; neither is a system call.

mod error;
mod index;
mod link;
mod map;
mod owner;
mod pinned;
mod reading;
mod share;
mod slots;
mod view;
mod writer;

pub use error::MapError;
pub use link::{Freshness, Link, Snapshot};
pub use map::RadioMap;
pub use reading::Reading;
pub use share::{default_pin_root, share_with_feeders};
pub use slots::RadioSlots;
pub use view::{RadioView, links};
pub use writer::{LinkOptions, LinkWriter, default_max_age_ms};
