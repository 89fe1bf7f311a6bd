//! Creates a [`Plan`] from a scenario's case and a seed.

use crate::algorithms;
use crate::planner::links::LinkPlanner;
pub(crate) use crate::planner::links::mean_rate_bps;
use crate::planner::network::Network;
use crate::planner::objects::Objects;
use crate::scenario::{Flow, Kind, Pep, Place, Publish, Scenario, ScenarioError, Source, member_names};
use crate::traces::TraceFiles;
use anyhow::{Context, Result, anyhow, bail, ensure};
use hotcc::object::check_cc_name;
use hotcc_channel_model::Radio;
use hotcc_lab_proto::plan::{
    Action, Algorithm, End, Fault, Feed, Pace, Plan, PlannedCable, PlannedEvent, PlannedFlow, PlannedHost, PlannedLink,
    PlannedPep, PlannedReading, USUAL_BUFFERS,
};
use std::collections::BTreeMap;
use std::time::Duration;

mod links;
mod network;
mod objects;
mod recordings;

pub use objects::ObjectFile;
pub use recordings::partly_used;

/// Size of a datagram, or of a paced application's write, if the scenario does not specify it.
const WRITE_BYTES: u32 = 1400;
/// Maximum number of records of each kind: more would not fit into a guest's memory.
const MAX_RECORDS: u64 = 8_000_000;

/// A plan, and the true radio of each link that has one.
#[derive(Debug)]
pub struct Planned {
    /// The plan that the guest executes.
    pub plan: Plan,
    /// Radios, by the link's index in the plan.
    pub radios: BTreeMap<usize, Radio>,
    /// Whether the results include the bounds in addition to the flows.
    pub bounds: bool,
    /// Object files that the plan loads.
    pub objects: Vec<ObjectFile>,
}

/// Plans a case. Its trace files are looked up in `traces`.
pub fn plan(scenario: &Scenario, seed: u64, traces: &TraceFiles) -> Result<Planned> {
    let duration = Duration::from_secs_f64(*scenario.duration_s.get_ref());
    let network = Network::of(scenario);
    let mut ways = Vec::new();
    for flow in &scenario.flow {
        ways.extend(expand(flow, &network));
    }
    let first_crossing = |link: usize| ways.iter().find(|(_, way)| way.contains(&link)).map(|(_, way)| way.clone());
    let mut planner = LinkPlanner { scenario, network: &network, seed, traces, duration, radios: BTreeMap::new() };
    let links = planner.plan(&first_crossing)?;
    let radios = planner.radios;
    let objects = Objects::open(scenario, traces.scenario_directory())?;
    let mut algorithms = Vec::new();
    let mut flows = Vec::new();
    for (flow, way) in ways {
        let place = Place::of(&flow.flow.from, format!("flow `{}`", flow.name));
        flows.push(plan_flow(scenario, flow, way, &network, &objects, &mut algorithms).context(place)?);
    }
    let packets = records(&links, &flows, duration);
    let plan = Plan {
        duration_ns: duration.as_nanos() as u64,
        hosts: hosts(scenario, &network),
        cables: cables(&network),
        feeds: feeds(scenario, &network, &radios, seed)?,
        pep: scenario.pep.first().map(|pep| plan_pep(pep, &network)),
        events: events(scenario, &network, &objects, &algorithms)?,
        packet_records: packets,
        ack_records: packets,
        links,
        algorithms,
        flows,
    };
    Ok(Planned { plan, radios, bounds: *scenario.bounds.get_ref(), objects: objects.files() })
}

/// Checks whether every case of a scenario can be planned. Planning finds references to unknown names and errors in
/// files.
pub fn check_plans(source: &Source) -> Result<(), ScenarioError> {
    source.check_cases(|scenario, seed, traces| plan(scenario, seed, traces).map(drop))?;
    source.check_watched_fields()
}

/// A single flow that a flow of the scenario expands to.
struct OneFlow<'a> {
    flow: &'a Flow,
    name: String,
    start_s: f64,
    from: usize,
    to: usize,
}

fn expand<'a>(flow: &'a Flow, network: &Network) -> Vec<(OneFlow<'a>, Vec<usize>)> {
    let from = network.members(flow.from.get_ref())[0];
    let count = *flow.count.get_ref() as usize;
    let receivers = network.members(flow.to.get_ref());
    let mut names = member_names(flow.name.get_ref(), receivers.len() * count);
    let mut flows = Vec::new();
    for to in receivers {
        for name in names.by_ref().take(count) {
            let start_s = flow.start_s + flow.stagger_s * flows.len() as f64;
            flows.push((OneFlow { flow, name, start_s, from, to }, network.way(from, to)));
        }
    }
    flows
}

