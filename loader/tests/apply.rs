//! Tests `hotcc apply`, `diff` and `save`, which compare a file with the running kernel and make the kernel follow it,
//! also when steps fail or the command is killed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::held_file::opens_without_the_lock;
use common::*;
use hotcc::cgroup::cgroup2_root;
use hotcc::registry::{Algo, open_link};
use hotcc_testbed::command::failed;
use hotcc_testbed::soak;
use hotcc_testbed::statistics::median;
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const DIFFERENT: i32 = 5;

/// A cgroup that is removed when the value is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Self {
        let path = cgroup2_root().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A test that applies an empty file before its first check and after its last.
struct Applied(KernelTest);

impl Applied {
    fn new(name: &str) -> Option<Self> {
        let test = Self(kernel_test(name, &[])?);
        ok(&["apply", &test.0.file("nothing.toml", b"")]);
        Some(test)
    }

    fn file(&self, name: &str, text: &str) -> String {
        self.0.file(name, text.as_bytes())
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        let _ = hotcc(&["apply", &self.0.file("nothing.toml", b"")]);
    }
}

/// Returns the steps of `hotcc diff` or `hotcc apply`, as "action name".
fn steps(difference: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let steps = difference["steps"].as_array().unwrap();
    steps.iter().map(|step| format!("{} {}", text(&step["action"]), text(&step["name"]))).collect()
}

/// Returns the steps that `hotcc diff` prints, and checks that its exit code agrees.
fn diff(file: &str) -> Vec<String> {
    let output = hotcc(&["diff", file, "--json"]);
    let told = || format!("{output:?}");
    let difference: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", told()));
    let steps = steps(&difference);
    assert_eq!(output.status.code(), Some(if steps.is_empty() { 0 } else { DIFFERENT }), "{}", told());
    steps
}

fn apply(file: &str) -> Vec<String> {
    steps(&json(&["apply", file, "--json"]))
}

fn same(file: &str) {
    assert_eq!(diff(file), Vec::<String>::new());
}

const NETNS: &str = "hotcc-test-apply";
const DEFAULT: &str = "cat /proc/sys/net/ipv4/tcp_congestion_control";

#[test]
fn the_kernel_follows_the_file() {
    let Some(test) = Applied::new("the_kernel_follows_the_file") else { return };
    let ns = NetNs::new(NETNS);
    let cgroup = Cgroup::new("hotcc-test-apply");
    test.0.object("stranger");
    let before = ns.sh(DEFAULT);
    let text = format!(
        "[[algorithm]]\nobject = 'dtcp'\nname = 'ap_dtcp'\nprofile = 'paper'\ntunables = {{ eta = 3, queue = 'rtt' }}\n\
         [[algorithm]]\nobject = './stranger.bpf.o'\nname = 'ap_other'\n\
         [[default]]\ncongestion_control = 'ap_dtcp'\nnetns = '{NETNS}'\n\
         [[receiver]]\nmethod = 'drwa'\ncgroup = '{}'\ntunables.lambda_permille = 2000\n",
        cgroup.0.display()
    );
    let file = test.file("hotcc.toml", &text);
    let all = ["load ap_dtcp", "load ap_other", "load drwa", "set hotcc-test-apply"];

    let told = ok(&["apply", &file, "--dry-run"]);
    assert!(
        told.contains("+ load algorithm ap_dtcp\n    object: builtin:dtcp\n    profile: paper\n    eta: 3\n"),
        "{told}"
    );
    assert!(told.contains(&format!("    congestion_control: {before} -> ap_dtcp\nsteps to do: 4;")), "{told}");
    assert_eq!((diff(&file), registered("ap_dtcp")), (all.map(str::to_owned).to_vec(), false), "nothing was done");
    assert_eq!(apply(&file), all);
    same(&file);
    assert_eq!(ns.sh(DEFAULT), "ap_dtcp");
    assert_eq!((&*ok(&["get", "ap_dtcp", "eta"]), &*ok(&["get", "ap_dtcp", "epoch_us"])), ("3\n", "500000\n"));
    assert_eq!(apply(&file), Vec::<String>::new(), "a second time there is nothing to do");

    // `save` writes a file for what runs; it declares the same state
    let saved = test.0.dir.path().join("saved/hotcc.toml").display().to_string();
    let counts = json(&["save", &saved, "--json"]);
    assert_eq!((&counts["algorithms"], &counts["defaults"], &counts["receivers"]), (&2.into(), &2.into(), &1.into()));
    same(&saved);
    // `save` warns of an object in another user's directory, and TMPDIR may be one
    let ours = |path: &Path| path.ancestors().all(|path| std::fs::metadata(path).unwrap().uid() == 0);
    assert_eq!(counts["warnings"].as_array().unwrap().is_empty(), ours(test.0.dir.path()), "{counts}");
    chown(test.0.dir.path(), Some(65_534), None).unwrap();
    let summary = json(&["save", &saved, "--json"]);
    let warning = summary["warnings"][0].as_str().unwrap();
    assert!(warning.contains("can change or hide") && warning.contains("stranger.bpf.o"), "{summary}");
    chown(test.0.dir.path(), Some(0), None).unwrap();

    // tunables are set in place; constants and objects are swapped
    ok(&["set", "ap_dtcp", "eta=9", "n_max=7"]);
    let told = json(&["apply", &file, "--json"]);
    assert_eq!(steps(&told), ["set ap_dtcp"]);
    let changes = told["steps"][0]["changes"].as_array().unwrap();
    assert!(changes.contains(&serde_json::json!({"name": "eta", "old": "9", "new": "3"})), "{told}");
    assert_eq!((changes.len(), status_of("ap_dtcp").unwrap()["swaps"].as_u64()), (2, Some(0)));
    let other = text.replace("'dtcp'", "'westwoodp'").replace("tunables = { eta = 3, queue = 'rtt' }", "");
    let other = other.replace("'ap_other'", "'ap_other'\ntunables = { fixed_window = 41 }").replace("2000", "3000");
    let other = test.file("other.toml", &other);
    assert_eq!(apply(&other), ["swap ap_dtcp", "swap ap_other", "unload drwa", "load drwa"]);
    same(&other);
    assert_eq!(ok(&["get", "ap_other", "fixed_window"]), "41\n");
    assert_eq!(status_of("ap_dtcp").unwrap()["object"], "builtin:westwoodp");

    assert_eq!(apply(&test.file("nothing.toml", "")), ["unload drwa", "unload ap_dtcp", "unload ap_other"]);
    assert!(!registered("ap_dtcp") && !registered("ap_other") && ns.sh(DEFAULT) != "ap_dtcp");
}

