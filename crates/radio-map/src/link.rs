//! The data of a link in the radio map, and how readers judge its age.

use crate::owner::Owner;
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{self, Capacity, IndexKey, PackedSinr, SINR_RANGE_DB, Slot, effective_max_age_ms, q8_to_db};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// One link and its data.
#[derive(Debug, Clone)]
pub struct Link {
    /// Peers that the readings are for.
    pub key: IndexKey,
    /// Number of its line in `radio_slots`.
    pub slot: u32,
    /// A copy of the line.
    pub snapshot: Snapshot,
}

/// A copy of one line. `sinr` and `capacity` are each consistent in themselves. The other fields may be of
/// different readings, because a feeder may write during the copy.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Latest SINR, running average and their time; `None` if no SINR was ever published.
    pub sinr: Option<PackedSinr>,
    /// Readings written since the slot was taken.
    pub updates: u64,
    /// Latest capacity and its time; `None` if none was ever published.
    pub capacity: Option<Capacity>,
    /// Generation of the serving cell.
    pub cell: u32,
    /// Reference signal received power in dBm.
    pub rsrp_dbm: Option<f64>,
    /// Reference signal received quality in dB.
    pub rsrq_db: Option<f64>,
    /// Channel quality indicator.
    pub cqi: Option<u8>,
    /// Modulation and coding scheme.
    pub mcs: Option<u8>,
    /// Age beyond which readers ignore the reading, in milliseconds, after the limits that readers apply.
    pub max_age_ms: u32,
    /// The source's usual time between readings, in milliseconds.
    pub period_ms: Option<u32>,
    /// One of the `SOURCE_*` values of [`hotcc_abi::radio`].
    pub source: u8,
    /// Process that feeds the link; `None` after a clean shutdown of the feeder.
    pub owner_pid: Option<u32>,
    /// Time of this copy, [`monotonic_ms32`].
    pub taken_ms: u32,
    owner: Owner,
}

/// How readers judge the age of a link's latest SINR, or capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Recent enough to be used.
    Fresh,
    /// Too old; ignored.
    Stale,
    /// Never published.
    Never,
}

impl Freshness {
    /// Returns its name in output: `fresh`, `stale` or `never`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Never => "never",
        }
    }
}

