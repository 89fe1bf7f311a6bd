//! The server's side on the running kernel: real borders' datagrams, real sockets, `mdcubic` on them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod arms;
mod both;
mod clocking;
mod command;
mod faults;
mod frames;
mod host;
mod inband;
#[allow(dead_code, reason = "the border's tests use the rest")]
#[path = "../border/packet.rs"]
mod packet;