/// Two files, and a network namespace that neither names.
struct Change {
    before: String,
    after: String,
    unnamed: NetNs,
    _named: NetNs,
    _cgroup: Cgroup,
    test: Applied,
}

const STEPS: [&str; 9] = [
    "swap ap_swap",
    "set ap_set",
    "load ap_new",
    "unload arwa",
    "load drwa",
    "set hotcc-test-apply",
    "swap rules",
    "unload ap_old_a",
    "unload ap_old_b",
];

impl Change {
    fn new(test: Applied) -> Self {
        let named = NetNs::new(NETNS);
        let cgroup = Cgroup::new("hotcc-test-apply");
        let file = |name: &str, algorithms: &[(&str, &str)], default: &str, receiver: &str, rule: &str| {
            let tables: String = algorithms
                .iter()
                .map(|(object, rest)| format!("[[algorithm]]\nobject = '{object}'\n{rest}\n"))
                .collect();
            let cgroup = cgroup.0.display();
            let text = format!(
                "{tables}[[default]]\ncongestion_control = '{default}'\nnetns = '{NETNS}'\n\
                 [[receiver]]\nmethod = '{receiver}'\ncgroup = '{cgroup}'\n\
                 [[policy]]\nnetns = '{NETNS}'\ncongestion_control = '{rule}'\n"
            );
            test.file(name, &text)
        };
        let before = [
            ("westwoodp", "name = 'ap_swap'"),
            ("dtcp", "name = 'ap_set'"),
            ("westwoodp", "name = 'ap_old_a'"),
            ("westwoodp", "name = 'ap_old_b'"),
        ];
        let after =
            [("dtcp", "name = 'ap_swap'"), ("dtcp", "name = 'ap_set'\ntunables.eta = 3"), ("dtcp", "name = 'ap_new'")];
        let before = file("before.toml", &before, "ap_set", "arwa", "ap_old_a");
        let after = file("after.toml", &after, "ap_new", "drwa", "ap_new");
        let change =
            Self { before, after, unnamed: NetNs::new("hotcc-test-apply2"), _named: named, _cgroup: cgroup, test };
        change.back();
        change
    }

    fn back(&self) {
        apply(&self.before);
        self.unnamed.sh("echo ap_old_a > /proc/sys/net/ipv4/tcp_congestion_control");
    }

    fn apply_at(&self, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(hotcc_path());
        command.args(["apply", &self.after]).envs(variables.iter().copied()).output().unwrap()
    }
}

