//! Counts open sockets by congestion control and version.

use super::exported::{Counted, Places, StateCounts, places};
use super::walk::SocketWalk;
use crate::object::describe::StateField;
use crate::registry::Algo;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::histogram::Log2Histogram;
use hotcc_host::cstr::text;
use hotcc_host::error::{Result, Tried};
use hotcc_host::netns;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;

/// Sockets that run the same version of a congestion control.
#[derive(Clone, Debug)]
pub struct Group {
    /// Name of the congestion control.
    pub cc: String,
    /// Id of the struct_ops map behind it; 0 for the kernel's own congestion controls.
    pub map_id: u32,
    /// Counts and distributions.
    pub counts: GroupCounts,
    /// Exported fields of the algorithm's state; empty if it is not known what its version exports.
    pub state: StateCounts,
}

/// `struct group` of `sock_count`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CountedGroup {
    /// As in [`Group`].
    pub map_id: u32,
    /// NUL padded.
    pub name: [u8; 16],
    /// Zero.
    pub pad: u32,
    /// Counts and distributions.
    pub counts: GroupCounts,
    /// Exported fields of the state.
    pub exported: Counted,
    /// What they are.
    pub fields: Places,
}

/// Returns the label of the version that a socket runs, given the id of its struct_ops map (0: none), and that of the
/// map that serves under the name, if hotcc has loaded it.
#[must_use]
pub fn version_label(map_id: u32, serving: Option<u32>) -> &'static str {
    match (map_id, serving) {
        (0, _) => "kernel",
        (id, Some(serving)) if id == serving => "current",
        (_, Some(_)) => "older",
        (_, None) => "unmanaged",
    }
}

/// Counts and distributions of one group, from the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct GroupCounts {
    /// Sockets in any state but LISTEN.
    pub connections: u64,
    /// Sockets that listen.
    pub listeners: u64,
    /// Congestion windows, segments.
    pub cwnd_segments: Log2Histogram,
    /// Smoothed RTTs, microseconds.
    pub srtt_us: Log2Histogram,
    /// Latest delivery rates, kbit/s.
    pub delivery_kbps: Log2Histogram,
}

/// Counts open sockets.
#[derive(Debug)]
pub struct FlowCounter {
    walk: SocketWalk,
    /// The state fields of the pinned versions, by the id of the struct_ops map.
    states: BTreeMap<u32, Vec<StateField>>,
}

impl FlowCounter {
    /// Loads the iterator. It ends with this process; nothing is pinned.
    pub fn new() -> Result<Self> {
        Ok(Self { walk: SocketWalk::load("sock_count", |_| Ok(()))?, states: BTreeMap::new() })
    }

    /// Also adds up the fields of their state that algorithms of hotcc's export, as far as their versions are pinned.
    pub fn add_up_states(&mut self) -> Result<()> {
        let map = self.walk.map("fields")?;
        let tried = || "cannot set the fields to be added up".to_owned();
        let mut states = BTreeMap::new();
        for algo in Algo::all()? {
            for version in algo.versions()? {
                let known = self.states.remove(&version.map_id);
                // a command may be loading or removing it
                let Some(state) = known.or_else(|| Some(version.description().ok()?.state)) else { continue };
                let key = version.map_id.to_ne_bytes();
                map.update(&key, bytemuck::bytes_of(&places(&state)), MapFlags::ANY).tried(tried)?;
                states.insert(version.map_id, state);
            }
        }
        for gone in self.states.keys() {
            map.delete(&gone.to_ne_bytes()).tried(tried)?;
        }
        self.states = states;
        Ok(())
    }

    /// Counts now, in the kernel. Returns one entry per congestion control and version.
    pub fn count(&mut self) -> Result<Vec<Group>> {
        let map = self.walk.map("groups")?;
        for key in map.keys() {
            map.delete(&key).tried(|| "cannot reset the socket counts".to_owned())?;
        }
        netns::in_each(|ns| self.walk.run(ns))?;
        let mut groups = Vec::new();
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::empty()).tried(|| "cannot read the socket counts".to_owned())?;
            let group = value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok());
            if let Some(CountedGroup { map_id, name, counts, exported, .. }) = group {
                let state = self.states.get(&map_id).map(|state| StateCounts::read(state, &exported));
                groups.push(Group { cc: text(&name), map_id, counts, state: state.unwrap_or_default() });
            }
        }
        groups.sort_by(|a, b| (&a.cc, a.map_id).cmp(&(&b.cc, b.map_id)));
        Ok(groups)
    }
}

/// Counts open sockets; returns `None` if that fails, because failing to count them does not fail a command.
pub(crate) fn count_sockets() -> Option<Vec<Group>> {
    let counted = FlowCounter::new().and_then(|mut counter| counter.count());
    counted.inspect_err(|error| tracing::warn!("cannot count connections: {error:#}")).ok()
}

/// Returns the number of connections in the groups that match.
pub(crate) fn connections(groups: &Option<Vec<Group>>, matches: impl Fn(&Group) -> bool) -> Option<u64> {
    let matching = groups.as_ref()?.iter().filter(|g| matches(g));
    Some(matching.map(|g| g.counts.connections).sum())
}
