//! The radio map: which links have a reading, and where it is written.
//!
//! [`RadioMap`] writes, [`RadioView`] only reads. Both work on the maps pinned below a pin root, by default
//! [`hotcc_abi::pins::ROOT`]; nothing is remembered anywhere else, so a feeder that was killed loses nothing.

mod error;
mod owner;
mod pinned;
mod writer;

pub use error::MapError;
pub use writer::{LinkOptions, LinkWriter, Reading};

use aya::maps::lpm_trie::Key;
use aya::maps::{LpmTrie, MapData};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{self, Decision, IndexKey, Slot, effective_max_age_ms};
use hotcc_abi::radio_slots::RadioSlots;
use owner::Owner;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

type Index = LpmTrie<MapData, [u8; 20], u32>;

/// One link and what its line says.
#[derive(Debug, Clone)]
pub struct Link {
    /// Whose readings these are.
    pub key: IndexKey,
    /// Line in `radio_slots`.
    pub slot: u32,
    /// The line, as it was when looked at.
    pub snapshot: Snapshot,
}

/// A copy of one line. Only `decision` is consistent in itself; a feeder may have been writing the rest.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Latest SINR, running average and their time; `None` where no SINR was ever published.
    pub decision: Option<Decision>,
    /// Readings written since the slot was taken.
    pub updates: u64,
    /// Capacity in bit/s.
    pub capacity_bps: Option<u64>,
    /// Reference signal received power in dBm.
    pub rsrp_dbm: Option<f64>,
    /// Reference signal received quality in dB.
    pub rsrq_db: Option<f64>,
    /// Channel quality indicator.
    pub cqi: Option<u8>,
    /// Modulation and coding scheme.
    pub mcs: Option<u8>,
    /// Age beyond which readers ignore the reading, in milliseconds, as they apply it.
    pub max_age_ms: u32,
    /// The source's usual time between readings, in milliseconds.
    pub period_ms: Option<u32>,
    /// One of the `SOURCE_*` values of [`hotcc_abi::radio`].
    pub source: u8,
    /// Process that feeds the link; `None` after it stopped in good order.
    pub owner_pid: Option<u32>,
    owner: Owner,
}

/// What a reader makes of a link's latest reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Young enough to rest decisions on.
    Fresh,
    /// Too old: ignored.
    Stale,
    /// No SINR was ever published.
    Never,
}

impl Snapshot {
    fn of(line: &Slot) -> Self {
        let known = |q8: i32| (q8 != radio::UNKNOWN_Q8).then(|| radio::q8_to_db(q8));
        let nonzero = |n: u32| (n != 0).then_some(n);
        let index = |n: u8| (n != radio::UNKNOWN_U8).then_some(n);
        let capacity = line.capacity_bps.load(Relaxed);
        let owner = Owner::of(line);
        Self {
            decision: Decision::unpack(line.decision.load(Acquire)),
            updates: line.updates.load(Relaxed),
            capacity_bps: (capacity != 0).then_some(capacity),
            rsrp_dbm: known(line.rsrp_q8_dbm.load(Relaxed)),
            rsrq_db: known(line.rsrq_q8_db.load(Relaxed)),
            cqi: index(line.cqi.load(Relaxed)),
            mcs: index(line.mcs.load(Relaxed)),
            max_age_ms: effective_max_age_ms(line.max_age_ms.load(Relaxed)),
            period_ms: nonzero(line.period_ms.load(Relaxed)),
            source: line.source.load(Relaxed),
            owner_pid: nonzero(owner.pid),
            owner,
        }
    }

    /// Age of the reading at `now_ms` in milliseconds; `None` where there is none.
    #[must_use]
    pub fn age_ms(&self, now_ms: u32) -> Option<u32> {
        self.decision.map(|d| d.age_ms(now_ms))
    }

    /// What a reader makes of it at `now_ms`.
    #[must_use]
    pub fn freshness(&self, now_ms: u32) -> Freshness {
        match self.age_ms(now_ms) {
            None => Freshness::Never,
            Some(age) if age <= self.max_age_ms => Freshness::Fresh,
            Some(_) => Freshness::Stale,
        }
    }

    /// Whether the process that feeds the link still runs, as far as can be seen from here: one in another pid or time
    /// namespace reads as gone.
    #[must_use]
    pub fn owner_alive(&self) -> bool {
        self.owner.is_alive()
    }
}

fn index_key(key: IndexKey) -> Key<[u8; 20]> {
    let mut data = [0; 20];
    data.copy_from_slice(&bytemuck::bytes_of(&key)[4..]);
    Key::new(key.prefix_len, data)
}

