//! Feeding the radio map: takes links, and removes them.

use crate::error::MapError;
use crate::index::Index;
use crate::owner::Owner;
use crate::pinned;
use crate::share::share_with_feeders;
use crate::slots::RadioSlots;
use crate::view::RadioView;
use crate::writer::{self, LinkOptions, LinkWriter};
use aya::maps::MapData;
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::pins;
use hotcc_abi::radio::{self, Capacity, IndexKey, PackedSinr, Slot, effective_max_age_ms};
use hotcc_host::lock;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Maximum number of abandoned links that one eviction removes.
const EVICTED_AT_ONCE: usize = 64;

/// The radio map, for feeders.
#[derive(Debug)]
pub struct RadioMap {
    view: RadioView,
    /// The prefix of each slot, as of generation `prefixes_of`.
    prefixes: HashMap<u32, IndexKey>,
    prefixes_of: Option<u32>,
    /// For each slot that this process took, whether its writers have lost it: the slot's owner does not distinguish
    /// two links of one process.
    lost: HashMap<u32, (IndexKey, Arc<AtomicBool>)>,
    /// How long to wait for another command that changes links.
    patience: Duration,
}

impl RadioMap {
    /// Opens the maps below `pin_root`; creates and pins them if they are missing.
    ///
    /// # Errors
    /// Fails if there is no BPF file system, if a permission is missing, if the kernel lacks a map type, or if the maps
    /// have another version.
    pub fn open_or_create(pin_root: &Path) -> Result<Self, MapError> {
        let maps = match pinned::open(pin_root)? {
            Some(maps) => maps,
            None => pinned::create(pin_root)?,
        };
        if pin_root == Path::new(pins::ROOT) {
            share_with_feeders().map_err(|e| MapError::system("share the radio map with group hotcc", e))?;
        }
        Self::new(maps)
    }

    /// Opens the maps below `pin_root`.
    ///
    /// # Errors
    /// [`MapError::Absent`] if the maps do not exist yet; also fails if a permission is missing, or if the maps have
    /// another version.
    pub fn open(pin_root: &Path) -> Result<Self, MapError> {
        Self::new(pinned::open(pin_root)?.ok_or(MapError::Absent)?)
    }

    fn new((index, slots): (Index, MapData)) -> Result<Self, MapError> {
        let slots = RadioSlots::writable(slots.fd()).map_err(MapError::mapping)?;
        let view = RadioView { index, slots: Arc::new(slots) };
        Ok(Self { view, prefixes: HashMap::new(), prefixes_of: None, lost: HashMap::new(), patience: lock::PATIENCE })
    }

    /// Returns the slot of exactly this prefix. The kernel only finds longest matches; to find which prefix a slot
    /// belongs to, this walks the index, but only once per change by another process. Call it with the lock held.
    fn exact(&mut self, key: IndexKey) -> Result<Option<u32>, MapError> {
        let Some(slot) = self.view.index.longest_match(key)? else { return Ok(None) };
        // If the slot is unknown, a process that added it was killed before it changed the generation.
        if self.prefixes_of != Some(self.view.generation()) || !self.prefixes.contains_key(&slot) {
            let entries = self.view.index.entries();
            self.prefixes = entries.map(|entry| entry.map(|(key, slot)| (slot, key))).collect::<Result<_, _>>()?;
            self.prefixes_of = Some(self.view.generation());
        }
        Ok((self.prefixes.get(&slot) == Some(&key)).then_some(slot))
    }

    /// Sets how long to wait for another command that changes links; 10 s at first.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Returns the same map for reading.
    #[must_use]
    pub fn view(&self) -> &RadioView {
        &self.view
    }

