//! What tests, the demo and benchmarks stand on: hosts made of network namespaces, the right to change the kernel, the
//! statistics of repeated measurements.

pub mod command;
pub mod debian;
pub mod http;
pub mod kernel;
pub mod metrics;
pub mod netlab;
pub mod pin_root;
pub mod programs;
pub mod sequence;
pub mod soak;
pub mod statistics;