fn abi_key(key: &Key<[u8; 20]>) -> IndexKey {
    let data = key.data();
    let mut abi = IndexKey { prefix_len: key.prefix_len(), addr: [0; 16], port: [0; 2], pad: [0; 2] };
    abi.addr.copy_from_slice(&data[..16]);
    abi.port.copy_from_slice(&data[16..18]);
    abi
}

/// The radio map, for looking only.
#[derive(Debug)]
pub struct RadioView {
    index: Index,
    slots: Arc<RadioSlots>,
}

impl RadioView {
    /// Opens the maps below `pin_root` for reading.
    ///
    /// # Errors
    /// [`MapError::Absent`] where nobody made them yet; not permitted; made by another version.
    pub fn open(pin_root: &Path) -> Result<Self, MapError> {
        let (index, slots) = pinned::open(pin_root)?.ok_or(MapError::Absent)?;
        let slots = RadioSlots::read_only(slots.fd()).map_err(|e| MapError::mapping(&e))?;
        Ok(Self { index, slots: Arc::new(slots) })
    }

    /// Every link of the index, the longest prefixes first within an address.
    ///
    /// # Errors
    /// The index cannot be walked.
    pub fn links(&self) -> Result<Vec<Link>, MapError> {
        let mut links = Vec::new();
        // A feeder that deletes a link in the middle of the walk makes the kernel start over.
        let mut seen = HashSet::new();
        for entry in self.index.iter() {
            let (key, slot) = entry.map_err(|e| MapError::system("read the radio index", &e))?;
            let key = abi_key(&key);
            if let Some(line) = self.slots.slot(slot)
                && seen.insert(bytemuck::bytes_of(&key).to_vec())
            {
                links.push(Link { key, slot, snapshot: Snapshot::of(line) });
            }
        }
        links.sort_by_key(|l| (l.key.addr, l.key.port, std::cmp::Reverse(l.key.prefix_len)));
        Ok(links)
    }

    /// The slot a flow to `peer` reads: that of the longest matching prefix.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn slot_of(&self, peer: SocketAddr) -> Result<Option<u32>, MapError> {
        let full = IndexKey::port_block(peer.ip(), peer.port(), 16);
        full.map_or(Ok(None), |key| self.longest_match(key))
    }

    /// What line `slot` says now.
    #[must_use]
    pub fn snapshot(&self, slot: u32) -> Option<Snapshot> {
        self.slots.slot(slot).map(Snapshot::of)
    }

    fn longest_match(&self, key: IndexKey) -> Result<Option<u32>, MapError> {
        match self.index.get(&index_key(key), 0) {
            Ok(slot) => Ok(Some(slot)),
            Err(aya::maps::MapError::KeyNotFound) => Ok(None),
            Err(e) => Err(MapError::system("read the radio index", &e)),
        }
    }

    fn generation(&self) -> u32 {
        self.slots.header().generation.load(Acquire)
    }
}

/// The radio map, for feeding it.
#[derive(Debug)]
pub struct RadioMap {
    view: RadioView,
    /// Which prefix leads to each slot, as of the generation beside it.
    prefixes: HashMap<u32, IndexKey>,
    prefixes_of: Option<u32>,
}

impl RadioMap {
    /// Opens the maps below `pin_root`, and makes and pins them where they are missing.
    ///
    /// # Errors
    /// No BPF file system there; not permitted; the kernel lacks a map type; maps of another version.
    pub fn open_or_create(pin_root: &Path) -> Result<Self, MapError> {
        let maps = match pinned::open(pin_root)? {
            Some(maps) => maps,
            None => pinned::create(pin_root)?,
        };
        Self::new(maps)
    }

    /// Opens the maps below `pin_root`.
    ///
    /// # Errors
    /// [`MapError::Absent`] where nobody made them yet; not permitted; made by another version.
    pub fn open(pin_root: &Path) -> Result<Self, MapError> {
        Self::new(pinned::open(pin_root)?.ok_or(MapError::Absent)?)
    }

    fn new((index, slots): (Index, MapData)) -> Result<Self, MapError> {
        let slots = RadioSlots::writable(slots.fd()).map_err(|e| MapError::mapping(&e))?;
        let view = RadioView { index, slots: Arc::new(slots) };
        Ok(Self { view, prefixes: HashMap::new(), prefixes_of: None })
    }