fn plan_flow(
    scenario: &Scenario,
    one: OneFlow<'_>,
    way: Vec<usize>,
    network: &Network,
    objects: &Objects,
    algorithms: &mut Vec<Algorithm>,
) -> Result<PlannedFlow> {
    let flow = one.flow;
    let cc = flow.cc.as_ref().map(|cc| registered(flow, cc.get_ref(), objects, algorithms)).transpose()?;
    let watch = match (&flow.watch, &flow.cc) {
        (Some(field), Some(cc)) => {
            let state = objects.description(cc.get_ref())?.map_or_else(Vec::new, |description| description.state);
            // a congestion control without this field is not watched: another case's congestion control has it
            match state.iter().find(|f| f.name == *field.get_ref()) {
                Some(found) if found.place.signed => {
                    bail!("`{}` cannot be watched: it is signed", found.name)
                }
                // records have room for four bytes
                Some(found) => Some((u32::try_from(found.place.offset)?, u32::try_from(found.place.size.min(4))?)),
                None => None,
            }
        }
        _ => None,
    };
    let stop_s = flow.stop_s.as_ref().map_or(*scenario.duration_s.get_ref(), |s| *s.get_ref());
    let write_bytes = flow.write_bytes.as_ref().map_or(WRITE_BYTES, |b| *b.get_ref());
    // for datagrams, the rate includes IP headers, like a link's rate
    let headers = if flow.kind == Kind::Udp { 28 } else { 0 };
    let mtu = way.iter().map(|link| *network.cables[link / 2].link.mtu.get_ref()).min().unwrap_or(u32::MAX);
    // only the first fragment has ports, by which links know the flow of a packet
    ensure!(
        flow.kind != Kind::Udp || write_bytes + headers <= mtu,
        "a datagram of {write_bytes} bytes, with {headers} of headers, exceeds the path's MTU of {mtu}: lower \
         `write_bytes`, or raise `mtu`"
    );
    let pace = flow.rate.as_ref().map(|rate| Pace {
        interval_ns: u64::from(write_bytes + headers) * 8 * 1_000_000_000 / rate.get_ref().0,
        write_bytes,
    });
    Ok(PlannedFlow {
        name: one.name,
        from: one.from,
        to: one.to,
        address: network.address_at_end(one.to, &way).context("no address")?,
        cc,
        watch,
        start_ns: ns(one.start_s),
        stop_ns: ns(stop_s),
        bytes: flow.bytes.as_ref().map(|b| *b.get_ref()),
        pace,
        paced: flow.paced.as_ref().is_some_and(|paced| *paced.get_ref()),
        way,
    })
}

/// Returns the name of the flow's congestion control in the kernel. One that the lab loads is loaded once per set of
/// values.
fn registered(flow: &Flow, cc: &str, objects: &Objects, algorithms: &mut Vec<Algorithm>) -> Result<String> {
    if !algorithms::is_loaded(cc) {
        return Ok(cc.to_owned());
    }
    let object = objects.to_load(cc);
    let profile = flow.profile.as_ref().map_or("default", |p| p.get_ref()).to_owned();
    let set = algorithms::assignments(&flow.set);
    let same = |a: &&Algorithm| a.object == object && a.profile == profile && a.set == set;
    if let Some(found) = algorithms.iter().find(same) {
        return Ok(found.cc.clone());
    }
    let others = algorithms.iter().filter(|a| a.object == object).count();
    let base = algorithms::object_name(cc);
    let name = if others == 0 { base.to_owned() } else { format!("{base}_{}", others + 1) };
    check_cc_name(&name).map_err(|why| anyhow!("{why}"))?;
    ensure!(
        algorithms.iter().all(|a| a.cc != name),
        "`{cc}` needs the name `{name}`, which another flow's congestion control has already: rename the object file"
    );
    algorithms.push(Algorithm { object, cc: name.clone(), profile, set });
    Ok(name)
}

