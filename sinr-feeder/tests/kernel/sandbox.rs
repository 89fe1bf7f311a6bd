//! The pin directory and the files of one test, removed when it ends, even by a panic.

use hotcc_abi::radio::IndexKey;
use hotcc_testbed::kernel::is_root_with_bpffs;
use hotcc_testbed::pin_root::PinRoot;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Sandbox {
    pub root: PinRoot,
    pub files: tempfile::TempDir,
}

/// Creates a sandbox. Without root, prints a line that says so and returns `None`.
pub fn sandbox(test: &str) -> Option<Sandbox> {
    is_root_with_bpffs(test)
        .then(|| Sandbox { root: PinRoot::new("sinr-feeder", test), files: tempfile::tempdir().unwrap() })
}

impl Sandbox {
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinr-feeder"));
        command.arg("--pin-root").arg(&*self.root).args(args).env_remove("RUST_LOG");
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Writes a trace file, and returns its name as a source.
    pub fn trace(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        fs::write(&path, text).unwrap();
        format!("trace:{}", path.display())
    }

    /// Starts a feeder in the background, which is killed when dropped.
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

    /// Waits until `show` has a link that is as wanted, and returns it.
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
