//! Receivers that slow down their senders (`hotcc rx`), on the sockets of the hosts that have one.
//!
//! One process creates the sockets of all hosts. So each method has a threaded cgroup, and the thread that creates a
//! host's socket joins this cgroup.

use anyhow::{Context, Result};
use hotcc::cgroup::cgroup2_root;
use hotcc::rx::{self, Method, Request};
use hotcc_lab_proto::plan::{Plan, RxMethod};
use std::fs;
use std::path::{Path, PathBuf};

const THREADS: &str = "cgroup.threads";

/// The loaded methods, each with its cgroup. They are unloaded when the value is dropped.
#[derive(Debug, Default)]
pub(super) struct Receivers(Vec<(Method, PathBuf)>);

impl Receivers {
    /// Loads the methods that the plan's hosts use.
    pub fn load(plan: &Plan) -> Result<Self> {
        let mut receivers = Self::default();
        for rx in plan.hosts.iter().filter_map(|host| host.rx) {
            if receivers.group(rx).is_none() {
                receivers.add(method(rx))?;
            }
        }
        Ok(receivers)
    }

    fn add(&mut self, method: Method) -> Result<()> {
        let root = cgroup2_root()?;
        // a thread can move only within the domain of its process, so the process moves to the root first
        write(&root.join("cgroup.procs"), "0")?;
        let path = root.join(format!("hotcc-lab-{}", method.name()));
        fs::create_dir(&path).with_context(|| format!("cannot create the cgroup {}", path.display()))?;
        self.0.push((method, path.clone()));
        write(&path.join("cgroup.type"), "threaded")?;
        let profile = "default".to_owned();
        rx::load(&Request { method, cgroup: Some(path), profile, set: Vec::new() })?;
        Ok(())
    }

    /// Returns the cgroup for the sockets of a host that uses this method.
    pub fn group(&self, rx: RxMethod) -> Option<&Path> {
        self.0.iter().find(|(loaded, _)| *loaded == method(rx)).map(|(_, path)| path.as_path())
    }
}

fn method(rx: RxMethod) -> Method {
    match rx {
        RxMethod::Arwa => Method::Arwa,
        RxMethod::Drwa => Method::Drwa,
    }
}

/// Moves the calling thread to a cgroup. The sockets that it creates belong to the cgroup for their lifetime.
pub(super) fn join(group: Option<&Path>) -> Result<()> {
    group.map_or(Ok(()), |group| write(&group.join(THREADS), "0"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl Drop for Receivers {
    fn drop(&mut self) {
        for (method, path) in &self.0 {
            if let Err(error) = rx::unload(*method) {
                eprintln!("cannot unload {}: {error:#}", method.name());
            }
            // threads that have not seen the end of their flow yet
            let root = path.parent().unwrap_or(path).join(THREADS);
            for thread in fs::read_to_string(path.join(THREADS)).unwrap_or_default().lines() {
                let _ = fs::write(&root, thread); // the thread may have ended meanwhile
            }
            let _ = fs::remove_dir(path);
        }
    }
}
