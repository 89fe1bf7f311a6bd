//! Lists the open TCP connections, each with its algorithm's own state.

use super::count::version_label;
use super::exported::{forecast, is_no_reading};
use super::walk::SocketWalk;
use crate::object::check_cc_name;
use crate::object::describe::{Export, FORECAST, StateField};
use crate::object::prepare::set_job;
use crate::registry::Algo;
use crate::sys::tick_us;
use crate::sysctl;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::pins;
use hotcc_host::cstr::{padded, text};
use hotcc_host::error::{Error, Result, Tried, need_root};
use hotcc_host::netns::{self, NetNs};
use libbpf_rs::OpenObject;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;

const PRIVATE_BYTES: usize = 104;

/// `struct list_job` of `sock_flows`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Job {
    cc_name: [u8; 16],
}

/// `struct flow_record` of `sock_flows`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Record {
    local: [u8; 16],
    peer: [u8; 16],
    local_port: u16,
    peer_port: u16,
    tcp_state: u8,
    ca_state: u8,
    app_limited: u8,
    paced: u8,
    map_id: u32,
    cc_name: [u8; 16],
    snd_cwnd: u32,
    snd_ssthresh: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    mss: u32,
    total_retrans: u32,
    rate_delivered: u32,
    rate_interval_us: u32,
    snd_una: u32,
    bytes_acked: u64,
    ticks: [u32; 3],
    pad: u32,
    state: [u8; PRIVATE_BYTES],
    pep: PepFlow,
}

/// An open connection. Schema of `hotcc flows --json`; fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Connection {
    /// Network namespace, as `hotcc migrate` names it.
    pub netns: String,
    /// Local address and port.
    pub local: SocketAddr,
    /// Address and port of the peer.
    pub peer: SocketAddr,
    /// Congestion control.
    pub cc: String,
    /// `current`, `older` (it runs a version that a swap replaced), `kernel` (the kernel's own) or `unmanaged` (BPF
    /// that hotcc did not load).
    pub version: &'static str,
    /// `open`, `disorder`, `cwr`, `recovery` or `loss`.
    pub ca_state: &'static str,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold, segments; `None` until it is set.
    pub ssthresh: Option<u32>,
    /// Smoothed RTT, microseconds; `None` before the first sample.
    pub srtt_us: Option<u32>,
    /// The kernel's windowed minimum RTT, microseconds; `None` before the first sample.
    pub min_rtt_us: Option<u32>,
    /// Latest delivery rate, bits per second; `None` before the first sample, and if nothing was in flight and no segment
    /// came or left for a second.
    pub delivery_bps: Option<u64>,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Segment size, bytes.
    pub mss: u32,
    /// Whether the kernel spaces its packets.
    pub paced: bool,
    /// Whether the application limited the latest delivery rate.
    pub app_limited: bool,
    /// Time with something to send or in flight.
    pub busy_ms: u64,
    /// Of it: limited by the receiver's window.
    pub receiver_limited_ms: u64,
    /// Of it: limited by the send buffer.
    pub buffer_limited_ms: u64,
    /// The algorithm's own state of the connection, in the order of its source; empty if its fields are not known.
    pub state: Vec<StateValue>,
    /// What its border PEP reported; `None` if there is no report.
    pub pep: Option<SeenByPep>,
}

/// Reports of a connection's border PEP. Positions are bytes relative to what the client has acknowledged by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenByPep {
    /// The PEP saw everything up to this position; negative if the client has acknowledged more than that.
    pub in_order_bytes: i32,
    /// Further ranges that the PEP saw: start and end.
    pub ranges_bytes: Vec<(i32, i32)>,
    /// RTT between this host and the PEP, microseconds; `None` if not known.
    pub rtt_us: Option<u32>,
    /// Number of segments that the PEP saw, modulo 2^32.
    pub segments: u32,
    /// Age of the latest report, milliseconds.
    pub age_ms: u64,
}

impl SeenByPep {
    fn read(record: &PepFlow, snd_una: u32) -> Option<Self> {
        let from_una = |sequence: u32| sequence.wrapping_sub(snd_una).cast_signed();
        (record.updates != 0).then(|| Self {
            in_order_bytes: from_una(record.in_order),
            ranges_bytes: record
                .ranges
                .iter()
                .take(record.range_count as usize)
                .map(|r| (from_una(r.start), from_una(r.end)))
                .collect(),
            rtt_us: (record.rtt_us != 0).then_some(record.rtt_us),
            segments: record.segments,
            age_ms: monotonic_ns().saturating_sub(record.time_ns) / 1_000_000,
        })
    }
}

