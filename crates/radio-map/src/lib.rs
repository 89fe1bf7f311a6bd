//! The radio maps, into which feeders write readings and from which algorithms read them: one reader and one writer.
//!
//! [`RadioMap`] writes, [`RadioView`] only reads. Both use the maps that are pinned below a pin root, by default
//! [`hotcc_abi::pins::ROOT`] for root and [`hotcc_abi::pins::FEEDERS`] for others. All state is in these maps, so a
//! killed feeder loses nothing. An update is a store into mapped memory ([`RadioSlots`]), and a look-up of a reading is
//! a load; neither needs a system call.

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
