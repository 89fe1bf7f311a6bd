//! A network namespace with rules of its own.

use crate::common::*;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};

pub const NETNS: &str = "hotcc-test-policy";

/// A network namespace, and rules for it alone, which are removed when the value is dropped.
pub struct Ruled {
    pub ns: NetNs,
    pub test: KernelTest, // last field, so dropped last: it holds the lock that other tests wait for
}

impl Ruled {
    pub fn new(name: &str) -> Option<Self> {
        let test = kernel_test(name, &[])?;
        let _ = hotcc(&["canary", "abort"]); // fails if none is left over, which is the usual case
        ok(&["apply", &test.file("nothing.toml", b"")]);
        let ns = NetNs::new(NETNS);
        ns.sh("for a in 10.1.0.1 10.2.0.1 10.2.3.1; do ip addr add $a/32 dev lo; done; ip addr add 2001:db8::1/128 dev lo nodad");
        Some(Self { ns, test })
    }

    pub fn file(&self, text: &str) -> String {
        self.test.file("policy.toml", text.as_bytes())
    }

    /// Writes a file that declares two algorithms and rules, each for this namespace only, so that they affect no other
    /// socket of the machine.
    pub fn declare(&self, rules: &[&str]) -> String {
        let loaded =
            "[[algorithm]]\nobject = 'dtcp'\nname = 'po_dtcp'\n[[algorithm]]\nobject = 'westwoodp'\nname = 'po_west'\n";
        let rules: String = rules.iter().map(|rule| format!("[[policy]]\nnetns = '{NETNS}'\n{rule}\n")).collect();
        self.file(&format!("{loaded}{rules}"))
    }

    /// Applies such a file.
    pub fn apply(&self, rules: &[&str]) -> Value {
        json(&["apply", &self.declare(rules), "--json"])
    }

    pub fn listen(&self, address: &str) -> TcpListener {
        self.ns.enter(|| TcpListener::bind(address).unwrap())
    }

    /// Opens a connection, and returns both of its ends: the client's first.
    pub fn pair(&self, listener: &TcpListener) -> [TcpStream; 2] {
        let address = listener.local_addr().unwrap();
        let client = self.ns.enter(|| TcpStream::connect(address).unwrap());
        [client, listener.accept().unwrap().0]
    }

    /// Returns the congestion controls of both ends of a new connection.
    pub fn ends(&self, listener: &TcpListener) -> (String, String) {
        let [client, server] = self.pair(listener);
        (cc_of(&client), cc_of(&server))
    }

    /// Returns the same for a new listener at this address.
    pub fn at(&self, address: &str) -> (String, String) {
        self.ends(&self.listen(address))
    }
}

impl Drop for Ruled {
    fn drop(&mut self) {
        let _ = hotcc(&["apply", &self.test.file("nothing.toml", b"")]);
    }
}
