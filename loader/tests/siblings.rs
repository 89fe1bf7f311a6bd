//! Tests which flows of crest share a record: those of one network namespace to one address, or to one radio link.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/fed.rs"]
mod fed;
use common::*;
use fed::Fed;
use hotcc_cc_tests::storage::newest;
use libbpf_rs::{MapCore as _, MapHandle};
use std::net::TcpListener;

const CC: &str = "cc_siblings";
/// What a slow loopback carries in 150 ms. Data are in flight all the time: without data, no round ends. A flow looks its
/// record up when a round ends, after 8 ms at the earliest.
const BYTES: usize = SLOW_LOOPBACK_BYTES_PER_S * 15 / 100;

/// Opens a connection to this address, and sends.
fn flow(to: &str) {
    let listener = TcpListener::bind((to, 0)).unwrap();
    Connection::to(&listener, Some(CC)).send(BYTES);
}

/// Returns how many records are of an address, and how many of a link. Records stay when their flows have ended.
fn records(groups: &MapHandle) -> (usize, usize) {
    // the network namespace, or the link, and then the address, which is 0 for a link
    let (links, addresses): (Vec<_>, Vec<_>) = groups.keys().partition(|key| key.ends_with(&[0; 16]));
    (addresses.len(), links.len())
}

#[test]
fn siblings_have_the_same_namespace_and_address_or_the_same_link() {
    let name = "siblings_have_the_same_namespace_and_address_or_the_same_link";
    let Some(_test) = kernel_test(name, &[CC]) else { return };
    ok(&["load", "crest", "--as", CC]);
    let groups = newest("crest_groups");
    let [one, other] = ["hotcc-test-sib-1", "hotcc-test-sib-2"].map(NetNs::with_slow_loopback);
    // without a link, a receiver is an address, never a prefix
    let (near, far) = ("127.0.0.1", "127.0.0.2");
    for (ns, to, of_addresses) in
        [(&one, near, 1), (&one, near, 1), (&one, far, 2), (&other, near, 3), (&other, far, 4)]
    {
        ns.enter(|| flow(to));
        assert_eq!(records(&groups), (of_addresses, 0), "after a flow to {to}");
    }
    let fed = Fed::new("127.0.0.0/8", 5000);
    // addresses without a record so far
    for (ns, to) in [(&one, "127.0.0.3"), (&one, "127.0.0.4"), (&other, "127.0.0.3"), (&other, "127.0.0.4")] {
        fed.publish(25.0, 20.0, 0);
        ns.enter(|| flow(to));
        assert_eq!(records(&groups), (4, 1), "after a flow to {to}, which is on a link");
    }
}