    /// The slot of exactly this prefix. The kernel only finds longest matches; whose slot that is takes a walk, but only
    /// one for each change that somebody else made. Under the lock.
    fn exact(&mut self, key: IndexKey) -> Result<Option<u32>, MapError> {
        let Some(slot) = self.view.longest_match(key)? else { return Ok(None) };
        // A slot that is not known was linked by a process that was killed before it told of that.
        if self.prefixes_of != Some(self.view.generation()) || !self.prefixes.contains_key(&slot) {
            let links = self.view.index.iter().map(|entry| entry.map(|(key, slot)| (slot, abi_key(&key))));
            let links: Result<_, _> = links.collect();
            self.prefixes = links.map_err(|e| MapError::system("read the radio index", &e))?;
            self.prefixes_of = Some(self.view.generation());
        }
        Ok((self.prefixes.get(&slot) == Some(&key)).then_some(slot))
    }

    /// The same map, for looking.
    #[must_use]
    pub fn view(&self) -> &RadioView {
        &self.view
    }

    /// Makes this process the one that feeds `key`: in the slot the link already has (its last value stays, and
    /// ages), or in a new one.
    ///
    /// # Errors
    /// [`MapError::Owned`] where another live process feeds it; index or slots are full; the index cannot be written.
    pub fn take_link(&mut self, key: IndexKey, options: &LinkOptions) -> Result<LinkWriter, MapError> {
        let _lock = pinned::lock()?;
        let owner = Owner::this();
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
            && let Err(e) = self.view.index.insert(&index_key(key), slot, 0)
        {
            Owner::clear(line);
            line.state.store(radio::STATE_FREE, Release);
            return Err(MapError::inserting(&e));
        }
        self.prefixes.insert(slot, key);
        // Also for a link that was there: who added it may have been killed before saying so.
        self.bump_generation();
        Ok(LinkWriter::new(Arc::clone(&self.view.slots), key, slot, owner, existing.is_none()))
    }

    /// Takes `key` out of the map. Flows fall back to the next shorter prefix, or to none. Drop this process's own
    /// writer of the link first: other processes' writers notice, by the owner in the slot.
    ///
    /// # Errors
    /// [`MapError::NoSuchLink`]; [`MapError::Owned`] where another live process feeds it and `take_over` is not set.
    pub fn remove_link(&mut self, key: IndexKey, take_over: bool) -> Result<(), MapError> {
        let _lock = pinned::lock()?;
        let slot = self.exact(key)?.ok_or(MapError::NoSuchLink { link: key })?;
        let slots = Arc::clone(&self.view.slots);
        let line = slots.slot(slot);
        if let Some(line) = line {
            refuse_if_owned(line, key, Owner::this(), take_over)?;
        }
        self.view.index.remove(&index_key(key)).map_err(|e| MapError::system("write the radio index", &e))?;
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
        self.rested_slot().ok_or(MapError::NoFreeSlot)
    }

    /// A free slot that has rested: a reader may still hold a freed one for as long as it believes its reading.
    fn rested_slot(&self) -> Option<u32> {
        let now = monotonic_ms32();
        let rested = |line: &Slot| {
            let freed = line.freed_ms.load(Relaxed);
            freed == 0 || now.wrapping_sub(freed) > effective_max_age_ms(line.max_age_ms.load(Relaxed))
        };
        (1..radio::SLOTS).find(|i| {
            let line = self.view.slots.slot(*i);
            line.is_some_and(|l| l.state.load(Acquire) == radio::STATE_FREE && rested(l))
        })
    }

    /// Gives back what commands lost that were killed between slot and index: slots taken, but in no link and by no
    /// live process. When they left the index is not known; readers believe their last reading, so they rest from there.
    fn reclaim(&mut self) -> Result<(), MapError> {
        let mut linked = HashSet::new();
        for entry in self.view.index.iter() {
            let (_, slot) = entry.map_err(|e| MapError::system("read the radio index", &e))?;
            linked.insert(slot);
        }
        let mut alive = HashMap::new(); // few owners, each asked after once
        let mut abandoned = |line: &Slot| {
            let owner = Owner::of(line);
            !*alive.entry(owner).or_insert_with(|| owner.is_alive())
        };
        let slots = Arc::clone(&self.view.slots);
        let unlinked = (1..radio::SLOTS).filter(|i| !linked.contains(i)).filter_map(|i| slots.slot(i));
        let lost = unlinked.filter(|l| l.state.load(Acquire) == radio::STATE_TAKEN && abandoned(l));
        self.bump_generation(); // before they are free: a killed removal may not have come to it
        for line in lost {
            let last = Decision::unpack(line.decision.load(Acquire));
            give_back(line, last.map_or(0, |d| d.time_ms.max(1)));
        }
        Ok(())
    }

    /// What is known of the index stays known: the change is ours.
    fn bump_generation(&mut self) {
        let before = self.view.slots.header().generation.fetch_add(1, Release);
        if self.prefixes_of == Some(before) {
            self.prefixes_of = Some(before.wrapping_add(1));
        }
    }
}

/// Makes a line free that rests from `freed_ms`; 0: it needs no rest.
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
