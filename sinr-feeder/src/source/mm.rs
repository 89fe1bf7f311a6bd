//! `mm[:PATH][,rate=N]`: a modem through ModemManager. Reads its extended signal quality (interface Modem.Signal),
//! which exists for MBIM and QMI modems alike.

use super::{RETRY, Running, Source};
use crate::args::Args;
use crate::condition::Pace;
use crate::feed::sink::Sink;
use crate::reading::{RawReading, Ue};
use crate::reject::Reject;
use hotcc_abi::radio::SOURCE_MM;
use hotcc_channel_model::ranges;
use hotcc_radio_map::Reading;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use zbus::fdo::{ObjectManagerProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Proxy};

const SERVICE: &str = "org.freedesktop.ModemManager1";
const ROOT: &str = "/org/freedesktop/ModemManager1";
const SIGNAL: InterfaceName<'_> =
    InterfaceName::from_static_str_unchecked("org.freedesktop.ModemManager1.Modem.Signal");

/// Properties of [`SIGNAL`], one for each radio, best radio first.
const RADIOS: [&str; 2] = ["Nr5g", "Lte"];

#[derive(Debug)]
pub(super) struct ModemManagerSource {
    /// D-Bus path of the modem; if `None`, the first modem is used.
    path: Option<String>,
    rate_s: u32,
}

impl ModemManagerSource {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let path = args.main("").ok().map(str::to_owned);
        if let Some(other) = path.as_ref().filter(|path| !path.starts_with('/')) {
            let what = "expected a D-Bus path, e.g. mm:/org/freedesktop/ModemManager1/Modem/0";
            return Err(format!("invalid modem `{other}`: {what}"));
        }
        let rate_s = args.number("rate", 1..=60, 1)? as u32;
        args.done()?;
        Ok(Self { path, rate_s })
    }

    /// Polls one modem until it is gone.
    async fn session(&self, sink: &Sink) -> Result<(), String> {
        let said = |e: zbus::Error| e.to_string();
        let bus = Connection::system().await.map_err(said)?;
        let path = self.modem(&bus).await?;
        let signal = Proxy::new(&bus, SERVICE, &path, SIGNAL).await.map_err(said)?;
        let () = signal.call("Setup", &self.rate_s).await.map_err(said)?;
        info!("{path}: requested a reading every {} s", self.rate_s);
        let properties = PropertiesProxy::new(&bus, SERVICE, &path).await.map_err(said)?;
        let mut ticks = interval(Duration::from_secs(self.rate_s.into()));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let all = properties.get_all(SIGNAL).await.map_err(|e| e.to_string())?;
            let radios: Vec<Reading> = RADIOS.iter().filter_map(|radio| all.get(*radio)).filter_map(reading).collect();
            match radios.iter().find(|radio| radio.sinr_db.is_some()).or(radios.first()) {
                Some(&reading) => sink.offer(Ue::Unnamed, &RawReading { reading, ..RawReading::default() }),
                None => sink.reject(Reject::Nothing, &"the modem reports no signal values"),
            }
        }
    }

    async fn modem(&self, bus: &Connection) -> Result<OwnedObjectPath, String> {
        let manager = ObjectManagerProxy::new(bus, SERVICE, ROOT).await.map_err(|e| e.to_string())?;
        let objects = manager.get_managed_objects().await.map_err(|e| e.to_string())?;
        let mut modems: Vec<OwnedObjectPath> =
            objects.into_iter().filter(|(_, has)| has.keys().any(|i| *i == SIGNAL)).map(|(path, _)| path).collect();
        modems.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let wanted = |path: &OwnedObjectPath| self.path.as_ref().is_none_or(|wanted| path.as_str() == wanted);
        modems
            .into_iter()
            .find(wanted)
            .ok_or_else(|| "no modem has the interface Modem.Signal (extended signal quality)".to_owned())
    }
}

/// Returns the values of one radio. A value that no radio can have means "not known".
fn reading(radio: &OwnedVariant) -> Option<Reading> {
    let values = HashMap::<String, OwnedVariant>::try_from(radio.try_clone().ok()?).ok()?;
    let known = |name: &str, range: &std::ops::RangeInclusive<f64>| {
        values.get(name).and_then(|v| f64::try_from(v).ok()).filter(|v| range.contains(v))
    };
    let reading = Reading {
        sinr_db: known("snr", &ranges::SINR_DB),
        rsrp_dbm: known("rsrp", &ranges::RSRP_DBM),
        rsrq_db: known("rsrq", &ranges::RSRQ_DB),
        ..Reading::default()
    };
    (reading != Reading::default()).then_some(reading)
}

impl Source for ModemManagerSource {
    fn kind(&self) -> u8 {
        SOURCE_MM
    }

    fn pace(&self) -> Pace {
        Pace::Expected(Duration::from_secs(self.rate_s.into()))
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let mut logged = None;
            loop {
                let why = self.session(&sink).await.err();
                if logged != why {
                    warn!("ModemManager: {}; retrying every 0.5 s", why.as_deref().unwrap_or("session ended"));
                    logged = why;
                }
                tokio::time::sleep(RETRY).await;
            }
        })
    }
}
