//! What runs in the guest of the lab's virtual machine: plans are played, costs are counted.

pub mod handover;
pub mod meter;
pub mod play;
pub mod stage;
