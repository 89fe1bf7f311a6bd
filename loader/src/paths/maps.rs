//! The pinned maps `path_gen` and `path_clock`.
//!
//! Each change gets a generation number that no path had before, and the clock gets this number, too: whichever entry
//! matches a flow's destination after a change, its number differs from the one before. The clock is written last, so
//! that no flow reads its entry before the entry is written.

use crate::registry;
use hotcc_abi::path::{ENTRIES, PathKey};
use hotcc_abi::pins::{self, PATH_CLOCK, PATH_GEN, PATH_LOCK};
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::lock::{self, Lock};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, ObjectBuilder};
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const CLOCK_KEY: [u8; 4] = [0; 4];

/// Both maps.
#[derive(Debug)]
pub struct PathMaps {
    generations: MapHandle,
    clock: MapHandle,
}

/// The contents of the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// Generation of the latest change, 0 before the first; `None` if the maps do not exist yet.
    pub clock: Option<u32>,
    /// Generation of each known destination.
    #[serde(serialize_with = "as_list")]
    pub paths: BTreeMap<PathKey, u32>,
}

/// The destinations of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Those that get a new generation.
    pub changed: BTreeSet<PathKey>,
    /// Those within them whose path did not change: they keep their generation.
    pub kept: BTreeSet<PathKey>,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bumped {
    /// Generation that the destinations have now.
    pub generation: u32,
    /// Number of destinations that were given it.
    pub destinations: usize,
    /// Whether all paths were reported as changed, because the map has no room for so many.
    pub everything: bool,
}

fn as_list<S: Serializer>(paths: &BTreeMap<PathKey, u32>, to: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry {
        prefix: String,
        generation: u32,
    }
    to.collect_seq(paths.iter().map(|(key, &generation)| Entry { prefix: key.to_string(), generation }))
}

/// Returns the contents of the maps.
pub fn paths() -> Result<Paths> {
    let Some(maps) = PathMaps::open()? else { return Ok(Paths::default()) };
    Ok(Paths { clock: Some(maps.clock()?), paths: maps.generations()? })
}

/// Reports a path change to a destination, and to all known destinations within it.
pub fn bump(prefix: PathKey) -> Result<Bumped> {
    PathMaps::open_or_create()?.bump(|known| {
        let within = known.keys().copied().filter(|&key| prefix.covers(key));
        Chosen { changed: within.chain([prefix]).collect(), ..Chosen::default() }
    })
}

impl PathMaps {
    /// Opens the maps; returns `None` if one does not exist.
    pub fn open() -> Result<Option<Self>> {
        registry::need_bpffs()?;
        let generations = open_pin(PATH_GEN, MapType::LpmTrie, [size_of::<PathKey>() as u32, 4, ENTRIES])?;
        let clock = open_pin(PATH_CLOCK, MapType::Array, [4, 4, 1])?;
        Ok(generations.zip(clock).map(|(generations, clock)| Self { generations, clock }))
    }

    /// Opens the maps, and creates those that are missing.
    pub fn open_or_create() -> Result<Self> {
        if let Some(maps) = Self::open()? {
            return Ok(maps);
        }
        bpffs::make(Path::new(pins::SIGNAL))?;
        let tried = || "cannot create the path maps".to_owned();
        let embedded =
            hotcc_bpf::prog("path_maps").ok_or_else(|| Error::failed("the object path_maps is not built in"))?;
        let mut open = ObjectBuilder::default().open_memory(embedded.bytes).tried(tried)?;
        for mut map in open.maps_mut() {
            let pin = pins::signal(&map.name().to_string_lossy());
            map.set_pin_path(pin).tried(tried)?;
        }
        open.load().tried(tried)?;
        Self::open()?.ok_or_else(|| Error::failed("another process removed the path maps as soon as they were created"))
    }

    /// Returns the generation of the latest change; 0 before the first.
    pub fn clock(&self) -> Result<u32> {
        let value = self.clock.lookup(&CLOCK_KEY, MapFlags::empty()).tried(|| cannot("read", PATH_CLOCK))?;
        Ok(value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok()).unwrap_or(0))
    }

    /// Returns the generation of each known destination.
    pub fn generations(&self) -> Result<BTreeMap<PathKey, u32>> {
        let mut found = BTreeMap::new();
        // the walk is bounded, because the kernel may restart it while another command changes the map
        for key in self.generations.keys().take(2 * ENTRIES as usize) {
            let value = self.generations.lookup(&key, MapFlags::empty()).tried(|| cannot("read", PATH_GEN))?;
            let generation = value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok());
            if let (Ok(key), Some(generation)) = (bytemuck::try_pod_read_unaligned(&key), generation) {
                found.insert(key, generation);
            }
        }
        Ok(found)
    }

    /// Gives a new generation to the destinations that `choose` returns, given those that have one already. If it
    /// returns none, nothing changes.
    pub fn bump(&self, choose: impl FnOnce(&BTreeMap<PathKey, u32>) -> Chosen) -> Result<Bumped> {
        let _lock = lock()?;
        let (known, clock) = (self.generations()?, self.clock()?);
        let chosen = choose(&known);
        if chosen.changed.is_empty() {
            return Ok(Bumped { generation: clock, destinations: 0, everything: false });
        }
        let generation = next_generation(clock, &known, &chosen.changed);
        let changes = planned(&known, &chosen, generation);
        for key in &changes.removed {
            self.generations.delete(bytemuck::bytes_of(key)).tried(|| cannot("write", PATH_GEN))?;
        }
        for (key, value) in &changes.written {
            let (key, value) = (bytemuck::bytes_of(key), value.to_ne_bytes());
            self.generations.update(key, &value, MapFlags::ANY).tried(|| cannot("write", PATH_GEN))?;
        }
        let clock = generation.to_ne_bytes();
        self.clock.update(&CLOCK_KEY, &clock, MapFlags::ANY).tried(|| cannot("write", PATH_CLOCK))?;
        let destinations = changes.written.values().filter(|&&value| value == generation).count();
        Ok(Bumped { generation, destinations, everything: changes.everything })
    }
}