    /// Makes this process the feeder of `key`, in the slot that the link already has (its last value stays, and ages),
    /// or in a new one.
    ///
    /// # Errors
    /// [`MapError::Owned`] if another live process feeds it; also fails if index or slots are full, or if the index
    /// cannot be written.
    pub fn take_link(&mut self, key: IndexKey, options: &LinkOptions) -> Result<LinkWriter, MapError> {
        let _lock = pinned::lock(self.patience)?;
        let owner = Owner::current();
        let existing = self.exact(key)?;
        let slot = match existing {
            Some(slot) => slot,
            None => self.free_slot()?,
        };
        let line = self.view.slots.slot(slot).ok_or(MapError::NoFreeSlot)?;
        if existing.is_some() {
            refuse_if_owned(line, key, owner, options.take_over)?;
        } else {
            writer::reset(line);
        }
        line.max_age_ms.store(options.max_age_ms.min(radio::MAX_AGE_LIMIT_MS), Relaxed);
        line.period_ms.store(options.period_ms, Relaxed);
        line.source.store(options.source, Relaxed);
        owner.claim(line);
        line.state.store(radio::STATE_TAKEN, Release);
        if existing.is_none()
            && let Err(e) = self.view.index.insert(key, slot)
        {
            Owner::clear(line);
            line.state.store(radio::STATE_FREE, Release);
            return Err(e);
        }
        self.prefixes.insert(slot, key);
        // Also for an existing link: the process that added it may have been killed before it changed the generation.
        self.bump_generation();
        let (of, lost) = self.lost.entry(slot).or_insert_with(|| (key, Arc::default()));
        if existing.is_none() || *of != key {
            lost.store(true, Relaxed);
            (*of, *lost) = (key, Arc::default());
        }
        let lost = Arc::clone(lost);
        Ok(LinkWriter::new(Arc::clone(&self.view.slots), key, slot, owner, existing.is_none(), lost))
    }

    /// Removes `key` from the map. Flows fall back to the next shorter prefix, or to none. Drop this process's own
    /// writer of the link before it takes another one; writers of other processes notice the removal by the owner in
    /// the slot.
    ///
    /// # Errors
    /// [`MapError::NoSuchLink`]; [`MapError::Owned`] if another live process feeds it and `take_over` is not set.
    pub fn remove_link(&mut self, key: IndexKey, take_over: bool) -> Result<(), MapError> {
        let _lock = pinned::lock(self.patience)?;
        let slot = self.exact(key)?.ok_or(MapError::NoSuchLink { link: key })?;
        let slots = Arc::clone(&self.view.slots);
        let line = slots.slot(slot);
        if let Some(line) = line {
            refuse_if_owned(line, key, Owner::current(), take_over)?;
        }
        self.view.index.remove(key)?;
        self.prefixes.remove(&slot);
        self.bump_generation();
        if let Some(line) = line {
            give_back(line, monotonic_ms32().max(1));
        }
        Ok(())
    }

    fn free_slot(&mut self) -> Result<u32, MapError> {
        if let Some(slot) = self.rested_slot() {
            return Ok(slot);
        }
        self.reclaim()?;
        if let Some(slot) = self.rested_slot() {
            return Ok(slot);
        }
        self.evict()?;
        self.rested_slot().ok_or(MapError::NoFreeSlot)
    }

    /// Evicts links that no live process feeds and no reader uses any more: the oldest first, up to
    /// [`EVICTED_AT_ONCE`].
    fn evict(&mut self) -> Result<(), MapError> {
        let (now_ms, slots) = (monotonic_ms32(), Arc::clone(&self.view.slots));
        let mut alive = HashMap::new();
        let mut abandoned = Vec::new();
        for entry in self.view.index.entries() {
            let (key, slot) = entry?;
            let Some(line) = slots.slot(slot) else { continue };
            let owner = Owner::of(line);
            let age_ms = latest_ms(line, now_ms).map_or(u32::MAX, |(age_ms, _)| age_ms);
            if age_ms > radio::MAX_AGE_LIMIT_MS && !*alive.entry(owner).or_insert_with(|| owner.is_alive()) {
                abandoned.push((age_ms, key, slot));
            }
        }
        abandoned.sort_unstable_by_key(|(age_ms, ..)| std::cmp::Reverse(*age_ms));
        abandoned.truncate(EVICTED_AT_ONCE);
        for (_, key, slot) in &abandoned {
            self.view.index.remove(*key)?;
            self.prefixes.remove(slot);
        }
        self.bump_generation();
        for line in abandoned.iter().filter_map(|(.., slot)| slots.slot(*slot)) {
            give_back(line, 0); // no reader uses its reading, so it needs no quarantine
        }
        Ok(())
    }

