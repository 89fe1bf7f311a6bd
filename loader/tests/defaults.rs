//! Tests what a swap and an unload do with the default of a network namespace.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::sysctl;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MIB: usize = 1 << 20;
const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

#[test]
fn swap_and_unload_look_after_the_defaults_of_every_namespace() {
    let Some(test) = kernel_test("swap_and_unload_look_after_the_defaults_of_every_namespace", &["cc_default"]) else {
        return;
    };
    let ns = NetNs::new("hotcc-test-default");
    let before = ns.sh(&format!("cat {SYSCTL}"));
    ok(&["load", "westwoodp", "--as", "cc_default"]);
    ns.sh(&format!("echo cc_default > {SYSCTL}"));
    assert_eq!(status_of("cc_default").unwrap()["default_in_namespaces"], 1);
    let shown = ok(&["status"]);
    let ours = shown.lines().find(|l| l.starts_with("cc_default")).unwrap();
    assert!(shown.lines().next().unwrap().contains("default in") && ours.contains(" 1 netns "), "{shown}");
    let swapped = json(&["swap", "cc_default", "dtcp", "--json"]);
    assert_eq!(swapped["defaults_rewritten"], 1);
    // a socket that is created after the swap and uses the default runs the new version
    ns.sh("iperf3 -s -1 -D -p 5311; sleep 0.3; iperf3 -c 127.0.0.1 -p 5311 -t 2 >/dev/null 2>&1 & sleep 1.2");
    let status = status_of("cc_default").unwrap();
    assert!(status["connections_current"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!(status["connections_older"], 0);
    // the kernel does not allow this one as the default of other namespaces
    let refused = json(&["swap", "cc_default", &test.object("stranger"), "--json"]);
    assert_eq!((&refused["defaults_rewritten"], &refused["defaults_refused"]), (&0.into(), &1.into()));
    assert_eq!(json(&["rollback", "cc_default", "--json"])["defaults_rewritten"], 1);
    // a plain file beside the namespaces, which `ip netns add` creates for a moment, has no effect
    std::fs::write("/run/netns/hotcc-test-plain", "").unwrap();
    let status = hotcc(&["status"]);
    let unloaded = json(&["unload", "cc_default", "--json"]);
    std::fs::remove_file("/run/netns/hotcc-test-plain").unwrap();
    assert!(status.status.success());
    assert_eq!(unloaded["defaults_moved"], 1);
    assert_eq!(ns.sh(&format!("cat {SYSCTL}")), before);
}

#[test]
fn routes_that_name_what_was_unloaded_give_the_default() {
    let Some(_test) = kernel_test("routes_that_name_what_was_unloaded_give_the_default", &["cc_route"]) else { return };
    let ns = NetNs::new("hotcc-test-route");
    let connect = || ns.enter(|| Connection::to(&TcpListener::bind("127.0.0.1:0").unwrap(), None));
    let both = |connection: &Connection| (connection.cc(), cc_of(&connection.server));
    let on = |cc: &str| (cc.to_owned(), cc.to_owned());
    ok(&["load", "westwoodp", "--as", "cc_route"]);
    ns.sh("echo reno > /proc/sys/net/ipv4/tcp_congestion_control");
    for lock in ["", "lock "] {
        ns.sh(&format!("ip route change local 127.0.0.1 dev lo table local congctl {lock}cc_route"));
        let mut before = connect();
        assert_eq!(both(&before), on("cc_route"));
        ok(&["unload", "cc_route"]);
        let mut after = connect();
        assert_eq!(both(&after), on("reno"), "neither the dead one nor a failure");
        for connection in [&mut before, &mut after] {
            connection.send(MIB);
        }
        // the route keeps the name, though `ip route` cannot show it meanwhile; with a locked one, iproute2 6.1 crashes
        assert!(!lock.is_empty() || !ns.sh("ip route show table local").contains("congctl"));
        ok(&["load", "dtcp", "--as", "cc_route"]);
        assert_eq!(both(&connect()), on("cc_route"));
        assert!(ns.sh("ip route show table local").contains("cc_route"));
        ok(&["swap", "cc_route", "westwoodp"]);
        let _new = connect();
        let status = status_of("cc_route").unwrap();
        assert_eq!((&status["connections_current"], &status["connections_older"]), (&2.into(), &2.into()), "{lock}");
    }
}

#[test]
fn live_swaps_leave_listeners_on_the_default_to_the_default() {
    let Some(_test) = kernel_test("live_swaps_leave_listeners_on_the_default_to_the_default", &["cc_listen"]) else {
        return;
    };
    let ns = NetNs::new("hotcc-test-listen");
    ok(&["load", "westwoodp", "--as", "cc_listen"]);
    ns.sh(&format!("echo cc_listen > {SYSCTL}"));
    // in the namespace: a listener that uses the default; here: one that selected the congestion control itself
    ns.sh("iperf3 -s -D -p 5313 -I /tmp/hotcc-test-listen.pid; sleep 0.3");
    let chosen = TcpListener::bind("127.0.0.1:0").unwrap();
    nix::sys::socket::setsockopt(&chosen, nix::sys::socket::sockopt::TcpCongestion, &"cc_listen".into()).unwrap();
    let swapped = json(&["swap", "cc_listen", "dtcp", "--live", "--json"]);
    assert_eq!(swapped["moved"]["moved"], 1, "the one that chose");
    assert_eq!(status_of("cc_listen").unwrap()["listeners"], 1);
    let accepted = Connection::to(&chosen, None);
    assert_eq!(cc_of(&accepted.server), "cc_listen");
    drop(accepted);
    let unloaded = json(&["unload", "cc_listen", "--fallback", "reno", "--json"]);
    assert_eq!(unloaded["listeners_left"], 1);
    let served = ns.sh("iperf3 -c 127.0.0.1 -p 5313 -n 1M -R -J; kill $(cat /tmp/hotcc-test-listen.pid)");
    assert!(served.contains("\"sender_tcp_congestion\":\t\"reno\""), "{served}");
}

#[test]
fn unload_restores_the_default_that_was_there_before() {
    let test = kernel_test("unload_restores_the_default_that_was_there_before", &["cc_first", "cc_second"]);
    let Some(_test) = test else { return };
    let ns = NetNs::new("hotcc-test-before");
    let set = |name: &str| ns.sh(&format!("echo {name} > {SYSCTL}"));
    let default = || ns.sh(&format!("cat {SYSCTL}"));
    set("reno");
    ok(&["load", "westwoodp", "--as", "cc_first"]);
    set("cc_first");
    ok(&["load", "westwoodp", "--as", "cc_second"]);
    set("cc_second");
    ok(&["swap", "cc_second", "dtcp"]);
    ok(&["unload", "cc_second"]);
    assert_eq!(default(), "cc_first");
    // the previous default may be unloaded first
    ok(&["load", "westwoodp", "--as", "cc_second"]);
    set("cc_second");
    ok(&["unload", "cc_first"]);
    ok(&["unload", "cc_second"]);
    assert_eq!(default(), "reno");
}

/// The kernel gives the inode of a removed network namespace to the next one.
#[test]
fn unload_confuses_no_removed_network_namespace_with_a_later_one() {
    let name = "unload_confuses_no_removed_network_namespace_with_a_later_one";
    let Some(_test) = kernel_test(name, &["cc_later"]) else { return };
    let inode = |name: &str| std::fs::metadata(Path::new("/run/netns").join(name)).unwrap().ino();
    let removed = NetNs::new("hotcc-test-removed");
    let removed_inode = inode("hotcc-test-removed");
    removed.sh(&format!("echo reno > {SYSCTL}"));
    ok(&["load", "westwoodp", "--as", "cc_later"]);
    let before = sysctl::default().unwrap();
    assert_ne!(before, "reno", "the test cannot tell the defaults apart");
    drop(removed);
    let mut later = Vec::new();
    for name in ["hotcc-test-later0", "hotcc-test-later1", "hotcc-test-later2", "hotcc-test-later3"] {
        std::thread::sleep(std::time::Duration::from_millis(500)); // the kernel removes a namespace asynchronously
        later.push(NetNs::new(name));
        if inode(name) == removed_inode {
            later[later.len() - 1].sh(&format!("echo cc_later > {SYSCTL}"));
            ok(&["unload", "cc_later"]);
            assert_eq!(later[later.len() - 1].sh(&format!("cat {SYSCTL}")), before);
            return;
        }
    }
    println!("no later network namespace got inode {removed_inode}");
}
