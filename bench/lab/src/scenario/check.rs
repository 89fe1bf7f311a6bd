//! What TOML cannot check: names that must exist, values that must go together.

use super::file::{Event, Flow, Kind, Link, Scenario, Way};
use super::pep::check_peps;
use super::quantity::Queue;
use crate::algorithms;
use crate::results::METRICS;
use hotcc::object::check_cc_name;
use hotcc_host::nearest::expected;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

/// The longest run.
const LONGEST_S: f64 = 3600.0;
const SLOWEST_MS: f64 = 60_000.0;
/// The programs multiply it, in ns, by 32 bits.
const MOST_JITTER_MS: f64 = 4000.0;
const MOST_HOSTS: u32 = 200;
/// What an event can do.
const EVENTS: [&str; 5] = ["swap", "tune", "change", "handover", "route"];
/// Flows are told apart by port; see `bpf/lab/records.h`.
pub(crate) const MOST_FLOWS: usize = 4096;

/// What is wrong, and at which bytes.
#[derive(Debug)]
pub(super) struct Wrong {
    pub span: Range<usize>,
    pub what: String,
}

pub(super) type Checked = Result<(), Wrong>;

pub(super) fn wrong<T>(value: &Spanned<T>, what: impl Into<String>) -> Checked {
    Err(Wrong { span: value.span(), what: what.into() })
}

fn within(value: &Spanned<f64>, key: &str, from: f64, to: f64) -> Checked {
    let number = *value.get_ref();
    if number.is_finite() && (from..=to).contains(&number) {
        return Ok(());
    }
    wrong(value, format!("invalid {key} `{number}`: expected {from} to {to}"))
}

pub(super) fn within_whole<T: Copy + PartialOrd + std::fmt::Display>(
    value: &Spanned<T>,
    key: &str,
    from: T,
    to: T,
) -> Checked {
    if (from..=to).contains(value.get_ref()) {
        return Ok(());
    }
    wrong(value, format!("invalid {key} `{}`: expected {from} to {to}", value.get_ref()))
}

/// One of a list; the error names the list.
pub(super) fn known<'a>(name: &Spanned<String>, what: &str, list: impl Iterator<Item = &'a str>) -> Checked {
    known_at(name, name.get_ref(), what, list)
}

/// Likewise, of a name that is a part of `value`.
fn known_at<'a, T>(value: &Spanned<T>, name: &str, what: &str, list: impl Iterator<Item = &'a str>) -> Checked {
    let list: Vec<&str> = list.collect();
    if list.contains(&name) {
        return Ok(());
    }
    wrong(value, format!("unknown {what} `{name}`: {}", expected(name, list)))
}

fn unique<'a>(names: impl Iterator<Item = &'a Spanned<String>>, what: &str) -> Checked {
    let mut seen = BTreeSet::new();
    for name in names {
        let text = name.get_ref();
        let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
        if !plain || text.is_empty() || text.len() > 15 {
            return wrong(
                name,
                format!("invalid {what} name `{text}`: expected 1 to 15 characters of a-z, 0-9, - and _"),
            );
        }
        if !seen.insert(text) {
            return wrong(name, format!("duplicate {what} name `{text}`"));
        }
    }
    Ok(())
}

/// Variants, before flows have what they stand for.
pub(super) fn check_variants(scenario: &Scenario) -> Checked {
    unique(scenario.variant.iter().map(|v| &v.name), "variant")?;
    for variant in &scenario.variant {
        let name = variant.name.get_ref().as_str();
        if algorithms::is_ours(name) || algorithms::OF_THE_KERNEL.contains(&name) {
            return wrong(&variant.name, format!("invalid variant name `{name}`: a congestion control has this name"));
        }
        known(&variant.cc, "hotcc algorithm", hotcc_bpf::ALGOS.iter().map(|o| o.name))?;
        check_settings(&variant.cc, variant.profile.as_ref(), &variant.set)?;
    }
    Ok(())
}

