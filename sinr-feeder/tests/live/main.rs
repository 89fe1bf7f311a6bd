//! Sources and other hosts, with real counterparts where possible: sockets, a pseudo terminal, D-Bus, a NATS server.
//! Tests that need root, or a program that is not installed, print `SKIPPED name: why`.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod bad_input;
mod credentials;
mod fleet;
mod modems;
mod operate;
#[path = "../kernel/sandbox.rs"]
#[allow(dead_code, reason = "shared with another test")]
mod sandbox;
mod sources;
mod tools;
