//! A clean Debian, and the packages to install in it.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use crate::command::{build, succeed};
use crate::kernel::skipped;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once, PoisonError};

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

/// Returns whether this machine can make a clean Debian and has these other tools; if not, reports that `test` is skipped.
///
/// # Panics
/// Stderr is closed.
#[must_use]
pub fn can_be_made(test: &str, others: &[&str]) -> bool {
    let tools = ["dpkg-deb", "mmdebstrap"];
    let missing = tools.iter().chain(others).find(|tool| Command::new(tool).arg("--version").output().is_err());
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
    // two tests of one process may want the same archive
    static MAKING: Mutex<()> = Mutex::new(());
    let archive = built().join(format!("debian-{suite}-{packages}.tar"));
    let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if !archive.exists() {
        let partial = archive.with_extension("partial.tar");
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args(["--quiet", "--variant=minbase"]);
        if !packages.is_empty() {
            mmdebstrap.arg(format!("--include={packages}"));
        }
        succeed(mmdebstrap.arg(suite).arg(&partial));
        fs::rename(&partial, &archive).unwrap();
    }
    drop(making);
    fs::create_dir(root).unwrap();
    succeed(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(root));
}

/// Copies the packages that `just package` makes, and their checksums, into `output`.
///
/// # Panics
/// They cannot be made.
pub fn release_packages(output: &Path) {
    succeed(Command::new("cp").arg("-r").arg(release().join("package")).arg(output));
}

/// Returns the directory of the static programs that `just package` puts into packages.
///
/// # Panics
/// They cannot be built.
#[must_use]
pub fn release_programs() -> PathBuf {
    release().join("x86_64-unknown-linux-musl/release")
}

/// Makes the packages, once, and returns the target directory.
fn release() -> PathBuf {
    static MADE: Once = Once::new();
    let target = built().join("..");
    MADE.call_once(|| {
        succeed(Command::new(repository().join("deploy/package.sh")).env("CARGO_TARGET_DIR", &target));
    });
    target
}

/// Makes a .deb in `output` of the same files and maintainer scripts in a moment: of programs as they are built for tests,
/// without the tools that `just package` builds.
///
/// # Panics
/// It cannot be made.
pub fn test_package(output: &Path) {
    let programs = ["hotcc", "sinr-feeder", "pep-agent"];
    build(&programs);
    succeed(Command::new(repository().join("deploy/pages.sh")).arg(built()).arg("hotcc").args(programs));
    let tree = output.join("tree");
    fs::create_dir_all(&tree).unwrap();
    let deb = metadata("loader", "deb");
    let mut conffiles = String::new();
    for asset in assets(&deb) {
        let source = asset
            .source
            .strip_prefix("target/release")
            .map_or_else(|_| repository().join("loader").join(&asset.source), |program| built().join(program));
        for file in matching(&source) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let place = if asset.dest.ends_with('/') { format!("{}{name}", asset.dest) } else { asset.dest.clone() };
            let strip: &[&str] = if asset.mode == "755" { &["-s"] } else { &[] };
            let mut install = Command::new("install");
            succeed(install.args(["-D", "-m", &asset.mode]).args(strip).arg(file).arg(tree.join(&place)));
            if place.starts_with("etc/") {
                conffiles += &format!("/{place}\n");
            }
        }
    }
    succeed(Command::new("cp").arg("-r").arg(repository().join("deploy/debian")).arg(tree.join("DEBIAN")));
    fs::write(tree.join("DEBIAN/conffiles"), conffiles).unwrap();
    let control = format!(
        "Package: hotcc\nVersion: {}\nArchitecture: amd64\nMaintainer: {}\nDepends: {}\nDescription: a test's\n",
        env!("CARGO_PKG_VERSION"),
        deb["maintainer"].as_str().unwrap(),
        deb["depends"].as_str().unwrap()
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zzstd", "--build"]).arg(&tree).arg(output.join("hotcc.deb"));
    succeed(&mut build);
    fs::remove_dir_all(tree).unwrap();
}

/// What the Cargo.toml in this `directory` says about the packages of one `format`: deb or generate-rpm.
///
/// # Panics
/// It says nothing.
#[must_use]
pub fn metadata(directory: &str, format: &str) -> toml::Value {
    let manifest = fs::read_to_string(repository().join(directory).join("Cargo.toml")).unwrap();
    let manifest: toml::Value = toml::from_str(&manifest).unwrap();
    manifest["package"]["metadata"][format].clone()
}

/// A file of a package, or several: its source may have a `*` in its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Asset {
    /// Relative to the folder of that Cargo.toml; programs are in target/release.
    pub source: PathBuf,
    /// The place in the root file system, or the folder if it ends with a slash.
    pub dest: String,
    /// Permissions, octal.
    pub mode: String,
}

/// The files that this metadata lists.
///
/// # Panics
/// It lists none.
#[must_use]
pub fn assets(metadata: &toml::Value) -> Vec<Asset> {
    let asset = |asset: &toml::Value| {
        let text = |key: &str| asset[key].as_str().unwrap().to_owned();
        Asset { source: text("source").into(), dest: text("dest"), mode: text("mode") }
    };
    metadata["assets"].as_array().unwrap().iter().map(asset).collect()
}

/// The files that a path with a `*` in its file name means.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap().to_str().unwrap();
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let files = fs::read_dir(pattern.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files
        .filter(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            name.starts_with(start) && name.ends_with(end)
        })
        .collect();
    assert!(!files.is_empty(), "no file is {}", pattern.display());
    files
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the directory of this test's programs.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap(); // DIRECTORY/debug/deps/NAME
    own.ancestors().nth(2).unwrap().to_owned()
}
