//! The data of the page: what the kernel has now, collected only on request.

use super::scrape::algorithms;
use crate::canary::{self, Status};
use crate::live::{Flow, Link, links, paced, with_signal};
use crate::policy::{self, ShownRule, figures::RuleStats};
use crate::sockets::flows::{Connection, FlowLister};
use hotcc_abi::clock::monotonic_ns;
use hotcc_host::error::{Error, Result, Tried};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Changes when a field is removed or gets another meaning. The page compares it with its own.
const SCHEMA: u32 = 1;
/// Shortest time between samples.
const PERIOD: Duration = Duration::from_secs(1);
/// Most connections in a sample: those with the highest delivery rates.
const MAX_FLOWS: usize = 1000;

/// Makes samples, at most one per period.
pub(super) struct Live {
    max_links: usize,
    lister: Option<FlowLister>,
    latest: Option<Made>,
}

struct Made {
    began: Instant,
    period: Duration,
    json: String,
}

/// A sample. Each part is `None` if it could not be read; `errors` then has the reason.
#[derive(Default, Serialize)]
struct Sample {
    schema: u32,
    version: &'static str,
    /// Time of the sample, CLOCK_MONOTONIC.
    time_ms: u64,
    /// Time after which there will be another sample.
    period_ms: u64,
    connections: Option<First<Flow>>,
    algorithms: Option<Vec<Algorithm>>,
    links: Option<First<Link>>,
    rules: Option<Vec<Rule>>,
    canary: Option<Status>,
    pep: Option<Pep>,
    errors: BTreeMap<&'static str, String>,
}

/// The first of a list, and the length of the whole list.
#[derive(Serialize)]
struct First<T> {
    total: usize,
    first: Vec<T>,
}

/// A congestion control. What only hotcc records is `None` for those that it did not load, or if it is not known.
#[derive(Default, Serialize)]
struct Algorithm {
    name: String,
    object: Option<String>,
    profile: Option<String>,
    since_unix_s: Option<u64>,
    swaps: Option<u64>,
    /// Open connections.
    connections: u64,
    /// Open connections that run a version that a swap replaced.
    older: u64,
}

/// A policy rule, and what those of its connections did that have ended.
#[derive(Serialize)]
struct Rule {
    #[serde(flatten)]
    shown: ShownRule,
    ended: Option<RuleStats>,
}

/// Reports of border PEPs on open connections.
#[derive(Default, Serialize)]
struct Pep {
    /// Connections with a report.
    connections: usize,
    /// Age of the newest report.
    newest_ms: Option<u64>,
    /// Least and largest RTT between this host and a PEP.
    least_rtt_us: Option<u32>,
    largest_rtt_us: Option<u32>,
}

impl Live {
    pub(super) fn new(max_links: usize) -> Self {
        Self { max_links, lister: None, latest: None }
    }

    /// Returns the latest sample, or makes a new one if it is older than its period.
    pub(super) fn json(&mut self) -> Result<String> {
        if let Some(made) = self.latest.as_ref().filter(|made| made.began.elapsed() < made.period) {
            return Ok(made.json.clone());
        }
        let began = Instant::now();
        let (mut sample, period) = paced(PERIOD, || self.sample())?;
        sample.period_ms = period.as_millis() as u64;
        let json = serde_json::to_string(&sample).tried(|| "cannot encode the sample".to_owned())?;
        self.latest = Some(Made { began, period, json: json.clone() });
        Ok(json)
    }

    fn sample(&mut self) -> Sample {
        let mut sample = Sample { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), ..Sample::default() };
        let mut errors = BTreeMap::new();
        let mut failed = |part, error: &Error| drop(errors.insert(part, format!("{error:#}")));
        let listed = self.list();
        sample.time_ms = monotonic_ns() / 1_000_000;
        match listed {
            Ok(connections) => {
                sample.pep = Some(Pep::of(&connections));
                match by_name(&connections) {
                    Ok(algorithms) => sample.algorithms = Some(algorithms),
                    Err(error) => failed("algorithms", &error),
                }
                match fastest(connections) {
                    Ok(first) => sample.connections = Some(first),
                    Err(error) => failed("connections", &error),
                }
            }
            // the other two are made from the connections
            Err(error) => ["algorithms", "connections", "pep"].into_iter().for_each(|part| failed(part, &error)),
        }
        match links() {
            Ok(all) => sample.links = Some(First::of(all, self.max_links)),
            Err(error) => failed("links", &error),
        }
        match policy::rules_and_figures() {
            Ok((shown, stats)) => {
                let mut ended = stats.rules.into_iter();
                let rule = |shown| Rule { shown, ended: ended.next() };
                sample.rules = Some(shown.rules.into_iter().map(rule).collect());
            }
            Err(error) => failed("rules", &error),
        }
        match canary::read_status() {
            Ok(status) => sample.canary = Some(status),
            Err(error) => failed("canary", &error),
        }
        sample.errors = errors;
        sample
    }

    fn list(&mut self) -> Result<Vec<Connection>> {
        let lister = match self.lister.take().filter(|lister| !lister.is_outdated()) {
            Some(lister) => lister,
            None => FlowLister::without_state("hotcc exporter")?,
        };
        let connections = lister.list()?;
        self.lister = Some(lister); // one that failed is not reused
        Ok(connections)
    }
}

impl<T> First<T> {
    fn of(mut all: Vec<T>, most: usize) -> Self {
        let total = all.len();
        all.truncate(most);
        Self { total, first: all }
    }
}

fn fastest(mut connections: Vec<Connection>) -> Result<First<Flow>> {
    connections.sort_by_key(|c| Reverse(c.delivery_bps));
    let First { total, first } = First::of(connections, MAX_FLOWS);
    Ok(First { total, first: with_signal(first)? })
}

fn by_name(connections: &[Connection]) -> Result<Vec<Algorithm>> {
    let mut found = BTreeMap::new();
    for ours in algorithms()? {
        let algorithm = Algorithm {
            name: ours.name.clone(),
            object: Some(ours.object),
            profile: Some(ours.profile),
            since_unix_s: ours.since_unix_ns.map(|ns| ns / 1_000_000_000),
            swaps: ours.swaps,
            ..Algorithm::default()
        };
        found.insert(ours.name, algorithm);
    }
    for c in connections {
        let unknown = || Algorithm { name: c.cc.clone(), ..Algorithm::default() };
        let algorithm = found.entry(c.cc.clone()).or_insert_with(unknown);
        algorithm.connections += 1;
        algorithm.older += u64::from(c.version == "older");
    }
    Ok(found.into_values().collect())
}

impl Pep {
    fn of(connections: &[Connection]) -> Self {
        let reports = || connections.iter().filter_map(|c| c.pep.as_ref());
        Self {
            connections: reports().count(),
            newest_ms: reports().map(|r| r.age_ms).min(),
            least_rtt_us: reports().filter_map(|r| r.rtt_us).min(),
            largest_rtt_us: reports().filter_map(|r| r.rtt_us).max(),
        }
    }
}