/// Returns the room for records: what the links can carry or drop in this time, in both directions, and a reserve.
fn records(links: &[PlannedLink], flows: &[PlannedFlow], duration: Duration) -> u32 {
    const MIN_USUAL_PACKET_BITS: u64 = 4_000;
    /// More packets keep the guest's processor too busy.
    const MAX_PACKETS_PER_S: u64 = 40_000;
    let datagrams = |flow: &PlannedFlow| {
        let pace = flow.pace.filter(|_| flow.cc.is_none());
        pace.map_or(0, |pace| duration.as_nanos() as u64 / pace.interval_ns.max(1))
    };
    let is_unlimited = |flow: &PlannedFlow| flow.way.iter().all(|link| links[*link].rates.is_empty());
    let mut packets = 100_000;
    for (place, link) in links.iter().enumerate().filter(|(_, link)| link.keeps_records()) {
        let users = flows.iter().filter(|f| f.way.contains(&place)).count() as u64;
        let offered: u64 = flows.iter().filter(|f| f.way.contains(&place)).map(datagrams).sum();
        // without a rate, only losses limit what passes in either direction
        if flows.iter().any(|f| is_unlimited(f) && f.way.iter().any(|crossed| crossed / 2 == place / 2)) {
            packets += MAX_PACKETS_PER_S * duration.as_secs();
        }
        let sharing = link.cell.map_or(1, |_| links.iter().filter(|other| other.cell == link.cell).count() as u64);
        let bits: u64 = link
            .rates
            .iter()
            .map(|(steps, rate)| u64::from(*steps) * (link.step_ns / 1000) * (rate / 1000) / 1000)
            .sum();
        // a queue also records the datagrams that it drops
        packets += (2 * bits / sharing / MIN_USUAL_PACKET_BITS).max(offered) + users * duration.as_secs() * 100;
    }
    u32::try_from(packets.min(MAX_RECORDS)).unwrap_or(u32::MAX)
}

fn hosts(scenario: &Scenario, network: &Network) -> Vec<PlannedHost> {
    let mut planned = Vec::new();
    for (place, node) in network.nodes.iter().enumerate() {
        let own = DEFAULT_SYSCTLS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let of_file = scenario.sysctl.iter().chain(&node.host.sysctl);
        let of_file = of_file.map(|(key, value)| (key.clone(), algorithms::text(value.get_ref())));
        // in this order: some settings change others, as `ip_forward` does
        let mut sysctls: Vec<(String, String)> = Vec::new();
        for (key, value) in own.into_iter().chain(of_file) {
            sysctls.retain(|(known, _)| *known != key); // the simulator takes the first of a key
            sysctls.push((key, value));
        }
        let (name, setup) = (node.name.clone(), network.setup(place));
        planned.push(PlannedHost { name, setup, sysctls, rx: (*node.host.rx.get_ref()).into() });
    }
    planned
}

/// Default sysctls of every host, which a scenario can override: buffers that do not limit, and no memory of earlier
/// flows.
const DEFAULT_SYSCTLS: [(&str, &str); 5] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_rmem", USUAL_BUFFERS),
    ("net.ipv4.tcp_wmem", USUAL_BUFFERS),
    ("net.ipv6.conf.all.disable_ipv6", "1"),
];

fn cables(network: &Network) -> Vec<PlannedCable> {
    let cables = network.cables.iter();
    let planned = |cable: &network::Cable<'_>| PlannedCable {
        ends: [0, 1].map(|side| End {
            host: cable.ends[side],
            device: cable.device(side),
            receives: cable.link_to(side),
        }),
        mtu: *cable.link.mtu.get_ref(),
        offload_segments: *cable.link.offload_segments.get_ref(),
    };
    cables.map(planned).collect()
}

/// Plans the PEP. The border's interfaces towards the servers are the Internet; its other interfaces are its access
/// network.
fn plan_pep(pep: &Pep, network: &Network) -> PlannedPep {
    let border = network.members(pep.border.get_ref())[0];
    let mut planned = PlannedPep {
        border,
        internet: Vec::new(),
        access: Vec::new(),
        servers: Vec::new(),
        segments: pep.segments.as_ref().map(|s| *s.get_ref()),
        delay_us: pep.delay_us.as_ref().map(|d| *d.get_ref()),
        fault: pep.fault,
    };
    for server in pep.servers.get_ref().iter().flat_map(|name| network.members(name)) {
        let way = network.way(border, server);
        planned.servers.extend(network.address_at_end(server, &way).map(|address| (server, address)));
        planned.internet.extend(way.first().map(|link| network.device_at_link_begin(*link)));
    }
    planned.internet.sort_unstable();
    planned.internet.dedup();
    planned.access = network.devices(border).filter(|device| !planned.internet.contains(device)).collect();
    planned
}

