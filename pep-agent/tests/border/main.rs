//! The border on the running kernel: its program given packets one by one, and the command on a router with real flows.
//! Needs root.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod lifecycle;
mod packet;
mod parser;
mod program;
mod router;
mod tracker;
