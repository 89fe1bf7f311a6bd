//! The server on the running kernel: datagrams of real borders, and real sockets with `mdcubic`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod both;
mod clocking;
mod cohorts;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod held;
mod host;
mod inband;
mod replays;
mod scripted;
