//! Tests invalid input and unsuitable environments: each gives its own message and exit code, and nothing stays
//! half-loaded.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_testbed::command::failed;
use std::error::Error;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Runs a command that must fail, and checks that it left nothing behind.
fn refused(test: &KernelTest, code: i32, arguments: &[&str], expected: &str) {
    let before = (hotcc::sysctl::available().unwrap(), all_pins());
    let message = fails(code, arguments);
    assert!(message.starts_with("hotcc: "), "{message}");
    assert!(message.contains(expected), "{arguments:?} says: {message}");
    assert_eq!((hotcc::sysctl::available().unwrap(), all_pins()), before, "{arguments:?} left something");
    let _ = &test.dir;
}

fn all_pins() -> Vec<std::path::PathBuf> {
    let mut found = pins_below(std::path::Path::new(hotcc_abi::pins::ALGO));
    found.sort();
    found
}

#[test]
fn objects_that_cannot_be_loaded() {
    let Some(test) = kernel_test("objects_that_cannot_be_loaded", &["unverifiable"]) else { return };
    refused(&test, 1, &["load", &test.file("text.bpf.o", b"no ELF at all")], "is not an ELF file");
    refused(&test, 1, &["load", &test.file("empty.bpf.o", b"")], "is not an ELF file");
    let stub = test.file("stub.bpf.o", b"\x7fELF and then nothing");
    refused(&test, 1, &["load", &stub], "is an ELF file, but not a BPF object");
    let message = fails(1, &["load", "/bin/ls"]);
    assert!(message.starts_with("hotcc: /bin/ls is an ELF file, but not a BPF object;"), "{message}");
    refused(&test, 1, &["load", &test.object("cgroup_cc")], "contains no congestion control");
    refused(&test, 1, &["load", "/nowhere/at/all.bpf.o"], "cannot read /nowhere/at/all.bpf.o");
    let available: Vec<&str> = hotcc_bpf::ALGOS.iter().map(|object| object.name).collect();
    let available = format!("no built-in algorithm `no_such_algorithm`; available: {}.", available.join(", "));
    refused(&test, 1, &["load", "no_such_algorithm"], &available);
    refused(&test, 1, &["load", "dctp"], "no built-in algorithm `dctp`; did you mean `dtcp`? Available: ");
    let file = test.file("up.py", b"no object");
    let here = Command::new(hotcc_path()).args(["load", "up.py"]).current_dir(test.dir.path()).output().unwrap();
    let message = failed(1, &here);
    assert!(message.contains("To load the file of that name, write ./up.py"), "{message}");
    refused(&test, 1, &["load", &file], "up.py is not an ELF file");
    let mut cut = hotcc_bpf::algo("dtcp").unwrap().bytes.to_vec();
    cut.truncate(cut.len() / 2);
    let cut = test.file("cut.bpf.o", &cut);
    refused(&test, 1, &["load", &cut], &format!("names strings from {cut}:"));
}

#[test]
fn kernel_functions_that_are_not_as_declared() {
    let Some(test) = kernel_test("kernel_functions_that_are_not_as_declared", &["foreign"]) else { return };
    let object = std::fs::read(test.object("foreign")).unwrap();
    for (function, expected) in [
        ("tcp_cong_avoid_ai", "declares the kernel function tcp_cong_avoid_ai with arguments or a result that differ"),
        ("tcp_no_such_thing", "this kernel has no function tcp_no_such_thing that BPF may call"),
    ] {
        let mut other = object.clone();
        let declared = b"tcp_reno_ssthresh";
        assert_eq!(declared.len(), function.len());
        while let Some(at) = other.windows(declared.len()).position(|w| w == declared) {
            other[at..at + declared.len()].copy_from_slice(function.as_bytes());
        }
        refused(&test, 1, &["load", &test.file("other.bpf.o", &other)], expected);
    }
}

#[test]
fn the_verifiers_reasons_are_shown_and_kept() {
    let Some(test) = kernel_test("the_verifiers_reasons_are_shown_and_kept", &["unverifiable"]) else { return };
    let path = test.object("unverifiable");
    refused(&test, 1, &["load", &path], "the kernel's verifier rejects it");
    let message = fails(1, &["load", &path]);
    let kept = message.rsplit(' ').next().unwrap().trim();
    let whole = std::fs::read_to_string(kept).unwrap();
    let last = whole.lines().rfind(|l| !l.trim().is_empty()).unwrap();
    assert!(message.contains(last), "the end of the log is in the message");
    assert!(message.lines().count() <= 24, "{message}");
    let request = hotcc::ops::Request { object: path, cc_name: None, profile: "default".to_owned(), set: Vec::new() };
    let error = hotcc::ops::load(&request).unwrap_err();
    assert!(error.source().is_some_and(|cause| cause.is::<libbpf_rs::Error>()), "{error:?}");
    std::fs::remove_file(kept).unwrap();
}

