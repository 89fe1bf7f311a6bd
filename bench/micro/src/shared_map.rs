//! CPU time per ACK of crest while the map that its flows share is empty, and while it is full of other hosts' records.

use super::awake::Awake;
use super::options::Options;
use super::registered::{cong_control, register};
use super::report::{Finding, significant};
use super::run_time::run_times_of;
use super::wire::{Flow, Wire};
use anyhow::{Context, Result, bail, ensure};
use hotcc::object::Loaded;
use hotcc_testbed::netlab::pause;
use hotcc_testbed::statistics::median;
use libbpf_rs::{Link, MapCore, MapFlags, MapMut};
use std::time::Duration;

/// Name of the measure for `--only`.
pub const NAME: &str = "shared-map";
const BOUND: f64 = 1.1;
const CC: &str = "b_crest";
/// More than the map holds.
const RECORDS: u32 = 40_000;
/// In place of a network namespace in the keys of these records.
const FOREIGN: [u8; 8] = [0xff; 8];
const RATE: &str = "100mbit";
const SSTHRESH: u32 = 64;
const WARM_UP: Duration = Duration::from_millis(50);
const TURN: Duration = Duration::from_millis(150);
const MIN_CALLS: f64 = 200.0;
const ATTEMPTS: usize = 5;
const STATES: [&str; 2] = ["empty", "full"];

struct Crest {
    program: u32,
    _link: Link,
    loaded: Loaded,
}

impl Crest {
    fn load() -> Result<Self> {
        let (loaded, link) = register("crest", CC)?;
        Ok(Self { program: cong_control(&loaded)?, _link: link, loaded })
    }

    fn map(&mut self) -> Result<MapMut<'_>> {
        self.loaded.object.maps_mut().find(|m| m.name() == "crest_groups").context("crest has no map of groups")
    }

    /// Removes all records; if `full`, then writes more records than the map holds.
    fn fill(&mut self, full: bool) -> Result<()> {
        let map = self.map()?;
        let keys: Vec<Vec<u8>> = map.keys().collect();
        keys.iter().try_for_each(|key| map.delete(key))?;
        if full {
            let keys: Vec<u8> = (0..RECORDS).flat_map(foreign).collect();
            let values = vec![0; map.value_size() as usize * RECORDS as usize];
            map.update_batch(&keys, &values, RECORDS, MapFlags::ANY, MapFlags::ANY)?;
        }
        Ok(())
    }

    /// Returns the number of records, and how many of them are not [`FOREIGN`].
    fn records(&mut self) -> Result<(usize, usize)> {
        let keys: Vec<Vec<u8>> = self.map()?.keys().collect();
        Ok((keys.len(), keys.iter().filter(|key| !key.starts_with(&FOREIGN)).count()))
    }

    /// Returns the nanoseconds per call in one turn of a new flow. Repeats turns with too few calls.
    fn turn(&self, wire: &Wire) -> Result<f64> {
        for _ in 0..ATTEMPTS {
            let _flow = Flow::start(wire, CC)?;
            pause(WARM_UP)?;
            let [before] = run_times_of([self.program]);
            pause(TURN)?;
            let [after] = run_times_of([self.program]);
            let calls = after.0 - before.0;
            if calls >= MIN_CALLS {
                return Ok((after.1 - before.1) / calls);
            }
            eprintln!("  only {calls} ACKs, retrying");
        }
        bail!(
            "fewer than {MIN_CALLS} ACKs in each of {ATTEMPTS} turns: the machine may be too busy, run again on an idle one"
        )
    }
}

fn foreign(number: u32) -> [u8; 24] {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&FOREIGN);
    key[8..12].copy_from_slice(&number.to_ne_bytes());
    key
}

/// Returns whether a map with so many records is full (it evicted some of [`RECORDS`]), or empty but for the flow's own.
fn is_as_wanted(full: bool, records: usize) -> bool {
    if full { records > 1 && records < RECORDS as usize } else { records == 1 }
}

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 6 } else { 40 };
    let wire = Wire::new()?;
    wire.narrow(RATE, SSTHRESH)?;
    let mut crest = Crest::load()?;
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let (mut ns, mut records) = ([Vec::new(), Vec::new()], [(0, 0); 2]);
    for round in 0..rounds {
        for place in 0..2 {
            let full = (place + round) % 2; // each comes first in turn
            crest.fill(full == 1)?;
            ns[full].push(crest.turn(&wire)?);
            records[full] = crest.records()?;
            let (all, own) = records[full];
            ensure!(own == 1, "the map has {own} records of one flow");
            ensure!(is_as_wanted(full == 1, all), "the {} has {all} records", STATES[full]);
        }
    }
    let [empty, full] = &ns;
    let ratios: Vec<f64> = full.iter().zip(empty).map(|(full, empty)| full / empty).collect();
    let judged = "full / empty, 95 % high";
    let mut finding = Finding::of_ratios(NAME, "crest", judged, "full map: ", &ratios, BOUND);
    for (state, (ns, (records, _))) in STATES.iter().zip(ns.iter().zip(records)) {
        let middle = median(ns).map_or("-".to_owned(), significant);
        finding = finding.figure(format!("{state}: {middle} ns per ACK, {records} records at the end"));
    }
    Ok(vec![finding])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_has_evicted_records() {
        assert!(is_as_wanted(true, 32_700) && !is_as_wanted(true, 40_001));
        assert!(is_as_wanted(false, 1) && !is_as_wanted(false, 2));
    }
}
