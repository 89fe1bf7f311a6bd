//! `wifi:INTERFACE[,period_ms=N][,noise_dbm=N]`: a wireless interface, through nl80211. The SINR is the signal of its
//! station over the noise of its channel.

use super::{RETRY, Running, Source};
use crate::args::Args;
use crate::condition::Pace;
use crate::error::SourceError;
use crate::feed::sink::Sink;
use crate::reading::{RawReading, Ue};
use crate::reject::Reject;
use futures_util::TryStreamExt;
use hotcc_abi::radio::SOURCE_WIFI;
use hotcc_channel_model::ranges::SINR_DB;
use hotcc_radio_map::Reading;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use wl_nl80211::packet_core::Nla;
use wl_nl80211::{Nl80211Attr, Nl80211Handle, Nl80211StationInfo, Nl80211Survey, Nl80211SurveyInfo};

/// `NL80211_SURVEY_INFO_IN_USE` of linux/nl80211.h: the channel that the interface is on.
const IN_USE: u16 = 3;

#[derive(Debug)]
pub(super) struct WifiSource {
    interface: String,
    period: Duration,
    noise_dbm: Option<f64>,
}

/// A station's hardware address, and its signal in dBm.
type Station = (String, f64);

impl WifiSource {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let interface = args.main("the interface, e.g. wifi:wlan0,")?.to_owned();
        let period = Duration::from_millis(args.number("period_ms", 10..=60_000, 100)? as u64);
        let noise = args.number("noise_dbm", -200..=0, 1)?;
        args.done()?;
        Ok(Self { interface, period, noise_dbm: (noise <= 0).then_some(noise as f64) })
    }

    async fn session(&self, sink: &Sink) -> Result<(), String> {
        let index = nix::net::if_::if_nametoindex(&*self.interface).map_err(|_| "no such interface")?;
        let (connection, handle, _) = wl_nl80211::new_connection().map_err(|e| e.to_string())?;
        let connection = tokio::spawn(connection);
        let outcome = self.poll(sink, index, &handle).await;
        connection.abort();
        outcome
    }

    async fn poll(&self, sink: &Sink, index: u32, handle: &Nl80211Handle) -> Result<(), String> {
        let mut ticks = interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut logged = false;
        loop {
            ticks.tick().await;
            let stations = stations(handle, index).await?;
            if !std::mem::replace(&mut logged, true) {
                info!("{}: {} stations", self.interface, stations.len());
            }
            let noise_dbm = match self.noise_dbm {
                Some(given) => Some(given),
                None => noise_dbm(handle, index).await?,
            };
            let Some(noise_dbm) = noise_dbm else {
                sink.reject(Reject::Nothing, &"the driver does not report the noise level: set it, e.g. noise_dbm=-95");
                continue;
            };
            sink.batch(|batch| {
                // If no UE is known by name and the interface has only one station, its readings are those of the
                // unnamed UE.
                let only = stations.len() == 1 && !batch.has_names();
                for (address, signal_dbm) in &stations {
                    let reading = Reading {
                        // next to its station, an interface reports a higher SINR than any receiver can use
                        sinr_db: Some((signal_dbm - noise_dbm).min(*SINR_DB.end())),
                        rsrp_dbm: Some(*signal_dbm),
                        ..Reading::default()
                    };
                    let ue = if only { Ue::Unnamed } else { Ue::Id(address) };
                    batch.offer(ue, &RawReading { reading, ..RawReading::default() });
                }
            });
        }
    }
}

async fn stations(handle: &Nl80211Handle, index: u32) -> Result<Vec<Station>, String> {
    let answers = handle.station().dump(index).execute().await;
    let answers: Vec<_> = answers.try_collect().await.map_err(|e| e.to_string())?;
    Ok(answers.iter().filter_map(|answer| station(&answer.payload.attributes)).collect())
}

fn station(attributes: &[Nl80211Attr]) -> Option<Station> {
    let address = attributes.iter().find_map(|a| match a {
        Nl80211Attr::Mac(mac) => Some(mac.map(|byte| format!("{byte:02x}")).join(":")),
        _ => None,
    })?;
    let info = attributes.iter().find_map(|a| if let Nl80211Attr::StationInfo(i) = a { Some(i) } else { None })?;
    let last = info.iter().find_map(|i| if let Nl80211StationInfo::Signal(dbm) = i { Some(*dbm) } else { None })?;
    Some((address, last.into()))
}

/// Returns the noise of the channel in use, or `None` if the driver does not know it.
async fn noise_dbm(handle: &Nl80211Handle, index: u32) -> Result<Option<f64>, String> {
    let survey = Nl80211Survey::new(index).build();
    let answers = handle.survey().dump(survey).execute().await;
    let answers: Vec<_> = answers.try_collect().await.map_err(|e| e.to_string())?;
    let channels: Vec<_> = answers.iter().filter_map(|answer| Channel::of(&answer.payload.attributes)).collect();
    let in_use = channels.iter().find(|channel| channel.in_use);
    if in_use.is_some() || channels.is_empty() {
        return Ok(in_use.and_then(|channel| channel.noise_dbm));
    }
    // Some drivers mark no channel as in use; then it is the one to which the interface is tuned.
    let tuned_mhz = frequency_mhz(handle, index).await?;
    let tuned = channels.iter().find(|channel| tuned_mhz.is_some() && channel.frequency_mhz == tuned_mhz);
    Ok(tuned.and_then(|channel| channel.noise_dbm))
}