/// A field of an algorithm's state.
#[derive(Clone, Debug, Serialize)]
pub struct StateValue {
    /// Name; nested members are written `outer.inner`.
    pub name: String,
    /// Value.
    pub value: i128,
    /// Unit; empty for a plain number.
    pub unit: String,
    /// Name of the value, if the field has few values and they have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// Lists the open connections that run `cc`, or all if it is `None`, in the given namespaces, or in all if none is
/// given.
pub fn connections(cc: Option<&str>, netns: &[String]) -> Result<Vec<Connection>> {
    need_root("hotcc flows")?;
    cc.map_or(Ok(()), check_cc_name)?;
    let namespaces = netns::chosen(netns)?;
    let found = FlowLister::new(cc, State::Decoded)?.list_in(&namespaces)?;
    if found.is_empty()
        && let Some(name) = cc
        && !sysctl::is_registered(name)?
    {
        return Err(Error::failed(sysctl::unregistered(name, &sysctl::available()?)));
    }
    Ok(found)
}

/// Whether to decode the algorithm's own state of each connection, which takes longer than all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Decoded,
    Omitted,
}

/// Lists open connections repeatedly, with a program that is loaded into the kernel once.
#[derive(Debug)]
pub struct FlowLister {
    walk: SocketWalk,
    state: State,
    tick_us: u32,
    /// What [`pep_records`] returned when the program was loaded.
    pep_records: Option<u64>,
}

impl FlowLister {
    /// Loads the program for all connections, without their algorithms' own state. It ends with this process; nothing
    /// is pinned. `command` is what needs them.
    pub fn without_state(command: &str) -> Result<Self> {
        need_root(command)?;
        Self::new(None, State::Omitted)
    }

    fn new(cc: Option<&str>, state: State) -> Result<Self> {
        let job = Job { cc_name: cc.map_or([0; 16], padded) };
        let pep_records = pep_records();
        let walk = SocketWalk::load("sock_flows", |open| {
            set_job(open, &job)?;
            use_pinned_records(open)
        })?;
        Ok(Self { walk, state, tick_us: tick_us()?, pep_records })
    }

    /// Returns whether an agent has since pinned other PEP records, which the loaded program does not read.
    pub(crate) fn is_outdated(&self) -> bool {
        pep_records() != self.pep_records
    }

    /// Lists the connections that are open now, in all network namespaces.
    pub fn list(&self) -> Result<Vec<Connection>> {
        self.list_in(&netns::all()?)
    }

    fn list_in(&self, namespaces: &[NetNs]) -> Result<Vec<Connection>> {
        let records = netns::in_these(namespaces, |ns| Ok((ns.label(), records(&self.walk, ns)?)))?;
        let mut versions = Versions { state: self.state, tick_us: self.tick_us, known: BTreeMap::new() };
        let mut found = Vec::new();
        for (netns, records) in records {
            for record in records {
                found.push(versions.connection(&netns, &record)?);
            }
        }
        found.sort_by(|a, b| (&a.netns, &a.cc, a.local, a.peer).cmp(&(&b.netns, &b.cc, b.local, b.peer)));
        Ok(found)
    }
}

/// Returns the inode of the pinned PEP records, if there are any.
fn pep_records() -> Option<u64> {
    pins::shared(pins::PEP_FLOW).and_then(|path| Some(path.metadata().ok()?.ino()))
}

/// Makes the program use the pinned PEP records, if there are any.
fn use_pinned_records(open: &mut OpenObject) -> Result<()> {
    let Some(path) = pins::shared(pins::PEP_FLOW).filter(|path| path.exists()) else { return Ok(()) };
    let map = open.maps_mut().find(|m| m.name() == pins::PEP_FLOW);
    let mut map = map.ok_or_else(|| Error::failed("cannot list the connections: the agent has another layout"))?;
    map.reuse_pinned_map(&path).tried(|| format!("cannot use {}", path.display()))
}