/// Returns the generation that a flow to this destination finds.
fn generation_of(known: &BTreeMap<PathKey, u32>, destination: PathKey) -> u32 {
    let found = (0..=destination.prefix_len).rev().find_map(|len| known.get(&destination.truncated(len)));
    found.copied().unwrap_or(0)
}

/// Returns the first generation after `clock` that no destination has, because a command that was killed before it wrote
/// the clock may have left destinations with later ones. Flows keep its lowest byte only: this differs from that of the
/// generation that each changed destination had, unless these have all 256.
fn next_generation(clock: u32, known: &BTreeMap<PathKey, u32>, changed: &BTreeSet<PathKey>) -> u32 {
    let taken: BTreeSet<u32> = known.values().copied().collect();
    let lowest_byte = |generation: u32| generation.to_le_bytes()[0];
    let remembered: BTreeSet<u8> = changed.iter().map(|key| lowest_byte(generation_of(known, *key))).collect();
    let is_seen = |generation| remembered.len() == 256 || !remembered.contains(&lowest_byte(generation));
    let mut generation = clock.wrapping_add(1);
    // 0 is the generation of destinations without an entry
    while generation == 0 || taken.contains(&generation) || !is_seen(generation) {
        generation = generation.wrapping_add(1);
    }
    generation
}

/// The writes of a change to `path_gen`.
#[derive(Debug, PartialEq)]
struct Changes {
    removed: Vec<PathKey>,
    written: BTreeMap<PathKey, u32>,
    everything: bool,
}

fn planned(known: &BTreeMap<PathKey, u32>, Chosen { changed, kept }: &Chosen, generation: u32) -> Changes {
    let mut written: BTreeMap<PathKey, u32> = changed.iter().map(|&key| (key, generation)).collect();
    // IPv4 addresses are stored as IPv4-mapped IPv6 addresses, so a short IPv6 prefix would match all of IPv4, too: an
    // entry for all of IPv4 keeps the generation that IPv4 had
    if changed.iter().any(|key| PathKey::ALL_V4.truncated(key.prefix_len) == *key)
        && !known.contains_key(&PathKey::ALL_V4)
    {
        written.entry(PathKey::ALL_V4).or_insert(generation_of(known, PathKey::ALL_V4));
    }
    let added = written.keys().filter(|key| !known.contains_key(key)).count();
    if known.len() + added <= ENTRIES as usize {
        // flows find the longest prefix: without an entry of its own, a destination would change with the one around it
        let own = kept.iter().filter(|key| !known.contains_key(key)).map(|key| (*key, generation_of(known, *key)));
        let with_kept: BTreeMap<PathKey, u32> = own.chain(written.clone()).collect();
        // they take at most half of the room, which later changes need; beyond it, their flows restart as well
        let written = if known.len() + with_kept.len() <= ENTRIES as usize / 2 { with_kept } else { written };
        return Changes { removed: Vec::new(), written, everything: false };
    }
    let all = [PathKey::ALL_V6, PathKey::ALL_V4];
    Changes {
        removed: known.keys().copied().filter(|key| !all.contains(key)).collect(),
        written: all.into_iter().map(|key| (key, generation)).collect(),
        everything: true,
    }
}

fn cannot(what: &str, map: &str) -> String {
    format!("cannot {what} {}", pins::signal(map).display())
}

/// Opens a pinned map; fails unless its type and shape match. The shape is: bytes of a key, bytes of a value, entries.
fn open_pin(name: &str, map_type: MapType, shape: [u32; 3]) -> Result<Option<MapHandle>> {
    let path: PathBuf = pins::signal(name);
    if !path.try_exists().tried(|| format!("cannot read {}", path.display()))? {
        return Ok(None);
    }
    let map = MapHandle::from_pinned_path(&path).tried(|| format!("cannot open {}", path.display()))?;
    if (map.map_type(), [map.key_size(), map.value_size(), map.max_entries()]) != (map_type, shape) {
        let text = format!("{} was created by another version of hotcc", path.display());
        return Err(Error::failed(format!("{text}; unload the algorithms that use it, then remove it")));
    }
    Ok(Some(map))
}

