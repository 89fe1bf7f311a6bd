//! Policy rules: which sockets get which congestion control, on the running kernel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::cgroup::cgroup2_root;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;

const NETNS: &str = "hotcc-test-policy";

/// A network namespace, and rules for it alone, which are gone afterwards.
struct Ruled {
    test: KernelTest,
    ns: NetNs,
}

impl Ruled {
    fn new(name: &str) -> Option<Self> {
        let test = kernel_test(name, &[])?;
        ok(&["apply", &test.file("nothing.toml", b"")]);
        let ns = NetNs::new(NETNS);
        ns.sh("for a in 10.1.0.1 10.2.0.1 10.2.3.1; do ip addr add $a/32 dev lo; done; ip addr add 2001:db8::1/128 dev lo");
        Some(Self { test, ns })
    }

    fn file(&self, text: &str) -> String {
        self.test.file("policy.toml", text.as_bytes())
    }

    /// Applies rules, each of them for this namespace only, so that no other socket of the machine is concerned.
    fn apply(&self, rules: &[&str]) -> Value {
        let loaded = "[[algorithm]]\nobject = 'dtcp'\nname = 'po_dtcp'\n[[algorithm]]\nobject = 'westwoodp'\nname = 'po_west'\n";
        let rules: String = rules.iter().map(|rule| format!("[[policy]]\nnetns = '{NETNS}'\n{rule}\n")).collect();
        json(&["apply", &self.file(&format!("{loaded}{rules}")), "--json"])
    }

    fn listen(&self, address: &str) -> TcpListener {
        self.ns.enter(|| TcpListener::bind(address).unwrap())
    }

    /// The congestion controls of both ends of a new connection.
    fn ends(&self, listener: &TcpListener) -> (String, String) {
        let address = listener.local_addr().unwrap();
        let client = self.ns.enter(|| TcpStream::connect(address).unwrap());
        let (server, _) = listener.accept().unwrap();
        (cc_of(&client), cc_of(&server))
    }

    /// The same, for a listener at that address.
    fn at(&self, address: &str) -> (String, String) {
        self.ends(&self.listen(address))
    }
}

impl Drop for Ruled {
    fn drop(&mut self) {
        let _ = hotcc(&["apply", &self.test.file("nothing.toml", b"")]);
    }
}

fn both(cc: &str) -> (String, String) {
    (cc.to_owned(), cc.to_owned())
}

/// A counter of a rule, from 1.
fn count(rule: usize, counter: &str) -> u64 {
    json(&["policy", "show", "--json"])["rules"][rule - 1][counter].as_u64().unwrap()
}

#[test]
fn the_first_rule_that_matches_decides() {
    let Some(ruled) = Ruled::new("the_first_rule_that_matches_decides") else { return };
    let default = ruled.ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control");
    ruled.apply(&[
        "remote = '10.2.3.0/24'\ncongestion_control = 'reno'",
        "remote = ['10.2.0.0/16', '2001:db8::/32']\ncongestion_control = 'po_dtcp'",
        "local = '10.1.0.1'\nport = '7000-7009'\ncongestion_control = 'po_west'",
    ]);
    // both ends have that address, so both ends match
    assert_eq!(ruled.at("10.2.3.1:0"), both("reno"));
    assert_eq!(ruled.at("10.2.0.1:0"), both("po_dtcp"));
    assert_eq!(ruled.at("[2001:db8::1]:0"), both("po_dtcp"));
    assert_eq!(ruled.at("10.1.0.1:7009"), both("po_west"));
    assert_eq!(ruled.at("10.1.0.1:7010"), both(&default));
    assert_eq!(ruled.at("127.0.0.1:0"), both(&default));
    assert_eq!([1, 2, 3].map(|rule| count(rule, "connections")), [2, 4, 2]);
    assert_eq!([1, 2, 3].map(|rule| count(rule, "listeners")), [0, 0, 1]);
    let told = ok(&["policy", "show"]);
    assert!(told.contains("rule 1: congestion_control = \"reno\", netns = "), "{told}");
    ruled.apply(&[]);
    assert_eq!(ruled.at("10.2.3.1:0"), both(&default));
}
