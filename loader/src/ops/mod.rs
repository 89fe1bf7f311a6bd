//! The commands that change which algorithms are registered and which sockets run them, one file for each.
//!
//! A command loads and verifies the new version before it changes the old one. Once the kernel has switched, the
//! command no longer fails: it prints later errors as warnings, and the next command repairs them.

mod load;
pub mod migrate;
pub mod run;
mod swap;
mod switch;
pub mod tune;
mod unload;

pub(crate) use load::load_and_count;
pub use load::{Request, load};
pub use swap::{Tunables, rollback, swap, swap_tuned};
pub(crate) use swap::{rollback_and_count, swap_and_count};
pub use switch::Outcome;
pub(crate) use unload::unload_locked;
pub use unload::{Unloaded, unload};
