//! The lab: unmodified distribution kernels in a virtual machine, under virtual time.
//!
//! One virtual CPU executes 10^9 instructions per virtual second, whatever the machine underneath is busy with; time
//! stands still while the guest waits for nothing. Neither root nor KVM is needed.

pub mod algorithms;
pub mod analyse;
pub mod cell;
pub mod cli;
pub mod cost;
mod directory;
pub mod guest;
pub mod image;
pub mod job;
pub mod link_model;
pub mod matrix;
pub mod native;
pub mod plan;
pub mod planner;
pub mod play;
pub mod records;
pub mod results;
pub mod run;
pub mod scenario;
pub mod selection;
pub mod vm;
