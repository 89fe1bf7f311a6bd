//! Runs a lab's plan without a kernel: Linux's TCP sender and the algorithms' own C files in simulated time.

pub mod algorithms;
mod clock;
pub mod congestion;
mod flow;
mod network;
mod packet;
pub mod play;
mod receiver;
mod reno;
mod sender;
