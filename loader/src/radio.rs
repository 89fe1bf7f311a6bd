//! The links that a feeder describes in the pinned radio maps, read only.

use crate::error::{Result, Tried};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::pins::{self, RADIO_INDEX, RADIO_SLOTS};
use hotcc_abi::radio::{Decision, INDEX_ENTRIES, IndexKey, SINR_RANGE_DB, Slot, effective_max_age_ms, q8_to_db};
use hotcc_abi::radio_slots::RadioSlots;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// One link, as an algorithm would see it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Peers that are reached over it.
    pub key: IndexKey,
    /// Latest SINR, dB, held within the range that algorithms accept; `None` before the first reading.
    pub sinr_db: Option<f64>,
    /// Its running average, dB.
    pub average_db: Option<f64>,
    /// Age of that reading; `u32::MAX` for one that claims to come from the future.
    pub age_ms: Option<u32>,
    /// Whether algorithms use the reading: there is one, and it is not beyond `max_age_ms`.
    pub fresh: bool,
    /// Readings written so far.
    pub updates: u64,
    /// Capacity, bit/s, where the source knows it.
    pub capacity_bps: Option<u64>,
    /// Age beyond which algorithms ignore a reading.
    pub max_age_ms: u32,
}

/// All links, in the order of their addresses and ports; none where no radio maps are pinned.
pub fn links() -> Result<Vec<Link>> {
    let (index_path, slots_path) = (pins::signal(RADIO_INDEX), pins::signal(RADIO_SLOTS));
    if !index_path.exists() || !slots_path.exists() {
        return Ok(Vec::new());
    }
    let open = |path: &Path| MapHandle::from_pinned_path(path).tried(|| format!("cannot open {}", path.display()));
    let (index, slots) = (open(&index_path)?, open(&slots_path)?);
    let slots = RadioSlots::read_only(&slots).tried(|| format!("cannot read {}", slots_path.display()))?;
    // While a feeder changes the index, the kernel may begin the walk anew; so it is bounded here.
    let keys = index.keys().take(INDEX_ENTRIES as usize);
    let mut keys: Vec<IndexKey> = keys.filter_map(|k| bytemuck::try_pod_read_unaligned(&k).ok()).collect();
    keys.sort_unstable_by_key(|k| (k.addr, k.port, k.prefix_len));
    keys.dedup();
    let mut links = Vec::with_capacity(keys.len());
    for key in keys {
        let value = index
            .lookup(bytemuck::bytes_of(&key), MapFlags::empty())
            .tried(|| format!("cannot look {key} up in {}", index_path.display()))?;
        // gone meanwhile, or a number that stands for no slot: algorithms have no signal there either
        let slot = value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok()).and_then(|number| slots.slot(number));
        links.extend(slot.map(|slot| read(key, slot)));
    }
    Ok(links)
}

fn read(key: IndexKey, slot: &Slot) -> Link {
    let max_age_ms = effective_max_age_ms(slot.max_age_ms.load(Relaxed));
    let decision = Decision::unpack(slot.decision.load(Relaxed));
    // the clock after the reading: the other way round a new reading would come from the future
    let age_ms = decision.map(|d| d.age_ms(monotonic_ms32()));
    let db = |q8: i16| q8_to_db(i32::from(q8)).clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end());
    Link {
        key,
        sinr_db: decision.map(|d| db(d.sinr_q8_db)),
        average_db: decision.map(|d| db(d.average_q8_db)),
        age_ms,
        fresh: age_ms.is_some_and(|age| age <= max_age_ms),
        updates: slot.updates.load(Relaxed),
        capacity_bps: Some(slot.capacity_bps.load(Relaxed)).filter(|&bps| bps != 0),
        max_age_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_abi::radio::MAX_AGE_LIMIT_MS;

    fn slot(sinr_q8_db: i16, age_ms: u32, max_age_ms: u32) -> Slot {
        // SAFETY: Slot is integers and atomics of integers; zeros are valid for all of them.
        let slot: Slot = unsafe { std::mem::zeroed() };
        let time_ms = monotonic_ms32().wrapping_sub(age_ms);
        slot.decision.store(Decision { sinr_q8_db, average_q8_db: 256, time_ms }.pack(), Relaxed);
        slot.max_age_ms.store(max_age_ms, Relaxed);
        slot
    }

    fn key() -> IndexKey {
        IndexKey::prefix("192.0.2.1".parse().unwrap(), 32).unwrap()
    }

    #[test]
    fn reads_what_algorithms_see() {
        let link = read(key(), &slot(-512, 100, 0));
        assert_eq!((link.sinr_db, link.average_db, link.fresh, link.max_age_ms), (Some(-2.0), Some(1.0), true, 500));
        assert!(link.age_ms.is_some_and(|age| (100..400).contains(&age)));
        assert_eq!(link.capacity_bps, None);
        assert_eq!(read(key(), &slot(i16::MAX, 0, 0)).sinr_db, Some(50.0));
    }

    #[test]
    fn age_is_bounded_whatever_the_slot_says() {
        assert!(!read(key(), &slot(0, 501, 0)).fresh);
        assert!(read(key(), &slot(0, 20_000, u32::MAX)).fresh);
        assert!(!read(key(), &slot(0, MAX_AGE_LIMIT_MS + 1, u32::MAX)).fresh);
        let future = read(key(), &slot(0, 60_000u32.wrapping_neg(), u32::MAX));
        assert_eq!((future.fresh, future.age_ms), (false, Some(u32::MAX)));
    }

    #[test]
    fn nothing_written_is_nothing_known() {
        let empty = slot(0, 0, 0);
        empty.decision.store(0, Relaxed);
        let link = read(key(), &empty);
        assert_eq!((link.sinr_db, link.average_db, link.age_ms, link.fresh), (None, None, None, false));
    }
}