/// Plans the feeds: each member of `towards` gets readings of its own link's radio.
fn feeds(scenario: &Scenario, network: &Network, radios: &BTreeMap<usize, Radio>, seed: u64) -> Result<Vec<Feed>> {
    let mut feeds = Vec::new();
    for feeder in &scenario.feeder {
        for to in network.members(feeder.towards.get_ref()) {
            let driven = network
                .links_to(to)
                .find(|link| radios.contains_key(link) && network.radio_name(*link) == Some(feeder.radio.get_ref()));
            let link = driven.with_context(|| {
                let what = format!("no link to `{}` uses radio `{}`", feeder.towards.get_ref(), feeder.radio.get_ref());
                Place::of(&feeder.towards, what)
            })?;
            let radio = radios.get(&link).context("no radio")?;
            let out = |at: Duration| {
                let at_s = at.as_secs_f64();
                feeder.outages_s.iter().any(|o| (o.get_ref()[0]..o.get_ref()[1]).contains(&at_s))
            };
            let handovers = network.handovers_s(scenario, link);
            let publish = feeder.publish;
            if publish.has_sinr() && radio.sinr_db.is_none() {
                let why = "this radio, or one after a handover, has no SINR to publish; use one that has \
                           SINR, or set `publish` to \"capacity\" or \"none\"";
                let place = Place::of(&feeder.radio, format!("feeder of radio `{}`", feeder.radio.get_ref()));
                return Err(anyhow::Error::msg(why).context(place));
            }
            let readings = radio.readings(feeder.readings.get_ref(), links::stream_seed(seed, &format!("feeder {to}")));
            let planned = readings.iter().filter(|r| publish != Publish::None && !out(r.at)).map(|r| PlannedReading {
                at_ns: r.at.as_nanos() as u64,
                made_ns: r.made.as_nanos() as u64,
                sinr_db: r.sinr_db.filter(|_| publish.has_sinr()),
                average_db: r.average_db.filter(|_| publish.has_sinr()),
                capacity_bps: publish.has_capacity().then_some(r.capacity_bps),
                cell: handovers.iter().filter(|at_s| **at_s <= r.made.as_secs_f64()).count() as u32,
            });
            let period_ms = feeder.readings.get_ref().period_ms;
            let period = Duration::from_millis(period_ms.into());
            let max_age_ms = feeder.max_age_ms.unwrap_or_else(|| hotcc_radio_map::default_max_age_ms(Some(period)));
            feeds.push(Feed {
                address: network.address_of_link_end(link),
                max_age_ms,
                period_ms,
                readings: planned.collect(),
            });
        }
    }
    Ok(feeds)
}

fn events(
    scenario: &Scenario,
    network: &Network,
    objects: &Objects,
    loaded: &[Algorithm],
) -> Result<Vec<PlannedEvent>> {
    let mut events = Vec::new();
    for event in &scenario.event {
        // if the congestion control is swept, the event belongs to another case
        if event.cc().is_some_and(|cc| !scenario.loaded_ccs().any(|loaded| loaded == cc.get_ref())) {
            continue;
        }
        let at_ns = ns(*event.at_s.get_ref());
        let action = if let Some(swap) = &event.swap {
            let (cc, new) = (algorithms::object_name(swap.cc.get_ref()).to_owned(), swap.new.get_ref().clone());
            Action::Swap { cc, object: objects.to_load(&new), new }
        } else if let Some(tune) = &event.tune {
            // flows with other settings run the same object under another name
            let object = objects.to_load(tune.cc.get_ref());
            for Algorithm { cc, .. } in loaded.iter().filter(|algorithm| algorithm.object == object) {
                let action = Action::Tune { cc: cc.clone(), set: algorithms::assignments(&tune.set) };
                events.push(PlannedEvent { at_ns, action });
            }
            continue;
        } else if let Some(route) = &event.route {
            let host = network.members(route.host.get_ref())[0];
            let (to, via) = (network.members(route.to.get_ref())[0], network.members(route.via.get_ref())[0]);
            Action::Route {
                host,
                arguments: network.reroute(host, to, via).context("`via` is not a neighbour of `host`")?,
                watched: *network.nodes[host].host.watch_paths.get_ref(),
            }
        } else if let Some(change) = &event.change {
            Action::Note(format!("link {} changes", change.link.get_ref()))
        } else if let Some(handover) = &event.handover {
            Action::Note(format!("handover of {} to {}", handover.link.get_ref(), handover.radio.get_ref()))
        } else {
            continue;
        };
        events.push(PlannedEvent { at_ns, action });
    }
    if scenario.pep.first().is_some_and(|pep| pep.fault == Fault::Dies) {
        let third_ns = ns(*scenario.duration_s.get_ref() / 3.0);
        for (thirds, runs) in [(1, false), (2, true)] {
            events.push(PlannedEvent { at_ns: thirds * third_ns, action: Action::Border(runs) });
        }
    }
    events.sort_by_key(|e| e.at_ns);
    Ok(events)
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
