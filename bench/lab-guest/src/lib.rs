//! What runs in the guest of the lab's virtual machine: plans are played, costs are counted.

pub mod exec;
pub mod job_input;
pub mod meter;
pub mod stage;
