//! Tests the figures that are counted for the connections of a rule.

use crate::common::*;
use crate::ruled::Ruled;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const BYTES: usize = 300_000;

impl Ruled {
    /// Sends [`BYTES`] over a new connection. Returns its two ends.
    fn transfer(&self, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let address = listener.local_addr().unwrap();
        let mut client = self.ns.enter(|| TcpStream::connect(address).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| client.write_all(&[7; BYTES]).unwrap());
            server.read_exact(&mut vec![0; BYTES]).unwrap();
        });
        (client, server)
    }
}

fn stats() -> Vec<Value> {
    json(&["policy", "stats", "--json"])["rules"].as_array().unwrap().clone()
}

fn number(rule: &Value, key: &str) -> u64 {
    rule[key].as_u64().unwrap()
}

/// Closed sockets are counted when the last acknowledgement is there, which may be a moment later.
fn counted(rule: usize, connections: u64) -> Value {
    let mut last = Value::Null;
    for _ in 0..100 {
        last = stats()[rule - 1].clone();
        if number(&last, "connections") >= connections {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(number(&last, "connections"), connections, "{last}");
    last
}

#[test]
fn the_connections_of_each_rule_are_counted_at_their_end_under_any_congestion_control() {
    let test = "the_connections_of_each_rule_are_counted_at_their_end_under_any_congestion_control";
    let Some(ruled) = Ruled::new(test) else { return };
    let rules = [
        "remote = '10.2.3.1'\ncongestion_control = 'reno'", // of the kernel
        "remote = '10.1.0.1'\ncongestion_control = 'po_dtcp'",
        "remote = '10.2.0.1'\ncongestion_control = 'reno'",
    ];
    ruled.apply(&rules);
    let (kernels, ours) = (ruled.listen("10.2.3.1:0"), ruled.listen("10.1.0.1:0"));
    let open: Vec<_> = (0..3).map(|_| ruled.transfer(&kernels)).collect();
    let still_open = ruled.transfer(&ours);
    assert_eq!(number(&stats()[0], "connections"), 0, "none has ended");
    assert!(stats()[0]["rtt_us"].is_null());
    drop(open);
    let rule = counted(1, 6); // both ends have the address of the rule
    assert_eq!(number(&rule, "acked_bytes") / 3 / 10, BYTES as u64 / 10, "the ends of a connection count, too: {rule}");
    assert!(number(&rule, "segments") >= 3 * 5, "{rule}");
    assert_eq!(rule["duration_ms"]["connections"], 6);
    assert_eq!(rule["rtt_us"]["connections"], 6);
    let [p5, p50, p95] = ["p5", "p50", "p95"].map(|key| rule["rtt_us"][key].as_f64().unwrap());
    assert!(p5 > 0.0 && p5 <= p50 && p50 <= p95, "{rule}");
    assert_eq!(number(&stats()[1], "connections"), 0);
    let id = rule["id"].clone();

    // a rule that stays keeps its figures, also in another place; one that is new begins with nothing
    ruled.apply(&["remote = '127.0.0.1'\ncongestion_control = 'reno'", rules[1], rules[0]]);
    assert_eq!((number(&stats()[2], "connections"), &stats()[2]["id"]), (6, &id));
    assert!(id.is_string() && stats()[..2].iter().all(|rule| rule["id"] != id), "{id}");
    drop(still_open);
    let rule = counted(2, 2);
    assert_eq!(rule["congestion_control"], "po_dtcp");
    assert!(number(&rule, "acked_bytes") >= BYTES as u64, "it opened under the rules before: {rule}");
    assert_eq!(number(&stats()[0], "connections"), 0);

    let text = ok(&["policy", "stats"]);
    assert!(text.contains("rule 1: ") && text.contains("no connection has ended yet"), "{text}");
    assert!(text.contains("minimum RTT") && text.contains("Mbit/s"), "{text}");
}

fn since_6_12() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn a_connection_that_leaves_its_rule_is_counted_up_to_then() {
    let Some(ruled) = Ruled::new("a_connection_that_leaves_its_rule_is_counted_up_to_then") else { return };
    let to = |cc: &str| format!("remote = '10.2.3.1'\ncongestion_control = '{cc}'");
    ruled.apply(&[&to("po_dtcp")]);
    let listener = ruled.listen("10.2.3.1:0");
    let (migrated, chosen) = (ruled.transfer(&listener), ruled.transfer(&listener));
    ok(&["migrate", "po_dtcp", "po_west", "--port", &migrated.0.local_addr().unwrap().port().to_string()]);
    let rule = counted(1, 2);
    assert_eq!(number(&rule, "acked_bytes") / 10, BYTES as u64 / 10, "{rule}");
    drop(migrated);
    // the application's own choice: which of both congestion controls did what cannot be known
    crate::set_cc(&chosen.0, "reno");
    crate::set_cc(&chosen.1, "reno");
    drop(chosen);
    drop(ruled.transfer(&listener));
    counted(1, 4);

    // from Linux 6.12 on, a connection counts for both rules that it was under
    let moved = ruled.transfer(&listener);
    ok(&["policy", "apply", &ruled.declare(&[&to("reno"), &to("po_dtcp")]), "--live"]);
    let rule = counted(2, 6);
    assert_eq!(number(&rule, "acked_bytes") / 3 / 10, BYTES as u64 / 10, "{rule}");
    assert_eq!(number(&stats()[0], "connections"), 0);
    drop(moved);
    if since_6_12() {
        let rule = counted(1, 2);
        assert!(number(&rule, "acked_bytes") < 10, "all was sent before it was moved: {rule}");
    }
}
