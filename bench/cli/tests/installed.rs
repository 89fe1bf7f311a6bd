//! The manual's page on installing, followed on a clean Debian 12 that boots systemd in a virtual machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::machine::stock_kernel;
use common::systemd::{self, boot};
use hotcc_testbed::command::succeed;
use hotcc_testbed::debian;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANUAL: &str = include_str!("../../../docs/guide/install.md");
const SCRIPT: &str = include_str!("installed.sh");
/// Maximum time from the package to the first flow.
const FIRST_FLOW_WITHIN_S: u32 = 60;

/// Returns a command of the manual for the script, after checking that the manual still has it word for word.
fn manual(command: &str) -> &str {
    assert!(MANUAL.contains(command), "the manual no longer says: {command}");
    command
}

#[test]
#[ignore = "boots systemd on a translated processor, two minutes: `just test-package`"]
fn the_manuals_page_on_installing_is_true() {
    const NAME: &str = "the_manuals_page_on_installing_is_true";
    if !debian::can_be_made(NAME, &["musl-gcc"]) {
        return;
    }
    let Some(kernel) = stock_kernel(NAME, "bookworm") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let root = clean_debian(scratch.path());
    let packages = root.join("packages");
    let script = [
        ("@INSTALL@", manual("apt install ./hotcc_0.1.0_amd64.deb")),
        ("@DOCTOR@", manual("hotcc doctor")),
        ("@RUN@", manual("hotcc run --cc crest --")),
        ("@BOOT@", manual("hotcc save && systemctl enable hotcc")),
        ("@EXPORTER@", &manual("systemctl enable --now sinr-feeder").replace("sinr-feeder", "hotcc-exporter")),
        ("@FEEDER@", manual("systemctl enable --now sinr-feeder")),
        ("@REPORT@", &manual("hotcc report > report.json").replace("report.json", "/tmp/report.json")),
        ("@PURGE@", manual("apt purge hotcc")),
    ];
    let script = script.iter().fold(SCRIPT.to_owned(), |text, (name, command)| text.replace(name, command));
    fs::write(packages.join("sender.pl"), debian::SENDER).unwrap();
    let said = boot(&root, &script, &kernel, scratch.path());
    let of = |heading: &str| {
        let rest = said.split_once(&format!("== {heading}\n")).unwrap_or_else(|| panic!("no {heading}")).1;
        rest.split("\n== ").next().unwrap()
    };
    let first_flow = said.lines().find_map(|line| line.strip_prefix("== first flow after ")?.strip_suffix(" s"));
    assert!(first_flow.unwrap().parse::<u32>().unwrap() < FIRST_FLOW_WITHIN_S);
    assert!(of("install").contains("verdict: algorithms load") && of("install").contains("1 socket used crest"));
    assert!(of("exporter").contains("hotcc_algorithm_loaded{cc=\"dtcp\"} 1"));
    let uid = of("feeder").lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().split_whitespace().next();
    assert_ne!(uid, Some("0"), "the feeder is not root");
    assert!(of("feeder").lines().any(|line| line.starts_with("10.45.0.0/16      7.0")));
    assert!(of("credentials").lines().any(|line| line.starts_with("10.46.0.0/16      9.0")));
    assert!(of("feeder").contains("reading udp:127.0.0.1:9000; writing to /run/hotcc/bpf; running as user"));
    assert!(of("upgrade").starts_with("active\nactive\nactive\n") && of("upgrade").contains("127.0.0.1:"));
    assert!(said.contains("== nothing is left\n== end 0\n"));
}

/// A reboot leaves nothing but files: so a machine that boots for the first time comes up as after a reboot.
#[test]
#[ignore = "boots systemd on a translated processor, two minutes: `just test-package`"]
fn a_machine_comes_up_with_what_its_file_declares() {
    const NAME: &str = "a_machine_comes_up_with_what_its_file_declares";
    const DECLARED: &str = "[[algorithm]]\nobject = 'dtcp'\ntunables = { eta = 4 }\n[[algorithm]]\nobject = 'westwoodp'\n\
        [[default]]\ncongestion_control = 'dtcp'\n[[policy]]\nport = 5000\ncongestion_control = 'westwoodp'\n";
    const SCRIPT: &str = "#!/bin/sh\nexec >/dev/ttyS0 2>&1\nset -eu\n\
        trap 'echo \"== end $?\"; systemctl --no-block poweroff --force --force' EXIT\n\
        export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
        echo boot $(cat /proc/sys/kernel/random/boot_id)\n\
        systemctl is-active hotcc || systemctl status --no-pager --full hotcc\nhotcc diff\ncat /proc/sys/net/ipv4/tcp_congestion_control\nhotcc get dtcp eta\n\
        hotcc policy test 127.0.0.1:40000 127.0.0.1:5000\n\
        stat -c 'feeders: %G' /run/hotcc/bpf/signal/*\n";
    if !debian::can_be_made(NAME, &["musl-gcc"]) {
        return;
    }
    let Some(kernel) = stock_kernel(NAME, "bookworm") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let root = clean_debian(scratch.path());
    let install = "export PATH=/usr/sbin:/usr/bin:/sbin:/bin; dpkg -i /packages/hotcc_*.deb";
    succeed(Command::new("chroot").arg(&root).args(["sh", "-ec", install]));
    fs::write(root.join("etc/hotcc/hotcc.toml"), DECLARED).unwrap();
    let enable = manual("systemctl enable hotcc");
    succeed(Command::new("chroot").arg(&root).args(["sh", "-ec", enable]));
    let said = boot(&root, SCRIPT, &kernel, scratch.path());
    let (_, said) = said.split_once("\nboot ").unwrap();
    let lines: Vec<&str> = said.lines().skip(1).collect();
    assert_eq!(lines[0], "active", "{said}");
    assert!(lines[1].contains("is as /etc/hotcc/hotcc.toml declares"), "{said}");
    assert_eq!(lines[2..4], ["dtcp", "4"], "{said}");
    assert!(lines[4..].iter().any(|line| line.contains("westwoodp")), "{said}");
    let feeders: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("feeders: ")).collect();
    assert_eq!(feeders, ["hotcc", "hotcc"], "the radio maps are shared on the host: {said}");
    assert!(said.contains("\n== end 0\n"), "{said}");
}

/// Unpacks a clean Debian 12 that has systemd, and the packages in /packages. Returns its root.
fn clean_debian(scratch: &Path) -> PathBuf {
    let root = systemd::unpack("systemd-sysv", scratch);
    debian::release_packages(&root.join("packages"));
    root
}
