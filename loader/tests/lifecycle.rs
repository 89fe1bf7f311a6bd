//! Tests load, set, swap, rollback and unload: the real command on the running kernel, with real TCP flows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::net::TcpListener;
use std::process::Command;

const MIB: usize = 1 << 20;

#[test]
fn built_in_algorithms_load_carry_traffic_and_unload() {
    for object in hotcc_bpf::ALGOS {
        let Some(_test) = kernel_test("built_in_algorithms_load_carry_traffic_and_unload", &[object.name]) else {
            return;
        };
        for profile in ["default", "paper"] {
            ok(&["load", object.name, "--profile", profile]);
            let status = status_of(object.name).unwrap();
            assert_eq!(status["registered"], true);
            assert_eq!(status["object"], format!("builtin:{}", object.name));
            assert_eq!(status["profile"], profile);
            assert_eq!(status["connections_current"], 0);
            carry_traffic_and_unload(object.name);
            assert_eq!(pins_of(object.name), Vec::<std::path::PathBuf>::new());
        }
    }
}

/// Sends data under the loaded congestion control, and unloads it.
#[track_caller]
fn carry_traffic_and_unload(name: &str) {
    let mut connection = Connection::new(name);
    connection.send(10 * MIB);
    assert_eq!(connection.cc(), name);
    assert_eq!(status_of(name).unwrap()["connections_current"], 1);
    drop(connection);
    ok(&["unload", name]);
    assert!(!registered(name));
}

#[test]
fn peers_load_carry_traffic_and_unload() {
    for object in hotcc_bpf::PEERS {
        let Some(_test) = kernel_test("peers_load_carry_traffic_and_unload", &[object.name]) else { return };
        ok(&["load", object.name]);
        carry_traffic_and_unload(object.name);
    }
}

#[test]
fn unload_all_unloads_every_algorithm() {
    let Some(_test) = kernel_test("unload_all_unloads_every_algorithm", &["all_a", "all_b"]) else { return };
    // in a separate BPF file system, in which no other algorithm is pinned
    let script = "set -eu; mount -t bpf -o mode=0755 bpf /sys/fs/bpf; $0 load dtcp --as all_a; $0 load westwoodp --as all_b
        ! HOTCC_FAIL_AT=step1 $0 unload --all 2>/dev/null; echo registered $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)
        $0 unload --all; $0 unload --all";
    let mut shell = Command::new("unshare");
    let output = hotcc_testbed::command::succeed(shell.args(["--mount", "sh", "-c", script, hotcc_path()]));
    let after_failure = output.lines().find(|line| line.starts_with("registered ")).unwrap();
    assert!(after_failure.contains(" all_a") && after_failure.contains(" all_b"), "not undone: {output}");
    let done = "- unload algorithm all_a\n- unload algorithm all_b\nsteps done: 2; nothing is loaded\n";
    assert!(output.ends_with(&format!("{done}steps done: 0; nothing is loaded\n")), "{output}");
    assert!(!registered("all_a") && !registered("all_b"));
    fails(2, &["unload"]);
    fails(2, &["unload", "--all", "all_a"]);
    fails(2, &["unload", "--all", "--fallback", "reno"]);
}

#[test]
fn counters_match_the_traffic() {
    let Some(_test) = kernel_test("counters_match_the_traffic", &["wp_count"]) else { return };
    ok(&["load", "westwoodp", "--as", "wp_count"]);
    for _ in 0..3 {
        Connection::new("wp_count").send(MIB);
    }
    let stats = stats_after_closing("wp_count", 3);
    assert_eq!((stats.flows_opened, stats.flows_closed), (3, 3));
    // the last ACK may still be in flight when a socket closes
    assert!((3 * MIB as u64 - 200_000..=3 * MIB as u64 + 3).contains(&stats.acked_bytes), "{}", stats.acked_bytes);
    assert_eq!(stats.min_rtt_us.buckets.iter().sum::<u64>(), 3);
    assert_eq!(stats.duration_ms.buckets.iter().sum::<u64>(), 3);
}

