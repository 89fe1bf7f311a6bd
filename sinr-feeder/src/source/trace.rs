//! `trace:FILE`: a recorded or generated trace, replayed in real time.

use super::{Running, Source};
use crate::condition::Pace;
use crate::error::SourceError;
use crate::feed::sink::Sink;
use crate::reading::{RawReading, Ue};
use hotcc_abi::radio::SOURCE_TRACE;
use hotcc_channel_model::trace::Trace;
use hotcc_channel_model::trace::replay::{Replay, ReplayOptions};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

#[derive(Debug)]
pub(super) struct TraceSource {
    file: PathBuf,
    options: ReplayOptions,
    trace: Option<Trace>,
}

impl TraceSource {
    pub(super) fn parse(file: &str, options: ReplayOptions) -> Result<Self, String> {
        if file.is_empty() {
            return Err("the trace file is missing: expected trace:FILE, e.g. trace:drive.csv".to_owned());
        }
        Ok(Self { file: file.into(), options, trace: None })
    }
}

impl Source for TraceSource {
    fn kind(&self) -> u8 {
        SOURCE_TRACE
    }

    fn open(&mut self) -> Result<(), SourceError> {
        let trace = Trace::load(&self.file).map_err(|e| SourceError(e.to_string()))?;
        if trace.samples().iter().all(|sample| sample.sinr_db.is_none()) {
            let without = if trace.samples().iter().any(|sample| sample.capacity_bps.is_some()) {
                "algorithms that read only the SINR run without a reading"
            } else {
                "algorithms will find no reading and run without one"
            };
            warn!("{} holds no SINR: {without}", self.file.display());
        }
        self.trace = Some(trace);
        Ok(())
    }

    /// A trace without a period repeats a second after its last sample.
    fn pace(&self) -> Pace {
        let period = self.trace.as_ref().and_then(Trace::period).unwrap_or(Duration::from_secs(1));
        Pace::Fixed(period.div_f64(self.options.speed))
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let Some(trace) = self.trace else { return Ok(()) };
            let start = Instant::now();
            for step in Replay::new(&trace, self.options) {
                sleep_until(start + step.at).await;
                sink.offer(Ue::Unnamed, &RawReading::from(&step.sample));
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_sample_that_repeats_has_the_pace_of_its_repetition() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "time_s,sinr_db\n0,15\n").unwrap();
        let options = ReplayOptions { repeat: true, ..ReplayOptions::default() };
        let mut source = TraceSource::parse(file.path().to_str().unwrap(), options).unwrap();
        source.open().unwrap();
        let again = Replay::new(source.trace.as_ref().unwrap(), options).nth(1).unwrap();
        assert_eq!(source.pace(), Pace::Fixed(again.at));
    }
}
