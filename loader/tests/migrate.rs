//! Tests `hotcc migrate`: open sockets in the selected namespaces move, and no others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use serde_json::{Value, json as object};
use std::net::TcpListener;

const MIB: usize = 1 << 20;

/// Returns a connection in the namespace, and its listener, which uses the default.
fn connect(ns: &NetNs, cc: &str) -> (TcpListener, Connection) {
    ns.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::to(&listener, Some(cc));
        (listener, connection)
    })
}

/// Returns the results for the test's own namespaces; other programs may have sockets in others.
fn in_ours(migrated: &Value) -> Vec<(String, Value, Value)> {
    let all = migrated["namespaces"].as_array().unwrap().iter();
    let mut ours: Vec<_> =
        all.map(|n| (n["netns"].as_str().unwrap().to_owned(), n["moved"].clone(), n["failed"].clone())).collect();
    ours.retain(|(name, ..)| name.starts_with("hotcc-test-"));
    ours.sort_by(|a, b| a.0.cmp(&b.0));
    ours
}

#[test]
fn open_sockets_move_and_move_back() {
    let Some(_test) = kernel_test("open_sockets_move_and_move_back", &["cc_from", "cc_to"]) else { return };
    let (a, b) = (NetNs::new("hotcc-test-mig-a"), NetNs::new("hotcc-test-mig-b"));
    ok(&["load", "westwoodp", "--as", "cc_from"]);
    ok(&["load", "dtcp", "--as", "cc_to"]);
    a.sh("echo cc_from > /proc/sys/net/ipv4/tcp_congestion_control");
    let ((on_default, mut first), (_, mut second), (_, mut other)) =
        (connect(&a, "cc_from"), connect(&b, "cc_from"), connect(&b, "reno"));
    let chosen = b.enter(|| TcpListener::bind("127.0.0.1:0").unwrap());
    nix::sys::socket::setsockopt(&chosen, nix::sys::socket::sockopt::TcpCongestion, &"cc_from".into()).unwrap();
    first.send(MIB);
    // in a: both ends, because it is the default there; in b: the client's end, and the listener that selected it
    let expected = |a: u64, b: u64| {
        let of = |n: u64| (object!(n), object!(0));
        let (a, b) = (of(a), of(b));
        vec![("hotcc-test-mig-a".to_owned(), a.0, a.1), ("hotcc-test-mig-b".to_owned(), b.0, b.1)]
    };
    let dry = json(&["migrate", "cc_from", "cc_to", "--dry-run", "--json"]);
    assert_eq!((&dry["dry_run"], &dry["moved"], in_ours(&dry)), (&true.into(), &4.into(), expected(2, 2)));
    assert_eq!((first.cc(), second.cc()), ("cc_from".to_owned(), "cc_from".to_owned()), "nothing moved");
    let twice = ["--netns", "hotcc-test-mig-a", "--netns", "/run/netns/hotcc-test-mig-a"];
    let dry = json(&[&["migrate", "cc_from", "cc_to", "--dry-run", "--json"][..], &twice].concat());
    assert_eq!((&dry["moved"], in_ours(&dry)), (&2.into(), expected(2, 0)[..1].to_vec()), "counted once");
    let one = json(&["migrate", "cc_from", "cc_to", "--netns", "hotcc-test-mig-a", "--json"]);
    assert_eq!((&one["moved"], in_ours(&one)), (&2.into(), expected(2, 0)[..1].to_vec()));
    assert_eq!((first.cc(), second.cc()), ("cc_to".to_owned(), "cc_from".to_owned()));
    let text = ok(&["migrate", "cc_from", "cc_to"]);
    assert!(text.starts_with("cc_from to cc_to: open sockets moved: 2\n"), "{text}");
    assert!(text.contains("  network namespace hotcc-test-mig-b: moved 2, refused 0\n"), "{text}");
    assert_eq!((second.cc(), other.cc()), ("cc_to".to_owned(), "reno".to_owned()));
    assert_eq!((cc_of(&chosen), cc_of(&on_default)), ("cc_to".to_owned(), "cc_from".to_owned()));
    for connection in [&mut first, &mut second, &mut other] {
        connection.send(MIB);
    }
    let path = "/run/netns/hotcc-test-mig-b";
    assert_eq!(json(&["migrate", "cc_to", "cc_from", "--netns", path, "--json"])["moved"], 2, "the way back");
    assert_eq!((second.cc(), first.cc()), ("cc_from".to_owned(), "cc_to".to_owned()));
    // connections on a version that no longer serves
    ok(&["swap", "cc_to", "westwoodp"]);
    assert_eq!(json(&["migrate", "cc_to", "cc_to", "--json"])["moved"], 2);
    assert_eq!(json(&["migrate", "cc_to", "cc_to", "--json"])["moved"], 0);
    first.send(MIB);
}

