//! Brings readings from all sources to the map and to other hosts: decides which link a reading belongs to, whether its
//! sender may write it, and which source has precedence.

pub mod sink;
mod spells;

use crate::condition::{Conditioner, Conditioning, DatedReading, Pace, is_used};
use crate::publish::Publisher;
use crate::reading::{Grant, RawReading, Ue};
use crate::reject::{Reject, Rejections};
use hotcc_abi::clock::{monotonic_ns, ms32};
use hotcc_abi::radio::{DEFAULT_MAX_AGE_MS, IndexKey};
use hotcc_host::error::chain;
use hotcc_host::lock;
use hotcc_radio_map::{LinkOptions, LinkWriter, MapError, RadioMap};
use spells::Spells;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The settings of a feed.
#[derive(Debug, Default)]
pub struct Plan {
    /// Links for readings without a name.
    pub links: Vec<IndexKey>,
    /// Names and their links; readings of a name without a link are only sent to other hosts.
    pub ues: Vec<(String, Option<IndexKey>)>,
    /// Prefixes within which readings may name links themselves.
    pub within: Vec<IndexKey>,
    /// The name under which unnamed readings are sent to other hosts.
    pub own_id: Option<String>,
    /// Whether to take links even from a process that still runs.
    pub take_over: bool,
    /// A link that a reading named itself is removed after this long without a reading.
    pub forget_after: Duration,
    /// Maximum number of links that readings name. All sources have equal shares; in a source with keys, so have all
    /// links that its keys name.
    pub max_links: usize,
    /// How readings are conditioned.
    pub conditioning: Conditioning,
}

/// Identifies the quota for new links: the source, and if it has keys, the link that the reading's key names.
type Maker = (usize, Option<IndexKey>);

/// The links that a maker's readings created.
#[derive(Debug, Default)]
struct Made {
    links: usize,
    /// Whether another link was refused for lack of room.
    wants_room: bool,
}

/// One UE.
#[derive(Debug)]
struct Entry {
    id: Option<String>,
    writers: Vec<LinkWriter>,
    /// One element per source, in order of precedence.
    conditioners: Vec<Option<Box<Conditioner>>>,
    /// Source, maximum age and period, as written to the map.
    described: (u8, u32, u32),
    /// When its latest reading arrived, in monotonic ns.
    latest_ns: u64,
    /// The maker whose reading created the link; `None` for links of the plan.
    made_by: Option<Maker>,
}

impl Entry {
    /// Whether readers no longer use its latest reading.
    fn is_stale(&self, now_ns: u64) -> bool {
        let (_, max_age_ms, _) = self.described;
        !is_used(self.latest_ns, max_age_ms.max(DEFAULT_MAX_AGE_MS), now_ns)
    }
}

/// A source, and the counts of its readings.
#[derive(Debug)]
pub struct SourceState {
    /// Its name as the user wrote it, without anything secret.
    pub name: String,
    /// Number of applied readings.
    pub applied: u64,
    /// The rejected readings.
    pub rejections: Rejections,
    /// When the latest applied reading was made, in monotonic ns, and its maximum age in ms.
    pub latest: Option<(u64, u32)>,
    silent: bool,
    /// When its last silence began, in monotonic ns.
    fell_silent_ns: Option<u64>,
    kind: u8,
    pace: Pace,
}

impl SourceState {
    /// Whether readers still use its latest reading.
    #[must_use]
    pub fn is_up(&self, now_ns: u64) -> bool {
        self.latest.is_some_and(|(made_ns, max_age_ms)| is_used(made_ns, max_age_ms, now_ns))
    }
}

