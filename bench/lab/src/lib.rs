//! The lab: unmodified distribution kernels in a virtual machine, in virtual time.
//!
//! One virtual CPU executes 10^9 instructions per virtual second, regardless of the host's load. When the guest is
//! idle, virtual time jumps to its next timer. The lab needs neither root nor KVM.

pub mod algorithms;
pub mod analyse;
pub mod canaries;
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
pub mod programs;
pub mod qdisc;
pub mod results;
pub mod run;
pub mod scenario;
pub mod selection;
pub mod simulated;
pub mod snapshots;
pub mod traces;
pub mod validation;
pub mod vm;
