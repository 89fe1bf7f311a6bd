//! Tests a BPF file system in which a local user created directories and links before root's first command: root's
//! commands refuse it, and change nothing that the user's links refer to.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// Mounts a BPF file system without options, runs `$1` as an unprivileged user, and then each further argument as root.
const AFTER_A_USER: &str = "set -e
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs -o mode=0755 tmpfs /run/hotcc
setpriv --reuid=65534 --regid=65534 --clear-groups sh -ec \"$1\"
shift
for command; do sh -c \"$command\" 2>&1 && echo \"exit 0\" || echo \"exit $?\"; done
";

/// Returns the output of root's commands after a user's command.
fn after_a_user(user: &str, root: &[&str]) -> String {
    let script = ["--mount", "--propagation", "private", "sh", "-c", AFTER_A_USER, "sh", user];
    let output = Command::new("unshare").args(script).args(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn symbolic_links_of_a_user_are_not_followed() {
    let Some(test) = kernel_test("symbolic_links_of_a_user_are_not_followed", &["user_cc"]) else { return };
    let victim = test.file("victim", b"root's");
    fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
    let directory = test.dir.path().join("directory");
    fs::create_dir_all(directory.join("user_cc/kept")).unwrap();
    let hotcc = hotcc_path();
    let load = format!("{hotcc} load westwood_bpf --as user_cc");
    for user in [
        format!("mkdir -p /sys/fs/bpf/hotcc/signal && ln -s {victim} /sys/fs/bpf/hotcc/signal/path_gen"),
        format!("mkdir /sys/fs/bpf/hotcc && ln -s {} /sys/fs/bpf/hotcc/algo", directory.display()),
        format!("ln -s {} /sys/fs/bpf/hotcc", directory.display()),
    ] {
        let commands = [
            &load,
            &format!("{hotcc} paths bump 192.0.2.1"),
            &format!("{hotcc} unload user_cc"),
            &format!("{hotcc} status"),
            "chmod 0755 /sys/fs/bpf",
            &load,
            "rm -r /sys/fs/bpf/hotcc",
            &load,
            &format!("{hotcc} unload user_cc"),
        ];
        let said = after_a_user(&user, &commands);
        let exits: Vec<&str> = said.lines().filter(|line| line.starts_with("exit ")).collect();
        assert_eq!(
            exits,
            ["exit 1", "exit 1", "exit 1", "exit 1", "exit 0", "exit 1", "exit 0", "exit 0", "exit 0"],
            "{said}"
        );
        let mends = said.matches("other users can write to it (mode 1777); run: chmod 0755 /sys/fs/bpf\n").count();
        assert_eq!(mends, 4, "{said}");
        let second = ["; run: rm -r /sys/fs/bpf/hotcc\n", "; run: rm /sys/fs/bpf/hotcc\n"];
        assert!(second.iter().any(|mend| said.contains(mend)), "{said}");
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o7777, 0o600, "{user}: a file of root's has another mode");
        assert!(directory.join("user_cc/kept").exists(), "{user}: a directory of root's choice is gone");
    }
}

/// The file system belongs to root, but a directory in it belongs to another user.
#[test]
fn directories_of_other_users_are_rejected() {
    let Some(_test) = kernel_test("directories_of_other_users_are_rejected", &["user_cc"]) else { return };
    let hotcc = hotcc_path();
    for place in ["hotcc/pep", "hotcc/algo/user_cc", "hotcc/rx"] {
        let load = format!("{hotcc} load westwood_bpf --as user_cc");
        let commands = [
            "chmod 0755 /sys/fs/bpf",
            &format!("mkdir -p /sys/fs/bpf/{place} && chown 65534 /sys/fs/bpf/{place}"),
            &load,
            &format!("{hotcc} rx load drwa"),
            &format!("{hotcc} doctor"),
        ];
        let said = after_a_user("true", &commands);
        let mend = format!(
            "cannot use /sys/fs/bpf/{place}: it belongs to user 65534, not to root; run: rm -r /sys/fs/bpf/{place}"
        );
        assert_eq!(said.matches(&mend).count(), 4, "two commands, and doctor twice: {said}");
    }
}
