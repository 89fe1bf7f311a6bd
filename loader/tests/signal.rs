//! Tests how an algorithm reads the radio signal: fresh, stale and absent readings, none of which it trusts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/fed.rs"]
mod fed;
use common::*;
use fed::Fed;
use hotcc::registry::Algo;
use hotcc_abi::stats::AlgoStats;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Long enough for a machine that stalls for a while.
const MAX_AGE_MS: u32 = 5000;

/// Returns what a flow of many epochs adds to the counters. `meanwhile` runs while it sends.
fn flow(name: &str, meanwhile: impl Fn()) -> AlgoStats {
    observed(name, |connection| epochs(connection, &meanwhile))
}

/// Sends enough to keep the window full: in an application-limited epoch, the algorithm makes no decision.
fn epochs(connection: &mut Connection, meanwhile: &dyn Fn()) {
    for _ in 0..8 {
        meanwhile();
        connection.send(4 * MIB);
    }
}

/// Creates a namespace whose loopback has a bottleneck; without one, the sender itself would be the bottleneck.
fn narrow_loopback(name: &'static str) -> NetNs {
    let ns = NetNs::new(name);
    ns.sh("tc qdisc add dev lo root tbf rate 500mbit burst 256kb latency 20ms");
    ns
}

/// Returns what one connection adds to the counters until it is closed. No other connection may be open.
fn observed(name: &str, work: impl FnOnce(&mut Connection)) -> AlgoStats {
    let before = stats(name);
    assert_eq!(before.flows_opened, before.flows_closed);
    let mut connection = Connection::new(name);
    work(&mut connection);
    drop(connection);
    let mut difference = stats(name);
    for _ in 0..200 {
        if difference.flows_closed > before.flows_closed {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        difference = stats(name);
    }
    assert_eq!(difference.flows_closed, before.flows_closed + 1);
    difference.signal_fresh -= before.signal_fresh;
    difference.signal_stale -= before.signal_stale;
    difference.signal_absent -= before.signal_absent;
    difference
}

fn stats(name: &str) -> AlgoStats {
    Algo::named(name).stats().unwrap().unwrap()
}

/// Loads dtcp with tunables such that it leaves slow start at once, and does not skip epochs because it is
/// application-limited.
fn load(name: &str) {
    ok(&["load", "dtcp", "--as", name, "--set", "initial_ssthresh_bytes=20000", "--set", "epoch_us=1000"]);
}

#[test]
fn dtcp_uses_a_fresh_reading_and_runs_on_without_a_stale_one() {
    let Some(_test) = kernel_test("dtcp_uses_a_fresh_reading_and_runs_on_without_a_stale_one", &["dtcp_sig"]) else {
        return;
    };
    narrow_loopback("hotcc-test-signal").enter(fresh_and_stale);
}

fn fresh_and_stale() {
    load("dtcp_sig");
    let absent = flow("dtcp_sig", || {});
    assert!(absent.signal_absent > 0 && absent.signal_fresh + absent.signal_stale == 0, "{absent:?}");
    let fed = Fed::new("127.0.0.1/32", MAX_AGE_MS);
    let fresh = flow("dtcp_sig", || fed.publish(25.0, 20.0, 0));
    assert!(fresh.signal_fresh > 0 && fresh.signal_stale + fresh.signal_absent == 0, "{fresh:?}");
    let stale = flow("dtcp_sig", || fed.publish(25.0, 20.0, MAX_AGE_MS + 100));
    assert!(stale.signal_stale > 0 && stale.signal_fresh + stale.signal_absent == 0, "{stale:?}");
    // a reading from the future is of another clock, and counts as stale
    let future = flow("dtcp_sig", || fed.publish(25.0, 20.0, 1000u32.wrapping_neg()));
    assert!(future.signal_stale > 0 && future.signal_fresh + future.signal_absent == 0, "{future:?}");
    let both = observed("dtcp_sig", |connection| {
        epochs(connection, &|| fed.publish(25.0, 20.0, 0));
        drop(fed);
        epochs(connection, &|| {}); // an open flow notices that its link was removed
    });
    assert!(both.signal_fresh > 0 && both.signal_absent > 0 && both.signal_stale == 0, "{both:?}");
}

#[test]
fn the_longest_prefix_wins_and_other_links_do_not_matter() {
    let Some(_test) = kernel_test("the_longest_prefix_wins_and_other_links_do_not_matter", &["dtcp_lpm"]) else {
        return;
    };
    narrow_loopback("hotcc-test-signal").enter(longest_prefix);
}

fn longest_prefix() {
    load("dtcp_lpm");
    let other = Fed::new("10.0.0.0/8", MAX_AGE_MS);
    let elsewhere = flow("dtcp_lpm", || other.publish(25.0, 20.0, 0));
    assert!(elsewhere.signal_absent > 0 && elsewhere.signal_fresh == 0, "{elsewhere:?}");
    let all = Fed::new("0.0.0.0/0", MAX_AGE_MS);
    let one = Fed::new("127.0.0.1/32", MAX_AGE_MS);
    one.publish(25.0, 20.0, 60_000);
    let near = flow("dtcp_lpm", || all.publish(25.0, 20.0, 0));
    assert!(near.signal_stale > 0 && near.signal_fresh == 0, "its own stale link, not the general fresh one: {near:?}");
    drop(one);
    let far = flow("dtcp_lpm", || all.publish(25.0, 20.0, 0));
    assert!(far.signal_fresh > 0 && far.signal_absent == 0, "{far:?}");
}

#[test]
fn off_reads_nothing() {
    let Some(_test) = kernel_test("off_reads_nothing", &["dtcp_off"]) else { return };
    load("dtcp_off");
    ok(&["set", "dtcp_off", "sinr_term=off"]);
    let fed = Fed::new("127.0.0.1/32", MAX_AGE_MS);
    let off = flow("dtcp_off", || fed.publish(25.0, 20.0, 0));
    assert_eq!(off.signal_fresh + off.signal_stale + off.signal_absent, 0);
}