#[test]
fn a_step_that_fails_undoes_those_before_it() {
    let Some(test) = Applied::new("a_step_that_fails_undoes_those_before_it") else { return };
    let change = Change::new(test);
    assert_eq!(diff(&change.after), STEPS);
    for (n, step) in STEPS.iter().enumerate() {
        let message = failed(1, &change.apply_at(&[("HOTCC_FAIL_AT", &format!("step{n}"))]));
        assert!(
            message.starts_with("hotcc: cannot ")
                && message.ends_with("the steps before it were undone: told to fail\n"),
            "{message}"
        );
        assert!(message.contains(step.split(' ').next_back().unwrap()), "{step}: {message}");
        same(&change.before);
        assert_eq!(change.unnamed.sh(DEFAULT), "ap_old_a", "undone after {step}");
    }
    // a step that the kernel itself refuses
    let unverifiable = change.test.0.object("unverifiable");
    let text = std::fs::read_to_string(&change.after).unwrap();
    let refused = change.test.file("refused.toml", &format!("{text}[[algorithm]]\nobject = '{unverifiable}'\n"));
    let message = fails(1, &["apply", &refused]);
    assert!(
        message.contains("the steps before it were undone") && message.contains("verifier rejects it"),
        "{message}"
    );
    same(&change.before);
}

/// A receiver without a cgroup would be for all sockets.
#[test]
fn a_receiver_whose_cgroup_was_removed_is_not_loaded_again() {
    let Some(test) = Applied::new("a_receiver_whose_cgroup_was_removed_is_not_loaded_again") else { return };
    let cgroup = Cgroup::new("hotcc-test-apply-gone");
    let text = format!(
        "[[algorithm]]\nobject = 'dtcp'\nname = 'ap_kept'\n[[receiver]]\nmethod = 'drwa'\ncgroup = '{}'\n",
        cgroup.0.display()
    );
    apply(&test.file("loaded.toml", &text));
    drop(cgroup);
    let mut command = Command::new(hotcc_path());
    let message = failed(1, &command.args(["unload", "--all"]).env("HOTCC_FAIL_AT", "step1").output().unwrap());
    assert!(message.contains("the steps before it were undone"), "{message}");
    assert_eq!(json(&["rx", "status", "--json"])["receivers"], serde_json::json!([]));
    assert!(registered("ap_kept"));
}

#[test]
fn a_load_is_not_undone_while_another_process_keeps_the_name_registered() {
    let Some(test) = Applied::new("a_load_is_not_undone_while_another_process_keeps_the_name_registered") else {
        return;
    };
    let tables =
        ["ap_held", "ap_next", "ap_last"].map(|name| format!("[[algorithm]]\nobject = 'crest'\nname = '{name}'\n"));
    let file = test.file("three.toml", &tables.concat());
    let mut command = Command::new(hotcc_path());
    command.args(["apply", &file]).env("HOTCC_FAIL_AT", "step2").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let algo = Algo::named("ap_held");
    let held = loop {
        if let Some(link) = open_link(&algo).ok().flatten() {
            break link;
        }
        assert!(child.try_wait().unwrap().is_none(), "the link was never pinned");
        std::thread::sleep(Duration::from_millis(1));
    };
    let message = failed(1, &child.wait_with_output().unwrap());
    drop(held);
    let expected = "these steps could not be undone: load ap_held (`ap_held` is still registered after 5 s";
    assert!(message.contains(expected) && !message.contains("load ap_next"), "{message}");
}

#[test]
fn files_are_read_without_the_lock() {
    let Some(test) = Applied::new("files_are_read_without_the_lock") else { return };
    let object = test.0.file("slow.bpf.o", hotcc_bpf::algo("westwoodp").unwrap().bytes);
    let loaded = format!("[[algorithm]]\nobject = '{object}'\nname = 'ap_slow'\n");
    let loaded = test.file("loaded.toml", &format!("{loaded}[[algorithm]]\nobject = 'dtcp'\nname = 'ap_too'\n"));
    let nothing = test.file("nothing.toml", "");
    apply(&loaded);
    for (arguments, fails_at) in
        [(&["apply", &*nothing][..], "step1"), (&["unload", "--all"], "step1"), (&["apply", &loaded], "")]
    {
        let mut command = Command::new(hotcc_path());
        command.args(arguments).env("HOTCC_FAIL_AT", fails_at).stderr(Stdio::null());
        let output = opens_without_the_lock(&mut command, &object);
        assert_eq!(output.status.success(), fails_at.is_empty(), "hotcc {arguments:?}: {output:?}");
        same(&loaded); // what was unloaded is loaded again
    }
}

