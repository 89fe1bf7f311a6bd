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

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};

/// Besides UDP sources, HTTP, NATS and WebSocket servers listen on such ports.
#[test]
fn a_free_port_is_free_for_tcp_too() {
    let local = (Ipv4Addr::LOCALHOST, 0);
    let taken: Vec<_> = (0..400).map(|_| TcpListener::bind(local).unwrap()).collect();
    let taken: BTreeSet<_> = taken.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
    let given_twice: Vec<_> = (0..2000).map(|_| tools::free_port()).filter(|port| taken.contains(port)).collect();
    assert!(given_twice.is_empty(), "others listen there: {given_twice:?}");
}