/// Takes readings from sources, and publishes them.
#[derive(Debug)]
pub struct Feed {
    plan: Plan,
    map: Option<RadioMap>,
    entries: Vec<Entry>,
    ues: HashMap<String, usize>,
    links: HashMap<IndexKey, usize>,
    made: HashMap<Maker, Made>,
    /// Unused indices of `entries`.
    vacant: Vec<usize>,
    /// When unneeded links were last searched for.
    forgot_ns: u64,
    /// Whether the map has taken no more links since then, because it is full or another command changes links.
    takes_no_links: bool,
    /// The errors of links that readings name.
    link_errors: Spells,
    sources: Vec<SourceState>,
    publishers: Vec<Box<dyn Publisher>>,
    latest: Option<DatedReading>,
    failure: Option<MapError>,
    failed: Arc<Notify>,
}

/// If a source falls silent or resumes within this time after it last fell silent, that is not logged.
const SELDOM_NS: u64 = 10_000_000_000;
/// Time between two searches for unneeded links, and the maximum number removed at once.
const FORGET_EVERY_NS: u64 = 500_000_000;
const FORGET_AT_ONCE: usize = 64;
/// How long a new link waits for another command that changes links. All readings wait meanwhile.
const LIVE_PATIENCE: Duration = Duration::from_millis(100);
/// Index of the entry for readings without a name.
const UNNAMED: usize = 0;

impl Feed {
    /// Takes the links of the plan, all or none: if one cannot be taken, those that were new are removed again.
    ///
    /// # Errors
    /// A link cannot be taken.
    pub fn new(plan: Plan, map: Option<RadioMap>, publishers: Vec<Box<dyn Publisher>>) -> Result<Self, MapError> {
        let mut feed = Self {
            map,
            entries: Vec::new(),
            ues: HashMap::new(),
            links: HashMap::new(),
            made: HashMap::new(),
            vacant: Vec::new(),
            forgot_ns: 0,
            takes_no_links: false,
            link_errors: Spells::default(),
            sources: Vec::new(),
            publishers,
            latest: None,
            failure: None,
            failed: Arc::new(Notify::new()),
            plan: Plan::default(),
        };
        let mut taken = vec![(plan.own_id.clone(), plan.links.clone())];
        taken.extend(plan.ues.iter().map(|(id, link)| (Some(id.clone()), link.iter().copied().collect())));
        let named = plan.ues.iter().enumerate().map(|(i, (id, _))| (id.clone(), i + 1));
        feed.ues = named.collect();
        feed.plan = plan;
        for (id, links) in taken {
            if let Err(e) = feed.add_entry(id, &links) {
                for writer in feed.entries.drain(..).flat_map(|e| e.writers).filter(LinkWriter::is_new) {
                    let key = writer.key();
                    drop(writer);
                    if let Some(Err(e)) = feed.map.as_mut().map(|map| map.remove_link(key, false)) {
                        warn!("{}", chain(&e));
                    }
                }
                return Err(e);
            }
        }
        if let Some(map) = &mut feed.map {
            map.set_patience(LIVE_PATIENCE);
        }
        Ok(feed)
    }

    fn add_entry(&mut self, id: Option<String>, links: &[IndexKey]) -> Result<usize, MapError> {
        // a link that exists keeps its last reading, to which the maximum age applies at once
        let settings = &self.plan.conditioning;
        let max_age_ms = Conditioner::new(settings, Pace::Unknown).max_age_ms(settings);
        let options = LinkOptions { source: 0, max_age_ms, period_ms: 0, take_over: self.plan.take_over };
        let latest_ns = monotonic_ns();
        let entry =
            Entry { id, writers: Vec::new(), conditioners: Vec::new(), described: (0, 0, 0), latest_ns, made_by: None };
        let index = self.vacant.pop().unwrap_or(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(entry);
        } else {
            self.entries[index] = entry;
        }
        let Some(map) = &mut self.map else { return Ok(index) };
        for link in links {
            let writer = map.take_link(*link, &options).inspect_err(|_| self.vacant.push(index))?;
            let found = if writer.is_new() { "added" } else { "already in the radio map" };
            info!("link {link}: {found}, slot {}", writer.slot());
            self.entries[index].writers.push(writer);
            self.links.insert(*link, index);
        }
        Ok(index)
    }