async fn frequency_mhz(handle: &Nl80211Handle, index: u32) -> Result<Option<u32>, String> {
    let answers = handle.interface().get(vec![Nl80211Attr::IfIndex(index)]).execute().await;
    let answers: Vec<_> = answers.try_collect().await.map_err(|e| e.to_string())?;
    let frequency = |a: &Nl80211Attr| if let Nl80211Attr::WiphyFreq(mhz) = a { Some(*mhz) } else { None };
    Ok(answers.iter().flat_map(|answer| &answer.payload.attributes).find_map(frequency))
}

/// The survey of one channel.
#[derive(Debug, Default, PartialEq)]
struct Channel {
    frequency_mhz: Option<u32>,
    noise_dbm: Option<f64>,
    in_use: bool,
}

impl Channel {
    fn of(attributes: &[Nl80211Attr]) -> Option<Self> {
        let info = attributes.iter().find_map(|a| if let Nl80211Attr::SurveyInfo(i) = a { Some(i) } else { None })?;
        let mut channel = Self::default();
        for item in info {
            match item {
                Nl80211SurveyInfo::Frequency(mhz) => channel.frequency_mhz = Some(*mhz),
                Nl80211SurveyInfo::Noise(dbm) => channel.noise_dbm = Some((*dbm).into()),
                Nl80211SurveyInfo::Other(nla) if nla.kind() == IN_USE => channel.in_use = true,
                _ => {}
            }
        }
        Some(channel)
    }
}

impl Source for WifiSource {
    fn kind(&self) -> u8 {
        SOURCE_WIFI
    }

    fn pace(&self) -> Pace {
        Pace::Expected(self.period)
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let mut logged = None;
            loop {
                let ended: Result<(), SourceError> = self.session(&sink).await.map_err(SourceError);
                let why = ended.err().map(|e| e.to_string());
                if logged != why {
                    let what = why.as_deref().unwrap_or("session ended");
                    warn!("{}: {what}; retrying every 0.5 s", self.interface);
                    logged = why;
                }
                tokio::time::sleep(RETRY).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wl_nl80211::packet_core::{NlaBuffer, Parseable};

    /// Returns an attribute in the kernel's format.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::from(((value.len() + 4) as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn parsed(kind: u16, value: &[u8]) -> Nl80211Attr {
        Nl80211Attr::parse(&NlaBuffer::new_checked(&attribute(kind, value)).unwrap()).unwrap()
    }

    // Numbers of linux/nl80211.h.
    const MAC: u16 = 6;
    const STA_INFO: u16 = 21;
    const STA_INFO_INACTIVE_TIME: u16 = 1;
    const STA_INFO_SIGNAL: u16 = 7;
    const SURVEY_INFO: u16 = 84;
    const SURVEY_INFO_FREQUENCY: u16 = 1;
    const SURVEY_INFO_NOISE: u16 = 2;

    #[test]
    fn a_station_is_its_address_and_signal() {
        let inactive = attribute(STA_INFO_INACTIVE_TIME, &20u32.to_ne_bytes());
        let signal = attribute(STA_INFO_SIGNAL, &[-61i8 as u8]);
        let mac = parsed(MAC, &[2, 0, 0, 0, 1, 0xab]);
        let known = [mac.clone(), parsed(STA_INFO, &[inactive.clone(), signal].concat())];
        assert_eq!(station(&known), Some(("02:00:00:00:01:ab".to_owned(), -61.0)));
        assert_eq!(station(&[mac, parsed(STA_INFO, &inactive)]), None);
    }

    #[test]
    fn a_channel_is_its_frequency_and_noise() {
        let frequency = attribute(SURVEY_INFO_FREQUENCY, &2412u32.to_ne_bytes());
        let noise = attribute(SURVEY_INFO_NOISE, &[-92i8 as u8]);
        let in_use = attribute(IN_USE, &[]);
        let survey = |parts: &[Vec<u8>]| Channel::of(&[parsed(SURVEY_INFO, &parts.concat())]);
        let channel = Channel { frequency_mhz: Some(2412), noise_dbm: Some(-92.0), in_use: true };
        assert_eq!(survey(&[frequency.clone(), noise.clone(), in_use.clone()]), Some(channel));
        assert_eq!(survey(&[noise]), Some(Channel { noise_dbm: Some(-92.0), ..Channel::default() }));
        assert_eq!(survey(&[in_use]), Some(Channel { in_use: true, ..Channel::default() }));
        assert_eq!(Channel::of(&[]), None);
    }
}
