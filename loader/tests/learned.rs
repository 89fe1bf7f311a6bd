//! Tests that an open connection keeps what its algorithm has learned when it moves to another one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use serde_json::{Value, json as object};

fn path() -> NetNs {
    NetNs::with_slow_loopback("hotcc-test-learn")
}

/// Returns a connection that has sent for a second, so that its algorithm has a bandwidth estimate.
fn fill(path: &NetNs, cc: &str) -> Connection {
    let mut connection = path.enter(|| Connection::new(cc));
    connection.send(SLOW_LOOPBACK_BYTES_PER_S);
    connection
}

/// Returns a field of the state of the only connection that runs `cc`.
fn state(cc: &str, field: &str) -> Option<u64> {
    let flows = json(&["flows", "--cc", cc, "--json"]);
    let flows = flows.as_array().unwrap();
    assert_eq!(flows.len(), 1, "{flows:?}");
    let fields = flows[0]["state"].as_array().unwrap();
    fields.iter().find(|f| f["name"] == field).map(|f| f["value"].as_u64().unwrap())
}

fn migrate(from: &str, to: &str) -> Value {
    let moved = json(&["migrate", from, to, "--json"]);
    assert_eq!((&moved["moved"], &moved["failed"]), (&1.into(), &0.into()), "{moved}");
    moved["learned"].clone()
}

#[test]
fn a_moved_connection_keeps_its_bandwidth_and_least_rtt() {
    let Some(_test) = kernel_test("a_moved_connection_keeps_its_bandwidth_and_least_rtt", &["cc_a", "cc_b", "cc_c"])
    else {
        return;
    };
    ok(&["load", "westwoodp", "--as", "cc_a"]);
    ok(&["load", "dcmplus", "--as", "cc_b"]);
    ok(&["load", "arwa", "--as", "cc_c"]);
    let path = path();
    let mut connection = fill(&path, "cc_a");
    let bandwidth = state("cc_a", "bandwidth.second_q8").unwrap();
    let base_us = state("cc_a", "base_us");
    let per_s = bandwidth as usize / 256;
    assert!(
        (SLOW_LOOPBACK_BYTES_PER_S / 4..=SLOW_LOOPBACK_BYTES_PER_S * 2).contains(&per_s),
        "{per_s} bytes/s over a path of {SLOW_LOOPBACK_BYTES_PER_S}"
    );
    let dry = json(&["migrate", "cc_a", "cc_b", "--dry-run", "--json"]);
    assert_eq!(dry["learned"], object!({ "bandwidth": 0, "base_rtt": 0, "n": 0 }), "nothing moves");
    assert_eq!(migrate("cc_a", "cc_b"), object!({ "bandwidth": 1, "base_rtt": 1, "n": 0 }));
    assert_eq!(state("cc_b", "bandwidth.second_q8"), Some(bandwidth));
    assert_eq!(state("cc_b", "base_us"), base_us);
    connection.send(100_000);
    let text = ok(&["migrate", "cc_b", "cc_a"]);
    assert!(text.contains("had learned: bandwidth 1, least RTT 1\n"), "{text}");
    // an algorithm that has no such fields
    let nothing = object!({ "bandwidth": 0, "base_rtt": 0, "n": 0 });
    assert_eq!(migrate("cc_a", "cc_c"), nothing);
    assert_eq!(migrate("cc_c", "cc_a"), nothing);
    assert_eq!(state("cc_a", "bandwidth.second_q8"), Some(0), "no estimate from before comes back");
    // the kernel's own have none either
    assert_eq!(migrate("cc_a", "cubic"), nothing);
    connection.send(100_000);
}

#[test]
fn a_connection_keeps_what_it_learned_across_a_live_swap() {
    let Some(_test) = kernel_test("a_connection_keeps_what_it_learned_across_a_live_swap", &["cc_live"]) else {
        return;
    };
    ok(&["load", "dtcp", "--as", "cc_live"]);
    let path = path();
    let mut connection = fill(&path, "cc_live");
    let [bandwidth, n] = ["bandwidth_q8", "n_q16"].map(|field| state("cc_live", field));
    assert!(bandwidth > Some(0));
    let swapped = json(&["swap", "cc_live", "dtcp", "--set", "eta=3", "--live", "--json"]);
    assert_eq!(swapped["moved"]["learned"], object!({ "bandwidth": 1, "base_rtt": 1, "n": 1 }), "{swapped}");
    assert_eq!([state("cc_live", "bandwidth_q8"), state("cc_live", "n_q16")], [bandwidth, n]);
    connection.send(100_000);
}

/// Removes the rules when it is dropped, by applying a file that declares nothing.
struct Undone(String);

impl Drop for Undone {
    fn drop(&mut self) {
        let _ = hotcc(&["apply", &self.0]);
    }
}

#[test]
fn rules_for_open_sockets_hand_over_too() {
    let Some(test) = kernel_test("rules_for_open_sockets_hand_over_too", &["cc_old", "cc_rule"]) else { return };
    let path = path();
    let declare = |rules: &str| {
        let both = [("westwoodp", "cc_old"), ("dtcp", "cc_rule")];
        let loaded = both.map(|(object, name)| format!("[[algorithm]]\nobject = '{object}'\nname = '{name}'\n"));
        test.file("hotcc.toml", format!("{}{rules}", loaded.concat()).as_bytes())
    };
    let _undone = Undone(test.file("nothing.toml", b""));
    ok(&["apply", &declare("")]);
    let _connection = fill(&path, "cc_old");
    let bandwidth = state("cc_old", "bandwidth.second_q8");
    let rule = "[[policy]]\nnetns = 'hotcc-test-learn'\noverride = true\ncongestion_control = 'cc_rule'\n";
    let applied = json(&["policy", "apply", &declare(rule), "--live", "--json"]);
    // the receiving end, which ran the default, has learned nothing
    let open = &applied["open_sockets"];
    assert_eq!(open["learned"], object!({ "bandwidth": 1, "base_rtt": 1, "n": 0 }), "{applied}");
    let flows = json(&["flows", "--cc", "cc_rule", "--json"]);
    let estimates = flows.as_array().unwrap().iter().flat_map(|flow| flow["state"].as_array().unwrap());
    let kept = estimates.filter(|f| f["name"] == "bandwidth_q8").any(|f| f["value"].as_u64() == bandwidth);
    assert!(kept, "{flows}");
}