/// Without struct_ops links, a version is loaded again from its file to come back.
#[test]
fn files_to_roll_back_to_are_read_without_the_lock() {
    let Some(test) = Applied::new("files_to_roll_back_to_are_read_without_the_lock") else { return };
    let object = test.0.file("slow.bpf.o", hotcc_bpf::algo("westwoodp").unwrap().bytes);
    let before = test.file("before.toml", &format!("[[algorithm]]\nobject = '{object}'\nname = 'ap_slow'\n"));
    let after = "[[algorithm]]\nobject = 'dcm'\nname = 'ap_slow'\n[[algorithm]]\nobject = 'dtcp'\nname = 'ap_too'\n";
    let after = test.file("after.toml", after);
    let apply = |file: &str, fails_at: &str| {
        let mut command = Command::new(hotcc_path());
        command.args(["apply", file]).env("HOTCC_FAIL_AT", fails_at).env("HOTCC_NO_LINKS", "1");
        command
    };
    assert!(apply(&before, "").status().unwrap().success());
    let output = opens_without_the_lock(&mut apply(&after, "step1"), &object);
    let message = failed(1, &output);
    assert!(message.contains("the steps before it were undone"), "{message}");
    same(&before);
}

#[test]
fn apply_killed_anywhere_leaves_what_diff_reports() {
    let Some(test) = Applied::new("apply_killed_anywhere_leaves_what_diff_reports") else { return };
    let change = Change::new(test);
    let steps: Vec<String> = (0..STEPS.len()).map(|n| format!("step{n}")).collect();
    let within = ["pinned", "switched", "defaults", "moved", "noted", "unlinked", "applied"];
    let last = format!("step{}", STEPS.len() - 1);
    let undone = [("HOTCC_KILL_AT", "undo"), ("HOTCC_FAIL_AT", &*last)];
    let kills = steps.iter().map(String::as_str).chain(within).map(|place| vec![("HOTCC_KILL_AT", place)]);
    let kills: Vec<_> = kills.chain([undone.to_vec()]).collect();
    let rounds = usize::try_from(soak::times(1)).unwrap();
    for kill in kills.iter().cycle().take(rounds * kills.len()) {
        assert_eq!(change.apply_at(kill).status.code(), None, "{kill:?} did not kill");
        let status = json(&["status", "--json"]);
        for name in ["ap_swap", "ap_set", "ap_new", "ap_old_a", "ap_old_b"] {
            let pinned = status["algorithms"].as_array().unwrap().iter().any(|algorithm| algorithm["name"] == name);
            assert_eq!(pinned, registered(name), "{name}, pinned and registered, after {kill:?}");
        }
        let left = diff(&change.after);
        let unfinished = match kill[0].1 {
            "pinned" | "switched" | "defaults" | "moved" => Some("repair ap_swap"),
            "unlinked" => Some("repair ap_old_a"),
            _ => None,
        };
        let repairs = left.iter().map(String::as_str).filter(|step| step.starts_with("repair"));
        assert_eq!(repairs.collect::<Vec<_>>(), unfinished.into_iter().collect::<Vec<_>>(), "{kill:?}");
        assert_eq!(apply(&change.after), left, "{kill:?}: what diff reports is what there is to do");
        same(&change.after);
        change.back();
        same(&change.before);
    }
    soak::report(&format!("apply: {} kills, at {} places", rounds * kills.len(), kills.len()));
}

