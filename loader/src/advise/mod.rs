//! Looks at the open connections for a while, and says which congestion control could serve them better, by the figures
//! of the committed pages. Changes nothing.
//!
//! [`groups`] collects what looks at connections show, [`rules`] are pure functions on a group, and [`evidence`] has the
//! figures that they rest on. This file reads the kernel.

pub mod evidence;
pub mod groups;
pub mod rules;

use crate::live::{Flow, links, paced, with_signal};
use crate::sockets::flows::FlowLister;
use groups::{Ends, Group, Groups, Key, Look, Place};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::path::PathKey;
use hotcc_host::error::Result;
use rules::{Advice, advise};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time without a look at whether to end.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// Reports of a border PEP older than this do not count.
const MAX_PEP_AGE_MS: u64 = 1000;

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long.
    pub limit: Duration,
    /// Time between looks; longer if they would otherwise take over 4 % of a core.
    pub every: Duration,
    /// Groups with fewer bytes get no advice.
    pub min_bytes: u64,
    /// Only connections whose peer is in this prefix.
    pub to_prefix: Option<PathKey>,
    /// Only connections with this local or remote port.
    pub port: Option<u16>,
}

impl Options {
    fn includes(&self, flow: &Flow) -> bool {
        let (local, peer) = (flow.connection.local, flow.connection.peer);
        self.to_prefix.is_none_or(|prefix| prefix.covers(PathKey::address(peer.ip())))
            && self.port.is_none_or(|port| [local.port(), peer.port()].contains(&port))
    }
}

/// A group and the advice for it.
#[derive(Clone, Debug, Serialize)]
pub struct Advised {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// The advice.
    pub advice: Advice,
}

/// What looks at the open connections showed. Schema of `hotcc advise --json`; fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Time between the first look and the last.
    pub seconds: f64,
    /// Number of looks.
    pub looks: usize,
    /// Groups that moved bytes, the largest first.
    pub groups: Vec<Advised>,
}

/// Looks at the open connections until the time is over, or until `stop` is true. Calls `each` after each look with the
/// time so far and the number of connections.
pub fn look(options: &Options, stop: &AtomicBool, mut each: impl FnMut(Duration, usize)) -> Result<Report> {
    let lister = FlowLister::without_state("hotcc advise")?;
    let mut groups = Groups::default();
    let mut times = Vec::new();
    let began = Instant::now();
    let end = began + options.limit;
    loop {
        let due = Instant::now();
        // all of a look is paced: of many links, the list takes longer than that of the connections
        let (taken, every) = paced(options.every, || -> Result<_> {
            let listed = lister.list()?;
            let at_ms = monotonic_ns() / 1_000_000;
            let flows: Vec<Flow> = with_signal(listed)?.into_iter().filter(|flow| options.includes(flow)).collect();
            let peers = peers_of_links(&flows)?;
            Ok((at_ms, flows, peers))
        })?;
        let ((at_ms, flows, peers), so_far) = (taken?, began.elapsed());
        times.push(so_far);
        each(so_far, flows.len());
        for flow in flows {
            let (key, ends, look) = look_at(flow, at_ms, &peers);
            groups.add(key, ends, look);
        }
        if Instant::now() >= end || stop.load(Relaxed) {
            break;
        }
        let next = (due + every).min(end); // the last look is at the end
        while !stop.load(Relaxed) && Instant::now() < next {
            std::thread::sleep(STOP_CHECK.min(next.saturating_duration_since(Instant::now())));
        }
    }
    let seconds = times.first().zip(times.last()).map_or(0.0, |(first, last)| (*last - *first).as_secs_f64());
    let advised = |group: Group| Advised { advice: advise(&group, options.min_bytes), group };
    Ok(Report { seconds, looks: times.len(), groups: groups.finish().into_iter().map(advised).collect() })
}

/// Returns the peers of the radio links, by slot; empty if no connection goes over one.
fn peers_of_links(flows: &[Flow]) -> Result<BTreeMap<u32, String>> {
    if flows.iter().all(|flow| flow.slot.is_none()) {
        return Ok(BTreeMap::new());
    }
    Ok(links()?.into_iter().map(|link| (link.slot, link.peers)).collect())
}

fn look_at(flow: Flow, at_ms: u64, peers: &BTreeMap<u32, String>) -> (Key, Ends, Look) {
    let Flow { connection: c, sinr_db, slot } = flow;
    let look = Look {
        at_ms,
        acked_bytes: c.acked_bytes,
        retransmits: c.retransmits,
        mss: c.mss,
        srtt_us: c.srtt_us,
        min_rtt_us: c.min_rtt_us,
        paced: c.paced,
        app_limited: c.app_limited,
        busy_ms: c.busy_ms,
        receiver_limited_ms: c.receiver_limited_ms,
        buffer_limited_ms: c.buffer_limited_ms,
        radio: sinr_db.is_some(),
        pep: c.pep.is_some_and(|pep| pep.age_ms < MAX_PEP_AGE_MS),
    };
    let of_link = |slot| Place::of_link(slot, peers.get(&slot).map(String::as_str), c.peer.ip());
    let place = slot.map_or_else(|| Place::of(c.peer.ip()), of_link);
    (Key { netns: c.netns.clone(), place, cc: c.cc }, (c.netns, c.local, c.peer), look)
}
