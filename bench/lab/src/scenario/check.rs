//! Checks a scenario beyond TOML's syntax and types: references to names, and combinations of values.

use super::congestion::{check_cc, check_objects, check_swap, check_tune};
use super::field_error::{CheckResult, invalid, known, known_at, unique, within, within_whole};
use super::file::{Event, Flow, Host, Kind, Link, Scenario, Way};
use super::member_names;
use super::pep::check_peps;
use super::quantity::Queue;
use super::queue::check_queue;
use super::sweep::value_name;
use crate::algorithms::{object_name, text};
use crate::results::{METRICS, equal};
use hotcc_host::nearest::expected;
use std::collections::BTreeSet;
use toml::Spanned;

/// Maximum length of a run.
const MAX_DURATION_S: f64 = 3600.0;
const MAX_DELAY_MS: f64 = 60_000.0;
/// Maximum jitter: the BPF program multiplies it, in ns, by a 32-bit random number, and the product must fit 64 bits.
const MAX_JITTER_MS: f64 = 4000.0;
const MAX_HOSTS: u32 = 200;
/// The actions of events.
const EVENTS: [&str; 5] = ["swap", "tune", "change", "handover", "route"];
/// Maximum number of flows, which are identified by port; see `bpf/lab/records.h`.
pub(crate) const MAX_FLOWS: usize = 4096;
/// Maximum number of links; `MAX_LINKS` in `bpf/lab/link.bpf.c` counts both directions.
const MAX_LINKS: u32 = 512;

pub(super) fn check(scenario: &Scenario) -> CheckResult {
    within(&scenario.duration_s, "duration_s", 0.1, MAX_DURATION_S)?;
    within_whole(&scenario.series_ms, "series_ms", 1, 10_000)?;
    if scenario.seeds.is_empty() || scenario.flow.is_empty() || scenario.link.is_empty() {
        return invalid(&scenario.duration_s, "a scenario needs at least one [[link]], one [[flow]] and one seed");
    }
    if let Some(duplicate) =
        scenario.seeds.iter().enumerate().find_map(|(n, s)| scenario.seeds[..n].contains(s).then_some(s))
    {
        return invalid(&scenario.duration_s, format!("duplicate seed {duplicate}: it would repeat the same run"));
    }
    unique(scenario.host.iter().map(|h| &h.name), "host")?;
    unique(scenario.link.iter().map(|l| &l.name), "link")?;
    unique(scenario.flow.iter().map(|f| &f.name), "flow")?;
    let mut names = BTreeSet::new();
    for host in &scenario.host {
        within_whole(&host.count, "count", 1, MAX_HOSTS)?;
        let mut members = member_names(host.name.get_ref(), *host.count.get_ref() as usize);
        if let Some(name) = members.find(|name| !names.insert(name.clone())) {
            return invalid(
                &host.name,
                format!("duplicate host name `{name}`: `count` numbers hosts as NAME-1, NAME-2, ..."),
            );
        }
    }
    if let Some((key, value)) = scenario.sysctls().find(|(key, _)| !is_network_sysctl(key)) {
        return invalid(value, format!("invalid sysctl `{key}`: expected a key of a network namespace (net.*)"));
    }
    let mut names = BTreeSet::new();
    for radio in &scenario.radio {
        radio.get_ref().check().or_else(|why| invalid(radio, why.to_string()))?;
        if !names.insert(radio.get_ref().name()) {
            return invalid(radio, format!("duplicate radio name `{}`", radio.get_ref().name()));
        }
    }
    let mut links = 0;
    for link in &scenario.link {
        check_link(scenario, link)?;
        links += link.between.get_ref().iter().map(|host| scenario.host_count(host)).product::<u32>();
        if links > MAX_LINKS {
            return invalid(&link.name, format!("too many links: expected at most {MAX_LINKS} in total"));
        }
    }
    check_bounds(scenario)?;
    let mut names = BTreeSet::new();
    for flow in &scenario.flow {
        check_flow(scenario, flow)?;
        let several = *flow.count.get_ref() as usize * scenario.host_count(flow.to.get_ref()) as usize;
        if names.len() + several > MAX_FLOWS {
            return invalid(&flow.count, format!("too many flows: expected at most {MAX_FLOWS} in total"));
        }
        if let Some(name) = member_names(flow.name.get_ref(), several).find(|name| !names.insert(name.clone())) {
            return invalid(
                &flow.name,
                format!("duplicate flow name `{name}`: several flows of a table are NAME-1, NAME-2, ..."),
            );
        }
    }
    check_objects(scenario)?;
    for feeder in &scenario.feeder {
        known(&feeder.radio, "radio", radios(scenario))?;
        feeder.readings.get_ref().check().or_else(|why| invalid(&feeder.readings, why.to_string()))?;
        known(&feeder.towards, "host", scenario.host.iter().map(|h| h.name.get_ref().as_str()))?;
        for outage in &feeder.outages_s {
            let [from, until] = *outage.get_ref();
            if !(from >= 0.0 && until > from) {
                return invalid(
                    outage,
                    format!("invalid outage [{from}, {until}]: expected [from, until] with 0 <= from < until"),
                );
            }
        }
    }
    check_peps(scenario)?;
    for event in &scenario.event {
        check_event(scenario, event)?;
    }
    for host in scenario.host.iter().filter(|host| *host.watch_paths.get_ref()) {
        check_watch(scenario, host)?;
    }
    for figure in &scenario.expected {
        let entry = figure.get_ref();
        known_at(figure, &entry.metric, "metric", METRICS.iter().map(|(name, _)| *name))?;
        let flows = || scenario.flow.iter().map(|f| f.name.get_ref().as_str());
        let is_of = |wanted: &str| {
            flows().any(|name| wanted.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))
        };
        if let Some(flow) = entry.flow.as_ref().filter(|flow| !is_of(flow)) {
            return known_at(figure, flow, "flow", flows());
        }
        if let Some(link) = &entry.link {
            known_at(figure, link, "link", scenario.link.iter().map(|l| l.name.get_ref().as_str()))?;
        }
        for (name, case) in [("case", &entry.case), ("over", &entry.over)] {
            if let Some(key) = case.keys().find(|k| !scenario.sweep.contains_key(*k)) {
                let swept = scenario.sweep.keys().map(String::as_str);
                return invalid(figure, format!("`{name}.{key}` is not swept: {}", expected(key, swept)));
            }
        }
        for (key, value) in &entry.over {
            let (wanted, swept) = (text(value), scenario.sweep.get(key).into_iter().flatten());
            let names: Vec<String> = swept.filter_map(value_name).collect();
            if !names.iter().any(|name| equal(name, &wanted)) {
                let names = names.iter().map(String::as_str);
                return invalid(figure, format!("`over.{key}` is never `{wanted}`: {}", expected(&wanted, names)));
            }
        }
    }
    Ok(())
}

