//! Runs a lab's plan without a kernel: Linux's TCP sender and the algorithms' own C files in simulated time.

pub mod bbr;
pub mod clock;
pub mod congestion;
pub mod cubic;
pub mod growth;
#[cfg(test)]
mod ideal_link;