/// Returns the counters after this many flows have closed: a socket outlives its descriptor for a moment.
fn stats_after_closing(name: &str, closed: u64) -> hotcc_abi::stats::AlgoStats {
    for _ in 0..100 {
        let stats = hotcc::registry::Algo::named(name).stats().unwrap().unwrap();
        if stats.flows_closed >= closed {
            return stats;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{closed} flows did not close in 5 s");
}

#[test]
fn tunables_are_set_live_and_read_back() {
    let Some(_test) = kernel_test("tunables_are_set_live_and_read_back", &["dtcp_set"]) else { return };
    let warning = "hotcc: warning: n_rule=alg1: N never falls";
    let stderr = |arguments: &[&str]| String::from_utf8(hotcc(arguments).stderr).unwrap();
    let loaded = stderr(&["load", "dtcp", "--as", "dtcp_set", "--set", "eta=3", "--set", "n_rule=alg1"]);
    assert!(loaded.starts_with(warning), "{loaded}");
    assert!(stderr(&["set", "dtcp_set", "n_rule=alg1"]).starts_with(warning));
    assert_eq!(stderr(&["set", "dtcp_set", "eta=3"]), "");
    assert_eq!(ok(&["get", "dtcp_set", "eta"]), "3\n");
    assert_eq!(ok(&["get", "dtcp_set", "n_rule"]), "alg1\n");
    ok(&["set", "dtcp_set", "eta=4", "queue=rtt", "alpha_permille=0x12c"]);
    assert_eq!(ok(&["get", "dtcp_set", "eta"]), "4\n");
    assert_eq!(ok(&["get", "dtcp_set", "queue"]), "rtt\n");
    assert_eq!(ok(&["get", "dtcp_set", "alpha_permille"]), "300\n");
    assert_eq!(ok(&["get", "dtcp_set", "g_permille"]), "500\n", "the other tunables keep their values");
    // all or nothing
    fails(2, &["set", "dtcp_set", "eta=5", "alpha_permille=99999"]);
    assert_eq!(ok(&["get", "dtcp_set", "eta"]), "4\n");
}

#[test]
fn the_paper_profile_has_the_papers_values() {
    let Some(_test) = kernel_test("the_paper_profile_has_the_papers_values", &["dtcp_paper"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_paper", "--profile", "paper", "--set", "eta=3"]);
    for (tunable, value) in [
        ("epoch_us", "500000"),
        ("sinr_term", "literal"),
        ("queue", "bandwidth"),
        ("initial_ssthresh_bytes", "65535"),
        ("rto_ssthresh", "keep"),
        ("eta", "3"),
    ] {
        assert_eq!(ok(&["get", "dtcp_paper", tunable]).trim(), value, "{tunable}");
    }
}

#[test]
fn swap_applies_to_new_sockets_and_with_live_to_open_ones() {
    let Some(_test) = kernel_test("swap_applies_to_new_sockets_and_with_live_to_open_ones", &["cc_swap"]) else {
        return;
    };
    ok(&["load", "westwoodp", "--as", "cc_swap"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut before = Connection::to(&listener, Some("cc_swap"));
    before.send(MIB);
    let swapped = json(&["swap", "cc_swap", "dtcp", "--json"]);
    assert_eq!(swapped["object"], "builtin:dtcp");
    assert_eq!((&swapped["connections_current"], &swapped["connections_older"]), (&0.into(), &1.into()));
    before.send(MIB); // continues under the old version
    let mut after = Connection::to(&listener, Some("cc_swap"));
    after.send(MIB);
    let status = status_of("cc_swap").unwrap();
    assert_eq!((&status["connections_current"], &status["connections_older"]), (&1.into(), &1.into()));
    assert_eq!(status["previous_object"], "builtin:westwoodp");
    let back = json(&["rollback", "cc_swap", "--live", "--json"]);
    assert_eq!(back["object"], "builtin:westwoodp");
    assert_eq!(back["moved"]["moved"], 1, "the one that ran dtcp; the other has the right version already");
    assert_eq!((&back["connections_current"], &back["connections_older"]), (&2.into(), &0.into()));
    for connection in [&mut before, &mut after] {
        connection.send(MIB);
        assert_eq!(connection.cc(), "cc_swap");
    }
    assert_eq!(status_of("cc_swap").unwrap()["swaps"], 2);
    ok(&["rollback", "cc_swap"]);
    assert_eq!(status_of("cc_swap").unwrap()["object"], "builtin:dtcp", "a second rollback undoes the first");
}

#[test]
fn live_swap_under_load_breaks_nothing() {
    let Some(_test) = kernel_test("live_swap_under_load_breaks_nothing", &["cc_busy"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_busy"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let mut connection = Connection::to(&listener, Some("cc_busy"));
            std::thread::spawn(move || {
                for _ in 0..40 {
                    connection.send(8 * MIB);
                }
                connection
            })
        })
        .collect();
    for object in ["dtcp", "westwoodp", "dtcp"] {
        let outcome = json(&["swap", "cc_busy", object, "--live", "--json"]);
        assert_eq!(outcome["moved"]["moved"], 4);
        assert_eq!(outcome["connections_older"], 0);
    }
    let outcome = json(&["rollback", "cc_busy", "--live", "--json"]);
    assert_eq!(outcome["object"], "builtin:westwoodp");
    let connections: Vec<_> = senders.into_iter().map(|s| s.join().unwrap()).collect();
    assert_eq!(status_of("cc_busy").unwrap()["connections_current"], connections.len());
}

#[test]
fn set_reaches_connections_on_the_previous_version() {
    let Some(_test) = kernel_test("set_reaches_connections_on_the_previous_version", &["cc_older"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_older"]);
    let _open = Connection::new("cc_older");
    ok(&["swap", "cc_older", "dtcp", "--profile", "paper"]);
    let outcome = json(&["set", "cc_older", "eta=5", "--json"]);
    assert_eq!(outcome["versions"], 2);
    assert_eq!(outcome["connections_missed"], 0);
    // after two swaps, the version that the connection runs is no longer pinned, and the command reports that
    ok(&["swap", "cc_older", "dtcp"]);
    assert_eq!(json(&["set", "cc_older", "eta=6", "--json"])["connections_missed"], 1);
    ok(&["rollback", "cc_older"]);
    assert_eq!(ok(&["get", "cc_older", "eta"]), "6\n", "the previous version was set too");
}

#[test]
fn counters_survive_the_removal_of_old_versions() {
    let Some(_test) = kernel_test("counters_survive_the_removal_of_old_versions", &["cc_sum"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_sum"]);
    let oldest = Connection::new("cc_sum");
    Connection::new("cc_sum").send(MIB);
    stats_after_closing("cc_sum", 1);
    for (n, object) in ["dtcp", "westwoodp", "dtcp", "westwoodp"].into_iter().enumerate() {
        ok(&["swap", "cc_sum", object]);
        let sum = hotcc::registry::Algo::named("cc_sum").stats().unwrap().unwrap();
        assert_eq!(sum.flows_closed, n as u64 + 1);
        Connection::new("cc_sum").send(MIB);
        stats_after_closing("cc_sum", n as u64 + 2);
    }
    drop(oldest); // its version was removed three swaps ago
    let sum = stats_after_closing("cc_sum", 6);
    assert_eq!((sum.flows_opened, sum.flows_closed), (6, 6));
}

#[test]
fn a_swap_to_the_same_object_keeps_the_previous_version() {
    let Some(test) = kernel_test("a_swap_to_the_same_object_keeps_the_previous_version", &["cc_same", "cc_same2"])
    else {
        return;
    };
    let stranger = test.object("stranger");
    ok(&["load", "westwoodp", "--as", "cc_same"]);
    let older = Connection::new("cc_same");
    ok(&["swap", "cc_same", &stranger, "--set", "extra_window=5", "--set", "fixed_window=30"]);
    let before = status_of("cc_same").unwrap();
    let same = ["swap", "cc_same", &stranger, "--set", "extra_window=5", "--set", "fixed_window=30"];
    let text = ok(&same);
    assert!(text.contains("already serves with the same tunables"), "{text}");
    let ns = NetNs::new("hotcc-test-same");
    ok(&["load", "westwoodp", "--as", "cc_same2"]);
    ns.sh("echo cc_same2 > /proc/sys/net/ipv4/tcp_congestion_control");
    let text = ok(&["swap", "cc_same2", "westwoodp"]);
    assert!(text.contains("cc_same2 not swapped: ") && !text.contains("new version"), "{text}");
    let again = json(&[&same[..], &["--live", "--json"]].concat());
    assert_eq!(
        (&again["served_already"], &again["moved"]["moved"]),
        (&true.into(), &1.into()),
        "--live still moves connections"
    );
    assert_eq!(again["connections_older"], 0);
    drop(older);
    let after = status_of("cc_same").unwrap();
    for field in ["object", "previous_object", "swaps", "since_unix_s"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!(json(&["rollback", "cc_same", "--json"])["object"], "builtin:westwoodp");
    // the same object with other tunables is another version, whether they were set before it was loaded or afterwards
    ok(&["rollback", "cc_same"]);
    ok(&["set", "cc_same", "extra_window=7"]);
    let other = json(&[&same[..], &["--json"]].concat());
    assert_eq!((&other["served_already"], &other["object"]), (&false.into(), &before["object"]));
    ok(&["rollback", "cc_same"]);
    assert_eq!(ok(&["get", "cc_same", "extra_window"]), "7\n");
    ok(&["swap", "cc_same", &stranger, "--set", "extra_window=7", "--set", "fixed_window=31"]);
    assert_eq!(ok(&["get", "cc_same", "fixed_window"]), "31\n");
}

#[test]
fn a_failed_swap_keeps_the_old_version() {
    let Some(test) = kernel_test("a_failed_swap_keeps_the_old_version", &["cc_stay"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_stay"]);
    let before = pins_of("cc_stay");
    let message = fails(1, &["swap", "cc_stay", &test.object("unverifiable")]);
    assert!(message.contains("verifier rejects"), "{message}");
    fails(2, &["swap", "cc_stay", "dtcp", "--set", "eta=99"]);
    fails(1, &["swap", "cc_stay", &test.object("cgroup_cc")]);
    fails(1, &["swap", "cc_stay", "/nonexistent.bpf.o"]);
    assert_eq!(pins_of("cc_stay"), before);
    assert_eq!(status_of("cc_stay").unwrap()["object"], "builtin:westwoodp");
    Connection::new("cc_stay").send(MIB);
    fails(1, &["rollback", "cc_stay"]); // there is no previous version
    fails(1, &["swap", "not_loaded", "dtcp"]);
}

#[test]
fn a_rollback_restores_the_last_version_whatever_the_clock_was() {
    let Some(_test) = kernel_test("a_rollback_restores_the_last_version_whatever_the_clock_was", &["cc_clock"]) else {
        return;
    };
    ok(&["load", "westwoodp", "--as", "cc_clock"]);
    // loaded while the clock was an hour fast
    let loaded = hotcc::registry::Algo::named("cc_clock").current().unwrap().unwrap();
    let mut meta = loaded.meta().unwrap();
    meta.since_unix_ns += 3_600_000_000_000;
    loaded.set_meta(&meta).unwrap();
    ok(&["swap", "cc_clock", "dtcp"]);
    ok(&["swap", "cc_clock", "dcm"]);
    assert_eq!(json(&["rollback", "cc_clock", "--json"])["object"], "builtin:dtcp");
}

#[test]
fn a_third_party_object_can_be_renamed_tuned_swapped_and_unloaded() {
    let Some(test) =
        kernel_test("a_third_party_object_can_be_renamed_tuned_swapped_and_unloaded", &["stranger", "str.anger2"])
    else {
        return;
    };
    let path = test.object("stranger");
    ok(&["load", &path]);
    ok(&["load", &path, "--as", "str.anger2", "--set", "fixed_window=30"]);
    let mut connection = Connection::new("str.anger2");
    connection.send(MIB);
    assert_eq!(ok(&["get", "str.anger2", "fixed_window"]), "30\n");
    assert_eq!(ok(&["get", "str.anger2", "extra_window"]), "2\n");
    ok(&["set", "str.anger2", "extra_window=5"]);
    connection.send(MIB);
    assert_eq!(cwnd(&connection), 35, "its programs see what was set");
    let message = fails(2, &["set", "str.anger2", "fixed_window=3"]);
    assert!(message.contains("fixed while the algorithm is loaded"), "{message}");
    fails(2, &["load", &path, "--as", "stranger3", "--profile", "paper"]);
    ok(&["swap", "str.anger2", "westwoodp", "--live"]);
    connection.send(MIB);
    assert_eq!(status_of("str.anger2").unwrap()["connections_current"], 1);
    ok(&["rollback", "str.anger2", "--live"]);
    connection.send(MIB);
    assert_eq!(cwnd(&connection), 35);
    ok(&["unload", "str.anger2"]);
    ok(&["unload", "stranger"]);
    assert!(!registered("stranger") && !registered("str.anger2"));
}

/// Returns the congestion window that the kernel reports.
fn cwnd(connection: &Connection) -> u32 {
    use std::os::fd::AsRawFd;
    const TCPI_SND_CWND: usize = 80; // struct tcp_info of linux/tcp.h
    let mut info = [0u8; 104];
    let mut length = info.len() as u32;
    // SAFETY: the buffer has `length` bytes, and outlives the call.
    let result = unsafe {
        nix::libc::getsockopt(
            connection.client.as_raw_fd(),
            nix::libc::IPPROTO_TCP,
            nix::libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    u32::from_ne_bytes(info[TCPI_SND_CWND..TCPI_SND_CWND + 4].try_into().unwrap())
}

#[test]
fn unload_reports_open_connections_which_keep_the_algorithm() {
    let Some(_test) = kernel_test("unload_reports_open_connections_which_keep_the_algorithm", &["cc_used"]) else {
        return;
    };
    ok(&["load", "westwoodp", "--as", "cc_used"]);
    let mut connections = [Connection::new("cc_used"), Connection::new("cc_used")];
    let text = ok(&["unload", "cc_used"]);
    assert!(text.contains("connections that keep it until they close: 2"), "{text}");
    assert!(!registered("cc_used"));
    for connection in &mut connections {
        connection.send(4 * MIB);
        assert_eq!(connection.cc(), "cc_used");
    }
    // loading the name again prints the command that moves them, and that command works
    let text = ok(&["load", "westwoodp", "--as", "cc_used"]);
    assert!(text.contains("until they close: 2 (hotcc migrate cc_used cc_used moves them)"), "{text}");
    assert_eq!(json(&["migrate", "cc_used", "cc_used", "--json"])["moved"], 2);
    assert_eq!(status_of("cc_used").unwrap()["connections_older"], 0);
}

#[test]
fn an_object_without_links_and_tags_is_supported() {
    let Some(test) = kernel_test("an_object_without_links_and_tags_is_supported", &["foreign", "cc_foreign"]) else {
        return;
    };
    let path = test.object("foreign");
    ok(&["load", &path]);
    Connection::new("foreign").send(MIB);
    assert_eq!(ok(&["get", "foreign"]).lines().count(), 1, "it has no tunables");
    ok(&["unload", "foreign"]);
    ok(&["load", "westwoodp", "--as", "cc_foreign"]);
    let mut connection = Connection::new("cc_foreign");
    ok(&["swap", "cc_foreign", &path, "--live"]);
    connection.send(MIB);
    ok(&["rollback", "cc_foreign", "--live"]);
    connection.send(MIB);
    assert_eq!(status_of("cc_foreign").unwrap()["connections_current"], 1);
}

#[test]
fn run_applies_the_congestion_control_to_one_command_only() {
    let Some(_test) = kernel_test("run_applies_the_congestion_control_to_one_command_only", &["dtcp"]) else {
        return;
    };
    const CLIENT: [&str; 8] = ["iperf3", "-c", "127.0.0.1", "-p", "5312", "-n", "1M", "-J"];
    let mut serving =
        Command::new("iperf3").args(["-s", "-p", "5312"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let ran = Command::new(hotcc_path()).args(["run", "--cc", "dtcp", "--"]).args(CLIENT).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    let beside = Command::new(CLIENT[0]).args(&CLIENT[1..]).output().unwrap();
    let code = Command::new(hotcc_path()).args(["run", "--cc", "dtcp", "--", "sh", "-c", "exit 7"]).status().unwrap();
    serving.kill().unwrap();
    serving.wait().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(text.contains("\"sender_tcp_congestion\":\t\"dtcp\""), "{text}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("2 sockets used dtcp, loaded for this run"));
    assert!(!String::from_utf8_lossy(&beside.stdout).contains("dtcp"));
    assert_eq!(code.code(), Some(7), "exits with the command's status");
    assert!(!registered("dtcp"), "unloaded when the command ends");
    let root = hotcc::cgroup::cgroup2_root().unwrap();
    let left = std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("hotcc-run-"));
    assert_eq!(left.count(), 0);
    fails(1, &["run", "--cc", "no_such_cc", "--", "true"]);
    // the window starts at twice the initial window, as in the paper: so it was set after the kernel had the initial
    // window
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; ss -Htin dst 127.0.0.1:{port}");
    let sockets = ok(&["run", "--cc", "dtcp", "--profile", "paper", "--", "bash", "-c", &script]);
    assert!(sockets.contains("dtcp") && sockets.contains("cwnd:20 "), "{sockets}");
}

#[test]
fn kernels_without_links_are_supported() {
    let Some(test) = kernel_test("kernels_without_links_are_supported", &["cc_nolink"]) else { return };
    let hotcc = |arguments: &[&str]| {
        let output = Command::new(hotcc_path()).args(arguments).env("HOTCC_NO_LINKS", "1").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    hotcc(&["load", "westwoodp", "--as", "cc_nolink", "--set", "min_sample_us=60000"]);
    assert!(!hotcc_abi::pins::algo_dir("cc_nolink").join("link").exists());
    let mut connection = Connection::new("cc_nolink");
    connection.send(MIB);
    hotcc(&["swap", "cc_nolink", "dtcp", "--live"]);
    connection.send(MIB);
    assert_eq!(status_of("cc_nolink").unwrap()["connections_current"], 1);
    hotcc(&["rollback", "cc_nolink", "--live"]);
    connection.send(MIB);
    assert_eq!(hotcc(&["get", "cc_nolink", "min_sample_us"]), "60000\n", "the value is restored");
    assert_eq!(status_of("cc_nolink").unwrap()["object"], "builtin:westwoodp");
    let bad = Command::new(hotcc_path())
        .args(["swap", "cc_nolink", &test.object("unverifiable")])
        .env("HOTCC_NO_LINKS", "1")
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(1));
    assert!(registered("cc_nolink"));
    hotcc(&["unload", "cc_nolink"]);
    assert!(!registered("cc_nolink"));
    connection.send(MIB);
}