fn radios(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.radio.iter().map(|radio| radio.get_ref().name())
}

/// Returns whether `key` names a sysctl below `net`. Rejects empty parts and characters that lead to another path.
fn is_network_sysctl(key: &str) -> bool {
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    key.starts_with("net.") && key.split('.').all(plain)
}

fn check_link(scenario: &Scenario, link: &Link) -> CheckResult {
    let [a, b] = link.between.get_ref();
    for name in [a, b] {
        let name = Spanned::new(link.between.span(), name.clone());
        known(&name, "host", scenario.host.iter().map(|h| h.name.get_ref().as_str()))?;
    }
    if a == b {
        return invalid(&link.between, format!("link `{}` connects `{a}` to itself", link.name.get_ref()));
    }
    if scenario.host_count(a) > 1 && scenario.host_count(b) > 1 {
        return invalid(
            &link.between,
            format!("`{a}` and `{b}` both have `count` > 1: one end of a link must be a single host"),
        );
    }
    within_whole(&link.mtu, "mtu", 256, 9000)?;
    within_whole(&link.offload_segments, "offload_segments", 1, 64)?;
    for way in [link.both.with(&link.forward), link.both.with(&link.reverse)] {
        check_way(scenario, &way)?;
        check_offload(link, &way)?;
    }
    Ok(())
}

fn check_offload(link: &Link, way: &Way) -> CheckResult {
    let lossy = [&way.loss, &way.bit_error].into_iter().flatten().any(|p| p.get_ref().0 > 0.0);
    if lossy && *link.offload_segments.get_ref() > 1 {
        return invalid(
            &link.offload_segments,
            "a link with loss needs `offload_segments = 1`: it drops single packets, not bundles",
        );
    }
    if way.police.is_some() && *link.offload_segments.get_ref() > 1 {
        return invalid(
            &link.offload_segments,
            "a link with `police` needs `offload_segments = 1`: a bundle may exceed the burst for ever",
        );
    }
    Ok(())
}

fn check_bounds(scenario: &Scenario) -> CheckResult {
    let names = scenario.flow.iter().filter_map(|flow| flow.cc.as_ref());
    let is_bound = |cc: &&Spanned<String>| ["oracle", "late-oracle"].contains(&object_name(cc.get_ref()));
    if let Some(cc) = names.filter(|_| *scenario.bounds.get_ref()).find(is_bound) {
        return invalid(cc, "`bounds` adds a row of that name to the tables: rename the congestion control");
    }
    let has_rate = |way: &Way| way.rate.is_some() || way.radio.is_some();
    let mut ways = scenario.link.iter().flat_map(|link| [link.both.with(&link.forward), link.both.with(&link.reverse)]);
    if *scenario.bounds.get_ref() && !ways.any(|way| has_rate(&way) && way.cell.is_none()) {
        return invalid(
            &scenario.bounds,
            "`bounds` needs a link with a `rate` or a `radio` of its own: it knows the capacity",
        );
    }
    Ok(())
}

