//! Tests `hotcc canary` with real connections.

use crate::common::*;
use crate::ruled::{NETNS, Ruled};
use hotcc::cgroup::cgroup2_root;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(120);
pub const RULE: &str = "remote = '10.2.0.0/16'\ncongestion_control = 'reno'";

/// A running `hotcc canary start`, which is killed when the value is dropped; the canary is aborted.
pub struct Canary(Child);

impl Canary {
    /// Starts a canary in the test's namespace, to 10.2.0.1; it is killed at a failpoint, if one is named.
    pub fn spawn(ruled: &Ruled, to: &str, more: &[&str], kill_at: &str) -> Self {
        let (netns, log) = (format!("netns={NETNS}"), log(ruled));
        let mut command = Command::new(hotcc_path());
        command.args(["canary", "start", "--from", "reno", "--to", to, "--log", &log, "--json"]);
        command.args(["--match", &netns, "--match", "remote=10.2.0.1"]).args(more).env("HOTCC_KILL_AT", kill_at);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts a canary, and waits until it runs.
    pub fn running(ruled: &Ruled, to: &str, more: &[&str]) -> Self {
        let canary = Self::spawn(ruled, to, more, "");
        until("the canary runs", || state() == "running");
        canary
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end. Returns the last event.
    pub fn ended(&mut self) -> (ExitStatus, Value) {
        let (mut told, mut errors) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let last = told.lines().last().map(|line| serde_json::from_str(line).unwrap());
        (self.0.wait().unwrap(), last.unwrap_or(Value::String(errors)))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = hotcc(&["canary", "abort"]); // fails if it has ended
    }
}

pub fn log(ruled: &Ruled) -> String {
    ruled.test.dir.path().join("canary.log").display().to_string()
}

pub fn status() -> Value {
    json(&["canary", "status", "--json"])
}

pub fn state() -> String {
    status()["state"].as_str().unwrap().to_owned()
}

pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "{what}: not so after {DEADLINE:?}: {}", status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Connects this often to 10.2.0.1. Returns how many clients got the congestion control.
pub fn with(ruled: &Ruled, cc: &str, connections: usize) -> usize {
    let listener = ruled.listen("10.2.0.1:0");
    (0..connections).filter(|_| ruled.ends(&listener).0 == cc).count()
}

/// Returns the rules that apply, without counters.
pub fn rules() -> Vec<String> {
    let shown = json(&["policy", "show", "--json"]);
    shown["rules"].as_array().unwrap().iter().map(|rule| rule["keys"].to_string()).collect()
}

pub const HALF: [&str; 4] = ["--share", "50%", "--for", "1h"];

#[test]
fn a_share_gets_the_new_one_until_it_expires() {
    let Some(ruled) = Ruled::new("a_share_gets_the_new_one_until_it_expires") else { return };
    ruled.apply(&[RULE]);
    let before = rules();
    let mut canary = Canary::running(&ruled, "po_west", &[&HALF[..], &["--expiry", "3s"]].concat());
    let n = with(&ruled, "po_west", 100);
    assert!((25..=75).contains(&n), "{n} of 100");
    let running = status();
    assert_eq!((&running["from"], &running["to"]), (&"reno".into(), &"po_west".into()), "{running}");
    assert_eq!(
        (&running["share_percent"], &running["conditions"]["netns"]),
        (&50.0.into(), &NETNS.into()),
        "{running}"
    );
    assert!(running["expires_in_s"].as_f64().unwrap() > 0.0, "{running}");
    until("ended connections are counted", || status()["connections"]["canary"].as_u64().unwrap() > 0);
    assert!(ok(&["canary", "status"]).contains("running"));

    let shown = ok(&["policy", "show"]);
    assert!(shown.starts_with("rule 1 (canary of `hotcc canary`): congestion_control = \"po_west\""), "{shown}");
    assert!(shown.contains("\nrule 2 (control of `hotcc canary`): congestion_control = \"reno\""), "{shown}");

    // it is renewed: this takes longer than it would last
    let expires_before = Instant::now() + Duration::from_secs(4);
    until("it is renewed", || Instant::now() > expires_before);
    assert_eq!(state(), "running");

    let (second, log) = (["canary", "start", "--from", "reno", "--to", "po_dtcp", "--log"], log(&ruled));
    let refused = fails(1, &[&second[..], &[log.as_str()]].concat());
    assert!(refused.contains("a canary from reno to po_west runs; end it first: hotcc canary"), "{refused}");
    for arguments in [&["apply"][..], &["policy", "apply"]] {
        let refused = fails(1, &[arguments, &[&ruled.declare(&[])]].concat());
        assert!(refused.contains("cannot change the rules: a canary from reno to po_west runs"), "{refused}");
    }
    ok(&["swap", "po_dtcp", "dcm"]); // the canary does not compare it
    for arguments in [&["unload", "po_west"][..], &["swap", "po_west", "dcm"], &["set", "po_west", "x=1"]] {
        let refused = fails(1, arguments);
        assert!(refused.contains("po_west: a canary from reno to po_west compares it; end it first"), "{refused}");
    }
    assert!(fails(1, &["rollback", "po_west"]).contains("cannot roll back po_west: a canary"));
    let saved = ruled.test.dir.path().join("saved.toml").display().to_string();
    assert_eq!(json(&["save", &saved, "--json"])["rules"], 1, "a canary is not declared");

    canary.signal(Signal::SIGKILL);
    assert_eq!(canary.ended().0.signal(), Some(9));
    until("it expires", || state() == "expired");
    assert_eq!(with(&ruled, "reno", 30), 30);
    assert!(ok(&["canary", "status"]).contains("to remove the canary's rules: hotcc canary abort"));
    ok(&["canary", "abort"]);
    assert_eq!((state(), rules()), ("aborted".to_owned(), before.clone()));

    // `apply` and another canary replace an expired one
    let mut killed = Canary::spawn(&ruled, "po_west", &HALF, "canary-installed");
    killed.ended();
    assert_eq!(state(), "expired");
    ruled.apply(&[RULE]);
    assert_ne!(state(), "expired");
    assert_eq!(rules(), before);
}

#[test]
fn it_ends_when_it_is_told_to() {
    let Some(ruled) = Ruled::new("it_ends_when_it_is_told_to") else { return };
    let set = "remote_set = 'set.txt'\ncongestion_control = 'po_dtcp'";
    ruled.test.file("set.txt", b"10.2.0.0/16\n!10.2.3.0/24\n2001:db8::/32\n");
    ruled.apply(&[set]);
    let before = rules();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut canary = Canary::running(&ruled, "po_west", &HALF);
        assert!(with(&ruled, "po_west", 40) > 0);
        assert_eq!(with(&ruled, "po_dtcp", 10), 0, "the others get the control's");
        canary.signal(signal);
        let (exit, end) = canary.ended();
        assert_eq!((exit.code(), &end["state"]), (Some(1), &"aborted".into()), "{end}");
        assert!(end["reason"].as_str().unwrap().starts_with(&format!("{signal} interrupted the canary")), "{end}");
        assert_eq!((state(), rules()), ("aborted".to_owned(), before.clone()));
        assert_eq!(with(&ruled, "po_dtcp", 20), 20, "the set of prefixes is as before");
        assert_ne!(ruled.at("10.2.3.1:0").0, "po_dtcp", "the set of prefixes is as before");
    }
    let mut canary = Canary::running(&ruled, "po_west", &HALF);
    ok(&["canary", "abort"]);
    let (exit, end) = canary.ended();
    assert_eq!((exit.code(), &end["state"]), (Some(1), &"aborted".into()), "{end}");
    assert_eq!(rules(), before);
    assert!(fails(1, &["canary", "abort"]).contains("no canary runs"));
    assert!(fails(1, &["canary", "promote"]).contains("no canary runs"));

    let mut canary = Canary::running(&ruled, "po_west", &["--share", "50%", "--for", "2s"]);
    let (exit, end) = canary.ended();
    assert_eq!(exit.code(), Some(1));
    assert!(
        end["reason"].as_str().unwrap().starts_with("Too few connections: at step 1 of 1 (50 %), after 2 s"),
        "{end}"
    );
    assert_eq!(rules(), before);

    let mut canary = Canary::running(&ruled, "po_west", &HALF);
    let told = ok(&["canary", "promote"]);
    let (exit, end) = canary.ended();
    assert_eq!((exit.code(), &end["state"]), (Some(0), &"promoted".into()), "{end}");
    assert_eq!((state(), rules().len()), ("promoted".to_owned(), before.len() + 1));
    assert_eq!(with(&ruled, "po_west", 20), 20);
    // with the printed table, the file declares what applies
    let (_, table) = told.split_once("\n\n").unwrap();
    let declared = std::fs::read_to_string(ruled.declare(&[set])).unwrap();
    let (algorithms, rest) = declared.split_once("[[policy]]").unwrap();
    ok(&["diff", &ruled.file(&format!("{algorithms}{table}\n[[policy]]{rest}"))]);
    // without it, the next `apply` removes the rule
    assert_eq!(status()["share_percent"], 100.0);
    ruled.apply(&[RULE]);
    assert_eq!(with(&ruled, "reno", 20), 20);
    assert_eq!((state(), &status()["share_percent"]), ("promoted".to_owned(), &0.0.into()));
}

#[test]
fn what_is_not_registered_any_more_is_not_promoted() {
    let Some(ruled) = Ruled::new("what_is_not_registered_any_more_is_not_promoted") else { return };
    ruled.apply(&[RULE]);
    let before = rules();
    let _canary = Canary::running(&ruled, "po_west", &HALF);
    std::fs::remove_file("/sys/fs/bpf/hotcc/algo/po_west/link").unwrap();
    until("it is gone", || !registered("po_west"));
    let refused = fails(1, &["canary", "promote"]);
    assert!(refused.contains("cannot promote po_west: it is not registered any more; end the canary"), "{refused}");
    assert_eq!(status()["share_percent"], 50.0);
    ok(&["canary", "abort"]);
    assert_eq!(rules(), before);
}

#[test]
fn a_wrong_request_is_refused_in_one_line() {
    let Some(ruled) = Ruled::new("a_wrong_request_is_refused_in_one_line") else { return };
    ruled.apply(&[RULE]);
    let (before, log) = (status(), log(&ruled));
    let start = ["canary", "start", "--log", &log, "--from", "reno", "--to", "po_west"];
    for (code, more, message) in [
        (2, ["--guard", "rtt_p95 < 1.1 * control"], "invalid guard `rtt_p95 < 1.1 * control`"),
        (2, ["--guard", "speed_p50 >= 1 * control"], "unknown metric `speed_p50`"),
        (2, ["--share", "100%"], "invalid share `100%`: nothing would be left to compare with"),
        (2, ["--share", "5"], "invalid share `5`"),
        (2, ["--match", "share=5%"], "invalid condition `share=5%`: expected one of the keys remote, "),
        (2, ["--match", "port"], "invalid condition `port`: expected KEY=VALUE"),
        (1, ["--match", "port=0"], "invalid port `0`"),
        (1, ["--match", "remote=nowhere"], "invalid prefix `nowhere`"),
        (2, ["--for", "soon"], "expected a time like 90s, 30m or 2h"),
    ] {
        let said = fails(code, &[&start[..], &more[..]].concat());
        let first: Vec<&str> = said.trim_end().lines().collect();
        assert!(said.contains(message), "{more:?} says: {said}");
        assert!(code == 2 && first.len() > 1 || first.len() == 1, "{said}");
    }
    for (from, to) in [("nosuch", "reno"), ("reno", "nosuch")] {
        let said = fails(1, &["canary", "start", "--log", &log, "--from", from, "--to", to]);
        assert!(said.contains("no congestion control `nosuch` is registered"), "{said}");
    }
    let plan = json(&[&start[..], &["--share", "5%", "--match", "port=443", "--dry-run", "--json"]].concat());
    assert_eq!(plan["shares_percent"], serde_json::json!([5.0, 25.0, 100.0]));
    assert_eq!(plan["conditions"], serde_json::json!({ "port": 443 }));
    assert_eq!((status(), rules().len()), (before, 1), "nothing changed");
}

/// Whatever `start` was about to do, all connections have the former congestion control when it has expired.
#[test]
fn killed_between_any_two_changes_it_expires() {
    let Some(ruled) = Ruled::new("killed_between_any_two_changes_it_expires") else { return };
    ruled.apply(&[RULE]);
    let before = rules();
    for place in ["canary-installed", "canary-started", "canary-renewed", "canary-concluded", "canary-ended"] {
        let mut canary = Canary::spawn(&ruled, "po_west", &["--share", "50%", "--for", "3s", "--expiry", "2s"], place);
        assert_eq!(canary.ended().0.signal(), Some(9), "{place}");
        until(place, || state() != "running");
        assert_eq!(with(&ruled, "reno", 20), 20, "{place}");
        let is_left = state() == "expired";
        assert_eq!(is_left, place != "canary-ended", "{place}: {}", status());
        if is_left {
            ok(&["canary", "abort"]);
        }
        assert_eq!((state(), rules()), ("aborted".to_owned(), before.clone()), "{place}");
    }
    // a promotion that is killed before its end is undone by `start`; else it lasts until the expiry
    let promote = |place| {
        let promote = Command::new(hotcc_path()).args(["canary", "promote"]).env("HOTCC_KILL_AT", place).status();
        assert_eq!(promote.unwrap().signal(), Some(9), "{place}");
    };
    let canary = Canary::running(&ruled, "po_west", &HALF);
    promote("canary-concluded");
    until("`start` goes on", || status()["share_percent"] == 50.0);
    canary.signal(Signal::SIGKILL);
    promote("canary-concluded");
    assert_eq!((state(), &status()["share_percent"]), ("running".to_owned(), &100.0.into()));
    assert_eq!(with(&ruled, "po_west", 20), 20);
    ok(&["canary", "abort"]);
    assert_eq!((with(&ruled, "reno", 20), rules()), (20, before));
    let _canary = Canary::running(&ruled, "po_west", &HALF);
    promote("canary-ended");
    assert_eq!(with(&ruled, "po_west", 20), 20);
}

/// Workers that send over new connections, one after the other, through a slow link that all share.
struct Traffic {
    stop: AtomicBool,
    /// Set when all clients have stopped: until then, each needs a server.
    is_over: AtomicBool,
    server: SocketAddr,
}

impl Traffic {
    const WORKERS: usize = 6;
    const BYTES: usize = 150_000;

