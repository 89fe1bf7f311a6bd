//! A user that is not root, but a member of the group that owns the maps and the lock file.

use crate::map::OPTIONS;
use crate::sandbox::{Sandbox, key, sandbox};
use hotcc_radio_map::{Freshness, RadioMap};
use hotcc_testbed::command::stderr;
use hotcc_testbed::kernel::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

/// A group without a name: group ids need none.
const GROUP: u32 = 54_321;

/// Runs the remaining arguments as a user of group $1, with a lock file of group $2 instead of the system's.
const AS_USER: &str = "set -e
own=$1 lock=$2
shift 2
mkdir -p /run/hotcc
mount -t tmpfs -o mode=0755 tmpfs /run/hotcc
touch /run/hotcc/radio.lock
chgrp \"$lock\" /run/hotcc/radio.lock
chmod 0660 /run/hotcc/radio.lock
exec setpriv --reuid=65534 --regid=\"$own\" --clear-groups --inh-caps=-all --no-new-privs -- \"$@\"
";

fn as_user(group: u32, args: &[&str]) -> Output {
    let (own, lock) = (group.to_string(), GROUP.to_string());
    let script = ["--mount", "--propagation", "private", "sh", "-c", AS_USER, "sh", &own, &lock];
    Command::new("unshare").args(script).args(args).env_remove("RUST_LOG").output().unwrap()
}

/// Returns a reason if users cannot use bpf(). Before Linux 5.19, the setting closes the whole system call to users;
/// since then, only the creation of maps and programs.
fn closed_to_users() -> Option<String> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let disabled = read("/proc/sys/kernel/unprivileged_bpf_disabled");
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let version: (u32, u32) = (numbers.next()?, numbers.next()?);
    (disabled.trim() != "0" && version < (5, 19))
        .then(|| format!("kernel.unprivileged_bpf_disabled is {} on Linux {}", disabled.trim(), release.trim()))
}