fn check_way(scenario: &Scenario, way: &Way) -> CheckResult {
    if let Some(radio) = &way.radio {
        known(radio, "radio", radios(scenario))?;
        if way.rate.is_some() {
            return invalid(radio, "`radio` and `rate` conflict: the radio sets the rate; remove one");
        }
    }
    if way.rate.is_none() && way.radio.is_none() {
        if let Some(police) = &way.police {
            return invalid(police, "`police` needs `rate` or `radio`: a policer limits a link that has a rate");
        }
        let without = |key| format!("`{key}` needs `rate` or `radio`: a link without a rate has no queue");
        if let Some(queue) = &way.queue {
            return invalid(queue, without("queue"));
        }
        if let Some(queue) = &way.mark_above {
            return invalid(queue, without("mark_above"));
        }
        if let Some(cell) = &way.cell {
            return invalid(cell, "`cell` needs `rate` or `radio`: a link without a rate has no capacity to share");
        }
    }
    if let Some(queue) = &way.queue {
        check_queue(queue)?;
        if let Some(mark) = way.mark_above.as_ref().filter(|_| queue.get_ref().discipline.is_some()) {
            return invalid(mark, "`mark_above` needs a drop-tail queue: a queueing discipline decides what it marks");
        }
    }
    if let Some(police) = &way.police
        && matches!(police.get_ref().burst.get_ref(), Queue::Bdp(_))
    {
        return invalid(&police.get_ref().burst, "a policer's `burst` is a size, e.g. `64kB` or `100packets`");
    }
    if let Some(cell) = way.cell.as_ref().filter(|cell| scenario.cells().get(cell.get_ref()) == Some(&1)) {
        return invalid(cell, format!("cell `{}` has only one link: expected at least two", cell.get_ref()));
    }
    for (time, key, most) in [
        (&way.delay_ms, "delay_ms", MAX_DELAY_MS),
        (&way.jitter_ms, "jitter_ms", MAX_JITTER_MS),
        (&way.reorder_ms, "reorder_ms", MAX_DELAY_MS),
    ] {
        if let Some(time) = time {
            within(time, key, 0.0, most)?;
        }
    }
    match (&way.reorder, &way.reorder_ms) {
        (Some(reorder), None) => invalid(reorder, "`reorder` needs `reorder_ms`: the extra delay of reordered packets"),
        (None, Some(time)) => invalid(time, "`reorder_ms` needs `reorder`: the share of packets to delay"),
        _ => Ok(()),
    }
}

fn check_flow(scenario: &Scenario, flow: &Flow) -> CheckResult {
    let hosts = || scenario.host.iter().map(|h| h.name.get_ref().as_str());
    known(&flow.from, "host", hosts())?;
    known(&flow.to, "host", hosts())?;
    if flow.from.get_ref() == flow.to.get_ref() {
        return invalid(&flow.to, "a flow needs two different hosts, but `from` and `to` are the same");
    }
    if scenario.host_count(flow.from.get_ref()) > 1 {
        return invalid(&flow.from, format!("`{}` has `count` > 1: a flow needs a single sender", flow.from.get_ref()));
    }
    within_whole(&flow.count, "count", 1, MAX_FLOWS as u32)?;
    let end = *scenario.duration_s.get_ref();
    let flows = *flow.count.get_ref() * scenario.host_count(flow.to.get_ref());
    let last = flow.start_s + flow.stagger_s * f64::from(flows - 1);
    if !(flow.start_s >= 0.0 && flow.stagger_s >= 0.0 && last < end) {
        return invalid(
            &flow.name,
            format!("flow `{}` starts outside the run of {end} s: its last start is {last} s", flow.name.get_ref()),
        );
    }
    if let Some(stop) = &flow.stop_s {
        within(stop, "stop_s", 0.0, end)?;
        if *stop.get_ref() <= last {
            return invalid(
                stop,
                format!("invalid stop_s `{}`: expected more than the flow's last start, {last} s", stop.get_ref()),
            );
        }
    }
    if let Some(bytes) = &flow.bytes {
        within_whole(bytes, "bytes", 1, 1 << 44)?;
    }
    if let Some(size) = &flow.write_bytes {
        within_whole(size, "write_bytes", 1, if flow.kind == Kind::Udp { 8972 } else { 1 << 20 })?;
        if flow.rate.is_none() {
            return invalid(size, "`write_bytes` needs `rate`");
        }
    }
    if let Some(paced) = flow.paced.as_ref().filter(|_| flow.kind == Kind::Udp) {
        return invalid(paced, "`paced` does not apply to a UDP flow: its `rate` sets the time between its packets");
    }
    if flow.kind == Kind::Udp && (flow.profile.is_some() || !flow.set.is_empty()) {
        return invalid(&flow.name, "`profile` and `set` do not apply to a UDP flow: UDP has no congestion control");
    }
    match (flow.kind, &flow.cc, &flow.rate) {
        (Kind::Tcp, None, _) => invalid(&flow.name, format!("flow `{}` needs `cc`", flow.name.get_ref())),
        (Kind::Udp, Some(cc), _) => invalid(cc, "`cc` does not apply to a UDP flow: UDP has no congestion control"),
        (Kind::Udp, None, None) => invalid(&flow.name, format!("flow `{}` needs `rate`", flow.name.get_ref())),
        (Kind::Udp, None, Some(_)) => Ok(()),
        (Kind::Tcp, Some(cc), _) => check_cc(cc, flow),
    }
}

