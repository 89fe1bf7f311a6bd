//! Tests which sockets get which congestion control by policy rules, on the running kernel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod canary;
mod canary_ends;
mod canary_observed;
#[path = "../common/mod.rs"]
mod common;
mod declared;
#[path = "../common/exported.rs"]
mod exported;
#[path = "../common/fed.rs"]
mod fed;
mod replaced;
mod ruled;
mod signal;
mod stats;
use common::*;
use hotcc::cgroup::cgroup2_root;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use ruled::{NETNS, Ruled};
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

fn both(cc: &str) -> (String, String) {
    (cc.to_owned(), cc.to_owned())
}

/// Returns a counter of a rule; rules are numbered from 1.
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
    // both ends have this address, so both ends match
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

fn set_cc(socket: &impl std::os::fd::AsFd, cc: &str) {
    setsockopt(socket, TcpCongestion, &cc.into()).unwrap();
}

const ANY: &str = "congestion_control = 'po_dtcp'";

#[test]
fn sockets_that_chose_a_congestion_control_are_left_alone() {
    let Some(ruled) = Ruled::new("sockets_that_chose_a_congestion_control_are_left_alone") else { return };
    let own = ruled.listen("10.1.0.1:0");
    let default = cc_of(&own);
    set_cc(&own, "reno");
    ruled.apply(&[ANY]);
    // the listener chose before there were rules; the outgoing connection did not choose
    assert_eq!(ruled.ends(&own), ("po_dtcp".to_owned(), "reno".to_owned()));
    assert_eq!((count(1, "connections"), count(1, "left_alone")), (1, 1));

    // a rule's choice is not the application's: other rules may change it, also for connections that a listener accepts
    let ruled_listener = ruled.listen("10.1.0.1:0");
    assert_eq!(cc_of(&ruled_listener), "po_dtcp");
    ruled.apply(&["congestion_control = 'po_west'"]);
    assert_eq!(ruled.ends(&ruled_listener), both("po_west"));
    // other rules may change it only until the application chooses
    set_cc(&ruled_listener, "reno");
    assert_eq!(ruled.ends(&ruled_listener).1, "reno");

    ruled.apply(&["override = true\ncongestion_control = 'po_west'"]);
    assert_eq!(ruled.ends(&own), both("po_west"));
    ruled.apply(&[]);
    assert_eq!(ruled.at("10.1.0.1:0"), both(&default));
}

#[test]
fn a_run_precedes_the_rules() {
    let Some(ruled) = Ruled::new("a_run_precedes_the_rules") else { return };
    ruled.apply(&["override = true\ncongestion_control = 'po_dtcp'"]);
    let listener = ruled.listen("10.1.0.1:0");
    let port = listener.local_addr().unwrap().port().to_string();
    let script = format!(
        "import socket; s = socket.create_connection(('10.1.0.1', {port})); \
         print(s.getsockopt(6, 13, 16).rstrip(b'\\0').decode())"
    );
    let command = ["nsenter", "--net=/run/netns/hotcc-test-policy", "python3", "-c", &script];
    let told = ok(&[&["run", "--cc", "reno", "--"], &command[..]].concat());
    assert_eq!(told.trim(), "reno");
    let plain = hotcc_testbed::command::succeed(Command::new(command[0]).args(&command[1..]));
    assert_eq!(plain.trim(), "po_dtcp");
}

/// A cgroup that is removed when the value is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Self {
        let path = cgroup2_root().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Runs `work` with this process in the cgroup.
    fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = hotcc::cgroup::own().unwrap();
        let pid = std::process::id().to_string();
        fs::write(self.0.join("cgroup.procs"), &pid).unwrap();
        let result = work();
        fs::write(own.join("cgroup.procs"), &pid).unwrap();
        result
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
        let _ = self.0.parent().map(fs::remove_dir); // fails for the root cgroup
    }
}

