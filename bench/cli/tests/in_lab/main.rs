//! Tests on stock kernels in the lab. They are one program, so that their virtual machines run side by side, and in one
//! module, so that `just test` can name them all.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod stock_kernels;