impl Snapshot {
    /// Copies the line.
    pub(crate) fn of(line: &Slot) -> Self {
        let known = |q8: i32| (q8 != radio::UNKNOWN_Q8).then(|| q8_to_db(q8));
        let nonzero = |n: u32| (n != 0).then_some(n);
        let index = |n: u8| (n != radio::UNKNOWN_U8).then_some(n);
        let owner = Owner::of(line);
        let sinr = PackedSinr::unpack(line.sinr.load(Acquire));
        let capacity = Capacity::unpack(line.capacity.load(Acquire));
        Self {
            sinr,
            capacity,
            cell: line.cell.load(Relaxed),
            // read the clock after the reading; otherwise a new reading could appear to be from the future
            taken_ms: monotonic_ms32(),
            updates: line.updates.load(Relaxed),
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

    /// Returns the latest SINR in dB, clamped to the range that algorithms accept; `None` before the first reading.
    #[must_use]
    pub fn sinr_db(&self) -> Option<f64> {
        self.sinr.map(|d| accepted_db(d.sinr_q8_db))
    }

    /// Returns the running average of the SINR, likewise.
    #[must_use]
    pub fn average_db(&self) -> Option<f64> {
        self.sinr.map(|d| accepted_db(d.average_q8_db))
    }

    /// Returns the age of the SINR at `now_ms` in milliseconds; `None` if there is no SINR, `u32::MAX` if its time is
    /// in the future.
    #[must_use]
    pub fn age_ms(&self, now_ms: u32) -> Option<u32> {
        self.sinr.map(|d| d.age_ms(now_ms))
    }

    /// Returns how readers judge the SINR at `now_ms`.
    #[must_use]
    pub fn freshness(&self, now_ms: u32) -> Freshness {
        self.judge(self.age_ms(now_ms))
    }

    /// Returns how readers judge the capacity at `now_ms`.
    #[must_use]
    pub fn capacity_freshness(&self, now_ms: u32) -> Freshness {
        self.judge(self.capacity.map(|c| c.age_ms(now_ms)))
    }

    /// Returns the age of the latest reading of either kind at `now_ms`, as [`age_ms`](Self::age_ms) does.
    #[must_use]
    pub fn latest_age_ms(&self, now_ms: u32) -> Option<u32> {
        let ages = [self.age_ms(now_ms), self.capacity.map(|c| c.age_ms(now_ms))];
        ages.into_iter().flatten().min()
    }

    /// Returns how readers judge the latest reading of either kind at `now_ms`.
    #[must_use]
    pub fn latest_freshness(&self, now_ms: u32) -> Freshness {
        self.judge(self.latest_age_ms(now_ms))
    }

    /// Returns the age at `now_ms` of the latest reading that algorithms read, the SINR or a measured capacity. A
    /// capacity that was computed from the SINR tells them nothing.
    #[must_use]
    pub fn used_age_ms(&self, now_ms: u32) -> Option<u32> {
        let measured = self.capacity.filter(|c| !c.is_derived);
        let ages = [self.age_ms(now_ms), measured.map(|c| c.age_ms(now_ms))];
        ages.into_iter().flatten().min()
    }

    /// Returns how algorithms judge the latest reading that they read, at `now_ms`.
    #[must_use]
    pub fn used_freshness(&self, now_ms: u32) -> Freshness {
        self.judge(self.used_age_ms(now_ms))
    }

    fn judge(&self, age_ms: Option<u32>) -> Freshness {
        match age_ms {
            None => Freshness::Never,
            Some(age) if age <= self.max_age_ms => Freshness::Fresh,
            Some(_) => Freshness::Stale,
        }
    }

    /// Returns whether the process that feeds the link still runs, as far as this process can see: a feeder in another
    /// pid or time namespace appears to have ended.
    #[must_use]
    pub fn owner_alive(&self) -> bool {
        self.owner.is_alive()
    }
}

fn accepted_db(q8: i16) -> f64 {
    q8_to_db(q8.into()).clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_abi::radio::MAX_AGE_LIMIT_MS;

    fn slot(sinr_q8_db: i16, age_ms: u32, max_age_ms: u32) -> Slot {
        // SAFETY: Slot consists of integers and atomic integers, for which zeros are valid.
        let slot: Slot = unsafe { std::mem::zeroed() };
        let time_ms = monotonic_ms32().wrapping_sub(age_ms);
        slot.sinr.store(PackedSinr { sinr_q8_db, average_q8_db: 256, time_ms }.pack(), Relaxed);
        slot.max_age_ms.store(max_age_ms, Relaxed);
        slot
    }

    fn is_fresh(snapshot: &Snapshot) -> bool {
        snapshot.freshness(snapshot.taken_ms) == Freshness::Fresh
    }

    fn age_ms(snapshot: &Snapshot) -> Option<u32> {
        snapshot.age_ms(snapshot.taken_ms)
    }

    #[test]
    fn reads_what_algorithms_see() {
        let link = Snapshot::of(&slot(-512, 100, 0));
        assert_eq!(
            (link.sinr_db(), link.average_db(), is_fresh(&link), link.max_age_ms),
            (Some(-2.0), Some(1.0), true, 500)
        );
        assert!(age_ms(&link).is_some_and(|age| (100..400).contains(&age)));
        assert_eq!(link.capacity, None);
        assert_eq!(Snapshot::of(&slot(i16::MAX, 0, 0)).sinr_db(), Some(50.0));
    }

    #[test]
    fn age_is_bounded_whatever_the_slot_says() {
        assert!(!is_fresh(&Snapshot::of(&slot(0, 501, 0))));
        assert!(is_fresh(&Snapshot::of(&slot(0, 20_000, u32::MAX))));
        assert!(!is_fresh(&Snapshot::of(&slot(0, MAX_AGE_LIMIT_MS + 1, u32::MAX))));
        let future = Snapshot::of(&slot(0, 60_000u32.wrapping_neg(), u32::MAX));
        assert_eq!((is_fresh(&future), age_ms(&future)), (false, Some(u32::MAX)));
    }

    #[test]
    fn capacity_has_an_age_of_its_own() {
        let line = slot(0, 0, 100);
        let now_ms = monotonic_ms32();
        let capacity = |age_ms| Capacity::new(5e7, true, now_ms.wrapping_sub(age_ms));
        for (age_ms, freshness) in [(50, Freshness::Fresh), (101, Freshness::Stale)] {
            line.capacity.store(capacity(age_ms).map_or(0, Capacity::pack), Relaxed);
            let link = Snapshot::of(&line);
            assert_eq!((link.capacity, link.capacity_freshness(now_ms)), (capacity(age_ms), freshness));
        }
        line.capacity.store(0, Relaxed);
        assert_eq!(Snapshot::of(&line).capacity_freshness(now_ms), Freshness::Never);
    }

    #[test]
    fn the_latest_reading_is_of_either_kind() {
        let line = slot(0, 80, 100);
        let latest = |now_ms| {
            let link = Snapshot::of(&line);
            (link.latest_age_ms(now_ms), link.latest_freshness(now_ms))
        };
        let now_ms = PackedSinr::unpack(line.sinr.load(Relaxed)).unwrap().time_ms.wrapping_add(80);
        assert_eq!(latest(now_ms), (Some(80), Freshness::Fresh));
        let capacity = Capacity::new(5e7, true, now_ms.wrapping_sub(30)).unwrap();
        line.capacity.store(capacity.pack(), Relaxed);
        assert_eq!(latest(now_ms), (Some(30), Freshness::Fresh));
        line.sinr.store(0, Relaxed);
        assert_eq!(latest(now_ms), (Some(30), Freshness::Fresh), "capacity alone");
        assert_eq!(latest(now_ms + 71), (Some(101), Freshness::Stale));
        line.capacity.store(0, Relaxed);
        assert_eq!(latest(now_ms), (None, Freshness::Never));
    }

    #[test]
    fn algorithms_use_the_sinr_or_a_measured_capacity() {
        let used = |sinr_age_ms, capacity: Option<(bool, u32)>| {
            let line = slot(0, sinr_age_ms, 100);
            let now_ms = PackedSinr::unpack(line.sinr.load(Relaxed)).unwrap().time_ms.wrapping_add(sinr_age_ms);
            if let Some((is_derived, age_ms)) = capacity {
                let capacity = Capacity::new(5e7, is_derived, now_ms.wrapping_sub(age_ms));
                line.capacity.store(capacity.map_or(0, Capacity::pack), Relaxed);
            }
            let link = Snapshot::of(&line);
            (link.used_age_ms(now_ms), link.used_freshness(now_ms))
        };
        assert_eq!(used(80, None), (Some(80), Freshness::Fresh));
        assert_eq!(used(800, Some((false, 30))), (Some(30), Freshness::Fresh));
        assert_eq!(used(800, Some((true, 30))), (Some(800), Freshness::Stale), "computed from the SINR");
        assert_eq!(used(80, Some((false, 300))), (Some(80), Freshness::Fresh));
    }

    #[test]
    fn an_empty_slot_has_no_reading() {
        let empty = slot(0, 0, 0);
        empty.sinr.store(0, Relaxed);
        let link = Snapshot::of(&empty);
        assert_eq!((link.sinr_db(), link.average_db(), age_ms(&link), is_fresh(&link)), (None, None, None, false));
    }
}
