//! Moves open sockets from one congestion control to another, in every network namespace.

use crate::object::check_cc_name;
use crate::object::prepare::set_job;
use crate::policy::layout::{REASONS, RuleEntry};
use crate::policy::{Chosen, Condition};
use crate::registry::registrations::registrations;
use crate::registry::{self, load_advice};
use crate::sockets::learned::Learned;
use crate::sockets::walk::SocketWalk;
use crate::sys::tick_us;
use crate::sysctl;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::cstr::padded;
use hotcc_host::error::{Error, Kind, Result, Tried, need_root};
use hotcc_host::netns::{self, NetNs};
use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;
use std::path::Path;

/// The result of moving open sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Sockets that were moved to the wanted version.
    pub moved: u64,
    /// Sockets that the kernel refused to move, e.g. because their route locks the congestion control.
    pub failed: u64,
    /// Sockets, of those moved, that kept what the former congestion control had learned.
    pub learned: Learned,
}

/// The result in one network namespace.
#[derive(Clone, Debug, Serialize)]
pub struct MovedIn {
    /// Name, path, or `here` for the caller's own.
    pub netns: String,
    /// Inode, as in `net:[INODE]`.
    pub inode: u64,
    /// Numbers of sockets.
    #[serde(flatten)]
    pub sockets: Moved,
    /// The error, if not all sockets of the namespace could be visited.
    pub error: Option<String>,
}

/// What `hotcc migrate` did.
#[derive(Clone, Debug, Serialize)]
pub struct Migrated {
    /// Congestion control that the sockets ran.
    pub from: String,
    /// Congestion control that the sockets run now.
    pub to: String,
    /// Whether nothing was moved; the numbers are then what a real run would move.
    pub dry_run: bool,
    /// Sum over the namespaces.
    #[serde(flatten)]
    pub sockets: Moved,
    /// Namespaces in which sockets were to be moved, or an error occurred.
    pub namespaces: Vec<MovedIn>,
    /// Sockets that run `from` but were not selected, by reason.
    pub left: Vec<Left>,
}

/// Sockets that run `from` and were left alone for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The reason.
    pub reason: &'static str,
    /// Number of sockets.
    pub sockets: u64,
}

/// `struct migrate_job` of `sock_migrate`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Job {
    from_name: [u8; 16],
    to_name: [u8; 16],
    keep_map_id: u64,
    only_count: u64,
    limit: u64,
    moved: u64,
    failed: u64,
    over_limit: u64,
    learned: Learned,
    tick_us: u64,
    unmatched: [u64; REASONS.len()],
    rule: RuleEntry,
}

/// Moves every open socket of the machine that runs a version of `name` to the version that now serves, `map_id`.
pub(crate) fn to_version(name: &str, map_id: u32) -> Result<Moved> {
    let tick_us = tick_us()?.into();
    let job =
        Job { from_name: padded(name), to_name: padded(name), keep_map_id: map_id.into(), tick_us, ..Job::zeroed() };
    let (walked, _) = walk(&job, &Chosen::default().condition()?, &netns::all()?)?;
    match walked.iter().find_map(|ns| ns.error.clone()) {
        Some(error) => Err(Error::failed(error)),
        None => Ok(sum(&walked)),
    }
}