/// Takes the lock that a process must hold to change the maps.
fn lock() -> Result<Lock> {
    lock::acquire(&Path::new(pins::RUN).join(PATH_LOCK), 0o600, lock::PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<T: FromIterator<PathKey>>(texts: &[&str]) -> T {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn known(texts: &[(&str, u32)]) -> BTreeMap<PathKey, u32> {
        texts.iter().map(|&(text, generation)| (text.parse().unwrap(), generation)).collect()
    }

    fn only(changed: BTreeSet<PathKey>) -> Chosen {
        Chosen { changed, ..Chosen::default() }
    }

    #[test]
    fn no_generation_is_given_twice() {
        let next = |clock: u32, had: &[(&str, u32)]| next_generation(clock, &known(had), &keys(&["192.0.2.0/24"]));
        assert_eq!(next(7, &[("10.0.0.0/8", 7)]), 8);
        assert_eq!(next(7, &[("10.0.0.0/8", 8), ("192.0.2.0/24", 9)]), 10, "those of killed commands");
        assert_eq!(next(u32::MAX, &[]), 1, "0 is that of destinations without an entry");
    }

    #[test]
    fn flows_see_each_change_in_the_byte_that_they_keep() {
        let next = |clock: u32, had: &[(&str, u32)]| next_generation(clock, &known(had), &keys(&["10.0.0.0/8"]));
        assert_eq!(next(255, &[]), 257, "256 looks like 0");
        assert_eq!(next(261, &[("10.0.0.0/8", 6)]), 263, "262 looks like 6");
        assert_eq!(next(261, &[("0.0.0.0/0", 6)]), 263, "its flows found that of the wider destination");
        assert_eq!(next(261, &[("192.0.2.0/24", 6)]), 262, "of another destination");
        let all: Vec<(String, u32)> = (0..256).map(|n| (format!("10.0.{n}.0/24"), 256 + n)).collect();
        let all: BTreeMap<PathKey, u32> = all.iter().map(|(key, n)| (key.parse().unwrap(), *n)).collect();
        assert_eq!(next_generation(600, &all, &all.keys().copied().collect()), 601, "none differs from all");
    }

    #[test]
    fn what_keeps_its_path_within_a_change_keeps_its_generation() {
        let change = |had: &[(&str, u32)], kept: &[&str]| {
            planned(&known(had), &Chosen { changed: keys(&["0.0.0.0/0"]), kept: keys(kept) }, 9).written
        };
        assert_eq!(change(&[], &["10.0.0.0/8"]), known(&[("0.0.0.0/0", 9), ("10.0.0.0/8", 0)]));
        assert_eq!(change(&[("0.0.0.0/0", 4)], &["10.0.0.0/8"]), known(&[("0.0.0.0/0", 9), ("10.0.0.0/8", 4)]));
        assert_eq!(change(&[("10.0.0.0/8", 3)], &["10.0.0.0/8"]), known(&[("0.0.0.0/0", 9)]));
    }

    #[test]
    fn ipv6_changes_do_not_affect_ipv4() {
        let change = |had: &[(&str, u32)], changed: &[&str]| planned(&known(had), &only(keys(changed)), 9).written;
        assert_eq!(change(&[], &["2001:db8::/32"]), known(&[("2001:db8::/32", 9)]));
        assert_eq!(change(&[], &["::/0"]), known(&[("::/0", 9), ("0.0.0.0/0", 0)]));
        assert_eq!(change(&[], &["::/0", "0.0.0.0/0"]), known(&[("::/0", 9), ("0.0.0.0/0", 9)]));
        assert_eq!(change(&[("0.0.0.0/0", 3)], &["::/0"]), known(&[("::/0", 9)]));
        assert_eq!(change(&[("::/64", 5)], &["::/80"]), known(&[("::/80", 9), ("0.0.0.0/0", 5)]));
        assert_eq!(change(&[], &["10.0.0.0/8"]), known(&[("10.0.0.0/8", 9)]));
    }

    #[test]
    fn too_many_changes_invalidate_every_path() {
        let key = |n: u32| PathKey::prefix(std::net::Ipv4Addr::from(n << 8).into(), 24).unwrap();
        let full: BTreeMap<PathKey, u32> = (0..ENTRIES).map(|n| (key(n), 1)).collect();
        let last = planned(&full, &only([key(7)].into()), 2);
        assert_eq!((last.everything, last.written.len()), (false, 1));
        let beyond = planned(&full, &only([key(ENTRIES)].into()), 2);
        assert!(beyond.everything && beyond.removed.len() == ENTRIES as usize);
        assert_eq!(beyond.written, known(&[("::/0", 2), ("0.0.0.0/0", 2)]));
        let many = planned(&known(&[("0.0.0.0/0", 1)]), &only(full.keys().copied().collect()), 2);
        assert!(many.everything && many.removed.is_empty());
        let kept = Chosen { changed: [key(7)].into(), kept: [key(ENTRIES)].into() };
        assert_eq!(planned(&full, &kept, 2), last, "no room for what keeps its path");
    }
}
