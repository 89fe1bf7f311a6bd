//! `model:FILE`: a radio that is simulated in real time.

use super::{Running, Source};
use crate::condition::Pace;
use crate::error::SourceError;
use crate::feed::sink::Sink;
use crate::reading::{RawReading, Ue};
use hotcc_abi::radio::SOURCE_MODEL;
use hotcc_channel_model::{FeederSpec, Radio, RadioSpec, ReadingAt};
use hotcc_radio_map::Reading;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// Random seed; the same seed makes the same radio.
    #[serde(default)]
    seed: u64,
    /// Length of the simulation, after which it starts over.
    duration_s: u32,
    radio: RadioSpec,
    readings: FeederSpec,
}

#[derive(Debug)]
pub(super) struct ModelSource {
    file: PathBuf,
    period: Duration,
    radio: Option<(Radio, Vec<ReadingAt>)>,
}

impl ModelSource {
    pub(super) fn parse(file: &str) -> Result<Self, String> {
        if file.is_empty() {
            return Err("the model file is missing: expected model:FILE, e.g. model:street.toml".to_owned());
        }
        Ok(Self { file: file.into(), period: Duration::ZERO, radio: None })
    }

    fn realise(&mut self) -> Result<(), String> {
        let text = fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
        let described: Description = toml::from_str(&text).map_err(|e| e.to_string())?;
        described.readings.check().map_err(|e| format!("readings.{e}"))?;
        let base = self.file.parent().unwrap_or(Path::new("."));
        let duration = Duration::from_secs(described.duration_s.max(1).into());
        let radio = described.radio.realise(base, described.seed, duration).map_err(|e| format!("radio: {e}"))?;
        let readings = radio.readings(&described.readings, described.seed);
        self.period = Duration::from_millis(described.readings.period_ms.into());
        self.radio = Some((radio, readings));
        Ok(())
    }
}

impl Source for ModelSource {
    fn kind(&self) -> u8 {
        SOURCE_MODEL
    }

    fn open(&mut self) -> Result<(), SourceError> {
        let path = self.file.display().to_string();
        self.realise().map_err(|what| SourceError(format!("cannot use the model: {path}: {what}")))
    }

    fn pace(&self) -> Pace {
        Pace::Fixed(self.period)
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let Some((radio, readings)) = self.radio else { return Ok(()) };
            let mut start = Instant::now();
            while !readings.is_empty() {
                for reading in &readings {
                    sleep_until(start + reading.at).await;
                    let capacity_bps = Some(reading.capacity_bps as f64);
                    let values =
                        Reading { sinr_db: reading.sinr_db.map(f64::from), capacity_bps, ..Reading::default() };
                    let age_ms = (reading.at - reading.made).as_secs_f64() * 1e3;
                    sink.offer(Ue::Unnamed, &RawReading { reading: values, age_ms, ..RawReading::default() });
                }
                start += radio.duration();
            }
            Ok(())
        })
    }
}