    fn while_running<T>(ruled: &Ruled, work: impl FnOnce() -> T) -> T {
        // clients have another address, so that only their ends match
        ruled.ns.sh("ip route replace local 10.2.0.1 dev lo table local src 10.1.0.1");
        ruled.ns.sh("ip link set lo mtu 1500; tc qdisc replace dev lo root tbf rate 100mbit burst 20kb limit 90kb");
        let listener = ruled.listen("10.2.0.1:0");
        let traffic = Self {
            stop: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            server: listener.local_addr().unwrap(),
        };
        std::thread::scope(|servers| {
            let traffic = &traffic;
            let serving: Vec<_> = (0..Self::WORKERS).map(|_| servers.spawn(|| traffic.serve(&listener))).collect();
            let result = std::thread::scope(|clients| {
                for _ in 0..Self::WORKERS {
                    clients.spawn(|| ruled.ns.enter(|| traffic.send()));
                }
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                traffic.stop.store(true, Ordering::Relaxed);
                result
            });
            traffic.is_over.store(true, Ordering::Relaxed);
            // wakes the servers
            for _ in serving {
                drop(ruled.ns.enter(|| TcpStream::connect(traffic.server)));
            }
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn serve(&self, listener: &TcpListener) {
        while !self.is_over.load(Ordering::Relaxed) {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    }

    fn send(&self) {
        use std::io::Write;
        let data = vec![7; Self::BYTES];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(mut stream) = TcpStream::connect(self.server) else { continue };
            let _ = stream.write_all(&data).and_then(|()| stream.shutdown(Shutdown::Write));
            let _ = stream.read(&mut [0]); // until the server has everything
        }
    }
}

fn logged(ruled: &Ruled) -> Vec<String> {
    let text = std::fs::read_to_string(log(ruled)).unwrap();
    let event = |line: &str| serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned();
    text.lines().map(event).collect()
}

#[test]
fn a_bad_one_is_rolled_back_and_an_equal_one_promoted() {
    let Some(ruled) = Ruled::new("a_bad_one_is_rolled_back_and_an_equal_one_promoted") else { return };
    ruled.apply(&[RULE]);
    let before = rules();
    let object = ruled.test.object("held");
    ok(&["load", &object, "--as", "ca_bad", "--set", "hold=1"]);
    ok(&["load", &object, "--as", "ca_same"]);
    let options = ["--share", "50%", "--min-connections", "30", "--for", "100s"];
    let (exit, end) = Traffic::while_running(&ruled, || {
        let more = [&options[..], &["--guard", "goodput_p50 >= 0.95 * control"]].concat();
        Canary::spawn(&ruled, "ca_bad", &more, "").ended()
    });
    assert_eq!((exit.code(), &end["state"]), (Some(1), &"rolled_back".into()), "{end}");
    let reason = end["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("At step 1 of 1 (50 %): ") && reason.ends_with("New connections get reno again."),
        "{end}"
    );
    assert_eq!((state(), rules()), ("rolled_back".to_owned(), before));
    assert_eq!(with(&ruled, "reno", 20), 20);
    assert_eq!(logged(&ruled), ["start", "step", "verdict", "end"]);

    let options = ["--share", "20%", "--min-connections", "30", "--for", "100s", "--expiry", "3s"];
    let guards = ["--guard", "goodput_p50 >= 0.5 * control", "--guard", "rtt_p50 <= 2 * control"];
    let same = [&options[..], &guards].concat();
    Traffic::while_running(&ruled, || {
        let mut killed = Canary::spawn(&ruled, "ca_same", &same, "canary-passed");
        assert_eq!(killed.ended().0.signal(), Some(9), "at the end of its first step");
        until("it expires", || state() == "expired");
        assert_eq!(with(&ruled, "reno", 20), 20);
    });
    let (exit, end) = Traffic::while_running(&ruled, || Canary::spawn(&ruled, "ca_same", &same, "").ended());
    assert_eq!((exit.code(), &end["state"]), (Some(0), &"promoted".into()), "{end}");
    assert!(end["policy"].as_str().unwrap().starts_with("[[policy]]\n"), "{end}");
    let reason = end["reason"].as_str().unwrap();
    assert!(reason.starts_with("Every guard held in each step; at step 2 of 2 (25 %): "), "{end}");
    assert_eq!((&status()["dropped_records"], &end["dropped_records"]), (&0.into(), &0.into()), "{end}");
    assert_eq!(state(), "promoted");
    assert_eq!(with(&ruled, "ca_same", 20), 20);
}

#[test]
fn start_warns_of_what_its_conditions_cannot_match() {
    let Some(ruled) = Ruled::new("start_warns_of_what_its_conditions_cannot_match") else { return };
    ruled.apply(&[RULE]);
    let (log, cgroup) = (log(&ruled), format!("cgroup={}/hotcc-no-such", cgroup2_root().unwrap().display()));
    let start = ["canary", "start", "--log", &log, "--from", "reno", "--to", "po_west", "--for", "1s"];
    let output = hotcc(&[&start[..], &["--match", &cgroup]].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "no connection matches: {errors}");
    assert!(errors.starts_with("hotcc: warning: ") && errors.contains("hotcc-no-such does not exist now"), "{errors}");
    let dry_run = hotcc(&[&start[..], &["--match", &cgroup, "--dry-run"]].concat());
    assert_eq!(String::from_utf8(dry_run.stderr).unwrap(), errors, "a dry run prints the same");
}
