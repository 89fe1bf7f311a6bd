//! Tests on stock kernels in the lab. They are one program, so that their virtual machines run side by side.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod links;
mod matrix;
mod objects;
mod paths;
mod pep;
mod pep_on_kernels;
mod receivers;
mod runs;
mod snapshots;
mod wifi;
