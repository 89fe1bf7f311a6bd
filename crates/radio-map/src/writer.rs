//! Publishing readings: this code runs once per reading, and makes no system call.

use crate::error::MapError;
use crate::owner::Owner;
use crate::reading::Reading;
use crate::slots::RadioSlots;
use hotcc_abi::radio::{self, Capacity, IndexKey, PackedSinr, Slot, sinr_to_q8};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Options for taking a link.
#[derive(Debug, Clone, Copy)]
pub struct LinkOptions {
    /// One of the `SOURCE_*` values of [`hotcc_abi::radio`].
    pub source: u8,
    /// Age in milliseconds beyond which readers ignore a reading; at most [`radio::MAX_AGE_LIMIT_MS`].
    pub max_age_ms: u32,
    /// The source's usual time between readings in milliseconds; 0 if not known.
    pub period_ms: u32,
    /// Whether to take the link even from a process that still runs.
    pub take_over: bool,
}

/// Returns the maximum age for a source with this period: three periods, clamped to the range from
/// [`radio::DEFAULT_MAX_AGE_MS`] to [`radio::MAX_AGE_LIMIT_MS`].
#[must_use]
pub fn default_max_age_ms(period: Option<Duration>) -> u32 {
    let wanted = period.map_or(0, |p| p.as_millis().saturating_mul(3));
    wanted.clamp(radio::DEFAULT_MAX_AGE_MS.into(), radio::MAX_AGE_LIMIT_MS.into()) as u32
}

/// Value for no cell; no radio uses numbers this high.
const NO_CELL: u64 = u64::MAX;

/// The right to publish one link's readings. After it is dropped, the link and its last reading stay in the map, and
/// age.
#[derive(Debug)]
pub struct LinkWriter {
    slots: Arc<RadioSlots>,
    key: IndexKey,
    slot: u32,
    owner: Owner,
    new: bool,
    /// Whether its slot was freed and taken for another link by this process.
    lost: Arc<AtomicBool>,
    /// The serving cell of the last reading that names one, or [`NO_CELL`].
    cell: AtomicU64,
}

impl LinkWriter {
    pub(crate) fn new(
        slots: Arc<RadioSlots>,
        key: IndexKey,
        slot: u32,
        owner: Owner,
        new: bool,
        lost: Arc<AtomicBool>,
    ) -> Self {
        Self { slots, key, slot, owner, new, lost, cell: AtomicU64::new(NO_CELL) }
    }

    /// Returns the key of the link.
    #[must_use]
    pub fn key(&self) -> IndexKey {
        self.key
    }

    /// Returns the number of its line in `radio_slots`.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns whether the link was not in the map before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.new
    }

    /// Publishes a reading made at `made_ms` ([`hotcc_abi::clock::monotonic_ms32`]). If its cell differs from that of
    /// the reading before, increments the cell's generation.
    ///
    /// # Errors
    /// [`MapError::Lost`] if another process took the link over or removed it; nothing is written then.
    pub fn publish(&self, reading: &Reading, made_ms: u32) -> Result<(), MapError> {
        let line = self.line()?;
        line.rsrp_q8_dbm.store(to_q8(reading.rsrp_dbm), Relaxed);
        line.rsrq_q8_db.store(to_q8(reading.rsrq_db), Relaxed);
        line.cqi.store(reading.cqi.unwrap_or(radio::UNKNOWN_U8), Relaxed);
        line.mcs.store(reading.mcs.unwrap_or(radio::UNKNOWN_U8), Relaxed);
        line.updates.fetch_add(1, Relaxed);
        if let Some(sinr_db) = reading.sinr_db {
            let average_db = reading.average_db.unwrap_or(sinr_db);
            let sinr =
                PackedSinr { sinr_q8_db: sinr_to_q8(sinr_db), average_q8_db: sinr_to_q8(average_db), time_ms: made_ms };
            line.sinr.store(sinr.pack(), Release);
        }
        if let Some(bps) = reading.capacity_bps {
            let capacity = Capacity::new(bps, reading.is_capacity_derived, made_ms);
            line.capacity.store(capacity.map_or(0, Capacity::pack), Release);
        }
        if let Some(cell) = reading.cell {
            let before = self.cell.swap(cell, Relaxed);
            line.cell.fetch_add(u32::from(before != cell && before != NO_CELL), Release);
        }
        Ok(())
    }

    /// Changes the description of the source for the readings that follow; values as in [`LinkOptions`].
    ///
    /// # Errors
    /// As for [`LinkWriter::publish`].
    pub fn describe(&self, source: u8, max_age_ms: u32, period_ms: u32) -> Result<(), MapError> {
        let line = self.line()?;
        line.source.store(source, Relaxed);
        line.max_age_ms.store(max_age_ms.min(radio::MAX_AGE_LIMIT_MS), Relaxed);
        line.period_ms.store(period_ms, Relaxed);
        Ok(())
    }

    /// Returns the line if this process still owns it: a slot that was freed may belong to another link.
    fn line(&self) -> Result<&Slot, MapError> {
        let lost = |by: String| MapError::Lost { link: self.key, by };
        let line = self.slots.slot(self.slot).ok_or_else(|| lost("its slot does not exist".to_owned()))?;
        if self.lost.load(Relaxed) || line.state.load(Acquire) != radio::STATE_TAKEN {
            return Err(lost("it was removed from the radio map".to_owned()));
        }
        let owner = Owner::of(line);
        if owner != self.owner {
            return Err(lost(format!("process {} took it over", owner.pid)));
        }
        Ok(line)
    }
}

impl Drop for LinkWriter {
    fn drop(&mut self) {
        if let Ok(line) = self.line() {
            Owner::clear(line);
        }
    }
}

fn to_q8(value: Option<f64>) -> i32 {
    value.map_or(radio::UNKNOWN_Q8, |v| (v * 256.0).round() as i32)
}

/// Clears a free line, starting with the words that decisions are based on. The cell's generation is kept, because
/// readers only compare it.
pub(crate) fn reset(line: &Slot) {
    line.sinr.store(0, Release);
    line.capacity.store(0, Release);
    line.updates.store(0, Relaxed);
    line.rsrp_q8_dbm.store(radio::UNKNOWN_Q8, Relaxed);
    line.rsrq_q8_db.store(radio::UNKNOWN_Q8, Relaxed);
    line.freed_ms.store(0, Relaxed);
    line.cqi.store(radio::UNKNOWN_U8, Relaxed);
    line.mcs.store(radio::UNKNOWN_U8, Relaxed);
}
