//! `record`: writes the readings of one link from the map into a trace.

use crate::cli::RecordArgs;
use anyhow::{Context, bail};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{Capacity, PackedSinr, q8_to_db};
use hotcc_host::service::Stop;
use hotcc_radio_map::{RadioView, Snapshot};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the map is polled; a poll is a load from memory.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub fn record(args: &RecordArgs, pin_root: &Path) -> anyhow::Result<()> {
    let view = RadioView::open(pin_root)?;
    let mut generation = view.generation();
    let links = view.links()?;
    let Some(link) = links.iter().find(|link| link.key == args.link) else {
        bail!("cannot record {0}: it is not in the radio map; `sinr-feeder show` lists its links", args.link);
    };
    let file = File::create_new(&args.out)
        .with_context(|| format!("cannot create {} (an existing file is not overwritten)", args.out.display()))?;
    let (sinr, capacity) = (link.snapshot.sinr, link.snapshot.capacity);
    let mut trace = Recording { out: BufWriter::new(file), clock: Clock::default(), sinr, capacity, written: 0 };
    writeln!(trace.out, "# made by: sinr-feeder record --link {}", args.link)?;
    writeln!(trace.out, "time_s,sinr_db,capacity_bps,rsrp_dbm,rsrq_db,cqi,mcs,cell")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(async {
        let mut stop = Stop::catch()?;
        let end = args.seconds.map(|s| Instant::now() + s);
        let mut polls = tokio::time::interval(POLL_INTERVAL);
        let (mut slot, mut seen) = (Some(link.slot), link.snapshot.updates);
        while end.is_none_or(|end| Instant::now() < end) {
            tokio::select! {
                _ = polls.tick() => {}
                _ = stop.requested() => break,
            }
            let latest = view.generation();
            if std::mem::replace(&mut generation, latest) != latest {
                let found = view.slot_of_link(args.link, slot)?;
                if std::mem::replace(&mut slot, found) != found {
                    seen = 0;
                }
            }
            let Some(snapshot) = slot.and_then(|slot| view.snapshot(slot)) else { continue };
            if std::mem::replace(&mut seen, snapshot.updates) != snapshot.updates {
                trace.add(&snapshot)?;
            }
        }
        trace.out.flush()?;
        anyhow::Ok(())
    })?;
    writeln!(std::io::stdout(), "wrote {} readings to {}", trace.written, args.out.display())?;
    Ok(())
}

struct Recording<W: Write> {
    out: W,
    clock: Clock,
    /// The SINR and the capacity at the last row; they are not written again.
    sinr: Option<PackedSinr>,
    capacity: Option<Capacity>,
    written: u64,
}

/// The time of the rows since the first one. It never decreases, because that of a trace must not.
#[derive(Default)]
struct Clock {
    latest_ms: Option<u32>,
    since_ms: u64,
}

impl Clock {
    fn since_first(&mut self, made_ms: u32) -> u64 {
        let step_ms = self.latest_ms.map_or(0, |latest_ms| made_ms.wrapping_sub(latest_ms) as i32);
        if step_ms >= 0 {
            self.latest_ms = Some(made_ms);
            self.since_ms += u64::from(step_ms.unsigned_abs());
        }
        self.since_ms
    }
}

impl<W: Write> Recording<W> {
    /// Writes a reading with the time at which it was made, or, if it has neither a SINR nor a capacity, at which it
    /// was seen. The cell is its generation in the map.
    fn add(&mut self, snapshot: &Snapshot) -> std::io::Result<()> {
        let now_ms = monotonic_ms32();
        let is_recent = |age_ms: u32| age_ms <= snapshot.max_age_ms;
        let fresh = snapshot.sinr.filter(|d| self.sinr != Some(*d) && is_recent(d.age_ms(now_ms)));
        // a derived one can be derived again; replayed, it would count as measured
        let capacity =
            snapshot.capacity.filter(|c| self.capacity != Some(*c) && !c.is_derived && is_recent(c.age_ms(now_ms)));
        (self.sinr, self.capacity) = (snapshot.sinr, snapshot.capacity);
        let ages = fresh.map(|d| d.age_ms(now_ms)).into_iter().chain(capacity.map(|c| c.age_ms(now_ms)));
        let since_ms = self.clock.since_first(now_ms.wrapping_sub(ages.min().unwrap_or(0)));
        let cell = |value: Option<String>| value.unwrap_or_default();
        writeln!(
            self.out,
            "{:.3},{},{},{},{},{},{},{}",
            since_ms as f64 / 1e3,
            cell(fresh.map(|d| format!("{:.2}", q8_to_db(d.sinr_q8_db.into())))),
            cell(capacity.map(|c| c.bps().to_string())),
            cell(snapshot.rsrp_dbm.map(|v| format!("{v:.1}"))),
            cell(snapshot.rsrq_db.map(|v| format!("{v:.1}"))),
            cell(snapshot.cqi.map(|v| v.to_string())),
            cell(snapshot.mcs.map(|v| v.to_string())),
            snapshot.cell,
        )?;
        self.written += 1;
        Ok(())
    }
}