fn records(walk: &SocketWalk, ns: &NetNs) -> Result<Vec<Record>> {
    let mut bytes = Vec::new();
    walk.read(ns, &mut bytes)?;
    let (whole, rest) = bytes.as_chunks::<{ size_of::<Record>() }>();
    if !rest.is_empty() {
        return Err(Error::failed("cannot list the connections: the agent has another layout"));
    }
    Ok(whole.iter().map(|record| bytemuck::pod_read_unaligned(record)).collect())
}

/// The versions found so far.
struct Versions {
    state: State,
    tick_us: u32,
    /// Label and state fields, by the id of the struct_ops map.
    known: BTreeMap<u32, (&'static str, Vec<StateField>)>,
}

impl Versions {
    fn connection(&mut self, netns: &str, record: &Record) -> Result<Connection> {
        let cc = text(&record.cc_name);
        let (version, fields) = match self.known.entry(record.map_id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(look_up(&cc, record.map_id, self.state)?),
        };
        let value = |field: &StateField| {
            let value = field.place.read(&record.state)?;
            let names = match &field.export {
                Some(Export::Counts(names)) => names.as_slice(),
                _ => &[],
            };
            let named = usize::try_from(value).ok().and_then(|value| names.get(value).cloned());
            let meaning = named.or_else(|| is_no_reading(fields, field, value).then(|| "none".to_owned()));
            Some(StateValue { name: field.name.clone(), value, unit: field.unit.clone(), meaning })
        };
        let forecast = forecast(fields, &record.state).map(|segments_per_s| StateValue {
            name: FORECAST.name.to_owned(),
            value: (segments_per_s * f64::from(record.mss) * 8.0) as i128,
            unit: FORECAST.unit.to_owned(),
            meaning: None,
        });
        let ms = |ticks: u64| ticks * u64::from(self.tick_us) / 1000;
        let set = |value: u32| (value != 0).then_some(value);
        let delivered_bits = u64::from(record.rate_delivered) * u64::from(record.mss) * 8;
        Ok(Connection {
            netns: netns.to_owned(),
            local: address(record.local, record.local_port),
            peer: address(record.peer, record.peer_port),
            version,
            ca_state: ca_state(record.ca_state.into()),
            cwnd: record.snd_cwnd,
            ssthresh: (record.snd_ssthresh < i32::MAX as u32).then_some(record.snd_ssthresh),
            srtt_us: set(record.srtt_us),
            min_rtt_us: set(record.min_rtt_us).filter(|us| *us != u32::MAX),
            delivery_bps: (delivered_bits * 1_000_000)
                .checked_div(record.rate_interval_us.into())
                .filter(|bps| *bps > 0),
            retransmits: record.total_retrans,
            acked_bytes: record.bytes_acked,
            mss: record.mss,
            paced: record.paced != 0,
            app_limited: record.app_limited != 0,
            busy_ms: ms(record.ticks.iter().copied().map(u64::from).sum()),
            receiver_limited_ms: ms(record.ticks[1].into()),
            buffer_limited_ms: ms(record.ticks[2].into()),
            state: fields.iter().filter_map(value).chain(forecast).collect(),
            pep: SeenByPep::read(&record.pep, record.snd_una),
            cc,
        })
    }
}

fn look_up(cc: &str, map_id: u32, state: State) -> Result<(&'static str, Vec<StateField>)> {
    let algo = Algo::named(cc);
    let serving = if map_id == 0 { None } else { algo.current()?.map(|v| v.map_id) };
    let version = version_label(map_id, serving);
    if serving.is_none() || state == State::Omitted {
        return Ok((version, Vec::new()));
    }
    // versions older than the previous one are no longer pinned, so their fields are not known
    let pinned = algo.versions()?.into_iter().find(|v| v.map_id == map_id);
    // a command may remove the version meanwhile
    let fields = pinned.and_then(|v| v.description().ok()).map_or_else(Vec::new, |d| d.state);
    Ok((version, fields))
}

/// Returns the name of an `enum tcp_ca_state`.
pub(crate) fn ca_state(state: u32) -> &'static str {
    ["open", "disorder", "cwr", "recovery", "loss"].get(state as usize).unwrap_or(&"?")
}

pub(crate) fn address(bytes: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), port)
}
