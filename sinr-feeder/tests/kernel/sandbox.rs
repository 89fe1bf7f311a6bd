//! A pin directory and files of one test, removed when it ends, also by a panic.

use hotcc_abi::pins;
use hotcc_abi::radio::IndexKey;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Sandbox {
    pub root: PathBuf,
    pub files: tempfile::TempDir,
}

/// `None`, and a line that says so, without root.
pub fn sandbox(test: &str) -> Option<Sandbox> {
    static MOUNTING: Mutex<()> = Mutex::new(());
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED {test}: needs root");
        return None;
    }
    let guard = MOUNTING.lock().unwrap();
    if !statfs(pins::BPFFS).is_ok_and(|s| s.filesystem_type() == BPF_FS_MAGIC) {
        mount(Some("bpf"), pins::BPFFS, Some("bpf"), MsFlags::empty(), None::<&str>).unwrap();
    }
    drop(guard);
    let root = Path::new(pins::BPFFS).join(format!("sinr-feeder-test-{}-{test}", std::process::id()));
    Some(Sandbox { root, files: tempfile::tempdir().unwrap() })
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Sandbox {
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinr-feeder"));
        command.arg("--pin-root").arg(&self.root).args(args).env_remove("RUST_LOG");
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A file; its name as a source.
    pub fn trace(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        fs::write(&path, text).unwrap();
        format!("trace:{}", path.display())
    }

    /// A feeder in the background, killed when dropped.
    pub fn feeder(&self, args: &[&str]) -> Feeder {
        let child = self.command(&["run"]).args(args).stderr(Stdio::piped()).spawn().unwrap();
        Feeder(child)
    }

    pub fn links(&self) -> Vec<serde_json::Value> {
        let output = self.output(&["show", "--json"]);
        if !output.status.success() {
            return Vec::new();
        }
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["links"].as_array().unwrap().clone()
    }

    /// What `show` says of the one link, once it is as wanted.
    pub fn wait_for(&self, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let start = Instant::now();
        loop {
            let links = self.links();
            if let Some(link) = links.iter().find(|l| wanted(l)) {
                return link.clone();
            }
            assert!(start.elapsed() < Duration::from_secs(20), "not seen within 20 s; last: {links:?}");
            sleep(Duration::from_millis(20));
        }
    }
}

pub struct Feeder(pub Child);

impl Drop for Feeder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn key(link: &str) -> IndexKey {
    sinr_feeder::link::parse(link).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
