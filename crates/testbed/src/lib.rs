//! Common code of tests, the demo and the benchmarks: hosts made of network namespaces, the lock for changing the
//! kernel, the statistics of repeated measurements.

pub mod browser;
pub mod command;
pub mod debian;
pub mod http;
pub mod kernel;
pub mod metrics;
pub mod netlab;
pub mod pin_root;
pub mod ports;
pub mod programs;
pub mod sequence;
pub mod soak;
pub mod statistics;
