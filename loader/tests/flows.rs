//! Tests `hotcc flows`, which lists open connections with their algorithm's state.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

fn flows(cc: &str) -> Vec<Value> {
    json(&["flows", "--cc", cc, "--json"]).as_array().unwrap().clone()
}

fn state(flow: &Value, name: &str) -> Option<i64> {
    let fields = flow["state"].as_array().unwrap();
    fields.iter().find(|f| f["name"] == name).map(|f| f["value"].as_i64().unwrap())
}

#[test]
fn a_flow_is_shown_with_its_algorithms_state() {
    let Some(_test) = kernel_test("a_flow_is_shown_with_its_algorithms_state", &["cc_seen"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_seen", "--profile", "paper"]);
    assert_eq!(flows("cc_seen"), Vec::<Value>::new());
    let mut connection = Connection::new("cc_seen");
    connection.send(200_000);
    let found = flows("cc_seen");
    assert_eq!(found.len(), 1);
    let flow = &found[0];
    assert_eq!(
        (&flow["version"], &flow["netns"], &flow["ca_state"]),
        (&"current".into(), &"here".into(), &"open".into())
    );
    assert!(flow["cwnd"].as_u64().unwrap() >= 20, "twice the initial window: {flow}");
    assert!(flow["srtt_us"].as_u64().unwrap() > 0 && flow["acked_bytes"].as_u64().unwrap() >= 100_000, "{flow}");
    assert!(state(flow, "n_q16").unwrap() >= 65_536, "{flow}");
    assert_eq!(state(flow, "base.us"), flow["min_rtt_us"].as_i64(), "{flow}");
    let text = ok(&["flows", "--cc", "cc_seen"]);
    assert!(text.contains("    radio.generation not consulted yet\n"), "there is no radio map: {text}");
    assert!(text.contains("127.0.0.1") && text.contains("    n_q16 ") && text.contains("segments per RTT"), "{text}");
    assert!(!ok(&["flows"]).contains("n_q16"), "the state is for one algorithm");
}

/// Its latest rate sample says nothing about now.
#[test]
fn a_silent_flow_delivers_nothing() {
    let Some(_test) = kernel_test("a_silent_flow_delivers_nothing", &["cc_silent"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_silent"]);
    let mut connection = Connection::new("cc_silent");
    connection.send(200_000);
    assert!(flows("cc_silent")[0]["delivery_bps"].as_u64().unwrap() > 0);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_eq!(flows("cc_silent")[0]["delivery_bps"], Value::Null);
    connection.send(200_000);
    assert!(flows("cc_silent")[0]["delivery_bps"].as_u64().unwrap() > 0, "it is not silent any more");
}

#[test]
fn named_values_are_shown_by_name() {
    let Some(_test) = kernel_test("named_values_are_shown_by_name", &["cc_phase"]) else { return };
    ok(&["load", "crest", "--as", "cc_phase"]);
    let mut connection = Connection::new("cc_phase");
    connection.send(20_000);
    let text = ok(&["flows", "--cc", "cc_phase"]);
    assert!(text.contains("    phase START (0)\n") || text.contains("    phase CRUISE (1)\n"), "{text}");
    assert!(text.contains("    signal.radio.kind none (0)\n"), "{text}");
}

#[test]
fn flows_are_filtered_sorted_and_watched() {
    let Some(_test) = kernel_test("flows_are_filtered_sorted_and_watched", &["cc_order"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_order"]);
    let mut connections = [(); 3].map(|()| Connection::new("cc_order"));
    for (connection, bytes) in connections.iter_mut().zip([50_000, 200_000, 100_000]) {
        connection.send(bytes);
    }
    let sorted = json(&["flows", "--cc", "cc_order", "--sort", "bytes", "--json"]);
    let acked: Vec<u64> = sorted.as_array().unwrap().iter().map(|f| f["acked_bytes"].as_u64().unwrap()).collect();
    assert!(acked.len() == 3 && acked.is_sorted_by(|a, b| a > b), "{acked:?}");
    for (peers, count) in [("127.0.0.0/8", 3), ("127.0.0.1", 3), ("127.0.0.2", 0), ("::/0", 0)] {
        let found = json(&["flows", "--cc", "cc_order", "--peer", peers, "--json"]);
        assert_eq!(found.as_array().unwrap().len(), count, "{peers}");
    }
    let mut watch = Command::new(hotcc_path());
    watch.args(["flows", "--cc", "cc_order", "--watch", "--json"]).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let lines: Vec<String> = BufReader::new(watch.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    for line in lines {
        assert_eq!(serde_json::from_str::<Vec<Value>>(&line).unwrap().len(), 3);
    }
}

/// The versions have different fields: each connection has the fields of the version that it runs.
#[test]
fn an_older_version_is_read_with_its_own_fields() {
    let Some(_test) = kernel_test("an_older_version_is_read_with_its_own_fields", &["cc_aged"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_aged"]);
    let _old = Connection::new("cc_aged");
    ok(&["swap", "cc_aged", "westwoodp"]);
    let _new = Connection::new("cc_aged");
    let found = flows("cc_aged");
    let of = |version: &str| found.iter().find(|f| f["version"] == version).unwrap();
    assert_eq!((state(of("older"), "n_q16"), state(of("older"), "loss_ssthresh")), (Some(65_536), None));
    assert_eq!((state(of("current"), "n_q16"), state(of("current"), "loss_ssthresh")), (None, Some(0)));
}

#[test]
fn other_namespaces_and_ipv6_are_seen() {
    let Some(_test) = kernel_test("other_namespaces_and_ipv6_are_seen", &["cc_six"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_six"]);
    let netns = NetNs::new("hotcc-flows");
    netns.sh("echo cc_six > /proc/sys/net/ipv4/tcp_congestion_control");
    let _connection = netns.enter(|| {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap())
    });
    let found = flows("cc_six");
    assert_eq!(found.len(), 2, "both ends are in there");
    assert!(found.iter().all(|f| f["netns"] == "hotcc-flows" && f["peer"].as_str().unwrap().starts_with("[::1]:")));
    assert_eq!(found[0]["local"], found[1]["peer"]);
    assert_eq!(json(&["flows", "--cc", "cc_six", "--netns", "hotcc-flows", "--json"]), Value::Array(found));
    assert!(fails(2, &["flows", "--netns", "nowhere"]).contains("no network namespace `nowhere`"));
    assert!(
        fails(1, &["flows", "--cc", "cc_none"]).contains("no congestion control `cc_none` is registered; available: ")
    );
    assert!(fails(2, &["flows", "--cc", "a-name-that-is-too-long"]).contains("a-name-that-is-too-long"));
}