fn check_settings(
    cc: &Spanned<String>,
    profile: Option<&Spanned<String>>,
    set: &BTreeMap<String, toml::Value>,
) -> Checked {
    profile.map_or(Ok(()), |profile| known(profile, "profile", ["default", "paper"].into_iter()))?;
    algorithms::check_tunables(cc.get_ref(), set).or_else(|why| wrong(cc, why))
}

pub(super) fn check(scenario: &Scenario) -> Checked {
    within(&scenario.duration_s, "duration_s", 0.1, LONGEST_S)?;
    within_whole(&scenario.series_ms, "series_ms", 1, 10_000)?;
    if scenario.seeds.is_empty() || scenario.flow.is_empty() || scenario.link.is_empty() {
        return wrong(&scenario.duration_s, "a scenario needs at least one [[link]], one [[flow]] and one seed");
    }
    if let Some(twice) =
        scenario.seeds.iter().enumerate().find_map(|(n, s)| scenario.seeds[..n].contains(s).then_some(s))
    {
        return wrong(&scenario.duration_s, format!("duplicate seed {twice}: it would repeat the same run"));
    }
    unique(scenario.host.iter().map(|h| &h.name), "host")?;
    unique(scenario.link.iter().map(|l| &l.name), "link")?;
    unique(scenario.flow.iter().map(|f| &f.name), "flow")?;
    let mut names = BTreeSet::new();
    for host in &scenario.host {
        within_whole(&host.count, "count", 1, MOST_HOSTS)?;
        let (base, count) = (host.name.get_ref(), *host.count.get_ref());
        let numbered = |k: u32| if count == 1 { base.clone() } else { format!("{base}-{k}") };
        if let Some(name) = (1..=count).map(numbered).find(|name| !names.insert(name.clone())) {
            return wrong(
                &host.name,
                format!("duplicate host name `{name}`: `count` numbers hosts as NAME-1, NAME-2, ..."),
            );
        }
    }
    let sysctls = scenario.host.iter().flat_map(|host| host.sysctl.keys()).chain(scenario.sysctl.keys());
    if let Some(key) = sysctls.into_iter().find(|key| !is_of_the_network(key)) {
        return wrong(
            &scenario.duration_s,
            format!("invalid sysctl `{key}`: expected a key of a network namespace (net.*)"),
        );
    }
    let mut names = BTreeSet::new();
    for radio in &scenario.radio {
        radio.get_ref().check().or_else(|why| wrong(radio, why.to_string()))?;
        if !names.insert(radio.get_ref().name()) {
            return wrong(radio, format!("duplicate radio name `{}`", radio.get_ref().name()));
        }
    }
    for link in &scenario.link {
        check_link(scenario, link)?;
    }
    check_bounds(scenario)?;
    let mut flows = 0;
    for flow in &scenario.flow {
        check_flow(scenario, flow)?;
        flows += *flow.count.get_ref() as usize * host_count(scenario, flow.to.get_ref()) as usize;
        if flows > MOST_FLOWS {
            return wrong(&flow.count, format!("too many flows: expected at most {MOST_FLOWS} in total"));
        }
    }
    for feeder in &scenario.feeder {
        known(&feeder.radio, "radio", radios(scenario))?;
        feeder.readings.get_ref().check().or_else(|why| wrong(&feeder.readings, why.to_string()))?;
        known(&feeder.towards, "host", scenario.host.iter().map(|h| h.name.get_ref().as_str()))?;
        for outage in &feeder.outages_s {
            let [from, until] = *outage.get_ref();
            if !(from >= 0.0 && until > from) {
                return wrong(
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
                return wrong(figure, format!("`{name}.{key}` is not swept: {}", expected(key, swept)));
            }
        }
    }
    Ok(())
}

fn radios(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.radio.iter().map(|radio| radio.get_ref().name())
}

/// Whether it is the key of a sysctl below `net`, and no way out of there.
fn is_of_the_network(key: &str) -> bool {
    let plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    key.starts_with("net.") && key.split('.').all(plain)
}

/// How many hosts have that name.
pub(crate) fn host_count(scenario: &Scenario, name: &str) -> u32 {
    scenario.host.iter().find(|h| h.name.get_ref() == name).map_or(1, |h| *h.count.get_ref())
}

fn check_link(scenario: &Scenario, link: &Link) -> Checked {
    let [a, b] = link.between.get_ref();
    for name in [a, b] {
        let name = Spanned::new(link.between.span(), name.clone());
        known(&name, "host", scenario.host.iter().map(|h| h.name.get_ref().as_str()))?;
    }
    if a == b {
        return wrong(&link.between, format!("link `{}` connects `{a}` to itself", link.name.get_ref()));
    }
    if host_count(scenario, a) > 1 && host_count(scenario, b) > 1 {
        return wrong(
            &link.between,
            format!("`{a}` and `{b}` both have `count` > 1: one end of a link must be a single host"),
        );
    }
    within_whole(&link.mtu, "mtu", 256, 9000)?;
    within_whole(&link.offload_segments, "offload_segments", 1, 64)?;
    for way in [link.both.with(&link.forward), link.both.with(&link.reverse)] {
        check_way(scenario, &way)?;
        check_bundles(link, &way)?;
    }
    Ok(())
}

fn check_bundles(link: &Link, way: &Way) -> Checked {
    let lossy = [&way.loss, &way.bit_error].into_iter().flatten().any(|p| p.get_ref().0 > 0.0);
    if lossy && *link.offload_segments.get_ref() > 1 {
        return wrong(
            &link.offload_segments,
            "a link with loss needs `offload_segments = 1`: it drops single packets, not bundles",
        );
    }
    Ok(())
}

fn check_bounds(scenario: &Scenario) -> Checked {
    let has_rate = |way: &Way| way.rate.is_some() || way.radio.is_some();
    let mut ways = scenario.link.iter().flat_map(|link| [link.both.with(&link.forward), link.both.with(&link.reverse)]);
    if *scenario.bounds.get_ref() && !ways.any(|way| has_rate(&way) && way.cell.is_none()) {
        return wrong(
            &scenario.bounds,
            "`bounds` needs a link with a `rate` or a `radio` of its own: it knows the capacity",
        );
    }
    Ok(())
}

fn check_way(scenario: &Scenario, way: &Way) -> Checked {
    if let Some(radio) = &way.radio {
        known(radio, "radio", radios(scenario))?;
        if way.rate.is_some() {
            return wrong(radio, "`radio` and `rate` conflict: the radio sets the rate; remove one");
        }
    }
    if way.rate.is_none() && way.radio.is_none() {
        for (queue, key) in [(&way.queue, "queue"), (&way.mark_above, "mark_above")] {
            if let Some(queue) = queue {
                return wrong(queue, format!("`{key}` needs `rate` or `radio`: a link without a rate has no queue"));
            }
        }
        if let Some(cell) = &way.cell {
            return wrong(cell, "`cell` needs `rate` or `radio`: a link without a rate has no capacity to share");
        }
    }
    if let Some(police) = &way.police
        && matches!(police.get_ref().burst.get_ref(), Queue::Bdp(_))
    {
        return wrong(&police.get_ref().burst, "a policer's `burst` is a size, e.g. `64kB` or `100packets`");
    }
    if let Some(cell) = way.cell.as_ref().filter(|cell| scenario.cells().get(cell.get_ref()) == Some(&1)) {
        return wrong(cell, format!("cell `{}` has only one link: expected at least two", cell.get_ref()));
    }
    for (time, key, most) in [
        (&way.delay_ms, "delay_ms", SLOWEST_MS),
        (&way.jitter_ms, "jitter_ms", MOST_JITTER_MS),
        (&way.reorder_ms, "reorder_ms", SLOWEST_MS),
    ] {
        if let Some(time) = time {
            within(time, key, 0.0, most)?;
        }
    }
    match (&way.reorder, &way.reorder_ms) {
        (Some(reorder), None) => wrong(reorder, "`reorder` needs `reorder_ms`: the extra delay of reordered packets"),
        (None, Some(time)) => wrong(time, "`reorder_ms` needs `reorder`: the share of packets to delay"),
        _ => Ok(()),
    }
}

fn check_flow(scenario: &Scenario, flow: &Flow) -> Checked {
    let hosts = || scenario.host.iter().map(|h| h.name.get_ref().as_str());
    known(&flow.from, "host", hosts())?;
    known(&flow.to, "host", hosts())?;
    if flow.from.get_ref() == flow.to.get_ref() {
        return wrong(&flow.to, "a flow needs two different hosts, but `from` and `to` are the same");
    }
    if host_count(scenario, flow.from.get_ref()) > 1 {
        return wrong(&flow.from, format!("`{}` has `count` > 1: a flow needs a single sender", flow.from.get_ref()));
    }
    within_whole(&flow.count, "count", 1, MOST_FLOWS as u32)?;
    let end = *scenario.duration_s.get_ref();
    let flows = *flow.count.get_ref() * host_count(scenario, flow.to.get_ref());
    let last = flow.start_s + flow.stagger_s * f64::from(flows - 1);
    if !(flow.start_s >= 0.0 && flow.stagger_s >= 0.0 && last < end) {
        return wrong(
            &flow.name,
            format!("flow `{}` starts outside the run of {end} s: its last start is {last} s", flow.name.get_ref()),
        );
    }
    if let Some(stop) = &flow.stop_s {
        within(stop, "stop_s", 0.0, end)?;
        if *stop.get_ref() <= last {
            return wrong(
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
            return wrong(size, "`write_bytes` needs `rate`");
        }
    }
    match (flow.kind, &flow.cc, &flow.rate) {
        (Kind::Tcp, None, _) => wrong(&flow.name, format!("flow `{}` needs `cc`", flow.name.get_ref())),
        (Kind::Udp, Some(cc), _) => wrong(cc, "`cc` does not apply to a UDP flow: UDP has no congestion control"),
        (Kind::Udp, None, None) => wrong(&flow.name, format!("flow `{}` needs `rate`", flow.name.get_ref())),
        (Kind::Udp, None, Some(_)) => Ok(()),
        (Kind::Tcp, Some(cc), _) => check_cc(cc, flow),
    }
}

fn check_cc(cc: &Spanned<String>, flow: &Flow) -> Checked {
    let name = cc.get_ref();
    if let Err(why) = check_cc_name(name) {
        return wrong(cc, why.to_string());
    }
    if !algorithms::is_ours(name) {
        if !algorithms::OF_THE_KERNEL.contains(&name.as_str()) {
            let ours = hotcc_bpf::ALGOS.iter().map(|o| o.name);
            let all: Vec<&str> = ours.chain(algorithms::OF_THE_KERNEL).collect();
            return known(cc, "congestion control", all.into_iter());
        }
        if let Some(profile) = &flow.profile {
            return wrong(profile, format!("`{name}` is a kernel congestion control and has no profiles"));
        }
        if !flow.set.is_empty() {
            return wrong(cc, format!("`{name}` is a kernel congestion control and has no tunables to set"));
        }
        return Ok(());
    }
    check_settings(cc, flow.profile.as_ref(), &flow.set)
}

/// What a flow watches has to be there in a case at least: its congestion control may be swept, and the others have no such
/// field. Returns the case, by its place.
pub(super) fn check_watches(cases: &[Scenario]) -> Result<(), (usize, Wrong)> {
    struct Watched<'a> {
        case: usize,
        field: &'a Spanned<String>,
        /// What could be watched instead.
        fields: BTreeSet<String>,
    }
    let mut states: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut watched: BTreeMap<(usize, &str), Watched<'_>> = BTreeMap::new();
    for (case, scenario) in cases.iter().enumerate() {
        for (place, flow) in scenario.flow.iter().enumerate() {
            let Some(field) = &flow.watch else { continue };
            let key = (place, field.get_ref().as_str());
            let one = watched.entry(key).or_insert(Watched { case, field, fields: BTreeSet::new() });
            if let Some(cc) = &flow.cc {
                let cc = cc.get_ref().as_str();
                one.fields.extend(states.entry(cc).or_insert_with(|| algorithms::state(cc)).iter().cloned());
            }
        }
    }
    for Watched { case, field, fields } in watched.into_values() {
        let checked = if fields.is_empty() {
            wrong(field, "`watch` needs a hotcc algorithm: this flow's congestion control has no state to watch")
        } else {
            known(field, "state field", fields.iter().map(String::as_str))
        };
        checked.map_err(|wrong| (case, wrong))?;
    }
    Ok(())
}

/// What an event swaps or tunes has to be there in a case at least, likewise.
pub(super) fn check_event_ccs(cases: &[Scenario]) -> Result<(), (usize, Wrong)> {
    let in_use: BTreeSet<&str> = cases.iter().flat_map(Scenario::own_ccs).collect();
    for (case, scenario) in cases.iter().enumerate() {
        for cc in scenario.event.iter().filter_map(Event::cc) {
            known(cc, "hotcc algorithm of a flow", in_use.iter().copied()).map_err(|wrong| (case, wrong))?;
        }
    }
    Ok(())
}

fn check_event(scenario: &Scenario, event: &Event) -> Checked {
    within(&event.at_s, "at_s", 0.0, *scenario.duration_s.get_ref())?;
    let links = || scenario.link.iter().map(|l| l.name.get_ref().as_str());
    let hosts = || scenario.host.iter().map(|h| h.name.get_ref().as_str());
    let ours = || hotcc_bpf::ALGOS.iter().map(|o| o.name);
    let mut actions = 0;
    if let Some(swap) = &event.swap {
        actions += 1;
        known(&swap.new, "hotcc algorithm", ours())?;
    }
    if let Some(tune) = &event.tune {
        actions += 1;
        if algorithms::is_ours(tune.cc.get_ref())
            && let Err(why) = algorithms::check_tunables(tune.cc.get_ref(), &tune.set)
        {
            return wrong(&tune.cc, why);
        }
    }
    if let Some(change) = &event.change {
        actions += 1;
        known(&change.link, "link", links())?;
        let Some(link) = scenario.link.iter().find(|l| l.name.get_ref() == change.link.get_ref()) else {
            return Ok(());
        };
        for (base, over) in [(&link.forward, &change.forward), (&link.reverse, &change.reverse)] {
            let changed = change.both.with(over);
            if let Some(queue) = changed.queue.or(changed.mark_above) {
                return wrong(&queue, "`queue` and `mark_above` cannot change during a run");
            }
            if let Some(police) = changed.police {
                return wrong(&police, "`police` cannot change during a run");
            }
            if let Some(cell) = changed.cell {
                return wrong(&cell, "`cell` cannot change during a run");
            }
            let way = link.both.with(base).with(&change.both).with(over);
            check_way(scenario, &way)?;
            check_bundles(link, &way)?;
        }
    }
    if let Some(handover) = &event.handover {
        actions += 1;
        known(&handover.link, "link", links())?;
        known(&handover.radio, "radio", radios(scenario))?;
        if !(0.0..=SLOWEST_MS).contains(&handover.gap_ms) {
            return wrong(&event.at_s, format!("invalid gap_ms `{}`: expected 0 to {SLOWEST_MS}", handover.gap_ms));
        }
    }
    if let Some(route) = &event.route {
        actions += 1;
        for host in [&route.host, &route.to, &route.via] {
            known(host, "host", hosts())?;
        }
    }
    if actions == 1 {
        Ok(())
    } else {
        wrong(&event.at_s, format!("an event needs exactly one of {}, not {actions}", EVENTS.join(", ")))
    }
}
