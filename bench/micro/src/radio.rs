//! Checks whether a reader of the radio map ever sees parts of two readings, while two writers update the same link.
//!
//! The writers publish as a feeder does, into the real map. A reading's average and time are derived from its SINR, so
//! a word that mixes two readings can be recognized.

use super::options::Options;
use super::report::{Bound, Finding, significant};
use anyhow::{Context, Result};
use hotcc_abi::pins;
use hotcc_abi::radio::{IndexKey, PackedSinr, SOURCE_TRACE, q8_to_db};
use hotcc_radio_map::{LinkOptions, LinkWriter, RadioMap, RadioSlots, Reading};
use hotcc_testbed::netlab::check;
use libbpf_rs::MapHandle;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Name of the measure for `--only`.
pub const NAME: &str = "radio";
const READERS: u64 = 2;
const WRITERS: usize = 2;
/// Number of reads between two checks for an interrupt.
const BATCH: u64 = 1 << 20;
/// +-20 dB, so that an average of the opposite sign is in range too.
const SINR_LIMIT_Q8: i16 = 20 * 256;

#[derive(Default)]
struct Seen {
    reads: u64,
    changes: u64,
    torn: u64,
}

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let wanted: u64 = if options.quick { 10_000_000 } else { 100_000_000 };
    let root = Path::new(pins::ROOT);
    let mut map = RadioMap::open_or_create(root)?;
    let key = IndexKey::prefix([192, 0, 2, 1].into(), 32).context("invalid address prefix")?;
    let link = LinkOptions { source: SOURCE_TRACE, max_age_ms: 500, period_ms: 0, take_over: false };
    // a process may take its own link twice
    let writers = (0..WRITERS).map(|_| map.take_link(key, &link)).collect::<Result<Vec<_>, _>>()?;
    let slots = RadioSlots::read_only(MapHandle::from_pinned_path(pins::signal(pins::RADIO_SLOTS))?)?;
    let slot = slots.slot(writers[0].slot()).context("the link's slot is not in the map")?;
    let stop = AtomicBool::new(false);
    publish(&writers[0], 0)?;
    let started = Instant::now();
    let (seen, updates) = std::thread::scope(|scope| -> Result<(Vec<Seen>, u64)> {
        let stop = &stop;
        let writing: Vec<_> = writers
            .iter()
            .zip(0i16..)
            .map(|(writer, which)| scope.spawn(move || write_until(writer, which, stop)))
            .collect();
        let reading: Vec<_> = (0..READERS).map(|_| scope.spawn(|| read(&slot.sinr, wanted / READERS))).collect();
        let seen = reading
            .into_iter()
            .map(|r| r.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect::<Result<_>>();
        stop.store(true, Ordering::Relaxed);
        let updates =
            writing.into_iter().map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).sum::<Result<u64>>();
        Ok((seen?, updates?))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    drop(writers);
    map.remove_link(key, false)?;
    let sum = |part: fn(&Seen) -> u64| seen.iter().map(part).sum::<u64>();
    let (reads, changes, torn) = (sum(|s| s.reads), sum(|s| s.changes), sum(|s| s.torn));
    // without changes, no read could have been torn
    let value = (changes > 0).then_some(torn as f64);
    let millions = |n: u64| significant(n as f64 / seconds / 1e6);
    Ok(vec![
        Finding::new(NAME, format!("{WRITERS} writers, {READERS} readers"), "torn reads", value, Bound::AtMost(0.0))
            .figure(format!("{reads} reads, {changes} of which saw a new reading"))
            .figure(format!("{} M reads/s, {} M updates/s", millions(reads), millions(updates))),
    ])
}

fn read(word: &std::sync::atomic::AtomicU64, wanted: u64) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut last = word.load(Ordering::Acquire);
    while seen.reads < wanted {
        check()?;
        let batch = BATCH.min(wanted - seen.reads);
        for _ in 0..batch {
            let now = word.load(Ordering::Acquire);
            seen.changes += u64::from(now != last);
            seen.torn += u64::from(!whole(now));
            last = now;
        }
        seen.reads += batch;
    }
    Ok(seen)
}

fn write_until(writer: &LinkWriter, which: i16, stop: &AtomicBool) -> Result<u64> {
    let mut updates = 0;
    // each writer has one half of the values: the even or the odd ones
    let values = (-SINR_LIMIT_Q8..SINR_LIMIT_Q8).filter(|v| v.rem_euclid(2) == which).collect::<Vec<_>>();
    for &sinr_q8 in values.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        publish(writer, sinr_q8)?;
        updates += 1;
    }
    Ok(updates)
}

fn publish(writer: &LinkWriter, sinr_q8: i16) -> Result<()> {
    let (sinr_db, average_db) = (q8_to_db(sinr_q8.into()), q8_to_db((-sinr_q8).into()));
    let reading = Reading { sinr_db: Some(sinr_db), average_db: Some(average_db), ..Reading::default() };
    Ok(writer.publish(&reading, time_of(sinr_q8))?)
}

/// Derives a time from the SINR such that all 32 bits vary between values.
fn time_of(sinr_q8: i16) -> u32 {
    (sinr_q8 as u16 as u32 + 1).wrapping_mul(0x9e37_79b1)
}

fn whole(word: u64) -> bool {
    PackedSinr::unpack(word).is_some_and(|d| d.average_q8_db == -d.sinr_q8_db && d.time_ms == time_of(d.sinr_q8_db))
}
