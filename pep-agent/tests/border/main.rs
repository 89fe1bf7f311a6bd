//! The border on the running kernel. Packets are given one by one to its program, and to the server's program that
//! takes its in-band reports out of the packets. The command runs on a router with real flows. Needs root.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

#[path = "../common/mod.rs"]
mod common;
mod inband;
mod lifecycle;
mod packet;
mod parser;
mod program;
mod router;
mod tracker;
