//! RTT samples of a flow, one per ACK, recorded by `hotcc trace`.

use super::path::RECEIVER;
use anyhow::{Context, Result, bail, ensure};
use hotcc::trace::{self, Format, Options, Summary};
use hotcc_lab::results::Distribution;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

const COLUMN: &str = "rtt_us";
const RING_BYTES: u32 = 16 << 20;

/// A running record of ACKs, which ends when it is dropped.
#[derive(Debug)]
pub struct Recorder {
    file: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Summary>>>,
}

impl Recorder {
    /// Starts to record the ACKs that connections under `cc` to the receiver get.
    pub fn start(cc: &str, files: &Path) -> Result<Self> {
        let file = files.join("acks.csv");
        let options = Options {
            file: Some(file.clone()),
            format: Format::Csv,
            cc: Some(cc.to_owned()),
            to_prefix: Some(RECEIVER.parse().map_err(anyhow::Error::msg)?),
            every: 1,
            limit: None,
            ring_bytes: RING_BYTES,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (begin, begun) = channel();
        let asked = Arc::clone(&stop);
        let record = move || {
            let progress = |_: &Summary| {
                let _ = begin.send(()); // only the first one is waited for
            };
            trace::trace(&options, &asked, progress).context("cannot record RTT samples")
        };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(record);
        let mut recorder = Self { file, stop, thread: Some(thread.context("cannot start a thread")?) };
        if begun.recv().is_err() {
            recorder.join()?; // it failed before it began
        }
        Ok(recorder)
    }

    /// Ends the record, and returns the distribution of the RTT samples in milliseconds.
    pub fn finish(mut self) -> Result<Distribution> {
        self.join()?;
        let text = fs::read_to_string(&self.file).context("cannot read the RTT samples")?;
        let rtt_ms = distribution(&text);
        ensure!(rtt_ms.count > 0, "no ACK of the flow was recorded");
        Ok(rtt_ms)
    }

    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let summary = thread.join().unwrap_or_else(|_| bail!("the thread that records RTT samples panicked"))?;
        ensure!(summary.dropped == 0, "{} ACKs came faster than they were recorded", summary.dropped);
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.join(); // to see the error, call `finish` instead
    }
}

fn distribution(csv: &str) -> Distribution {
    let mut rows = csv.lines().map(|line| line.split(','));
    let column = rows.next().and_then(|mut names| names.position(|name| name == COLUMN)).unwrap_or(usize::MAX);
    let ms = |mut row: std::str::Split<'_, char>| Some(row.nth(column)?.parse::<f64>().ok()? / 1e3);
    Distribution::of(rows.filter_map(ms).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_of_the_rows_that_have_a_sample() {
        let rows: String = (1..=100).map(|ms| format!("7,{ms}000,5\n8,,5\n")).collect();
        let rtt_ms = distribution(&format!("time_ns,rtt_us,srtt_us\n{rows}"));
        assert_eq!((rtt_ms.count, rtt_ms.min, rtt_ms.p95), (100, 1.0, 95.0));
        assert_eq!(distribution("time_ns,srtt_us\n1,2\n").count, 0);
    }
}
