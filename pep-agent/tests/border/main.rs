//! The border on the running kernel: its program, and the server's that takes its reports off the wire, given packets one by
//! one, and the command on a router with real flows. Needs root.

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
