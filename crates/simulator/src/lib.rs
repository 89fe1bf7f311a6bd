//! Runs a plan of the lab without a kernel: Linux's TCP sender and the algorithms' own C files in simulated time.

pub mod algorithms;
pub mod bbr;
pub mod clock;
pub mod congestion;
pub mod cubic;
pub mod exec;
mod flow;
pub mod growth;
pub mod host;
#[cfg(test)]
mod ideal_link;
mod network;
mod packet;
mod pep;
mod receive_window;
mod receiver;
pub mod reno;
mod sender;
