//! What hotcc's demo and benchmarks are made of.

pub mod demo;
pub mod first_use;
pub mod kernels;
pub mod lab;
pub mod micro;
pub mod netlab;
pub mod report;
pub mod sequence;

/// What a command ends with that fails so: 1, or what the error itself asks for.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, hotcc::error::Error::exit_code)
}
