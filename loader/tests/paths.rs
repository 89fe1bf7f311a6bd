//! Tests path changes: real routes in a network namespace, a watch on them, and flows that react to them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_abi::path::PathKey;
use hotcc_abi::pins;
use hotcc_testbed::command::failed;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const NS: &str = "hotcc-test-paths";
/// Prefixes of the tests' destinations, which no other program uses (RFC 5737, 2544, 3849).
const PREFIXES: [&str; 5] = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "2001:db8::/32"];

fn key(text: &str) -> PathKey {
    text.parse().unwrap()
}

/// A test whose destinations have generation 0 when it begins, and again after it has ended.
struct PathTest(#[allow(dead_code, reason = "held, not read")] KernelTest);

fn path_test(name: &str, cc_names: &[&str]) -> Option<PathTest> {
    let test = PathTest(kernel_test(name, cc_names)?);
    forget();
    Some(test)
}

impl Drop for PathTest {
    fn drop(&mut self) {
        forget();
    }
}

fn forget() {
    let Ok(map) = MapHandle::from_pinned_path(pins::signal(pins::PATH_GEN)) else { return };
    for (known, _) in hotcc::paths::maps::paths().unwrap().paths {
        if PREFIXES.iter().any(|prefix| key(prefix).covers(known)) {
            map.delete(bytemuck::bytes_of(&known)).unwrap();
        }
    }
}

/// Creates a network namespace with two links to two networks.
fn two_links() -> NetNs {
    let ns = NetNs::new(NS);
    ns.sh("for i in 0 1; do
        ip link add v$i type veth peer name w$i
        ip addr add 198.19.$i.1/24 dev v$i
        ip addr add 2001:db8:77:$i::1/64 dev v$i nodad
        ip link set v$i up
        ip link set w$i up
    done");
    ns
}

/// A running `hotcc paths watch`; it is killed when the value is dropped.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(hotcc_path());
        let mut child =
            command.args(["paths", "watch", "--netns", NS]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    /// Runs a script that makes no path change, and checks that the watch prints nothing.
    #[track_caller]
    fn silent_over(&self, ns: &NetNs, script: &str) {
        ns.sh(script);
        let line = self.lines.recv_timeout(Duration::from_millis(300));
        assert_eq!(line, Err(RecvTimeoutError::Timeout), "{script}");
    }

    /// Runs a script that makes a path change, checks the lines that the watch prints, and returns their generation.
    #[track_caller]
    fn tells(&self, ns: &NetNs, script: &str, expected: &[&str]) -> u64 {
        ns.sh(script);
        let mut told: Vec<(String, u64)> = expected
            .iter()
            .map(|_| {
                let line = self.line();
                let (what, generation) = line.rsplit_once(", generation ").unwrap_or_else(|| panic!("{line}"));
                (what.to_owned(), generation.parse().unwrap())
            })
            .collect();
        told.sort();
        let generation = told[0].1;
        assert!(told.iter().all(|(what, g)| *g == generation && generation_of(what) == generation), "{told:?}");
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(told.iter().map(|(what, _)| &**what).collect::<Vec<_>>(), expected, "{script}");
        generation
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the generation in the map for the destination at the beginning of a line.
fn generation_of(line: &str) -> u64 {
    let prefix = line.split(' ').next().unwrap();
    let paths = json(&["paths", "show", "--json"]);
    let found = paths["paths"].as_array().unwrap().iter().find(|entry| entry["prefix"] == prefix);
    found.unwrap_or_else(|| panic!("no {prefix} in {paths}"))["generation"].as_u64().unwrap()
}

fn clock() -> Option<u64> {
    json(&["paths", "show", "--json"])["clock"].as_u64()
}

#[test]
fn a_changed_route_is_reported() {
    let Some(_test) = path_test("a_changed_route_is_reported", &[]) else { return };
    let ns = two_links();
    ns.sh("ip route add 198.51.100.0/24 via 198.19.0.2");
    let watch = Watch::start(&[]);
    assert!(watch.line().starts_with("watching the routes to "));
    let first = watch.tells(
        &ns,
        "ip route replace 198.51.100.0/24 via 198.19.1.2",
        &["198.51.100.0/24 (table 254): via 198.19.0.2 dev v0 -> via 198.19.1.2 dev v1"],
    );
    assert_eq!(clock(), Some(first));
    // another MTU, an additional route with lower preference, and a route that is removed and added again at once: the
    // way is the same
    watch.silent_over(&ns, "ip route replace 198.51.100.0/24 via 198.19.1.2 mtu 1400");
    watch.silent_over(&ns, "ip route add 198.51.100.0/24 via 198.19.0.2 metric 50");
    watch.silent_over(
        &ns,
        "printf 'route del 198.51.100.0/24\nroute add 198.51.100.0/24 via 198.19.1.2\n' | ip -batch -",
    );
    assert_eq!(clock(), Some(first));
    watch.tells(
        &ns,
        "ip route replace 198.51.100.0/24 nexthop via 198.19.0.2 nexthop via 198.19.1.2",
        &["198.51.100.0/24 (table 254): via 198.19.1.2 dev v1 -> via 198.19.0.2 dev v0 and via 198.19.1.2 dev v1"],
    );
    watch.tells(
        &ns,
        "ip route del 198.51.100.0/24 metric 0",
        &["198.51.100.0/24 (table 254): via 198.19.0.2 dev v0 and via 198.19.1.2 dev v1 -> via 198.19.0.2 dev v0"],
    );
    let last = watch.tells(
        &ns,
        "ip route del 198.51.100.0/24",
        &["198.51.100.0/24 (table 254): via 198.19.0.2 dev v0 -> no route"],
    );
    assert_eq!((last, clock()), (first + 3, Some(last)));
    // another table, like those that rules and VRFs use
    watch.tells(
        &ns,
        "ip route add 203.0.113.0/24 via 198.19.0.2 table 7",
        &["203.0.113.0/24 (table 7): no route -> via 198.19.0.2 dev v0"],
    );
}

#[test]
fn a_default_route_carries_what_has_no_route_of_its_own() {
    let Some(_test) = path_test("a_default_route_carries_what_has_no_route_of_its_own", &[]) else { return };
    let ns = two_links();
    ns.sh("ip route add default via 198.19.0.2; ip -6 route add default via 2001:db8:77:0::2");
    for prefix in ["198.51.100.7", "198.19.1.9"] {
        ok(&["paths", "bump", prefix]); // the destination is known from now on
    }
    let watch = Watch::start(&[]);
    watch.line();
    // same way as the default route, so nothing changes for these destinations
    watch.silent_over(&ns, "ip route add 198.51.100.0/24 via 198.19.0.2");
    watch.silent_over(&ns, "ip route del 198.51.100.0/24");
    let ways = "via 198.19.0.2 dev v0 -> via 198.19.1.2 dev v1";
    let known = known_within("0.0.0.0/0", &["198.19.0.0/24", "198.19.1.0/24"]);
    let expected: Vec<String> = known.iter().map(|prefix| format!("{prefix} (table 254): {ways}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    assert!(known.contains(&"198.51.100.7/32".to_owned()) && !known.contains(&"198.19.1.9/32".to_owned()), "{known:?}");
    let v4 = watch.tells(&ns, "ip route replace default via 198.19.1.2", &expected);
    assert_ne!(generation_of("198.19.1.0/24"), v4, "it has a route of its own");
    // IPv6's default route does not affect IPv4
    ns.sh("ip -6 route replace default via 2001:db8:77:1::2");
    let line = loop {
        let line = watch.line();
        if line.starts_with("::/0 ") {
            break line;
        }
    };
    let way = "::/0 (table 254): via 2001:db8:77::2 dev v0 -> via 2001:db8:77:1::2 dev v1, generation ";
    let v6 = generation_of("::/0");
    assert_eq!(line, format!("{way}{v6}"));
    assert!(v6 > v4 && generation_of("0.0.0.0/0") == v4);
}

/// Returns the known destinations within an IPv4 prefix, including itself, but not those within `but`; in the watch's
/// order.
fn known_within(prefix: &str, but: &[&str]) -> Vec<String> {
    let covers = |outer: &str, inner: &str| key(outer).covers(key(inner));
    let paths = json(&["paths", "show", "--json"]);
    let entries = paths["paths"].as_array().unwrap().iter().map(|entry| entry["prefix"].as_str().unwrap().to_owned());
    let mut known: Vec<String> =
        entries.filter(|p| covers(prefix, p) && !but.iter().any(|outer| covers(outer, p))).collect();
    known.push(prefix.to_owned());
    known.sort();
    known.dedup();
    known
}

#[test]
fn ipv6_hops_come_and_go_one_by_one() {
    let Some(_test) = path_test("ipv6_hops_come_and_go_one_by_one", &[]) else { return };
    let ns = two_links();
    let watch = Watch::start(&[]);
    watch.line();
    let told = |before: &str, after: &str| format!("2001:db8:99::/48 (table 254): {before} -> {after}");
    let (a, b) = ("via 2001:db8:77::2 dev v0", "via 2001:db8:77:1::2 dev v1");
    let both = format!("{a} and {b}");
    for (script, before, after) in [
        ("ip -6 route add 2001:db8:99::/48 via 2001:db8:77:0::2", "no route", a),
        ("ip -6 route append 2001:db8:99::/48 via 2001:db8:77:1::2", a, &both),
        ("ip -6 route del 2001:db8:99::/48 via 2001:db8:77:0::2", &both, b),
        ("ip -6 route replace 2001:db8:99::/48 via 2001:db8:77:0::2", b, a),
        ("ip -6 route replace unreachable 2001:db8:99::/48", a, "unreachable"),
        ("ip -6 route del 2001:db8:99::/48", "unreachable", "no route"),
    ] {
        watch.tells(&ns, script, &[&told(before, after)]);
    }
}

/// The kernel sends no notice for IPv4 routes that it drops with their link, or for hops that a nexthop object changes.
#[test]
fn route_changes_without_a_notice_are_detected() {
    let Some(_test) = path_test("route_changes_without_a_notice_are_detected", &[]) else { return };
    let ns = two_links();
    ns.sh("ip nexthop add id 5 via 198.19.0.2 dev v0; ip route add 198.18.5.0/24 nhid 5
        ip route add 198.18.6.0/24 nexthop via 198.19.0.2 nexthop via 198.19.1.2");
    let watch = Watch::start(&[]);
    watch.line();
    watch.tells(
        &ns,
        "ip nexthop replace id 5 via 198.19.0.3 dev v0",
        &["198.18.5.0/24 (table 254): via 198.19.0.2 dev v0 -> via 198.19.0.3 dev v0"],
    );
    watch.tells(&ns, "ip -6 addr flush dev v1 scope global", &["2001:db8:77:1::/64 (table 254): dev v1 -> no route"]);
    watch.tells(
        &ns,
        "ip link set v1 down",
        &[
            "198.18.6.0/24 (table 254): via 198.19.0.2 dev v0 and via 198.19.1.2 dev v1 -> via 198.19.0.2 dev v0",
            "198.19.1.0/24 (table 254): dev v1 -> no route",
        ],
    );
}

#[test]
fn lines_for_programs() {
    let Some(_test) = path_test("lines_for_programs", &[]) else { return };
    let ns = two_links();
    let watch = Watch::start(&["--json"]);
    let line = loop {
        // with --json, nothing is printed when the watch begins
        ns.sh("ip route replace 198.51.100.0/24 via 198.19.0.2; ip route replace 198.51.100.0/24 via 198.19.1.2");
        if let Ok(line) = watch.lines.recv_timeout(Duration::from_millis(200)) {
            break line;
        }
        ns.sh("ip route del 198.51.100.0/24");
    };
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["prefix"], &line["table"]), (&"198.51.100.0/24".into(), &254.into()));
    assert!(line["generation"].is_u64(), "{line}");
}

#[test]
fn by_hand() {
    let Some(_test) = path_test("by_hand", &[]) else { return };
    ok(&["paths", "bump", "192.0.2.128/25"]);
    ok(&["paths", "bump", "2001:db8:4::1"]);
    let before = clock();
    let bumped = json(&["paths", "bump", "192.0.2.0/24", "--json"]);
    let generation = bumped["generation"].as_u64().unwrap();
    assert_eq!((&bumped["everything"], clock()), (&false.into(), Some(generation)));
    assert!(before < Some(generation));
    for prefix in ["192.0.2.0/24", "192.0.2.128/25"] {
        assert_eq!(generation_of(prefix), generation);
    }
    assert_ne!(generation_of("2001:db8:4::1/128"), generation);
    assert!(ok(&["paths", "show"]).contains("192.0.2.128/25"));
    for wrong in ["192.0.2.0/33", "nowhere", "::/129"] {
        fails(2, &["paths", "bump", wrong]);
    }
    fails(2, &["paths", "watch", "--netns", "hotcc-no-such"]);
    // concurrent bumps lose nothing
    let many: Vec<Child> = (0..8)
        .map(|n| Command::new(hotcc_path()).args(["paths", "bump", &format!("192.0.2.{n}")]).spawn().unwrap())
        .collect();
    for mut child in many {
        assert!(child.wait().unwrap().success());
    }
    let mut generations: Vec<u64> = (0..8).map(|n| generation_of(&format!("192.0.2.{n}/32"))).collect();
    generations.sort_unstable();
    generations.dedup();
    assert_eq!((generations.len(), clock()), (8, generations.last().copied()), "each its own");
}

#[test]
fn what_a_killed_bump_left_is_not_given_again() {
    let Some(_test) = path_test("what_a_killed_bump_left_is_not_given_again", &[]) else { return };
    ok(&["paths", "bump", "192.0.2.1"]);
    let next = u32::try_from(clock().unwrap()).unwrap() + 1;
    // the clock is written last
    let map = MapHandle::from_pinned_path(pins::signal(pins::PATH_GEN)).unwrap();
    map.update(bytemuck::bytes_of(&key("192.0.2.2")), &next.to_ne_bytes(), MapFlags::ANY).unwrap();
    ok(&["paths", "bump", "192.0.2.2"]);
    let given = u64::from(next) + 1;
    assert_eq!((generation_of("192.0.2.2/32"), clock()), (given, Some(given)));
}

#[test]
fn a_namespace_that_cannot_be_entered_is_not_watched() {
    let Some(_test) = path_test("a_namespace_that_cannot_be_entered_is_not_watched", &[]) else { return };
    let _ns = NetNs::new(NS);
    ok(&["paths", "bump", "192.0.2.1"]); // creates the maps
    let mut watch = Command::new("timeout"); // a watch does not end by itself
    watch.args(["10", "setpriv", "--bounding-set=-sys_admin", hotcc_path(), "paths", "watch", "--netns", NS]);
    let message = failed(1, &watch.output().unwrap());
    assert!(message.contains(&format!("hotcc: cannot enter network namespace {NS}\n")), "{message}");
}

/// Returns the ssthresh of a connection, as `ss` shows it.
fn ssthresh(connection: &Connection) -> Option<u32> {
    let port = connection.client.local_addr().unwrap().port();
    let output = Command::new("ss").args(["-tinH", "sport", "=", &port.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("dcm_path"), "{text}");
    text.split_whitespace().find_map(|word| word.strip_prefix("ssthresh:")).map(|n| n.parse().unwrap())
}

#[test]
fn dcm_measures_a_new_path() {
    let Some(_test) = path_test("dcm_measures_a_new_path", &["dcm_path"]) else { return };
    ok(&["load", "dcm", "--as", "dcm_path"]);
    let mut connection = Connection::new("dcm_path");
    let rounds = |connection: &mut Connection| {
        for _ in 0..40 {
            connection.send(20_000); // too little for any loss
        }
        ssthresh(connection)
    };
    assert_eq!(rounds(&mut connection), None);
    ok(&["paths", "bump", "192.0.2.0/24"]); // not this connection's path
    assert_eq!(rounds(&mut connection), None);
    ok(&["paths", "bump", "127.0.0.0/8"]);
    assert!(rounds(&mut connection).is_some(), "eq 1 sets ssthresh");
}
