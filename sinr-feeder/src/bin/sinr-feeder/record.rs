//! `record`: writes the readings of one link from the map into a trace.

use crate::cli::RecordArgs;
use anyhow::{Context, bail};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::q8_to_db;
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
    let links = view.links()?;
    let Some(link) = links.iter().find(|link| link.key == args.link) else {
        bail!("cannot record {0}: it is not in the radio map; `sinr-feeder show` lists its links", args.link);
    };
    let file = File::create_new(&args.out)
        .with_context(|| format!("cannot create {} (an existing file is not overwritten)", args.out.display()))?;
    let mut trace = Recording { out: BufWriter::new(file), start_ms: None, written: 0 };
    writeln!(trace.out, "# made by: sinr-feeder record --link {}", args.link)?;
    writeln!(trace.out, "time_s,sinr_db,capacity_bps,rsrp_dbm,rsrq_db,cqi,mcs,cell")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the event loop")?;
    runtime.block_on(async {
        let mut stop = Stop::catch()?;
        let end = args.seconds.map(|s| Instant::now() + s);
        let mut polls = tokio::time::interval(POLL_INTERVAL);
        let mut seen = link.snapshot.updates;
        while end.is_none_or(|end| Instant::now() < end) {
            tokio::select! {
                _ = polls.tick() => {}
                _ = stop.requested() => break,
            }
            let Some(snapshot) = view.snapshot(link.slot) else { break };
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
    start_ms: Option<u32>,
    written: u64,
}

impl<W: Write> Recording<W> {
    /// Writes a reading with the time at which it was made, or, if it has neither a SINR nor a capacity, at which it
    /// was seen. The cell is its generation in the map.
    fn add(&mut self, snapshot: &Snapshot) -> std::io::Result<()> {
        let now_ms = monotonic_ms32();
        let fresh = snapshot.sinr.filter(|d| d.age_ms(now_ms) <= snapshot.max_age_ms);
        // a derived one can be derived again; replayed, it would count as measured
        let capacity = snapshot.capacity.filter(|c| !c.is_derived && c.age_ms(now_ms) <= snapshot.max_age_ms);
        let age_ms = snapshot.latest_age_ms(now_ms).filter(|age_ms| *age_ms <= snapshot.max_age_ms);
        let made_ms = now_ms.wrapping_sub(age_ms.unwrap_or(0));
        let since_ms = made_ms.wrapping_sub(*self.start_ms.get_or_insert(made_ms));
        let cell = |value: Option<String>| value.unwrap_or_default();
        writeln!(
            self.out,
            "{:.3},{},{},{},{},{},{},{}",
            f64::from(since_ms) / 1e3,
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
