//! What the live views show, `hotcc top` and the exporter's page: connections with their radio signal, radio links, and
//! how often reading them is worth its cost.

use crate::sockets::flows::Connection;
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::pins;
use hotcc_abi::radio::source_name;
use hotcc_host::error::{Result, Tried};
use hotcc_radio_map::{Freshness, MapError, RadioView};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples are this many times as far apart as the CPU time that one takes, so that they stay at 4 % of a core; keys,
/// wake-ups and HTTP add to that.
const REST: u32 = 25;

/// An open connection, and the signal of the radio link to its peer.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// The connection.
    #[serde(flatten)]
    pub connection: Connection,
    /// SINR of the radio link; `None` if there is no reading that algorithms use.
    pub sinr_db: Option<f64>,
    /// Slot of the radio link; `None` if there is no link to the peer.
    pub slot: Option<u32>,
}

/// Looks up the radio link of each connection.
pub fn with_signal(connections: Vec<Connection>) -> Result<Vec<Flow>> {
    let tried = || "cannot look up radio links".to_owned();
    let view = match RadioView::open(Path::new(pins::ROOT)) {
        Err(MapError::Absent) => None,
        view => Some(view.tried(tried)?),
    };
    let flow = |connection: Connection| {
        let slot = view.as_ref().map_or(Ok(None), |view| view.slot_of(connection.peer)).tried(tried)?;
        let reading = view.as_ref().zip(slot).and_then(|(view, slot)| view.snapshot(slot));
        let fresh = reading.filter(|r| r.freshness(monotonic_ms32()) == Freshness::Fresh);
        Ok(Flow { connection, sinr_db: fresh.and_then(|r| r.sinr_db()), slot })
    };
    connections.into_iter().map(flow).collect()
}

/// A radio link, as an algorithm would read it now.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    /// Its slot, which connections refer to.
    pub slot: u32,
    /// Peers that are reached over it.
    pub peers: String,
    /// SINR, dB, unless it is too old to be used.
    pub sinr_db: Option<f64>,
    /// Running average of the SINR, dB, unless it is too old to be used.
    pub average_db: Option<f64>,
    /// Age of the latest SINR or measured capacity.
    pub age_ms: Option<u32>,
    /// State of the same: `fresh`, `stale` (algorithms ignore it), or `never` (neither yet).
    pub state: &'static str,
    /// Capacity, bits per second, if the source knows it, unless it is too old to be used.
    pub capacity_bps: Option<u64>,
    /// Kind of source.
    pub source: &'static str,
    /// Process that feeds the link, if it still runs.
    pub feeder: Option<u32>,
    /// Readings written so far.
    pub updates: u64,
}

/// Lists the radio links, sorted by address.
pub fn links() -> Result<Vec<Link>> {
    let links = hotcc_radio_map::links(Path::new(pins::ROOT)).tried(|| "cannot list the radio links".to_owned())?;
    let link = |link: hotcc_radio_map::Link| {
        let (reading, now_ms) = (link.snapshot, monotonic_ms32());
        let is_sinr_fresh = reading.freshness(now_ms) == Freshness::Fresh;
        let is_capacity_fresh = reading.capacity_freshness(now_ms) == Freshness::Fresh;
        Link {
            slot: link.slot,
            peers: link.key.to_string(),
            sinr_db: reading.sinr_db().filter(|_| is_sinr_fresh),
            average_db: reading.average_db().filter(|_| is_sinr_fresh),
            age_ms: reading.used_age_ms(now_ms),
            state: reading.used_freshness(now_ms).name(),
            capacity_bps: reading.capacity.filter(|_| is_capacity_fresh).map(|c| c.bps()),
            source: source_name(reading.source),
            feeder: reading.owner_pid.filter(|_| reading.owner_alive()),
            updates: reading.updates,
        }
    };
    Ok(links.into_iter().map(link).collect())
}

/// Takes a sample. Returns it with the time to wait before the next one, from the start of this one: `interval`, or more
/// if samples would otherwise take over 4 % of a core.
pub fn paced<T>(interval: Duration, take: impl FnOnce() -> T) -> Result<(T, Duration)> {
    let (began, before) = (Instant::now(), cpu_time()?);
    let sample = take();
    // Only one thread at a time works on a sample, so its CPU time is at most either of these. The first has that of
    // other threads, such as a scrape's; the second has waits.
    let cost = (cpu_time()? - before).min(began.elapsed());
    Ok((sample, interval.max(cost * REST)))
}

/// Returns the CPU time of this process, all threads.
fn cpu_time() -> Result<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).tried(|| "cannot read the CPU time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn the_work_of_other_threads_does_not_slow_samples() {
        let ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while !ended.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let began = Instant::now();
            let paced = paced(Duration::ZERO, || std::thread::sleep(Duration::from_millis(100)));
            let took = began.elapsed();
            ended.store(true, Relaxed);
            let ((), every) = paced.unwrap();
            assert!(every <= took * REST, "{every:?} after {took:?}");
        });
    }
}
