//! The lab: unmodified distribution kernels in a virtual machine, under virtual time.
//!
//! One virtual CPU executes 10^9 instructions per virtual second, whatever the machine underneath is busy with; time
//! stands still while the guest waits for nothing. Neither root nor KVM is needed.

pub mod image;
pub mod job;
pub mod matrix;
pub mod results;
pub mod vm;
