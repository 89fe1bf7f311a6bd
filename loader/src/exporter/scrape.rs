//! Gathers the parts of the metrics page.

use super::metrics::{Algorithm, Link, Links, MAX_OTHER_NAMES, PARTS, Snapshot, by_label};
use crate::registry::{Algo, counters};
use crate::sockets::count::{FlowCounter, Group};
use crate::{canary, policy, rx};
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_radio_map::Freshness;
use std::path::Path;
use std::time::Instant;

/// Gathers snapshots, and keeps the socket iterator loaded between them.
#[derive(Debug)]
pub struct Scraper {
    max_links: usize,
    flows: Option<FlowCounter>,
    errors: [u64; PARTS.len()],
}

impl Scraper {
    /// Creates a scraper that shows at most `max_links` radio links.
    #[must_use]
    pub fn new(max_links: usize) -> Self {
        Self { max_links, flows: None, errors: [0; PARTS.len()] }
    }

    /// Reads everything now. The sockets take the longest, so a thread counts them while this one reads the rest.
    pub fn scrape(&mut self) -> Snapshot {
        let started = Instant::now();
        let Self { max_links, flows, errors } = self;
        let (groups, algorithms, stats, radio, commands, rx, policy, canary) = std::thread::scope(|threads| {
            let walk = threads.spawn(|| twice(|| count_sockets(flows)));
            let (algorithms, stats) = (twice(algorithms), twice(stats));
            let (radio, commands) = (twice(|| links(*max_links)), twice(counters::counters));
            let (rx, policy) = (twice(rx::counters), twice(policy::rules_and_figures));
            let canary = twice(canary::read_status);
            let groups = walk.join().unwrap_or_else(|_| Err(Error::failed("counting the sockets panicked")));
            (groups, algorithms, stats, radio, commands, rx, policy, canary)
        });
        let algorithms = kept(errors, 0, algorithms);
        let stats = kept(errors, 1, stats);
        let groups = kept(errors, 2, groups);
        let radio = kept(errors, 3, radio);
        let commands = kept(errors, 4, commands);
        let rx = kept(errors, 5, rx).flatten();
        let policy = kept(errors, 6, policy);
        let canary = kept(errors, 7, canary);
        let sockets = algorithms.as_ref().and_then(|ours| Some(by_label(&groups?, ours, MAX_OTHER_NAMES)));
        Snapshot {
            algorithms,
            stats,
            sockets,
            radio,
            commands,
            rx,
            policy,
            canary,
            errors: *errors,
            duration: started.elapsed(),
        }
    }
}

/// Tries twice: a command may have removed what was being read, and a socket iterator may have become unusable.
fn twice<T>(mut gather: impl FnMut() -> Result<T>) -> Result<T> {
    gather().or_else(|_| gather())
}

/// Returns the part; if it could not be read, counts and logs the error.
fn kept<T>(errors: &mut [u64; PARTS.len()], part: usize, result: Result<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            errors[part] += 1;
            tracing::error!(part = PARTS[part], "omitted from this scrape: {error:#}");
        })
        .ok()
}

fn count_sockets(flows: &mut Option<FlowCounter>) -> Result<Vec<Group>> {
    let mut counter = match flows.take() {
        Some(counter) => counter,
        None => FlowCounter::new()?,
    };
    counter.add_up_states()?;
    let groups = counter.count()?;
    *flows = Some(counter); // a counter that failed is not reused
    Ok(groups)
}

fn links(max_shown: usize) -> Result<Links> {
    let mut links = hotcc_radio_map::links(Path::new(pins::ROOT)).tried(|| "cannot list the radio links".to_owned())?;
    links.sort_unstable_by_key(|l| (l.key.addr, l.key.port, l.key.prefix_len));
    let shown = links.iter().take(max_shown).map(link).collect();
    Ok(Links { shown, total: links.len() })
}

fn link(link: &hotcc_radio_map::Link) -> Link {
    let s = &link.snapshot;
    let is_used = s.used_freshness(s.taken_ms) == Freshness::Fresh;
    Link {
        key: link.key,
        sinr_db: s.sinr_db(),
        average_db: s.average_db(),
        age_ms: s.latest_age_ms(s.taken_ms),
        fresh: (is_used || s.owner_pid.is_some()).then_some(is_used),
        updates: s.updates,
        capacity_bps: s.capacity.map(|c| c.bps()),
        capacity_age_ms: s.capacity.map(|c| c.age_ms(s.taken_ms)),
        cell: s.cell,
    }
}

pub(super) fn algorithms() -> Result<Vec<Algorithm>> {
    let mut found = Vec::new();
    for algo in Algo::all()? {
        let Some(current) = algo.current()? else { continue };
        let meta = current.meta()?;
        // until the switch is finished, the time and the count of the version are not those of now
        let finished = (meta.committed != 0).then_some(&meta);
        found.push(Algorithm {
            name: algo.name,
            map_id: current.map_id,
            object: text(&meta.object),
            profile: text(&meta.profile),
            since_unix_ns: finished.map(|m| m.since_unix_ns),
            swaps: finished.map(|m| m.swaps),
        });
    }
    Ok(found)
}

fn stats() -> Result<Vec<(String, AlgoStats)>> {
    let mut found = Vec::new();
    for algo in Algo::all()? {
        found.extend(algo.stats()?.map(|stats| (algo.name, stats)));
    }
    Ok(found)
}
