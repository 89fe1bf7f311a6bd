//! The code that runs in the guest of the lab's virtual machine: it executes plans and measures what algorithms cost.

pub mod exec;
#[cfg(target_arch = "x86_64")]
pub mod job_input;
pub mod meter;
pub mod stage;
