//! `hotcc canary`: gives a share of the new connections another congestion control, compares them with the others, and
//! promotes it or rolls it back.
//!
//! - `plan`: what a canary is going to do
//! - `state`: the state in the kernel, and how commands change it
//! - `records`: what ended connections did, from the kernel
//! - `run`: the canary from its start to its end
//! - `events`: what happens to a canary, and the log of it
//!
//! Two policy rules with the same conditions precede all others: the canary's rule, whose share of the connections is
//! in a map, and the control's. The share expires, so that new connections get the former congestion control again if
//! the process is killed. The judge is the crate `hotcc-canary`.

mod events;
mod plan;
mod records;
mod run;
mod state;

pub use events::{Event, LOG, Occasion};
pub use hotcc_canary::{Guard, default_guards};
pub use plan::{Plan, Request};
pub use run::{EXPIRY, Options, dry_run, start};
pub use state::{Cohorts, Ended, State, Status, abort, promote, status};
pub(crate) use state::{read_status, refuse_while_comparing, refuse_while_running};