    /// Adds a source, with lower precedence than those added before. `kind` is one of the `SOURCE_*` values.
    pub fn add_source(&mut self, name: String, kind: u8, pace: Pace) -> usize {
        self.sources.push(SourceState {
            name,
            applied: 0,
            rejections: Rejections::default(),
            latest: None,
            silent: false,
            fell_silent_ns: None,
            kind,
            pace,
        });
        self.sources.len() - 1
    }

    /// Processes a reading that arrived at `now_ns`: checks and publishes it, or counts why it is rejected.
    pub fn offer(&mut self, source: usize, ue: Ue<'_>, raw: &RawReading, now_ns: u64) {
        if self.entries.is_empty() {
            return; // shut down; a source task may still deliver a reading
        }
        let outcome = self.entry(source, ue, raw, now_ns).and_then(|entry| self.apply(source, entry, raw, now_ns));
        match outcome {
            Ok(conditioned) => {
                let state = &mut self.sources[source];
                state.applied += 1;
                if conditioned.reading.is_for_algorithms() {
                    state.latest = Some((conditioned.made_ns, conditioned.max_age_ms));
                }
                self.latest = Some(conditioned);
            }
            Err(reason) => self.reject(source, reason, &Offered(ue, raw)),
        }
    }

    /// Counts input that is not a valid reading.
    pub fn reject(&mut self, source: usize, reason: Reject, detail: &dyn Display) {
        let state = &mut self.sources[source];
        state.rejections.add(&state.name, reason, detail);
    }

    fn entry(&mut self, source: usize, ue: Ue<'_>, raw: &RawReading, now_ns: u64) -> Result<usize, Reject> {
        let link = match ue {
            Ue::Unnamed if self.plan.links.is_empty() && self.plan.own_id.is_none() => return Err(Reject::UnknownUe),
            Ue::Unnamed => return Ok(UNNAMED),
            Ue::Id(id) => return self.ues.get(id).copied().ok_or(Reject::UnknownUe),
            Ue::Link(link) if !self.plan.within.iter().any(|p| p.contains(&link)) => return Err(Reject::Forbidden),
            Ue::Link(link) | Ue::Granted(link, _) => link,
        };
        if let Some(entry) = self.links.get(&link) {
            return Ok(*entry);
        }
        raw.check()?; // a link without a valid reading would hide the wider link around it
        let grant = if let Ue::Granted(_, grant) = ue { Some(grant) } else { None };
        self.make_link(source, grant, link, now_ns)
    }

    /// Creates a link that a reading names. A sender can name as many links as there are addresses, so each source has
    /// a share of the links that this feeder may create. After the map was full, it is not tried again until the next
    /// search for unneeded links.
    fn make_link(&mut self, source: usize, grant: Option<Grant>, link: IndexKey, now_ns: u64) -> Result<usize, Reject> {
        let share = self.plan.max_links / (self.sources.len() * grant.map_or(1, |grant| grant.all)).max(1);
        let maker = (source, grant.map(|grant| grant.link));
        let made = self.made.entry(maker).or_default();
        if self.takes_no_links || made.links >= share.max(1) {
            made.wants_room = true;
            return Err(Reject::NoRoom);
        }
        let added = self.add_entry(None, &[link]);
        let index = added.map_err(|e| {
            if self.link_errors.begins(&e, now_ns) {
                warn!("{}", chain(&e));
            }
            // a link that another feeder has says nothing about the others
            self.takes_no_links = !matches!(e, MapError::Owned { .. });
            Reject::NoRoom
        })?;
        self.entries[index].made_by = Some(maker);
        self.made.entry(maker).or_default().links += 1;
        Ok(index)
    }