    /// Returns a free slot whose quarantine is over: a reader may still use a freed slot until its reading becomes
    /// stale.
    fn rested_slot(&self) -> Option<u32> {
        let now = monotonic_ms32();
        let quarantined = |line: &Slot| {
            let freed = line.freed_ms.load(Relaxed);
            freed == 0 || now.wrapping_sub(freed) > effective_max_age_ms(line.max_age_ms.load(Relaxed))
        };
        (1..radio::SLOTS).find(|i| {
            let line = self.view.slots.slot(*i);
            line.is_some_and(|l| l.state.load(Acquire) == radio::STATE_FREE && quarantined(l))
        })
    }

    /// Frees slots that commands lost because they were killed between the changes of slot and index: slots that are
    /// taken, but belong to no link and to no live process. The time of their removal from the index is not known.
    /// Their quarantine starts at their last reading, because readers use that until it is stale.
    fn reclaim(&mut self) -> Result<(), MapError> {
        let mut linked = HashSet::new();
        for entry in self.view.index.entries() {
            linked.insert(entry?.1);
        }
        let mut alive = HashMap::new(); // there are few owners, and each is checked once
        let mut abandoned = |line: &Slot| {
            let owner = Owner::of(line);
            !*alive.entry(owner).or_insert_with(|| owner.is_alive())
        };
        let slots = Arc::clone(&self.view.slots);
        let unlinked = (1..radio::SLOTS).filter(|i| !linked.contains(i)).filter_map(|i| slots.slot(i));
        let lost = unlinked.filter(|l| l.state.load(Acquire) == radio::STATE_TAKEN && abandoned(l));
        self.bump_generation(); // before the slots are free, because a killed removal may not have done this
        let now_ms = monotonic_ms32();
        for line in lost {
            give_back(line, latest_ms(line, now_ms).map_or(0, |(_, time_ms)| time_ms.max(1)));
        }
        Ok(())
    }

    /// Increments the generation. `prefixes` stays valid, because this process made the change.
    fn bump_generation(&mut self) {
        let before = self.view.slots.header().generation.fetch_add(1, Release);
        if self.prefixes_of == Some(before) {
            self.prefixes_of = Some(before.wrapping_add(1));
        }
    }
}

/// Returns age and time of the latest SINR or capacity, whichever is newer.
fn latest_ms(line: &Slot, now_ms: u32) -> Option<(u32, u32)> {
    let sinr = PackedSinr::unpack(line.sinr.load(Acquire)).map(|d| (d.age_ms(now_ms), d.time_ms));
    let capacity = Capacity::unpack(line.capacity.load(Acquire)).map(|c| (c.age_ms(now_ms), c.time_ms));
    sinr.into_iter().chain(capacity).min()
}

/// Frees a line. Its quarantine starts at `freed_ms`; 0: no quarantine.
fn give_back(line: &Slot, freed_ms: u32) {
    line.freed_ms.store(freed_ms, Relaxed);
    Owner::clear(line);
    line.state.store(radio::STATE_FREE, Release);
}

fn refuse_if_owned(line: &Slot, key: IndexKey, this: Owner, take_over: bool) -> Result<(), MapError> {
    let owner = Owner::of(line);
    if !take_over && owner != this && owner.is_alive() {
        return Err(MapError::Owned { link: key, pid: owner.pid });
    }
    Ok(())
}
