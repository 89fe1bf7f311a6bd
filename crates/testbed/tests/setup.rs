//! What `setup.sh` installs: with `--minimal`, what building and loading need, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::kernel::skipped;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The programs that setup.sh itself runs.
const TOOLS: [&str; 14] = [
    "apt-cache",
    "apt-get",
    "bash",
    "cargo",
    "cut",
    "dirname",
    "head",
    "mktemp",
    "rm",
    "rustc",
    "sed",
    "sort",
    "stat",
    "tr",
];

/// Returns the packages that setup.sh finds missing if only the tools that it runs itself are on PATH.
fn missing(tools: &Path, options: &[&str]) -> BTreeSet<String> {
    let mut setup = Command::new("bash");
    setup.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup.sh")).arg("--check").args(options);
    let output = setup.env("PATH", tools).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let packages =
        said.lines().find_map(|line| line.strip_prefix("missing    clang-")).unwrap_or_else(|| panic!("{said}"));
    packages.split(' ').skip(1).map(str::to_owned).collect()
}

#[test]
fn a_minimal_setup_is_for_building_and_loading_only() {
    if !Path::new("/usr/bin/apt-get").exists() {
        return skipped("a_minimal_setup_is_for_building_and_loading_only", "needs apt-get");
    }
    let tools = tempfile::tempdir().unwrap();
    for tool in TOOLS {
        let places = env::var_os("PATH").unwrap();
        let program = env::split_paths(&places).map(|place| place.join(tool)).find(|path| path.exists()).unwrap();
        symlink(program, tools.path().join(tool)).unwrap();
    }
    let (minimal, whole) = (missing(tools.path(), &["--minimal"]), missing(tools.path(), &[]));
    let to_build = ["gcc", "libelf-dev", "make", "pkg-config", "zlib1g-dev"].map(str::to_owned).into();
    assert!(minimal.is_subset(&to_build), "{minimal:?}");
    for package in ["gcc", "make", "pkg-config"] {
        assert!(minimal.contains(package), "{package}: {minimal:?}");
    }
    for package in ["openssl", "qemu-system-x86", "tshark"] {
        assert!(whole.contains(package), "{package}: {whole:?}");
    }
}

/// Replaces what reads and changes this system: nats-server is missing, and apt offers it once its lists are new.
const STAND_INS: &str = r#"
missing_packages() { echo nats-server; }
pick_clang() { echo 19; }
offered() { [[ -e lists-are-new ]]; }
need_root() { :; }
forbid_services() { :; }
silence() { :; }
apt_get() {
	echo "apt-get $*"
	[[ $1 != update ]] || touch lists-are-new
}
install_packages
"#;

#[test]
fn an_optional_package_that_old_lists_do_not_have_is_installed() {
    let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup.sh")).unwrap();
    let functions = script.strip_suffix("main \"$@\"\n").unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("setup.sh");
    fs::write(&path, format!("{functions}{STAND_INS}")).unwrap();
    let output = Command::new("bash").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("apt-get install -y --no-install-recommends nats-server"), "{said}");
}
