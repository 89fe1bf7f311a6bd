//! The packages on a clean Debian: what they install, what an upgrade keeps, and that removing them leaves nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::command::succeed;
use hotcc_testbed::debian::{self, Asset};
use hotcc_testbed::kernel::{exclusive, is_root};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A script that runs in its own mount and PID namespaces, as `sh -c SCRIPT ROOT`: ROOT is a clean Debian, with the
/// packages in /packages. INSTALL, LIST, UPGRADE and PURGE are the package manager's commands.
const IN_ROOT: &str = r#"set -eu
cd "$0"
mount --make-rprivate /
mount -t proc proc proc
mount -t sysfs sys sys
mount -t bpf -o mode=1700 bpf sys/fs/bpf
mount -t tmpfs run run
exec chroot . /bin/sh -c '
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
say() { echo "== $*"; }
files() { find / -xdev ! -path "/packages*" ! -path "/var/lib/dpkg/*" ! -path "/root/.rpmdb*" ! -path "/var/cache/*" ! -path "/var/lib/apt/*" \
	! -path "/var/log/*" ! -path "/tmp/*" ! -path "/etc/*-" | sort; find /run /sys/fs/bpf | sort; cat /etc/group; }
apt() { apt-get -qq -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }; }
files >/tmp/before

say installed
eval "$INSTALL"
eval "$LIST"
say configuration
stat -c "%a %U %G %n" /etc/hotcc/feeder.toml
grep -c "^hotcc:" /etc/group
say runs
hotcc load dtcp --as pkg_old
sinr-feeder init
stat -c "%a %U %G" /run/hotcc/bpf/signal/radio_slots
perl -e "$SENDER" pkg_old &
connection=$!
until [ -s /tmp/sent ]; do sleep 0.1; done
echo "listen = \"127.0.0.1:9720\"" >>/etc/hotcc/feeder.toml
say upgraded
eval "$UPGRADE"
sent=$(cat /tmp/sent)
until [ "$(cat /tmp/sent)" -gt "$sent" ]; do kill -0 $connection; sleep 0.1; done
hotcc status --json
kill $connection
cat /etc/hotcc/feeder.toml
say purged
touch /etc/hotcc/pep.keys
eval "$PURGE"
files >/tmp/after
diff /tmp/before /tmp/after
grep -c pkg_old /proc/sys/net/ipv4/tcp_available_congestion_control || true
'
"#;

/// Returns what the script printed below `== HEADING`.
fn said<'a>(output: &'a str, heading: &str) -> &'a str {
    let (_, rest) = output.split_once(&format!("== {heading}\n")).unwrap_or_else(|| panic!("no {heading}: {output}"));
    rest.split_once("\n== ").map_or(rest, |(part, _)| part)
}

/// The environment of the script.
const DEB: [(&str, &str); 4] = [
    ("INSTALL", "apt install -y /packages/hotcc.deb"),
    ("LIST", "dpkg -L hotcc"),
    ("UPGRADE", "apt install -y --reinstall /packages/hotcc.deb"),
    ("PURGE", "apt purge -y hotcc"),
];

/// The commands for the .rpm, on Debian, whose libraries rpm does not know (hence `--nodeps`). rpm keeps a changed
/// configuration file.
const RPM: [(&str, &str); 4] = [
    ("INSTALL", "rpm -i --nodeps /packages/hotcc.rpm"),
    ("LIST", "rpm -ql hotcc"),
    ("UPGRADE", "rpm -U --replacepkgs --nodeps /packages/hotcc.rpm"),
    ("PURGE", "rpm -e hotcc >/tmp/rpm.log 2>&1; rm -r /etc/hotcc"),
];

/// libelf1, as programs that tests build are not static.
#[test]
fn the_package_installs_upgrades_and_leaves_nothing() {
    const NAME: &str = "the_package_installs_upgrades_and_leaves_nothing";
    if debian::can_be_made(NAME, &[]) {
        installs_upgrades_and_leaves_nothing(NAME, "bookworm", "libelf1", DEB, debian::test_package);
    }
}