    /// Removes links that readings created: those without a reading for long, and, while their maker needs room for
    /// others, those whose readings are stale. The oldest are removed first, a few at a time.
    fn forget(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.forgot_ns) < FORGET_EVERY_NS {
            return;
        }
        (self.forgot_ns, self.takes_no_links) = (now_ns, false);
        let long_ns = self.plan.forget_after.as_nanos() as u64;
        let may_go = |entry: &Entry, maker: Maker| {
            let idle_ns = now_ns.saturating_sub(entry.latest_ns);
            idle_ns > long_ns || self.made.get(&maker).is_some_and(|made| made.wants_room) && entry.is_stale(now_ns)
        };
        let mut found: Vec<(u64, IndexKey, usize, Maker)> = Vec::new();
        for (link, &index) in &self.links {
            let entry = &self.entries[index];
            if let Some(maker) = entry.made_by.filter(|maker| may_go(entry, *maker)) {
                found.push((entry.latest_ns, *link, index, maker));
            }
        }
        if found.len() > FORGET_AT_ONCE {
            found.select_nth_unstable_by_key(FORGET_AT_ONCE, |(latest_ns, ..)| *latest_ns);
            found.truncate(FORGET_AT_ONCE);
        }
        for (_, link, index, maker) in found {
            if let Some(Err(e)) = self.map.as_mut().map(|map| map.remove_link(link, false)) {
                if self.link_errors.begins(&e, now_ns) {
                    warn!("{}", chain(&e));
                }
                if !matches!(e, MapError::NoSuchLink { .. } | MapError::Owned { .. }) {
                    break; // the next search tries again
                }
            }
            self.links.remove(&link);
            self.entries[index].writers.clear();
            self.entries[index].made_by = None;
            if let Some(made) = self.made.get_mut(&maker) {
                made.links -= 1;
            }
            self.vacant.push(index);
        }
        self.made.values_mut().for_each(|made| made.wants_room = false);
    }

    fn apply(&mut self, source: usize, entry: usize, raw: &RawReading, now_ns: u64) -> Result<DatedReading, Reject> {
        let settings = &self.plan.conditioning;
        let SourceState { kind, pace, .. } = self.sources[source];
        let entry = &mut self.entries[entry];
        if entry.conditioners.len() <= source {
            entry.conditioners.resize_with(source + 1, || None);
        }
        let conditioner = entry.conditioners[source].get_or_insert_with(|| Box::new(Conditioner::new(settings, pace)));
        let conditioned = conditioner.take(raw, settings, now_ns)?;
        entry.latest_ns = now_ns;
        if entry.conditioners[..source].iter().flatten().any(|before| before.delivers(settings, now_ns)) {
            if conditioned.reading.is_for_algorithms() {
                self.sources[source].latest = Some((conditioned.made_ns, conditioned.max_age_ms)); // it is on standby
            }
            return Err(Reject::Outranked);
        }
        let description = (kind, conditioned.max_age_ms, conditioned.period_ms);
        let made_ms = ms32(conditioned.made_ns);
        for writer in &entry.writers {
            // the age is that of the values that algorithms read
            let described = if entry.described == description || !conditioned.reading.is_for_algorithms() {
                Ok(())
            } else {
                writer.describe(kind, conditioned.max_age_ms, conditioned.period_ms)
            };
            if let Err(e) = described.and_then(|()| writer.publish(&conditioned.reading, made_ms)) {
                self.failure.get_or_insert(e);
                self.failed.notify_one();
                return Ok(conditioned);
            }
        }
        if conditioned.reading.is_for_algorithms() {
            entry.described = description;
        }
        if let Some(id) = &entry.id {
            for publisher in &mut self.publishers {
                publisher.send(id, &conditioned);
            }
        }
        Ok(conditioned)
    }

    /// Does periodic work: removes unneeded links, and logs sources that fell silent or resumed and bursts that ended.
    pub fn tick(&mut self, now_ns: u64) {
        self.forget(now_ns);
        for source in &mut self.sources {
            source.rejections.end_bursts(&source.name);
            let silent = source.latest.is_some() && !source.is_up(now_ns);
            if silent == std::mem::replace(&mut source.silent, silent) {
                continue;
            }
            let since = if silent { source.fell_silent_ns.replace(now_ns) } else { source.fell_silent_ns };
            if since.is_some_and(|then| now_ns - then < SELDOM_NS) {
                continue; // a source that comes and goes all the time is logged once
            }
            match source.latest {
                Some((_, max_age_ms)) if silent => {
                    warn!("{}: no reading for more than {max_age_ms} ms: readers ignore its last one", source.name)
                }
                _ => info!("{}: readings resumed", source.name),
            }
        }
    }

    /// Returns all sources, in order of precedence.
    #[must_use]
    pub fn sources(&self) -> &[SourceState] {
        &self.sources
    }

    /// Returns the publishers, which send readings to other hosts.
    #[must_use]
    pub fn publishers(&self) -> &[Box<dyn Publisher>] {
        &self.publishers
    }

    /// Returns the number of links that are fed.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// Takes the publishers out. The caller must call [`Publisher::finish`], so that they send what they still have.
    pub fn take_publishers(&mut self) -> Vec<Box<dyn Publisher>> {
        std::mem::take(&mut self.publishers)
    }

    /// Returns the reading that was published last.
    #[must_use]
    pub fn latest(&self) -> Option<&DatedReading> {
        self.latest.as_ref()
    }

    /// Ends feeding: releases the links, or removes them from the map.
    ///
    /// # Errors
    /// The error that stopped feeding, or else the first link that cannot be removed.
    pub fn finish(&mut self, remove: bool) -> Result<(), MapError> {
        self.entries.clear();
        for source in &mut self.sources {
            source.rejections.finish(&source.name);
        }
        let links: Vec<IndexKey> = self.links.drain().map(|(link, _)| link).collect();
        let mut removed = Ok(());
        if let Some(map) = self.map.as_mut().filter(|_| remove) {
            map.set_patience(lock::PATIENCE); // no reading waits any more
            removed = links.into_iter().map(|link| map.remove_link(link, false)).fold(Ok(()), Result::and);
        }
        self.failure.take().map_or(removed, Err)
    }
}