/// Moves the open sockets that run `from` and match `chosen` to `to`, in the given namespaces, or in all if none is
/// given. Listeners that selected `from` themselves move, too. `from` and `to` may be the kernel's own congestion
/// controls. With `dry_run` the sockets are only counted.
pub fn migrate(from: &str, to: &str, netns: &[String], chosen: &Chosen, dry_run: bool) -> Result<Migrated> {
    check_cc_name(from)?;
    check_cc_name(to)?;
    need_root("hotcc migrate")?;
    let condition = chosen.condition().map_err(|e| e.as_kind(Kind::Usage))?;
    registry::need_bpffs()?;
    let _lock = if dry_run { None } else { Some(registry::lock()?) };
    let available = sysctl::available()?;
    let is_available = |name: &str| available.iter().any(|a| a == name);
    if !is_available(to) {
        let text = sysctl::unregistered(to, &available);
        let known: Vec<&str> = available.iter().map(String::as_str).collect();
        let advice = load_advice(to, &known)
            .unwrap_or_else(|| format!("Load it with `hotcc load`, or `modprobe tcp_{to}` if it is a kernel module"));
        return Err(Error::failed(format!("{text}. {advice}")));
    }
    let version = registrations()?.iter().find(|r| r.name == to).map_or(0, |r| r.map_id);
    if from == to && version == 0 {
        return Err(Error::usage(format!(
            "cannot migrate {from} to {to}: both are the same kernel congestion control, so no socket would move"
        )));
    }
    let namespaces = netns::chosen(netns)?;
    let job = Job {
        from_name: padded(from),
        to_name: padded(to),
        keep_map_id: version.into(),
        only_count: dry_run.into(),
        limit: chosen.limit.unwrap_or(0),
        tick_us: tick_us()?.into(),
        rule: condition.entry,
        ..Job::zeroed()
    };
    let (mut walked, left) = walk(&job, &condition, &namespaces)?;
    let sockets = sum(&walked);
    walked.retain(|ns| ns.sockets != Moved::default() || ns.error.is_some());
    if walked.is_empty() && left.is_empty() && !is_available(from) {
        let unregistered = sysctl::unregistered(from, &available);
        return Err(Error::failed(format!("no open socket uses `{from}`, and {unregistered}")));
    }
    Ok(Migrated { from: from.to_owned(), to: to.to_owned(), dry_run, sockets, namespaces: walked, left })
}

fn sum(walked: &[MovedIn]) -> Moved {
    walked.iter().fold(Moved::default(), |all, ns| {
        let Moved { moved, failed, learned } = ns.sockets;
        Moved { moved: all.moved + moved, failed: all.failed + failed, learned: all.learned + learned }
    })
}

/// Runs the agent over the sockets of each namespace. An error in one namespace does not stop the others.
fn walk(job: &Job, condition: &Condition, namespaces: &[NetNs]) -> Result<(Vec<MovedIn>, Vec<Left>)> {
    let walk = SocketWalk::load("sock_migrate", |open| {
        set_job(open, job)?;
        bpffs::make(Path::new(pins::POLICY))?;
        condition.prepare(open)
    })?;
    condition.fill(&walk.map("policy_prefixes")?)?;
    let walked = netns::in_these(namespaces, |ns| Ok((ns.inode, walk.run(ns), moved(&walk)?)))?;
    let mut before = Moved::default(); // the agent's counts are sums over all namespaces so far
    let results = namespaces.iter().map(|ns| {
        let result = walked.iter().find(|(inode, ..)| *inode == ns.inode);
        let after = result.map_or(before, |(.., after)| *after);
        let sockets = Moved {
            moved: after.moved - before.moved,
            failed: after.failed - before.failed,
            learned: after.learned - before.learned,
        };
        before = after;
        let error = match result {
            Some((_, done, _)) => done.as_ref().err().map(|error| format!("{error:#}")),
            None => Some("the network namespace cannot be entered".to_owned()),
        };
        MovedIn { netns: ns.label(), inode: ns.inode, sockets, error }
    });
    let results = results.collect();
    let job = job_of(&walk)?;
    let over_limit = ("the limit was reached", job.over_limit);
    let left = REASONS.into_iter().zip(job.unmatched).chain([over_limit]);
    let left = left.filter(|(_, sockets)| *sockets != 0).map(|(reason, sockets)| Left { reason, sockets });
    Ok((results, left.collect()))
}

/// Returns the agent's counts so far.
fn moved(walk: &SocketWalk) -> Result<Moved> {
    let job = job_of(walk)?;
    Ok(Moved { moved: job.moved, failed: job.failed, learned: job.learned })
}

fn job_of(walk: &SocketWalk) -> Result<Job> {
    let value = walk
        .map(".data")?
        .lookup(&[0; 4], MapFlags::empty())
        .tried(|| "cannot read the number of moved sockets".to_owned())?;
    value
        .and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok())
        .ok_or_else(|| Error::failed("the migration agent has another layout"))
}