#[test]
fn cgroups_users_and_interfaces() {
    let Some(ruled) = Ruled::new("cgroups_users_and_interfaces") else { return };
    let default = ruled.ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control");
    let cgroup = Cgroup::new("hotcc-test-policy/hotcc-test-web.service");
    let path = cgroup.0.display().to_string();
    let above = cgroup.0.parent().unwrap().display().to_string();
    for (conditions, matches) in [
        (format!("cgroup = '{path}'"), true),
        (format!("cgroup = '{above}'"), true),
        (format!("cgroup = '{path}/below'"), false),
        ("unit = 'hotcc-test-web.service'".to_owned(), true),
        ("unit = 'hotcc-test-other.service'".to_owned(), false),
        ("interface = 'lo'".to_owned(), true),
        ("interface = 'eth7'".to_owned(), false),
        ("signal = 'known'".to_owned(), false),
        ("share = '100%'".to_owned(), true),
    ] {
        ruled.apply(&[&format!("{conditions}\n{ANY}")]);
        let ends = cgroup.with(|| ruled.at("10.1.0.1:0"));
        assert_eq!(ends, both(if matches { "po_dtcp" } else { &default }), "{conditions}");
        if conditions.contains("cgroup") || conditions.contains("unit") {
            assert_eq!(ruled.at("10.1.0.1:0"), both(&default), "{conditions}, from elsewhere");
        }
    }
    // the user is known for outgoing connections only, and `apply` warns of that
    let output = hotcc(&[
        "apply",
        &ruled.file(&format!("[[policy]]\nnetns = '{NETNS}'\nuid = 0\ncongestion_control = 'reno'\n")),
    ]);
    let warning = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && warning.contains("policy.toml:4: `uid` applies to outgoing connections only"),
        "{warning}"
    );
    assert_eq!(ruled.at("10.1.0.1:0"), ("reno".to_owned(), default));
}

/// To the kernel, a container is a cgroup and a network namespace.
#[test]
fn a_container_gets_its_rule_also_in_a_cgroup_that_was_made_again() {
    const NAME: &str = "hotcc-test-policy/hotcc-test-container";
    let Some(ruled) = Ruled::new("a_container_gets_its_rule_also_in_a_cgroup_that_was_made_again") else { return };
    let script = "import socket; l = socket.create_server(('127.0.0.1', 0)); \
                  s = socket.create_connection(l.getsockname()); print(s.getsockopt(6, 13, 16).rstrip(b'\\0').decode())";
    let container = || {
        let command = ["--net", "sh", "-c", "ip link set lo up && exec python3 -c \"$0\"", script];
        hotcc_testbed::command::succeed(Command::new("unshare").args(command)).trim().to_owned()
    };
    let cgroup = Cgroup::new(NAME);
    let algorithm = "[[algorithm]]\nobject = 'dtcp'\nname = 'po_dtcp'\n";
    ok(&["apply", &ruled.file(&format!("{algorithm}[[policy]]\ncgroup = '{}'\n{ANY}\n", cgroup.0.display()))]);
    assert_eq!(cgroup.with(container), "po_dtcp");
    assert_ne!(container(), "po_dtcp", "outside of it");
    drop(cgroup);
    assert_eq!(Cgroup::new(NAME).with(container), "po_dtcp");
}

