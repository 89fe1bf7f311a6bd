//! The lab: unmodified distribution kernels in a virtual machine, under virtual time.
//!
//! One virtual CPU executes 10^9 instructions per virtual second, whatever the machine underneath is busy with; time
//! stands still while the guest waits for nothing. Neither root nor KVM is needed.

pub mod algorithms;
pub mod analyse;
pub mod changes;
pub mod cost;
mod directory;
pub mod estimate;
pub mod guest;
pub mod image;
pub mod matrix;
pub mod native;
pub mod pin_root_guard;
pub mod planner;
pub mod plural;
pub mod results;
pub mod run;
pub mod scenario;
pub mod selection;
pub mod simulated;
pub mod snapshots;
pub mod traces;
pub mod validation;
pub mod vm;
