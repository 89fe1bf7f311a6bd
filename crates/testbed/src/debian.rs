//! A clean Debian, and the packages to install in it.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::command::{build, succeed};
use crate::kernel::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Perl script, which a clean Debian can run. It opens a connection under the congestion control that its argument
/// names, sends all the time, and writes the number of received bytes to /tmp/sent.
pub const SENDER: &str = r#"use IO::Socket;
my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die;
my $to = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $listener->sockport) or die;
setsockopt $to, 6, 13, $ARGV[0] or die "TCP_CONGESTION: $!";
my $from = $listener->accept or die;
for (my $sent = 0;;) {
    syswrite $to, "x" x 1000;
    $sent += sysread $from, my $arrived, 100000 or die;
    open my $note, ">", "/tmp/sent.new" or die;
    print $note $sent;
    close $note;
    rename "/tmp/sent.new", "/tmp/sent";
    select undef, undef, undef, 0.01;
}
"#;

/// Returns whether this machine can make packages and a clean Debian; if not, reports that `test` is skipped.
///
/// # Panics
/// Stderr is closed.
#[must_use]
pub fn can_be_made(test: &str) -> bool {
    let tools = ["dpkg-deb", "rpmbuild", "mmdebstrap"];
    let missing = tools.into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        skipped(test, format_args!("{tool} is not installed"));
    }
    missing.is_none()
}

/// Unpacks a clean Debian of this `suite` into `root`, with `packages` in addition to a minimal system. The archive is
/// made only once.
///
/// # Panics
/// It cannot be fetched or unpacked.
pub fn unpack(suite: &str, packages: &str, root: &Path) {
    let archive = built().join(format!("debian-{suite}-{packages}.tar"));
    if !archive.exists() {
        let partial = archive.with_extension("partial.tar");
        let include = format!("--include={packages}");
        succeed(Command::new("mmdebstrap").args(["--quiet", "--variant=minbase", &include, suite]).arg(&partial));
        fs::rename(&partial, &archive).unwrap();
    }
    fs::create_dir(root).unwrap();
    succeed(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(root));
}

/// Makes the packages from programs that are built as for tests.
///
/// # Panics
/// They cannot be made.
pub fn make_packages(output: &Path) {
    build(&["hotcc", "sinr-feeder", "pep-agent"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/package.sh");
    succeed(Command::new(script).arg(built()).arg(output));
}

/// Returns the directory of this test's programs.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap(); // DIRECTORY/debug/deps/NAME
    own.ancestors().nth(2).unwrap().to_owned()
}