#[test]
fn both_packages_have_the_same_files() {
    let in_rpm = |asset: Asset| {
        let dest = format!("/{}", asset.dest).replace("vendor-completions/", "site-functions/");
        // Debian's package changes the owner and the permissions of this one when it is installed.
        let mode = if asset.source.ends_with("feeder.toml") { "640".into() } else { asset.mode };
        Asset { dest, mode, ..asset }
    };
    let version = env!("CARGO_PKG_VERSION");
    let (lab, lab_rpm) = (debian::metadata("bench/cli", "deb"), debian::metadata("bench/cli", "generate-rpm"));
    assert!(lab["depends"].as_str().unwrap().contains(&format!("hotcc (= {version})")), "{lab}");
    assert_eq!(lab_rpm["requires"]["hotcc"].as_str(), Some(&*format!("= {version}")));
    for directory in ["loader", "bench/cli"] {
        let deb: Vec<Asset> = debian::assets(&debian::metadata(directory, "deb")).into_iter().map(in_rpm).collect();
        assert_eq!(deb, debian::assets(&debian::metadata(directory, "generate-rpm")));
    }
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_static_package_does_so() {
    release_installs_upgrades_and_leaves_nothing("the_static_package_does_so", "bookworm", "", DEB);
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_static_package_does_so_on_an_older_debian() {
    release_installs_upgrades_and_leaves_nothing("the_static_package_does_so_on_an_older_debian", "bullseye", "", DEB);
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_static_package_does_so_on_the_next_debian() {
    release_installs_upgrades_and_leaves_nothing("the_static_package_does_so_on_the_next_debian", "trixie", "", DEB);
}

#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_rpm_does_so() {
    release_installs_upgrades_and_leaves_nothing("the_rpm_does_so", "bookworm", "rpm", RPM);
}

/// The lab's package, beside the other, on a clean Debian without QEMU: it simulates. With this machine's QEMU, it boots.
#[test]
#[ignore = "builds static programs, minutes: `just test-package`"]
fn the_labs_package_runs_scenarios() {
    const NAME: &str = "the_labs_package_runs_scenarios";
    const SIMULATE: &str = r#"set -eu
mount -t proc proc "$0/proc"
chroot "$0" sh -ec '
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
dpkg -i /packages/hotcc_*.deb /packages/hotcc-bench_*.deb
hotcc-bench lab --sim --one-seed --out /tmp/results /usr/share/hotcc/scenarios/dtcp-window.toml
'"#;
    if !debian::can_be_made(NAME, &["musl-gcc", "rpm", "qemu-system-x86_64"]) || !is_root(NAME) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    debian::unpack("bookworm", "iproute2,libelf1", &root);
    let packages = root.join("packages");
    debian::release_packages(&packages);
    let version = env!("CARGO_PKG_VERSION");
    let rpm = packages.join(format!("hotcc-bench-{version}.x86_64.rpm"));
    let files = succeed(Command::new("rpm").args(["-q", "-p", "-l"]).arg(rpm));
    for file in [
        "/usr/share/bash-completion/completions/hotcc-bench",
        "/usr/share/man/man1/hotcc-bench-lab.1.gz",
        "/usr/share/hotcc/scenarios/demo.toml",
    ] {
        assert!(files.lines().any(|line| line == file), "{file} is not in the package: {files}");
    }

    succeed(Command::new("unshare").args(["--mount", "sh", "-c", SIMULATE]).arg(&root));
    assert!(has_report(&root.join("tmp/results")));
    let results = scratch.path().join("results");
    let mut lab = Command::new(root.join("usr/bin/hotcc-bench"));
    lab.args(["lab", "--lab", "vm:6.12", "--one-seed", "--out"]).arg(&results);
    succeed(lab.arg(root.join("usr/share/hotcc/scenarios/demo.toml")));
    assert!(has_report(&results));
}

/// Returns whether the lab wrote a report below this directory.
fn has_report(directory: &Path) -> bool {
    !succeed(Command::new("find").arg(directory).args(["-name", "report.html", "-size", "+9k"])).is_empty()
}

/// With the packages that `just package` makes: a clean Debian has what they need.
fn release_installs_upgrades_and_leaves_nothing(test: &str, suite: &str, others: &str, commands: [(&str, &str); 4]) {
    if debian::can_be_made(test, &["musl-gcc", "rpm"]) {
        installs_upgrades_and_leaves_nothing(test, suite, others, commands, |packages| {
            debian::release_packages(packages);
            succeed(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(packages));
            let version = env!("CARGO_PKG_VERSION");
            fs::rename(packages.join(format!("hotcc_{version}_amd64.deb")), packages.join("hotcc.deb")).unwrap();
            fs::rename(packages.join(format!("hotcc-{version}.x86_64.rpm")), packages.join("hotcc.rpm")).unwrap();
            let files = succeed(Command::new("rpm").args(["-q", "-p", "-l"]).arg(packages.join("hotcc.rpm")));
            let files: Vec<&str> = files.lines().collect();
            has_files(&files);
            are_static(&packages.join("hotcc.deb"));
        });
    }
}

/// Programs that need no interpreter (the dynamic linker) and no library run on any libc.
fn are_static(deb: &Path) {
    let unpacked = tempfile::tempdir().unwrap();
    succeed(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(unpacked.path()));
    for program in ["hotcc", "sinr-feeder", "pep-agent"] {
        let program = unpacked.path().join("usr/bin").join(program);
        let headers = succeed(Command::new("readelf").args(["--wide", "--program-headers", "--dynamic"]).arg(&program));
        assert!(headers.contains("LOAD"), "{headers}");
        assert!(!headers.contains("INTERP") && !headers.contains("(NEEDED)"), "not static: {headers}");
    }
}

/// `others`: packages in this Debian beyond a minimum. `make`: puts hotcc.deb, hotcc.rpm or both into a folder.
fn installs_upgrades_and_leaves_nothing(
    test: &str,
    suite: &str,
    others: &str,
    commands: [(&str, &str); 4],
    make: impl Fn(&Path),
) {
    let Some(_lock) = exclusive(test) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("root");
    debian::unpack(suite, others, &root);
    make(&root.join("packages"));

    let mut unshare = Command::new("unshare");
    unshare.env("SENDER", debian::SENDER).envs(commands);
    unshare.args(["--mount", "--pid", "--fork", "sh", "-c", IN_ROOT]).arg(&root);
    let output = succeed(&mut unshare);
    has_files(&said(&output, "installed").lines().collect::<Vec<_>>());
    assert_eq!(said(&output, "configuration"), "640 root hotcc /etc/hotcc/feeder.toml\n1");
    assert!(said(&output, "runs").contains("pkg_old loaded"), "{output}");
    assert!(said(&output, "runs").ends_with("660 root hotcc"), "a feeder in the group must be able to write: {output}");
    let upgraded = said(&output, "upgraded");
    assert!(upgraded.contains("\"pkg_old\""), "an upgrade must keep what is loaded: {upgraded}");
    assert!(upgraded.contains("\"connections_current\": 1"), "an upgrade must keep connections: {upgraded}");
    assert!(upgraded.contains("listen = \"127.0.0.1:9720\""), "an upgrade must keep the configuration: {upgraded}");
    assert_eq!(said(&output, "purged"), "0\n");
}

/// Checks that a package has a file of each kind.
fn has_files(files: &[&str]) {
    for file in [
        "/usr/bin/hotcc",
        "/usr/bin/pep-agent",
        "/usr/bin/sinr-feeder",
        "/usr/lib/systemd/system/hotcc.service",
        "/usr/lib/systemd/system/hotcc-exporter.service",
        "/usr/lib/systemd/system/sinr-feeder.service",
        "/usr/lib/sysusers.d/hotcc.conf",
        "/usr/lib/tmpfiles.d/hotcc.conf",
        "/usr/share/bash-completion/completions/hotcc",
        "/usr/share/doc/hotcc/copyright",
        "/usr/share/fish/vendor_completions.d/hotcc.fish",
        "/usr/share/hotcc/grafana-dashboard.json",
        "/usr/share/hotcc/prometheus-rules.yml",
        "/usr/share/man/man1/hotcc-apply.1.gz",
        "/usr/share/man/man1/hotcc-paths-watch.1.gz",
        "/usr/share/man/man1/pep-agent-border.1.gz",
        "/etc/hotcc/border.toml",
        "/etc/hotcc/hotcc.toml",
    ] {
        assert!(files.contains(&file), "{file} is not in the package: {files:?}");
    }
}