#[test]
fn sockets_migrate_to_the_kernels_congestion_controls() {
    let Some(_test) = kernel_test("sockets_migrate_to_the_kernels_congestion_controls", &["cc_own"]) else { return };
    let ns = NetNs::new("hotcc-test-own");
    let (_listener, mut connection) = connect(&ns, "reno");
    let only = ["--netns", "hotcc-test-own", "--json"];
    let migrate = |from, to| json(&[&["migrate", from, to][..], &only].concat());
    assert_eq!(migrate("reno", "cubic")["moved"], 1);
    connection.send(MIB);
    assert_eq!(connection.cc(), "cubic");
    ok(&["load", "dtcp", "--as", "cc_own"]);
    assert_eq!(migrate("cubic", "cc_own")["failed"], 0);
    connection.send(MIB);
    assert_eq!(connection.cc(), "cc_own");
    ok(&["unload", "cc_own"]);
    // from an unloaded one, too
    assert!(migrate("cc_own", "cubic")["moved"].as_u64().unwrap() >= 1);
    connection.send(MIB);
    assert_eq!(connection.cc(), "cubic");
}

#[test]
fn migrations_that_the_kernel_rejects_are_reported_by_namespace() {
    let Some(_test) = kernel_test("migrations_that_the_kernel_rejects_are_reported_by_namespace", &["cc_lock"]) else {
        return;
    };
    let ns = NetNs::new("hotcc-test-lock");
    ok(&["load", "dtcp", "--as", "cc_lock"]);
    ns.sh("ip route change local 127.0.0.1 dev lo table local congctl lock cc_lock");
    let (_listener, connection) = connect(&ns, "reno");
    assert_eq!(connection.cc(), "cc_lock");
    for dry_run in [&["--dry-run"][..], &[]] {
        let refused = json(&[&["migrate", "cc_lock", "reno", "--json"][..], dry_run].concat());
        assert_eq!(refused["moved"], 0);
        assert_eq!(in_ours(&refused), vec![("hotcc-test-lock".to_owned(), object!(0), object!(2))], "both ends");
    }
    assert_eq!(connection.cc(), "cc_lock");
}

#[test]
fn migrations_that_make_no_sense() {
    let Some(_test) = kernel_test("migrations_that_make_no_sense", &[]) else { return };
    let message = fails(1, &["migrate", "reno", "no_such_cc"]);
    assert!(message.contains("no congestion control `no_such_cc` is registered; available: "), "{message}");
    let message = fails(1, &["migrate", "no_such_cc", "reno"]);
    assert!(message.contains("no open socket uses `no_such_cc`"), "{message}");
    fails(2, &["migrate", "reno", "reno"]);
    fails(2, &["migrate", "a-b", "reno"]);
    let message = fails(2, &["migrate", "cubic", "reno", "--netns", "no_such_netns"]);
    assert!(message.contains("no network namespace `no_such_netns`"), "{message}");
    fails(2, &["migrate", "cubic", "reno", "--netns", "/etc/passwd"]);
    let help = ok(&["migrate", "--help"]); // the help is wrapped
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("To undo, migrate in the opposite direction"), "{help}");
}
