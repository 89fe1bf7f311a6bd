//! What hotcc's demo and benchmarks are made of.

pub mod demo;
pub mod first_use;
pub mod kernels;
pub mod lab;
pub mod micro;
pub mod netlab;
pub use sinr_feeder::radio;
pub mod report;
pub mod sequence;
