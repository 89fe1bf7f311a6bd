//! Receivers that slow down their senders (`hotcc rx`), on the sockets of the hosts that have one.
//!
//! One process creates the sockets of all hosts. So each method has a threaded cgroup, and the thread that creates a
//! host's socket joins this cgroup.

use anyhow::{Context, Result};
use hotcc::cgroup::cgroup2_root;
use hotcc::rx::{self, Counters, Method, Request};
use hotcc_lab_proto::plan::{Plan, RxMethod};
use hotcc_testbed::netlab::is_of_dead_process;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const THREADS: &str = "cgroup.threads";
/// Names of cgroups are PREFIX-PID-METHOD.
const PREFIX: &str = "hotcc-lab";

/// The loaded methods, each with its cgroup. They are unloaded when the value is dropped.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    loaded: Vec<(Method, PathBuf)>,
    /// The counters, which outlive the programs, before the run.
    before: BTreeMap<String, u64>,
}

impl Receivers {
    /// Loads the methods that the plan's hosts use.
    pub fn load(plan: &Plan) -> Result<Self> {
        let mut receivers = Self::default();
        for rx in plan.hosts.iter().filter_map(|host| host.rx) {
            if receivers.group(rx).is_none() {
                receivers.add(method(rx))?;
            }
        }
        receivers.before = counters()?;
        Ok(receivers)
    }

    /// Returns what the programs counted since they were loaded; empty if none is loaded.
    pub fn counted(&self) -> Result<BTreeMap<String, u64>> {
        if self.loaded.is_empty() {
            return Ok(BTreeMap::new());
        }
        let since = |(name, count): (String, u64)| {
            let before = self.before.get(&name).copied().unwrap_or_default();
            (name, count.saturating_sub(before))
        };
        Ok(counters()?.into_iter().map(since).collect())
    }

    fn add(&mut self, method: Method) -> Result<()> {
        let root = cgroup2_root()?;
        remove_left_over(&root)?;
        // a thread can move only within the domain of its process, so the process moves to the root first
        write(&root.join("cgroup.procs"), "0")?;
        let path = root.join(format!("{PREFIX}-{}-{}", std::process::id(), method.name()));
        fs::create_dir(&path).with_context(|| format!("cannot create the cgroup {}", path.display()))?;
        self.loaded.push((method, path.clone()));
        write(&path.join("cgroup.type"), "threaded")?;
        let profile = "default".to_owned();
        rx::load(&Request { method, cgroup: Some(path), profile, set: Vec::new() })?;
        Ok(())
    }

    /// Returns the cgroup for the sockets of a host that uses this method.
    pub fn group(&self, rx: RxMethod) -> Option<&Path> {
        self.loaded.iter().find(|(loaded, _)| *loaded == method(rx)).map(|(_, path)| path.as_path())
    }
}

/// Removes the cgroups that killed runs left, with the receivers that are loaded for them.
fn remove_left_over(root: &Path) -> Result<()> {
    let groups = fs::read_dir(root).with_context(|| format!("cannot list {}", root.display()))?;
    for group in groups.flatten().filter(|group| is_of_dead_process(&group.file_name().to_string_lossy(), PREFIX)) {
        let path = group.path();
        for receiver in rx::status()?.receivers.iter().filter(|receiver| receiver.cgroup.as_ref() == Some(&path)) {
            rx::unload(receiver.method)?;
        }
        fs::remove_dir(&path).with_context(|| format!("cannot remove the cgroup {}", path.display()))?;
    }
    Ok(())
}

/// Returns the counters of all receiver programs so far, by name.
fn counters() -> Result<BTreeMap<String, u64>> {
    let Some(counters) = rx::counters()? else { return Ok(BTreeMap::new()) };
    serde_json::from_value(serde_json::to_value(Counters(counters))?).context("the counters are not numbers")
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
        for (method, path) in &self.loaded {
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