/// Without links, the kernel refuses the new version only after the old one is unregistered.
#[test]
fn a_version_that_the_kernel_does_not_register_changes_nothing() {
    let test = kernel_test("a_version_that_the_kernel_does_not_register_changes_nothing", &["cc_refused"]);
    let Some(test) = test else { return };
    let unregistrable = test.object("unregistrable");
    let dtcp = test.file("dtcp.bpf.o", hotcc_bpf::algo("dtcp").unwrap().bytes);
    for links in [true, false] {
        let ns = NetNs::new("hotcc-test-refused");
        let hotcc = |arguments: &[&str]| {
            let mut command = Command::new(hotcc_path());
            command.args(arguments);
            if !links {
                command.env("HOTCC_NO_LINKS", "1");
            }
            command.output().unwrap()
        };
        let done = |arguments: &[&str]| {
            let output = hotcc(arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        };
        done(&["load", "westwoodp", "--as", "cc_refused"]);
        done(&["swap", "cc_refused", &dtcp, "--set", "eta=3"]);
        ns.sh("echo cc_refused > /proc/sys/net/ipv4/tcp_congestion_control");
        let before = status_of("cc_refused").unwrap();
        let message = failed(1, &hotcc(&["swap", "cc_refused", &unregistrable]));
        assert!(message.contains("the old version continues to serve"), "{message}");
        let connection = ns.enter(|| Connection::to(&TcpListener::bind("127.0.0.1:0").unwrap(), None));
        let after = status_of("cc_refused").unwrap();
        for field in ["registered", "object", "previous_object", "swaps", "since_unix_s"] {
            assert_eq!(before[field], after[field], "{field}");
        }
        assert_eq!(connection.cc(), "cc_refused");
        assert_eq!(after["connections_older"], 0, "the default refers to what serves: {after}");
        drop(connection);
        done(&["set", "cc_refused", "queue=rtt"]); // removes old versions
        assert_eq!(ok(&["get", "cc_refused", "eta"]), "3\n");
        done(&["rollback", "cc_refused"]);
        assert_eq!(status_of("cc_refused").unwrap()["object"], "builtin:westwoodp");
        done(&["rollback", "cc_refused"]);
        done(&["unload", "cc_refused"]);
    }
}

#[test]
fn a_lost_version_is_not_said_to_serve() {
    let Some(test) = kernel_test("a_lost_version_is_not_said_to_serve", &["cc_lost"]) else { return };
    let unregistrable = test.object("unregistrable");
    let dtcp = test.file("dtcp.bpf.o", hotcc_bpf::algo("dtcp").unwrap().bytes);
    let hotcc =
        |arguments: &[&str]| Command::new(hotcc_path()).args(arguments).env("HOTCC_NO_LINKS", "1").output().unwrap();
    assert!(hotcc(&["load", &dtcp, "--as", "cc_lost"]).status.success());
    std::fs::remove_file(&dtcp).unwrap(); // without it, the version cannot be registered again
    let message = failed(1, &hotcc(&["swap", "cc_lost", &unregistrable]));
    assert!(message.starts_with("hotcc: cannot swap cc_lost, and no version serves any more: cannot "), "{message}");
    assert!(message.ends_with("; load one: hotcc load OBJECT --as cc_lost\n"), "{message}");
    assert!(!registered("cc_lost") && status_of("cc_lost").is_none());
    ok(&["load", "westwoodp", "--as", "cc_lost"]);
}

#[test]
fn names() {
    let Some(test) = kernel_test("names", &["taken_cc"]) else { return };
    let long = "sixteen_bytes_xx";
    assert_eq!(long.len(), 16);
    refused(&test, 2, &["load", "dtcp", "--as", long], "it has 16 bytes, the kernel accepts 1 to 15");
    refused(&test, 2, &["load", "dtcp", "--as", "a-b"], "it contains `-`");
    refused(&test, 2, &["load", "dtcp", "--as", ""], "has 0 bytes");
    refused(
        &test,
        1,
        &["load", "dtcp", "--as", "cubic"],
        "cannot load `cubic`: a congestion control of that name is already registered",
    );
    ok(&["load", "dtcp", "--as", "taken_cc"]);
    refused(&test, 1, &["load", "westwoodp", "--as", "taken_cc"], "to replace it: hotcc swap taken_cc NEW");
    refused(&test, 1, &["unload", "cubic"], "`cubic` is not loaded by hotcc");
    refused(&test, 1, &["get", "no_such"], "`no_such` is not loaded by hotcc");
    refused(&test, 1, &["get", "dtcp"], "Load it: hotcc load dtcp");
    refused(&test, 1, &["get", "dctp"], "Did you mean `dtcp`? Load it: hotcc load dtcp");
    refused(&test, 1, &["unload", "dtcp"], "`dtcp` is not loaded by hotcc");
    assert!(!fails(1, &["unload", "dtcp"]).contains("Load it"));
    refused(&test, 1, &["migrate", "taken_cc", "dtcp"], ". Load it: hotcc load dtcp\n");
    refused(&test, 1, &["migrate", "taken_cc", "no_such"], "or `modprobe tcp_no_such` if it is a kernel module");
    // an invalid name in the object itself is no usage error
    let own = |bytes: &[u8; 16]| {
        let mut object = std::fs::read(test.object("foreign")).unwrap();
        let at = object.windows(16).position(|w| w == b"foreign\0\0\0\0\0\0\0\0\0").unwrap();
        object[at..at + 16].copy_from_slice(bytes);
        test.file("own_name.bpf.o", &object)
    };
    refused(&test, 1, &["load", &own(b"fore-gn\0\0\0\0\0\0\0\0\0")], "it contains `-`");
    refused(&test, 1, &["load", &own(&[0; 16])], "has 0 bytes");
    // `fifteen_bytes_x` has the maximum length
    let longest = "fifteen_bytes_x";
    ok(&["load", "dtcp", "--as", longest]);
    assert!(registered(longest));
    ok(&["unload", longest]);
}

#[test]
fn tunables() {
    let Some(test) = kernel_test("tunables", &["dtcp", "fbtcp"]) else { return };
    let set = |assignment| ["load", "dtcp", "--set", assignment];
    refused(&test, 2, &set("no_such=1"), "no tunable `no_such`; available: epoch_us, filter");
    refused(&test, 2, &set("eta=17"), "invalid value `17` for eta: out of range 1..16");
    refused(&test, 2, &set("eta=-1"), "invalid value `-1` for eta: out of range 1..16");
    refused(&test, 2, &set("eta=two"), "invalid value `two` for eta: expected a whole number in 1..16");
    refused(
        &test,
        2,
        &set("epoch_us=50ms"),
        "invalid value `50ms` for epoch_us: expected a whole number in 0..10000000 us",
    );
    refused(&test, 2, &set("queue=fifo"), "invalid value `fifo` for queue; available: bandwidth, rtt, max");
    refused(&test, 2, &set("queue=1"), "invalid value `1` for queue; available: bandwidth, rtt, max");
    refused(&test, 2, &set("eta"), "invalid assignment `eta`: expected TUNABLE=VALUE");
    refused(&test, 2, &["load", "dtcp", "--profile", "racing"], "no profile `racing`; available: default, paper");
    ok(&["load", "dtcp"]);
    refused(&test, 2, &["set", "dtcp", "eta=0"], "out of range 1..16");
    refused(&test, 2, &["get", "dtcp", "no_such"], "no tunable `no_such`; available: epoch_us, filter");
    ok(&["set", "dtcp", " eta = 3", "g_permille= 400"]);
    assert_eq!((&*ok(&["get", "dtcp", "eta"]), &*ok(&["get", "dtcp", "g_permille"])), ("3\n", "400\n"));
    // one that had another name
    refused(&test, 2, &["load", "fbtcp", "--set", "a=60"], "tunable `a` is now `c1_add`");
    ok(&["load", "fbtcp"]);
    refused(&test, 2, &["set", "fbtcp", "a=60"], "tunable `a` is now `c1_add`");
    refused(&test, 2, &["get", "fbtcp", "w"], "tunable `w` is now `d6b_divisor`");
    refused(&test, 2, &["unload", "dtcp", "--fallback", "no_such_cc"], "invalid fallback `no_such_cc`; available: ");
    assert!(registered("dtcp"));
}

#[test]
fn without_privileges() {
    let Some(test) = kernel_test("without_privileges", &["dtcp"]) else { return };
    // user `nobody` can read the program here
    let copy = "/tmp/hotcc-refusals-test";
    std::fs::copy(hotcc_path(), copy).unwrap();
    let nobody =
        |arguments: &[&str]| -> Output { Command::new(copy).args(arguments).uid(65534).gid(65534).output().unwrap() };
    for arguments in [
        &["load", "dtcp"][..],
        &["unload", "dtcp"],
        &["swap", "dtcp", "dtcp"],
        &["rollback", "dtcp"],
        &["migrate", "reno", "cubic"],
        &["get", "dtcp"],
        &["set", "dtcp", "eta=2"],
        &["exporter", "--listen", "127.0.0.1:0"],
        &["status"],
        &["run", "--cc", "dtcp", "--", "true"],
    ] {
        let message = failed(4, &nobody(arguments));
        assert!(message.contains("needs root"), "{message}");
    }
    let message = failed(4, &nobody(&["get", "dtcp"]));
    assert!(
        message.contains("run it with sudo; `hotcc list dtcp` shows the built-in algorithm's tunables"),
        "{message}"
    );
    let doctor = nobody(&["doctor"]);
    let text = String::from_utf8_lossy(&doctor.stdout);
    assert!(text.contains("MISSING  privileges"));
    assert!(text.ends_with("\nverdict: algorithms cannot be loaded: run as root\n"), "{text}");
    assert_eq!(doctor.status.code(), Some(4), "{}", String::from_utf8_lossy(&doctor.stdout));
    assert!(nobody(&["list"]).status.success(), "looking at what is built in needs no privilege");
    std::fs::remove_file(copy).unwrap();
    assert!(!registered("dtcp"));
    let _ = test;
}

#[test]
fn doctor_names_the_capabilities_that_root_lacks() {
    let Some(_test) = kernel_test("doctor_names_the_capabilities_that_root_lacks", &[]) else { return };
    let mut bounded = Command::new("setpriv");
    let doctor =
        bounded.args(["--bounding-set=-perfmon,-sys_admin", hotcc_path(), "doctor", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of = |what: &str| findings.iter().find(|finding| finding["what"] == what).unwrap();
    assert_eq!(of("privileges")["found"], "root, but without CAP_PERFMON, CAP_SYS_ADMIN");
    for what in ["struct_ops programs", "socket storage", "LPM trie"] {
        let (finding, found) = (of(what), "only root with CAP_PERFMON, CAP_SYS_ADMIN can check this");
        assert_eq!((&finding["verdict"], &finding["found"]), (&"unknown".into(), &found.into()));
    }
}

/// Runs the command in a separate mount namespace, after `script` has changed that.
fn elsewhere(script: &str, arguments: &str) -> Output {
    let script = format!("{script} && exec {} {arguments}", hotcc_path());
    Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c", &script]).output().unwrap()
}

#[test]
fn without_bpffs() {
    let Some(test) = kernel_test("without_bpffs", &["dtcp"]) else { return };
    let message = failed(3, &elsewhere("umount -l /sys/fs/bpf", "load dtcp"));
    assert!(message.contains("mount -t bpf -o mode=0755 bpf /sys/fs/bpf"), "{message}");
    let doctor = elsewhere("umount -l /sys/fs/bpf", "doctor");
    assert_eq!(doctor.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("MISSING  BPF file system"));
    assert!(!registered("dtcp"));
    let _ = test;
}

#[test]
fn where_ip_netns_exec_hides_what_is_mounted() {
    let Some(_test) = kernel_test("where_ip_netns_exec_hides_what_is_mounted", &["dtcp"]) else { return };
    let _ns = NetNs::new("hotcc-test-hidden");
    let inside = |arguments: &[&str]| {
        let entered = ["netns", "exec", "hotcc-test-hidden", hotcc_path()];
        Command::new("ip").args(entered).args(arguments).output().unwrap()
    };
    for arguments in [&["status"][..], &["run", "--cc", "dtcp", "--", "true"], &["run", "--cc", "reno", "--", "true"]] {
        let message = failed(3, &inside(arguments));
        assert!(message.contains("`ip netns exec` hides "), "{message}");
        assert!(message.contains("use `nsenter --net=/run/netns/NAME` instead"), "{message}");
    }
    let doctor = inside(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(3));
    let text = String::from_utf8_lossy(&doctor.stdout);
    for line in ["MISSING  BPF file system", "limited  cgroup v2"] {
        let line = text.lines().find(|l| l.starts_with(line)).unwrap_or_else(|| panic!("no {line}: {text}"));
        assert!(line.contains("use `nsenter --net=/run/netns/NAME`"), "{line}");
    }
    let entered = ["--net=/run/netns/hotcc-test-hidden", hotcc_path(), "run", "--cc", "dtcp", "--", "true"];
    assert!(Command::new("nsenter").args(entered).status().unwrap().success(), "the advice is good");
}

#[test]
fn where_pins_cannot_be_removed() {
    let Some(_test) = kernel_test("where_pins_cannot_be_removed", &["cc_busy"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_busy"]);
    let pins = hotcc_abi::pins::algo_dir("cc_busy");
    let busy = pins.join("busy");
    let mount = format!("mkdir {0} && mount -t tmpfs -o mode=0755 none {0}", busy.display());
    let unloaded = elsewhere(&mount, "unload cc_busy --json");
    std::fs::remove_dir_all(&pins).unwrap();
    assert!(unloaded.status.success(), "{unloaded:?}");
    let unloaded: serde_json::Value = serde_json::from_slice(&unloaded.stdout).unwrap();
    let warning = unloaded["warnings"][0].as_str().unwrap();
    assert!(warning.contains(&format!("cannot remove {}: ", pins.display())), "the cause is missing: {warning}");
}

#[test]
fn without_btf() {
    let Some(test) = kernel_test("without_btf", &["dtcp"]) else { return };
    let hide = "mount --bind /dev/null /sys/kernel/btf/vmlinux";
    let message = failed(3, &elsewhere(hide, "load dtcp"));
    assert!(message.contains("no BTF"), "{message}");
    let doctor = elsewhere(hide, "doctor --json");
    assert_eq!(doctor.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let verdict_of = |what: &str| {
        let finding = report["findings"].as_array().unwrap().iter().find(|f| f["what"] == what);
        finding.unwrap_or_else(|| panic!("no {what}: {report:#}"))["verdict"].clone()
    };
    assert_eq!(verdict_of("BTF"), "missing");
    for of_receivers in ["tcp_probe", "TCP options by BPF"] {
        assert_eq!(verdict_of(of_receivers), "degraded");
    }
    assert!(!registered("dtcp"));
    let _ = test;
}

#[test]
fn machine_readable_output_is_json() {
    let Some(_test) = kernel_test("machine_readable_output_is_json", &["dtcp"]) else { return };
    let list = json(&["list", "--json"]);
    let dtcp = list.as_array().unwrap().iter().find(|a| a["name"] == "dtcp").unwrap();
    assert!(dtcp["paper"].as_str().unwrap().contains("D-TCP"));
    let epoch = dtcp["tunables"].as_array().unwrap().iter().find(|t| t["name"] == "epoch_us").unwrap();
    assert_eq!((&epoch["unit"], &epoch["default"], &epoch["paper"]), (&"us".into(), &0.into(), &500_000.into()));
    assert_eq!(json(&["doctor", "--json"])["findings"][0]["what"], "privileges");
    let loaded = json(&["load", "dtcp", "--json"]);
    assert_eq!(loaded["name"], "dtcp");
    assert_eq!(json(&["get", "dtcp", "eta", "--json"])["value"], "2");
    assert_eq!(json(&["unload", "dtcp", "--json"])["name"], "dtcp");
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(&["completions", shell]).contains("rollback"));
    }
    fails(2, &["frobnicate"]);
    fails(2, &["load"]);
}

#[test]
fn the_directory_of_an_algorithms_pins_is_no_name() {
    let Some(_test) = kernel_test("the_directory_of_an_algorithms_pins_is_no_name", &["cc.dotted"]) else { return };
    ok(&["load", "dtcp", "--as", "cc.dotted"]);
    for arguments in [
        &["unload", "cc-dotted"][..],
        &["rollback", "cc-dotted"],
        &["swap", "cc-dotted", "westwoodp"],
        &["set", "cc-dotted", "eta=3"],
        &["get", "cc-dotted"],
        &["run", "--cc", "cc-dotted", "--", "true"],
    ] {
        let message = fails(2, arguments);
        assert!(message.contains("it contains `-`"), "{arguments:?}: {message}");
    }
    assert!(registered("cc.dotted"));
    assert_eq!(ok(&["get", "cc.dotted", "eta"]), "2\n");
}

#[test]
fn root_without_capabilities_is_not_permitted() {
    let Some(_test) = kernel_test("root_without_capabilities_is_not_permitted", &[]) else { return };
    let mut bounded = Command::new("setpriv");
    bounded.args(["--bounding-set=-bpf,-net_admin,-perfmon,-sys_admin", hotcc_path(), "doctor"]);
    let output = bounded.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("root, but without CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN"), "{text}");
    assert!(!text.contains("struct_ops program type not found"), "{text}");
    assert_eq!(output.status.code(), Some(4), "{text}");
}
