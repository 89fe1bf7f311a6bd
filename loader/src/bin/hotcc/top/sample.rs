//! Reads from the kernel what the views of `hotcc top` show.

use hotcc::sockets::flows::{Connection, FlowLister};
use hotcc::status::status;
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::pins;
use hotcc_abi::radio::source_name;
use hotcc_host::error::{Result, Tried};
use hotcc_radio_map::{Freshness, MapError, RadioView};
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Flows,
    Algorithms,
    Links,
}

pub struct Flow {
    pub connection: Connection,
    /// SINR of the radio link to the peer; `None` if there is no reading that algorithms use.
    pub sinr_db: Option<f64>,
}

/// A congestion control; the fields that only hotcc records are `None` for those that it did not load.
pub struct Algorithm {
    pub name: String,
    /// What serves: an object and its profile, or the kind of a congestion control that hotcc did not load.
    pub serves: String,
    pub connections: u64,
    pub older: Option<u64>,
    pub listeners: u64,
    pub swaps: Option<u64>,
    /// What a rollback restores.
    pub previous: Option<String>,
}

pub struct Link {
    pub peers: String,
    pub sinr_db: Option<f64>,
    pub average_db: Option<f64>,
    pub age_ms: Option<u32>,
    pub freshness: Freshness,
    pub capacity_bps: Option<u64>,
    pub source: &'static str,
    /// Process that feeds the link, if it still runs.
    pub feeder: Option<u32>,
}

/// What one view shows.
pub enum Sample {
    Flows(Vec<Flow>),
    Algorithms(Vec<Algorithm>),
    Links(Vec<Link>),
}

pub struct Sampler(FlowLister);

impl Sampler {
    pub fn new() -> Result<Self> {
        FlowLister::without_state().map(Self)
    }

    pub fn take(&self, view: View) -> Result<Sample> {
        Ok(match view {
            View::Flows => Sample::Flows(flows(self.0.list()?)?),
            View::Algorithms => Sample::Algorithms(algorithms()?),
            View::Links => Sample::Links(links()?),
        })
    }
}

fn flows(connections: Vec<Connection>) -> Result<Vec<Flow>> {
    let tried = || "cannot look up radio links".to_owned();
    let view = match RadioView::open(Path::new(pins::ROOT)) {
        Err(MapError::Absent) => None,
        view => Some(view.tried(tried)?),
    };
    let sinr_db = |peer| {
        let Some(view) = &view else { return Ok(None) };
        let slot = view.slot_of(peer).tried(tried)?;
        let reading = slot.and_then(|slot| view.snapshot(slot));
        let fresh = reading.filter(|r| r.freshness(monotonic_ms32()) == Freshness::Fresh);
        Ok(fresh.and_then(|r| r.sinr_db()))
    };
    let flow = |connection: Connection| Ok(Flow { sinr_db: sinr_db(connection.peer)?, connection });
    connections.into_iter().map(flow).collect()
}

fn algorithms() -> Result<Vec<Algorithm>> {
    let status = status()?;
    let ours = status.algorithms.into_iter().map(|a| Algorithm {
        serves: format!("{} ({})", a.object, a.profile),
        connections: a.connections_current,
        older: Some(a.connections_older),
        listeners: a.listeners,
        swaps: Some(a.swaps),
        previous: a.previous_object,
        name: a.name,
    });
    let others = status.others.into_iter().map(|o| Algorithm {
        serves: if o.kind == "bpf" { "bpf, not loaded by hotcc".to_owned() } else { o.kind.to_owned() },
        connections: o.connections,
        older: None,
        listeners: o.listeners,
        swaps: None,
        previous: None,
        name: o.name,
    });
    Ok(ours.chain(others).collect())
}

fn links() -> Result<Vec<Link>> {
    let links = hotcc_radio_map::links(Path::new(pins::ROOT)).tried(|| "cannot list the radio links".to_owned())?;
    let link = |link: hotcc_radio_map::Link| {
        let (reading, now_ms) = (link.snapshot, monotonic_ms32());
        Link {
            peers: link.key.to_string(),
            sinr_db: reading.sinr_db(),
            average_db: reading.average_db(),
            age_ms: reading.age_ms(now_ms),
            freshness: reading.freshness(now_ms),
            capacity_bps: reading.capacity.map(|c| c.bps()),
            source: source_name(reading.source),
            feeder: reading.owner_pid.filter(|_| reading.owner_alive()),
        }
    };
    Ok(links.into_iter().map(link).collect())
}
