//! Tests `hotcc rx`: receivers on real connections over a path with a queue.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arwa;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod drwa;
mod forged;
mod hostile;
mod middlebox;
mod path;
mod wire;