/// Formats a reading for a log.
struct Offered<'a>(Ue<'a>, &'a RawReading);

impl Display for Offered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(ue, raw) = self;
        match ue {
            Ue::Unnamed => {}
            Ue::Id(id) => write!(f, "ue {}: ", id.escape_debug())?,
            Ue::Link(link) | Ue::Granted(link, _) => write!(f, "link {link}: ")?,
        }
        if let Some(wrong) = raw.out_of_range() {
            return write!(f, "{wrong}");
        }
        if raw.check() == Err(Reject::Nothing) {
            return write!(f, "it has no value");
        }
        if let Some(sinr_db) = raw.reading.sinr_db {
            write!(f, "SINR {sinr_db} dB, ")?;
        }
        if let Some(bps) = raw.reading.capacity_bps {
            write!(f, "capacity {bps} bit/s, ")?;
        }
        write!(f, "{} ms old", raw.age_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_abi::radio::SOURCE_UDP;
    use hotcc_radio_map::Reading;

    #[test]
    fn a_held_over_reading_gives_way_to_a_live_source() {
        let link = crate::link::parse("10.0.0.0/8").unwrap();
        let conditioning = Conditioning { hold_over: Duration::from_secs(10), ..Conditioning::default() };
        let plan = Plan { links: vec![link], conditioning, ..Plan::default() };
        let mut feed = Feed::new(plan, None, Vec::new()).unwrap();
        let pace = Pace::Expected(Duration::from_millis(100));
        let [first, second] = ["a", "b"].map(|name| feed.add_source(name.to_owned(), SOURCE_UDP, pace));
        let reading = Reading { sinr_db: Some(7.0), ..Reading::default() };
        let raw = RawReading { reading, ..RawReading::default() };
        let now_ns = monotonic_ns();
        feed.offer(first, Ue::Unnamed, &raw, now_ns);
        feed.offer(second, Ue::Unnamed, &raw, now_ns + 100_000_000);
        assert_eq!(feed.sources()[second].applied, 0, "the first source is alive");
        feed.offer(second, Ue::Unnamed, &raw, now_ns + 1_000_000_000);
        assert_eq!(feed.sources()[second].applied, 1, "it is dead, and its reading is only held over");
    }
}