fn check_event(scenario: &Scenario, event: &Event) -> CheckResult {
    within(&event.at_s, "at_s", 0.0, *scenario.duration_s.get_ref())?;
    let links = || scenario.link.iter().map(|l| l.name.get_ref().as_str());
    let hosts = || scenario.host.iter().map(|h| h.name.get_ref().as_str());
    let mut actions = 0;
    if let Some(swap) = &event.swap {
        actions += 1;
        check_swap(swap)?;
    }
    if let Some(tune) = &event.tune {
        actions += 1;
        check_tune(tune)?;
    }
    if let Some(change) = &event.change {
        actions += 1;
        known(&change.link, "link", links())?;
        let Some(link) = scenario.link.iter().find(|l| l.name.get_ref() == change.link.get_ref()) else {
            return Ok(());
        };
        for (base, over) in [(&link.forward, &change.forward), (&link.reverse, &change.reverse)] {
            let changed = change.both.with(over);
            let fixed = "`queue` and `mark_above` cannot change during a run";
            if let Some(queue) = changed.queue {
                return invalid(&queue, fixed);
            }
            if let Some(queue) = changed.mark_above {
                return invalid(&queue, fixed);
            }
            if let Some(police) = changed.police {
                return invalid(&police, "`police` cannot change during a run");
            }
            if let Some(cell) = changed.cell {
                return invalid(&cell, "`cell` cannot change during a run");
            }
            let way = link.both.with(base).with(&change.both).with(over);
            check_way(scenario, &way)?;
            check_offload(link, &way)?;
        }
    }
    if let Some(handover) = &event.handover {
        actions += 1;
        known(&handover.link, "link", links())?;
        known(&handover.radio, "radio", radios(scenario))?;
        if let Some(delay) = &handover.delay_ms {
            within(delay, "delay_ms", 0.0, MAX_DELAY_MS)?;
        }
        if !(0.0..=MAX_DELAY_MS).contains(&handover.gap_ms) {
            return invalid(&event.at_s, format!("invalid gap_ms `{}`: expected 0 to {MAX_DELAY_MS}", handover.gap_ms));
        }
    }
    if let Some(route) = &event.route {
        actions += 1;
        for host in [&route.host, &route.to, &route.via] {
            known(host, "host", hosts())?;
            if scenario.host_count(host.get_ref()) > 1 {
                return invalid(
                    host,
                    format!("a `route` event needs single hosts: `{}` has `count` > 1", host.get_ref()),
                );
            }
        }
    }
    if actions == 1 {
        Ok(())
    } else {
        invalid(&event.at_s, format!("an event needs exactly one of {}, not {actions}", EVENTS.join(", ")))
    }
}

/// Checks `watch_paths`: only a sender uses the published changes, and only a `route` event causes changes.
fn check_watch(scenario: &Scenario, host: &Host) -> CheckResult {
    let name = host.name.get_ref();
    if !scenario.flow.iter().any(|flow| flow.kind == Kind::Tcp && flow.from.get_ref() == name) {
        return invalid(
            &host.watch_paths,
            format!("`watch_paths` needs a TCP flow from `{name}`: only a sender uses the report"),
        );
    }
    let mut routes = scenario.event.iter().filter_map(|event| event.route.as_ref());
    if !routes.any(|route| route.host.get_ref() == name) {
        return invalid(
            &host.watch_paths,
            format!("`watch_paths` needs a `route` event of `{name}`: nothing else changes its routes"),
        );
    }
    Ok(())
}