#[test]
fn sets_of_prefixes_and_shares() {
    let Some(ruled) = Ruled::new("sets_of_prefixes_and_shares") else { return };
    let default = ruled.ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control");
    let many: String = (0..100_000u32 - 4).map(|n| format!("11.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255)).collect();
    let few = "10.2.0.0/16\n!10.2.3.0/24 # taken out\n2001:db8::/32\n::/0\n";
    ruled.test.file("set.txt", format!("{few}{many}").as_bytes());
    let rule = format!("remote_set = 'set.txt'\n{ANY}");
    ruled.apply(&[&rule]);
    // the set has the same path if the file's path is relative, so that the rule is the same
    let file = PathBuf::from(ruled.declare(&[&rule]));
    let here = Command::new(hotcc_path()).args(["diff", "policy.toml"]).current_dir(file.parent().unwrap()).output();
    let here = here.unwrap();
    assert!(here.status.success(), "{}", String::from_utf8_lossy(&here.stdout));
    assert_eq!(ruled.at("10.2.0.1:0"), both("po_dtcp"));
    assert_eq!(ruled.at("[2001:db8::1]:0"), both("po_dtcp"));
    assert_eq!(ruled.at("10.2.3.1:0"), both(&default));
    assert_eq!(ruled.at("10.1.0.1:0"), both(&default), "a prefix of IPv6 has no address of IPv4");
    assert_eq!(json(&["policy", "show", "--json"])["rules"][0]["remote_prefixes"], 100_000);

    // the rule applies to half of the flows, and `policy test` names the rule for the same flows
    let rule = |share: &str| format!("share = '{share}'\n{ANY}");
    ruled.apply(&[&rule("50%")]);
    let listener = ruled.listen("10.1.0.1:0");
    let address = listener.local_addr().unwrap();
    let connect = |_| {
        let client = ruled.ns.enter(|| TcpStream::connect(address).unwrap());
        (client, listener.accept().unwrap()) // accept, so that the backlog does not fill up
    };
    let (clients, _servers): (Vec<_>, Vec<_>) = (0..200).map(connect).unzip();
    let chosen = |client: &TcpStream| cc_of(client) == "po_dtcp";
    let n = clients.iter().filter(|client| chosen(client)).count();
    assert!((70..=130).contains(&n), "{n} of 200");
    let told = |client: &TcpStream| {
        let ends = [client.local_addr().unwrap(), client.peer_addr().unwrap()].map(|address| address.to_string());
        let told = json(&["policy", "test", &ends[0], &ends[1], "--netns", NETNS, "--json"]);
        told["rule"] == 1
    };
    assert!(clients.iter().take(20).all(|client| told(client) == chosen(client)), "`policy test` says something else");
}

/// `policy test` and the kernel agree on real sockets, for random combinations of conditions.
#[test]
fn a_test_says_what_the_kernel_does() {
    let Some(ruled) = Ruled::new("a_test_says_what_the_kernel_does") else { return };
    let cgroup = Cgroup::new("hotcc-test-policy/hotcc-test-web.service");
    let path = cgroup.0.display().to_string();
    let conditions = [
        "remote = '10.2.3.0/24'".to_owned(),
        "remote = '10.2.0.0/15'".to_owned(),
        "remote = ['10.2.0.0/16', '2001:db8::/31', '10.2.3.1']".to_owned(),
        "local = '::/0'".to_owned(),
        "local = '0.0.0.0/1'".to_owned(),
        "port = '7000-7003'".to_owned(),
        format!("cgroup = '{path}'"),
        "unit = 'hotcc-test-web.service'".to_owned(),
        "interface = 'lo'".to_owned(),
        "uid = 0".to_owned(),
        "share = '50%'".to_owned(),
    ];
    let mut random = 1u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    for _ in 0..12 {
        let rules: Vec<String> = ["reno", "po_dtcp", "po_west"]
            .iter()
            .map(|cc| {
                let two = [next(conditions.len()), next(conditions.len())];
                let key = |n: usize| conditions[n].split(' ').next().unwrap();
                let second = if key(two[0]) == key(two[1])
                    || [key(two[0]), key(two[1])] == ["unit", "cgroup"]
                    || [key(two[0]), key(two[1])] == ["cgroup", "unit"]
                {
                    String::new()
                } else {
                    conditions[two[1]].clone()
                };
                format!("{}\n{second}\ncongestion_control = '{cc}'", conditions[two[0]])
            })
            .collect();
        ruled.apply(&rules.iter().map(String::as_str).collect::<Vec<_>>());
        for address in ["10.1.0.1:7002", "10.2.0.1:7003", "10.2.3.1:7004", "[2001:db8::1]:7000"] {
            let listener = ruled.listen(address);
            let default = ruled.ns.sh("cat /proc/sys/net/ipv4/tcp_congestion_control");
            let connect = || ruled.ns.enter(|| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let is_in = next(2) == 0;
            let client = if is_in { cgroup.with(connect) } else { connect() };
            let ends = [client.local_addr().unwrap(), client.peer_addr().unwrap()].map(|address| address.to_string());
            let mut query = vec![
                "policy",
                "test",
                &ends[0],
                &ends[1],
                "--netns",
                NETNS,
                "--uid",
                "0",
                "--interface",
                "lo",
                "--json",
            ];
            if is_in {
                query.extend(["--cgroup", &path]);
            }
            let told = json(&query);
            let told = told["congestion_control"].as_str().unwrap_or(&default);
            assert_eq!(told, cc_of(&client), "{query:?} for {rules:#?}");
        }
    }
    ruled.apply(&[ANY]);
    let root = cgroup2_root().unwrap();
    for cgroup in [root.clone(), root.join(["a"; 13].join("/"))] {
        ok(&["policy", "test", "192.0.2.1:443", "--cgroup", &cgroup.display().to_string()]);
    }
    let told = ok(&["policy", "test", "192.0.2.1:443"]);
    assert!(told.contains("no: the network namespace is another one"), "{told}");
    assert!(told.ends_with("no rule matches: the route or the default of the network namespace decides\n"), "{told}");
}

#[test]
fn open_sockets_follow_the_rules() {
    let Some(ruled) = Ruled::new("open_sockets_follow_the_rules") else { return };
    let connect = |address: &str| {
        let listener = ruled.listen(address);
        let address = listener.local_addr().unwrap();
        (ruled.ns.enter(|| TcpStream::connect(address).unwrap()), listener)
    };
    let ((a, _a), (b, _b), (own, _own)) = (connect("10.1.0.1:0"), connect("10.2.0.1:0"), connect("10.1.0.1:0"));
    let default = cc_of(&b);
    set_cc(&own, "reno");
    ruled.apply(&[&format!("remote = '10.1.0.0/16'\n{ANY}")]);
    assert_eq!(cc_of(&a), default);
    let file = ruled.test.dir.path().join("policy.toml").display().to_string();
    let told = json(&["policy", "apply", &file, "--live", "--json"]);
    assert_eq!([&a, &b, &own].map(cc_of), ["po_dtcp", &*default, "reno"]);
    // both ends of `a`, and the accepted end of `own`
    assert_eq!((&told["open_sockets"]["moved"], &told["open_sockets"]["left_alone"]), (&3.into(), &1.into()), "{told}");
    let told = json(&["policy", "apply", &file, "--live", "--json"]);
    assert_eq!((&told["open_sockets"]["moved"], &told["open_sockets"]["same"]), (&0.into(), &3.into()), "{told}");

    // `migrate` with the same conditions
    let migrate =
        |options: &[&str]| json(&[&["migrate", "po_dtcp", "po_west", "--netns", NETNS, "--json"], options].concat());
    let dry = migrate(&["--to-prefix", "10.1.0.1", "--port", "1", "--dry-run"]);
    assert_eq!((&dry["moved"], &dry["left"][0]["sockets"]), (&0.into(), &3.into()), "{dry}");
    assert_eq!(dry["left"][0]["reason"], "neither port is the rule's");
    let port = a.local_addr().unwrap().port().to_string();
    let one = migrate(&[
        "--to-prefix",
        "10.1.0.0/16",
        "--to-prefix",
        "2001:db8::/32",
        "--port",
        &port,
        "--uid",
        "root",
        "--limit",
        "1",
    ]);
    assert_eq!((&one["moved"], &one["left"].as_array().unwrap().len()), (&1.into(), &2), "{one}");
    assert_eq!(migrate(&[])["moved"], 2);
    assert!(
        fails(2, &["migrate", "po_west", "po_dtcp", "--to-prefix", "nowhere"]).contains("invalid prefix `nowhere`")
    );
    // a rule may change what `migrate` chose, if the application had not chosen
    ruled.apply(&["congestion_control = 'reno'"]);
    ok(&["policy", "apply", &file, "--live"]);
    assert_eq!(cc_of(&a), "reno");
}

/// The user of an accepted connection is not known when its listener starts, nor when `--live` finds the listener.
#[test]
fn open_listeners_match_no_user() {
    let Some(ruled) = Ruled::new("open_listeners_match_no_user") else { return };
    let listener = ruled.listen("10.1.0.1:0");
    let before = ruled.ends(&listener).1;
    let file = ruled.declare(&["uid = 'root'\ncongestion_control = 'po_dtcp'"]);
    ok(&["policy", "apply", &file, "--live"]);
    assert_eq!(ruled.ends(&listener), ("po_dtcp".to_owned(), before));
}

/// A listener that got its congestion control by a rule keeps it; the accepted connections inherit it.
#[test]
fn listeners_that_keep_what_is_unloaded_are_named() {
    let Some(ruled) = Ruled::new("listeners_that_keep_what_is_unloaded_are_named") else { return };
    ruled.apply(&["congestion_control = 'po_dtcp'"]);
    let listener = ruled.listen("10.1.0.1:0");
    let told = json(&["apply", &ruled.test.file("nothing.toml", b""), "--json"]);
    let warning = "1 listening socket(s) pass po_dtcp on to the connections that they accept";
    assert!(told["warnings"][0].as_str().is_some_and(|text| text.starts_with(warning)), "{told}");
    assert_eq!(ruled.ends(&listener).1, "po_dtcp");
}

#[test]
fn what_is_wrong_with_a_rule_is_said_with_its_line() {
    let Some(ruled) = Ruled::new("what_is_wrong_with_a_rule_is_said_with_its_line") else { return };
    let path = ruled.file("");
    for (keys, message) in [
        ("remote = '10.0.0.0/33'", ":2: invalid prefix `10.0.0.0/33`"),
        ("remote = [7]", ":2: invalid prefix `7`: expected a string"),
        ("remote = '!10.0.0.0/8'", ":2: all prefixes are taken out, of none"),
        ("remote_set = 'no.txt'", ":2: cannot read the prefixes in "),
        ("remote = '::/0'\nremote_set = 'no.txt'", ":3: a rule has either a list of prefixes or a file of them"),
        ("port = 0", ":2: invalid port `0`"),
        ("port = '90-80'", ":2: invalid port `90-80`"),
        ("cgroup = '/no/such'", ":2: /no/such is not a cgroup (v2)"),
        ("unit = 'nginx'", ":2: invalid unit `nginx`"),
        ("netns = 'no_such'", ":2: no network namespace `no_such`"),
        ("uid = 'no_such'", ":2: no user `no_such`"),
        ("interface = 'a-name-that-is-too-long'", ":2: invalid interface name"),
        ("signal = 'loud'", ":2: invalid signal `loud`: expected `known`, `above DB` or `below DB`"),
        ("share = '0%'", ":2: invalid share `0%`"),
        ("colour = 'red'", ":2: unknown key `colour`, expected one of `remote`"),
        ("tunables.eta = 3", ":3: a rule with tunables needs its algorithm declared"),
    ] {
        ruled.file(&format!("[[policy]]\n{keys}\ncongestion_control = 'reno'\n"));
        let told = fails(1, &["apply", &path]);
        assert!(told.starts_with(&format!("hotcc: {path}{message}")), "{keys} says: {told}");
    }
    ruled.file("[[policy]]\ncongestion_control = 'dtcp'\n");
    let told = fails(1, &["diff", &path]);
    assert!(
        told.contains(":2: no congestion control `dtcp` is registered") && told.contains("[[algorithm]]"),
        "{told}"
    );

    let rule = |keys: &str, cc: &str| format!("[[policy]]\nnetns = '{NETNS}'\n{keys}\ncongestion_control = '{cc}'\n");
    for (first, second, warning) in [
        ("remote = '10.0.0.0/8'", "remote = '10.1.0.0/16'\nport = 80", "policy.toml:9: the rule never applies: "),
        ("port = 80", "port = 80", "policy.toml:8: the rule contradicts "),
        ("port = '80-90'", "port = '85-99'", "policy.toml:8: the rule overlaps with "),
        (
            "port = '80-90'\nremote = ['10.0.0.0/8', '192.0.2.0/24']",
            "port = '85-99'\nremote = ['192.0.2.0/24', '10.0.0.0/8']",
            "policy.toml:10: the rule overlaps with ",
        ),
        (
            "cgroup = 'CGROUP/hotcc-test-none'",
            "port = 80",
            "policy.toml:4: cgroup CGROUP/hotcc-test-none does not exist now",
        ),
    ] {
        let root = cgroup2_root().unwrap().display().to_string();
        ruled.file(&(rule(first, "reno") + &rule(second, "cubic")).replace("CGROUP", &root));
        let output = hotcc(&["apply", &path, "--dry-run"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // the line of the first rule's congestion control
        let line_of_first = format!("policy.toml:{}", 4 + first.matches('\n').count());
        assert!(
            output.status.success() && told.contains(&warning.replace("CGROUP", &root)),
            "{first}, {second}: {told}"
        );
        assert!(told.contains(&line_of_first), "{first}, {second}: {told}");
    }
}
