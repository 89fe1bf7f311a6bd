//! What commands do, one file for each: everything that changes what serves, and `run`.
//!
//! The new is loaded and verified before the old is touched. Once the kernel has switched, a command no longer fails: what
//! went wrong afterwards is told as a warning, and the next command repairs it.

mod load;
pub mod migrate;
pub mod run;
mod swap;
mod switch;
pub mod tune;
mod unload;

pub use load::{Request, load};
pub use swap::{Tunables, rollback, swap, swap_tuned};
pub use switch::Outcome;
pub use unload::{Unloaded, unload};
