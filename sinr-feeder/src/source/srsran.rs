//! `srsran:ws://HOST:PORT[,uplink]`: a base station's metrics over its websocket (srsRAN Project's remote control).
//!
//! For each UE, the station sends the CQI that the UE reported, which describes the downlink, and the SNR of the UE's
//! signal at the station, which describes the uplink. These are different radio links, so a source reads only one.

use super::{RETRY, Running, Source};
use crate::args::Args;
use crate::feed::sink::{Batch, Sink};
use crate::reading::{RawReading, Ue};
use crate::reject::Reject;
use futures_util::{SinkExt, StreamExt};
use hotcc_abi::radio::{SOURCE_SRSRAN, SOURCE_SRSRAN_UPLINK};
use hotcc_channel_model::Table;
use hotcc_radio_map::Reading;
use serde::Deserialize;
use std::time::Duration;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message};
use tracing::{info, warn};

const SUBSCRIBE: &str = r#"{"cmd":"metrics_subscribe"}"#;
/// The source reconnects after this long without a message: stations report every second unless configured otherwise.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct SrsranSource {
    url: String,
    uplink: bool,
    table: Table,
}

/// A message of the station, without the keys that are not used here.
#[derive(Debug, Deserialize)]
struct Metrics {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Debug, Deserialize)]
struct Cell {
    #[serde(default)]
    ue_list: Vec<UeMetrics>,
}

#[derive(Debug, Deserialize)]
struct UeMetrics {
    rnti: u32,
    cqi: Option<f64>,
    dl_mcs: Option<f64>,
    ul_mcs: Option<f64>,
    pusch_snr_db: Option<f64>,
}

impl SrsranSource {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let url = args.main("the base station's address, e.g. srsran:ws://gnb:8001,")?.to_owned();
        if !url.starts_with("ws://") {
            return Err(format!("invalid base station address `{url}`: expected ws://HOST:PORT"));
        }
        let uplink = args.flag("uplink")?;
        let table = if args.flag("256qam")? { Table::CqiNr256Qam } else { Table::CqiNr64Qam };
        args.done()?;
        Ok(Self { url, uplink, table })
    }

    fn reading(&self, ue: &UeMetrics) -> RawReading {
        let index = |value: Option<f64>| value.filter(|v| (1.0..=31.0).contains(v)).map(|v| v.round() as u8);
        let reading = if self.uplink {
            Reading { sinr_db: ue.pusch_snr_db, mcs: index(ue.ul_mcs), ..Reading::default() }
        } else {
            // A station without a CQI report sends 0, which is also CQI's "out of range": both mean that there is no
            // reading.
            let cqi = index(ue.cqi).filter(|cqi| *cqi <= 15);
            let sinr_db = cqi.and_then(|cqi| self.table.sinr_of_cqi(cqi));
            Reading { sinr_db, cqi, mcs: index(ue.dl_mcs).filter(|_| cqi.is_some()), ..Reading::default() }
        };
        RawReading { reading, ..RawReading::default() }
    }

    fn take(&self, batch: &mut Batch<'_>, text: &str) -> Result<(), String> {
        let metrics: Metrics = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if let Some(error) = metrics.error {
            return Err(format!("the base station reports an error: {error}"));
        }
        let ues: Vec<&UeMetrics> = metrics.cells.iter().flat_map(|cell| &cell.ue_list).collect();
        // If no UE is known by name and the station has only one, its readings are those of the unnamed UE.
        let only = ues.len() == 1 && !batch.has_names();
        for ue in ues {
            let id = ue.rnti.to_string();
            batch.offer(if only { Ue::Unnamed } else { Ue::Id(&id) }, &self.reading(ue));
        }
        Ok(())
    }

    async fn session(&self, sink: &Sink) -> Result<(), Error> {
        let (mut socket, _) = connect_async(&self.url).await?;
        socket.send(Message::text(SUBSCRIBE)).await?;
        info!("{}: subscribed", self.url);
        while let Ok(Some(message)) = tokio::time::timeout(SILENCE, socket.next()).await {
            if let Message::Text(text) = message? {
                sink.batch(|batch| {
                    if let Err(what) = self.take(batch, &text) {
                        batch.reject(Reject::Malformed, &what);
                    }
                });
            }
        }
        Ok(())
    }
}

impl Source for SrsranSource {
    fn kind(&self) -> u8 {
        if self.uplink { SOURCE_SRSRAN_UPLINK } else { SOURCE_SRSRAN }
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let mut logged = false;
            loop {
                let ended = self.session(&sink).await;
                let reached = !matches!(ended, Err(Error::Io(_)));
                if reached || !logged {
                    let why =
                        ended.err().map_or("connection closed, or no message for 30 s".to_owned(), |e| e.to_string());
                    warn!("{}: {why}; reconnecting", self.url);
                }
                logged = !reached;
                tokio::time::sleep(RETRY).await;
            }
        })
    }
}
