//! Reads from the kernel which algorithms are registered, which object serves each, since when, and how many sockets
//! use it.

use crate::registry::registrations::registrations;
use crate::registry::{Algo, Version, need_bpffs, runs};
use crate::sockets::count::FlowCounter;
use crate::sysctl;
use crate::tunables::present::{self, Changed};
use crate::tunables::values;
use bytemuck::Zeroable as _;
use data_encoding::HEXLOWER;
use hotcc_abi::version::Meta;
use hotcc_host::cstr::text;
use hotcc_host::error::{Result, need_root};
use serde::Serialize;

/// The state of all congestion controls. Schema of `hotcc status --json`; fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Default of the caller's network namespace.
    pub default: String,
    /// Congestion controls that hotcc loaded.
    pub algorithms: Vec<AlgorithmStatus>,
    /// All other congestion controls.
    pub others: Vec<OtherStatus>,
}

/// A congestion control that hotcc loaded.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmStatus {
    /// Name.
    pub name: String,
    /// Whether the kernel has it registered now; if not, only its pins are left.
    pub registered: bool,
    /// Object that serves: `builtin:NAME` or a path.
    pub object: String,
    /// SHA-256 of that object file, hexadecimal.
    pub sha256: String,
    /// Profile it started from.
    pub profile: String,
    /// Tunables whose value is not that profile's: `old` is the profile's.
    pub tunables_changed: Vec<Changed>,
    /// What keeps it loaded: `load` (until it is unloaded), `run` (until the last `hotcc run` that uses it ends), or
    /// `killed run` (a killed `hotcc run` left it).
    pub loaded_for: &'static str,
    /// Time at which it began to serve, seconds since 1970; `None` after a swap that was killed before it recorded the
    /// time.
    pub since_unix_s: Option<u64>,
    /// Swaps and rollbacks of this name so far.
    pub swaps: u64,
    /// Object that `hotcc rollback` would restore.
    pub previous_object: Option<String>,
    /// Profile that the object to restore started from.
    pub previous_profile: Option<String>,
    /// Network namespaces whose default it is.
    pub default_in_namespaces: usize,
    /// Names or paths of these namespaces; `here` for the caller's own.
    pub default_in: Vec<String>,
    /// Connections that run the serving version.
    pub connections_current: u64,
    /// Connections that run an older version under this name.
    pub connections_older: u64,
    /// Listening sockets that pass it on to accepted connections, in any version.
    pub listeners: u64,
    /// Why its object, profile, swaps and times are not known: another version of hotcc recorded them, or they are
    /// missing.
    pub problem: Option<String>,
}

/// A congestion control that hotcc did not load.
#[derive(Clone, Debug, Serialize)]
pub struct OtherStatus {
    /// Name.
    pub name: String,
    /// `kernel`, or `bpf` for a BPF program that hotcc did not load, or has unloaded.
    pub kind: &'static str,
    /// Whether new sockets can get it; if not, only open sockets still run it.
    pub registered: bool,
    /// Id of the struct_ops map, if it is registered and BPF.
    pub map_id: Option<u32>,
    /// Connections that use it.
    pub connections: u64,
    /// Listening sockets that use it.
    pub listeners: u64,
}

impl OtherStatus {
    /// Returns in words what it is.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match (self.kind, self.registered) {
            ("bpf", true) => "bpf, not loaded by hotcc",
            ("bpf", false) => "bpf, unloaded; open sockets keep it",
            (kind, _) => kind,
        }
    }
}

/// Reads the state of all congestion controls.
pub fn status() -> Result<Status> {
    need_root("hotcc status")?;
    need_bpffs()?;
    let groups = FlowCounter::new()?.count()?;
    let available = sysctl::available()?;
    let in_bpf = registrations()?;
    let mut algorithms = Vec::new();
    for algo in Algo::all()? {
        let Some(current) = algo.current()? else { continue };
        let (meta, tunables_changed, problem) = match recorded(&current) {
            Ok((meta, changed)) => (meta, changed, None),
            Err(error) => (Meta::zeroed(), Vec::new(), Some(format!("{error:#}"))),
        };
        let noted = |field: &[u8]| if problem.is_none() { text(field) } else { "unknown".to_owned() };
        let own = |is_current: bool| {
            let matching = groups.iter().filter(|g| g.cc == algo.name && (g.map_id == current.map_id) == is_current);
            matching.map(|g| g.counts.connections).sum::<u64>()
        };
        let previous = algo.previous()?.and_then(|v| v.meta().ok());
        let default_in = sysctl::namespaces_with_default(&algo.name)?;
        algorithms.push(AlgorithmStatus {
            registered: available.contains(&algo.name),
            object: noted(&meta.object),
            sha256: HEXLOWER.encode(&meta.sha256),
            profile: noted(&meta.profile),
            tunables_changed,
            loaded_for: loaded_for(&algo)?,
            since_unix_s: (meta.committed != 0).then_some(meta.since_unix_ns / 1_000_000_000),
            swaps: meta.swaps,
            previous_object: previous.as_ref().map(|m| text(&m.object)),
            previous_profile: previous.as_ref().map(|m| text(&m.profile)),
            default_in_namespaces: default_in.len(),
            default_in,
            connections_current: own(true),
            connections_older: own(false),
            listeners: groups.iter().filter(|g| g.cc == algo.name).map(|g| g.counts.listeners).sum(),
            problem,
            name: algo.name,
        });
    }
    let ours = |name: &str| algorithms.iter().any(|a| a.name == name);
    let mut names: Vec<&str> = available.iter().map(String::as_str).collect();
    names.extend(groups.iter().map(|g| g.cc.as_str()));
    names.sort_unstable();
    names.dedup();
    let others = names.into_iter().filter(|n| !ours(n)).map(|name| {
        let its = || groups.iter().filter(move |g| g.cc == name);
        let map_id = in_bpf.iter().find(|r| r.name == name).map(|r| r.map_id);
        OtherStatus {
            name: name.to_owned(),
            kind: if map_id.is_some() || its().any(|g| g.map_id != 0) { "bpf" } else { "kernel" },
            registered: available.iter().any(|a| a == name),
            map_id,
            connections: its().map(|g| g.counts.connections).sum(),
            listeners: its().map(|g| g.counts.listeners).sum(),
        }
    });
    Ok(Status { default: sysctl::default()?, others: others.collect(), algorithms })
}

/// Returns what was recorded of a version, and its tunables whose value is not the profile's.
fn recorded(version: &Version) -> Result<(Meta, Vec<Changed>)> {
    let meta = version.meta()?;
    let of_profile = values::profile(&version.description()?.tunables, &text(&meta.profile))?;
    Ok((meta, present::changed(&of_profile, &version.settings()?)))
}

fn loaded_for(algo: &Algo) -> Result<&'static str> {
    Ok(match runs::is_held(algo)? {
        None => "load",
        Some(true) => "run",
        Some(false) => "killed run",
    })
}