#[test]
fn concurrent_applies_are_serialised() {
    let Some(test) = Applied::new("concurrent_applies_are_serialised") else { return };
    let change = Change::new(test);
    for _ in 0..3 {
        let both = [&change.before, &change.after].map(|file| {
            Command::new(hotcc_path())
                .args(["apply", file])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        });
        for child in both {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        let left = [&change.before, &change.after].map(|file| diff(file).len());
        assert!(left.iter().filter(|&&n| n == 0).count() == 1, "{left:?} steps to either: a mixture");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let Some(test) = Applied::new("what_is_wrong_with_a_file_is_said_with_its_line") else { return };
    let path = test.file("f.toml", "");
    for (text, message) in [
        ("\n[[algorithm]]\nobject = 'dctp'\n", ":3: no built-in algorithm `dctp`; did you mean `dtcp`?"),
        ("[[algorithm]]\nobject = './no.bpf.o'\n", ":2: cannot read "),
        ("[[algorithm]]\nobject = 'dtcp'\nname = 'a-b'\n", ":3: invalid congestion control name `a-b`"),
        ("[[algorithm]]\nobject = 'dtcp'\nprofile = 'papper'\n", ":3: no profile `papper`; did you mean `paper`?"),
        (
            "[[algorithm]]\nobject = 'dtcp'\n[algorithm.tunables]\neta = 2\nqeue = 'rtt'\n",
            ":5: no tunable `qeue`; did you",
        ),
        ("[[algorithm]]\nobject = 'fbtcp'\ntunables.a = 60\n", ":3: tunable `a` is now `c1_add`"),
        ("[[algorithm]]\nobject = 'dtcp'\ntunables.eta = 99\n", ":3: invalid value `99` for eta: out of range 1..16"),
        (
            "[[algorithm]]\nobject = 'dtcp'\ntunables.eta = true\n",
            ":3: invalid value `true` for eta: expected a number",
        ),
        (
            "[[algorithm]]\nobject = 'dtcp'\n[[algorithm]]\nobject = 'dtcp'\n",
            ":4: the algorithm `dtcp` is declared twice",
        ),
        ("[[algorithm]]\nobject = 'dtcp'\nname = 'cubic'\n", ":2: `cubic` is registered, but not by hotcc"),
        (
            "[[default]]\ncongestion_control = 'cubik'\n",
            ":2: no congestion control `cubik` is registered; did you mean",
        ),
        ("[[default]]\ncongestion_control = 'dtcp'\n", ":2: no congestion control `dtcp` is registered"),
        ("[[default]]\ncongestion_control = 'reno'\nnetns = 'no_such'\n", ":3: no network namespace `no_such`"),
        (
            "[[default]]\ncongestion_control = 'reno'\n[[default]]\ncongestion_control = 'cubic'\nnetns = '/proc/self/ns/net'\n",
            ":4: the default of this network namespace is declared twice, first in ",
        ),
        ("[[receiver]]\nmethod = 'drwa'\ncgroup = '/no/such'\n", ":3: cgroup /no/such does not exist"),
        ("[[receiver]]\nmethod = 'drwa'\n[[receiver]]\nmethod = 'drwa'\n", ":4: the receiver `drwa` is declared twice"),
        ("colour = 'red'\n", ":1: unknown key `colour`, expected one of `algorithm`, `default`, `policy`, `receiver`"),
    ] {
        test.file("f.toml", text);
        for command in ["diff", "apply"] {
            let told = fails(1, &[command, &path]);
            assert!(told.starts_with(&format!("hotcc: {path}{message}")), "{text} says: {told}");
        }
    }
    assert!(fails(1, &["diff", "/no/such/file.toml"]).contains("cannot read /no/such/file.toml"));
}

#[test]
fn its_unit_leaves_it_the_capabilities_it_needs() {
    let Some(test) = Applied::new("its_unit_leaves_it_the_capabilities_it_needs") else { return };
    let unit = include_str!("../../deploy/hotcc.service");
    let left = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let left = left.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let _ns = NetNs::new(NETNS);
    let cgroup = Cgroup::new("hotcc-test-apply-unit");
    let text = format!(
        "[[algorithm]]\nobject = 'dtcp'\nname = 'ap_unit'\n[[receiver]]\nmethod = 'arwa'\ncgroup = '{}'\n\
         [[default]]\nnetns = '{NETNS}'\ncongestion_control = 'ap_unit'\n",
        cgroup.0.display()
    );
    for file in [test.file("f.toml", &text), test.0.file("nothing.toml", b"")] {
        let mut bounded = Command::new("setpriv");
        bounded.args([&format!("--bounding-set=-all,{left}"), hotcc_path(), "apply", &file]);
        hotcc_testbed::command::succeed(&mut bounded);
        ok(&["diff", &file]);
    }
}

#[test]
fn an_unchanged_file_costs_little_more_than_a_status() {
    let Some(test) = Applied::new("an_unchanged_file_costs_little_more_than_a_status") else { return };
    let file = test.file("f.toml", "[[algorithm]]\nobject = 'dtcp'\nname = 'ap_same'\n");
    ok(&["apply", &file]);
    let time_ms = |arguments: &[&str]| {
        let times = (0..9).map(|_| {
            let started = Instant::now();
            ok(arguments);
            started.elapsed().as_secs_f64() * 1e3
        });
        median(&times.collect::<Vec<_>>()).unwrap()
    };
    let (apply_ms, status_ms) = (time_ms(&["apply", &file]), time_ms(&["status"]));
    let ratio = apply_ms / status_ms;
    println!("apply of an unchanged file: {apply_ms:.1} ms, status: {status_ms:.1} ms, ratio {ratio:.2}");
    assert!(ratio < 3.0, "{apply_ms} ms against {status_ms} ms");
}
