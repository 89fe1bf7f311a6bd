//! Restoring the machine's state, and checking that it was restored.

use super::path::PREFIX;
use super::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use hotcc::sysctl;
use hotcc_abi::pins;
use hotcc_lab::pin_root_guard::{PinRootGuard, entries};
use hotcc_testbed::netlab;
use std::fs;
use std::path::Path;

const ALGORITHMS: [&str; 2] = ["crest", "dtcp"];

/// Congestion controls that the demo loaded; they are unloaded when the value is dropped.
#[derive(Debug)]
pub struct Loaded {
    tools: Tools,
    names: Vec<String>,
}

impl Loaded {
    /// Starts with no congestion control.
    #[must_use]
    pub fn new(tools: &Tools) -> Self {
        Self { tools: tools.clone(), names: Vec::new() }
    }

    /// Loads one, under its own name, or under another if the machine already has one of that name. Returns the name.
    pub fn load(&mut self, algorithm: &str) -> Result<String> {
        let name = free_name(algorithm)?;
        if name == algorithm {
            self.tools.show(&format!("hotcc load {algorithm}"))?;
        } else {
            self.tools.say.line(format!("  `{algorithm}` is already loaded on this machine and stays unchanged"));
            self.tools.show(&format!("hotcc load {algorithm} --as {name}"))?;
        }
        self.names.push(name.clone());
        Ok(name)
    }

    /// Unloads all of them, and prints the commands.
    pub fn unload(&mut self) -> Result<()> {
        while let Some(name) = self.names.last() {
            self.tools.show(&format!("hotcc unload {name}"))?;
            self.names.pop();
        }
        Ok(())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = self.tools.run(&format!("hotcc unload {name}")) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Names that the demo may give an algorithm; a name has at most 15 characters.
fn candidates(algorithm: &str) -> [String; 3] {
    ["", "demo_", "demo2_"].map(|prefix| format!("{prefix}{algorithm}"))
}

fn free_name(algorithm: &str) -> Result<String> {
    for name in candidates(algorithm) {
        if !sysctl::is_registered(&name)? && !pins::algo_dir(&name).exists() {
            return Ok(name);
        }
    }
    bail!("cannot load `{algorithm}`: it and its alternative names are already registered; see `hotcc status`")
}

/// The machine's state before the demo.
#[derive(Debug)]
pub struct Before {
    pin_root_guard: PinRootGuard,
    names: Vec<String>,
    pins: Vec<String>,
}

impl Before {
    /// Records the state.
    pub fn look() -> Result<Self> {
        Ok(Self { pin_root_guard: PinRootGuard::look(), names: sysctl::available()?, pins: entries(pins::ALGO) })
    }

    /// Removes what hotcc's commands leave behind on purpose, if the demo was the first to use them on this machine.
    pub fn remove_first_use(&self) -> Result<()> {
        self.pin_root_guard.remove()
    }

    /// Checks that nothing of the demo is left.
    pub fn check_all_gone(&self) -> Result<()> {
        let stem = netlab::stem(PREFIX);
        let left: Vec<String> = entries("/run/netns").into_iter().filter(|n| n.starts_with(&stem)).collect();
        ensure!(left.is_empty(), "network namespaces remain: {}", left.join(" "));
        let ours = |name: &String| ALGORITHMS.iter().any(|algorithm| candidates(algorithm).contains(name));
        let left: Vec<String> =
            sysctl::available()?.into_iter().filter(|n| ours(n) && !self.names.contains(n)).collect();
        ensure!(left.is_empty(), "congestion controls remain: {}", left.join(" "));
        let left: Vec<String> = entries(pins::ALGO).into_iter().filter(|n| ours(n) && !self.pins.contains(n)).collect();
        ensure!(left.is_empty(), "pins remain in {}: {}", pins::ALGO, left.join(" "));
        let key = super::path::link_key()?;
        let links = hotcc_radio_map::links(Path::new(pins::ROOT))?;
        ensure!(links.iter().all(|l| l.key != key), "the radio map still has {key}");
        let left = children().context("cannot list processes")?;
        ensure!(left.is_empty(), "processes remain: {}", left.join(" "));
        Ok(())
    }
}

/// Returns the process ids of our children.
fn children() -> std::io::Result<Vec<String>> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // "PID (NAME) STATE PARENT ...", and NAME may contain any character
        let stat = fs::read_to_string(entry?.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent == Some(own.as_str()) {
            found.extend(stat.split_whitespace().next().map(str::to_owned));
        }
    }
    Ok(found)
}