/// Puts the command and a trace where any user can read them.
fn shared(sandbox: &Sandbox) -> (String, String) {
    let command = sandbox.files.path().join("sinr-feeder");
    fs::copy(env!("CARGO_BIN_EXE_sinr-feeder"), &command).unwrap();
    let trace = sandbox.trace("t.csv", "time_s,sinr_db\n0,11\n0.1,12.5\n");
    for (path, mode) in [(sandbox.files.path().to_owned(), 0o755), (sandbox.files.path().join("t.csv"), 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    (command.display().to_string(), trace)
}

#[test]
fn a_member_of_the_group_may_feed() {
    const NAME: &str = "a_member_of_the_group_may_feed";
    let Some(sandbox) = sandbox(NAME) else { return };
    let probe = as_user(GROUP, &["true"]);
    let cannot = (!probe.status.success()).then(|| format!("cannot become a user: {}", stderr(&probe).trim()));
    if let Some(reason) = cannot.or_else(closed_to_users) {
        skipped(NAME, reason);
        return;
    }
    let (command, trace) = shared(&sandbox);
    let made = sandbox.output(&["init"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let mut map = RadioMap::open(&sandbox.root).unwrap();
    for pin in ["radio_index", "radio_slots"] {
        let pin = sandbox.root.join("signal").join(pin);
        chown(&pin, None, Some(GROUP)).unwrap();
        fs::set_permissions(&pin, Permissions::from_mode(0o660)).unwrap();
    }
    let root = sandbox.root.display().to_string();
    let feeder = |group, args: &[&str]| as_user(group, &[&[&command, "--pin-root", &root], args].concat());
    let run = |group, link| feeder(group, &["run", "--source", &trace, "--link", link, "--max-age-ms", "30000"]);

    let member = run(GROUP, "10.0.0.0/8");
    assert!(member.status.success(), "{}", stderr(&member));
    let links = map.view().links().unwrap();
    assert_eq!((links.len(), links[0].key, links[0].snapshot.updates), (1, key("10.0.0.0/8"), 2));
    assert_eq!(links[0].snapshot.freshness(hotcc_abi::clock::monotonic_ms32()), Freshness::Fresh);
    let show = feeder(GROUP, &["show", "--json"]);
    assert!(show.status.success(), "{}", stderr(&show));
    let report: serde_json::Value = serde_json::from_slice(&show.stdout).unwrap();
    assert_eq!((&report["links"][0]["link"], &report["links"][0]["sinr_db"]), (&"10.0.0.0/8".into(), &12.5.into()));

    // The member sees that root's feeder runs, and does not replace it.
    let writer = map.take_link(key("10.0.0.0/8"), &OPTIONS).unwrap();
    let refused = run(GROUP, "10.0.0.0/8");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains(&format!("process {} feeds it", std::process::id())), "{}", stderr(&refused));
    drop(writer);
    let removed = feeder(GROUP, &["remove", "--link", "10.0.0.0/8"]);
    assert!(removed.status.success(), "{}", stderr(&removed));

    for args in [&["run", "--source", &trace, "--link", "10.0.0.0/8"][..], &["show"]] {
        let stranger = feeder(65_534, args);
        assert_eq!(stranger.status.code(), Some(4), "{}", stderr(&stranger));
    }
    assert!(map.view().links().unwrap().is_empty());
}

/// Runs the remaining arguments while it holds a lock file of its own, which replaces the system's.
const WITH_HELD_LOCK: &str = "mount -t tmpfs -o mode=0755 tmpfs /run/hotcc
exec 9> /run/hotcc/radio.lock
flock 9
\"$@\" 9>&-
";

#[test]
fn a_held_lock_is_an_error_in_time() {
    let Some(sandbox) = sandbox("a_held_lock_is_an_error_in_time") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    drop(map.take_link(key("10.0.0.0/8"), &OPTIONS).unwrap());
    let root = sandbox.root.display().to_string();
    let script = ["--mount", "--propagation", "private", "sh", "-c", WITH_HELD_LOCK, "sh", "timeout", "25"];
    let remove = [env!("CARGO_BIN_EXE_sinr-feeder"), "--pin-root", &root, "remove", "--link", "10.0.0.0/8"];
    let refused = Command::new("unshare").args(script).args(remove).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("radio.lock"), "{}", stderr(&refused));
}

/// Sets up a system where only root may enter the BPF file system, with a group `hotcc`. Runs `$1` as root, then the
/// rest as a user of group `$2`.
const ROOT_THEN_FEEDER: &str = "set -e
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
mkdir -p /run/hotcc
mount -t tmpfs -o mode=0755 tmpfs /run/hotcc
touch \"$3/group\"
{ grep -v '^hotcc:' /etc/group; echo \"hotcc:x:54321:\"; } > \"$3/group\"
mount --bind \"$3/group\" /etc/group
sh -ec \"$1\"
own=$2
shift 3
setpriv --reuid=65534 --regid=\"$own\" --clear-groups --inh-caps=-all --no-new-privs -- sh -c \"$1\"
";

#[test]
fn without_roots_share_a_user_is_told_what_is_missing() {
    let Some(sandbox) = sandbox("without_roots_share_a_user_is_told_what_is_missing") else { return };
    let (command, trace) = shared(&sandbox);
    let feed = ["run", "--source", &trace, "--link", "10.0.0.0/8"];
    for action in [&feed[..], &["show"], &["init"], &["remove", "--stale"]] {
        let refused = as_user(65_534, &[&[command.as_str()], action].concat());
        assert_eq!(refused.status.code(), Some(4), "{action:?}: {}", stderr(&refused));
        assert_eq!(
            stderr(&refused),
            "sinr-feeder: cannot use the radio map (run as root, or as a member of group hotcc if the radio map \
             already exists): root shares none at /run/hotcc/bpf\n",
            "{action:?}"
        );
    }
}

#[test]
fn a_feeder_needs_no_way_into_roots_file_system() {
    const NAME: &str = "a_feeder_needs_no_way_into_roots_file_system";
    let Some(sandbox) = sandbox(NAME) else { return };
    if let Some(reason) = closed_to_users() {
        skipped(NAME, reason);
        return;
    }
    let (command, trace) = shared(&sandbox);
    let files = sandbox.files.path().display().to_string();
    let as_feeder = |group: u32, root: &str, feeder: &str| {
        let script = ["--mount", "--propagation", "private", "sh", "-c", ROOT_THEN_FEEDER, "sh"];
        let arguments = [root, &group.to_string(), &files, feeder];
        Command::new("unshare").args(script).args(arguments).env_remove("RUST_LOG").output().unwrap()
    };
    let feed = format!("{command} run --source {trace} --link 10.0.0.0/8 --max-age-ms 30000");
    let again = format!("{feed} && rm /sys/fs/bpf/hotcc/signal/radio_* && {feed} --take-over");
    for root in [&feed, &again] {
        let show = format!("{feed} --take-over && {command} show --json");
        let member = as_feeder(GROUP, root, &show);
        assert!(member.status.success(), "{}", stderr(&member));
        let report: serde_json::Value = serde_json::from_slice(&member.stdout).unwrap();
        assert_eq!(report["links"][0]["updates"], 4, "root's two and the member's two, in one map: {report}");
    }
    let shut = "! ls /sys/fs/bpf/hotcc && ! touch /run/hotcc/bpf/x && ! rm -f /run/hotcc/bpf/signal/radio_index \
                && ! mv /run/hotcc/bpf/signal /run/hotcc/bpf/mine && ! rm -f /run/hotcc/radio.lock";
    let member = as_feeder(GROUP, &feed, shut);
    assert!(member.status.success(), "a member of the group can change root's directories: {}", stderr(&member));
    for action in [feed.as_str(), &format!("{command} show"), "ls /run/hotcc/bpf"] {
        let stranger = as_feeder(65_534, &feed, action);
        assert!(!stranger.status.success(), "{action}");
        assert!(stderr(&stranger).contains("Permission denied"), "{}", stderr(&stranger));
    }
}
