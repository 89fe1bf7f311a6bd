//! `show`: every link and its latest reading, as a table or as JSON.

use crate::cli::ShowArgs;
use comfy_table::{CellAlignment, Table, presets};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::{q8_to_db, source_name};
use hotcc_radio_map::{Link, RadioView};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// The output of `--json`. Fields are only ever added; `version` changes when a meaning changes.
#[derive(Serialize)]
struct Report {
    version: u32,
    links: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    link: String,
    slot: u32,
    sinr_db: Option<f64>,
    average_db: Option<f64>,
    age_ms: Option<u32>,
    state: &'static str,
    sinr_age_ms: Option<u32>,
    sinr_state: &'static str,
    max_age_ms: u32,
    updates: u64,
    period_ms: Option<u32>,
    capacity_bps: Option<u64>,
    capacity_age_ms: Option<u32>,
    capacity_state: &'static str,
    capacity_origin: Option<&'static str>,
    rsrp_dbm: Option<f64>,
    rsrq_db: Option<f64>,
    cqi: Option<u8>,
    mcs: Option<u8>,
    cell_generation: u32,
    source: &'static str,
    owner_pid: Option<u32>,
    owner_alive: bool,
}

impl Row {
    /// Returns the origin of the capacity, or "stale" if readers ignore it.
    fn capacity_text(&self) -> String {
        let stale = self.capacity_origin.filter(|_| self.capacity_state == "stale");
        cell(stale.map(|_| "stale").or(self.capacity_origin))
    }

    fn new(link: &Link, now_ms: u32) -> Self {
        let s = &link.snapshot;
        Self {
            link: link.key.to_string(),
            slot: link.slot,
            sinr_db: s.sinr.map(|d| q8_to_db(d.sinr_q8_db.into())),
            average_db: s.sinr.map(|d| q8_to_db(d.average_q8_db.into())),
            age_ms: s.latest_age_ms(now_ms),
            state: s.latest_freshness(now_ms).name(),
            sinr_age_ms: s.age_ms(now_ms),
            sinr_state: s.freshness(now_ms).name(),
            max_age_ms: s.max_age_ms,
            updates: s.updates,
            period_ms: s.period_ms,
            capacity_bps: s.capacity.map(|c| c.bps()),
            capacity_age_ms: s.capacity.map(|c| c.age_ms(now_ms)),
            capacity_state: s.capacity_freshness(now_ms).name(),
            capacity_origin: s.capacity.map(|c| if c.is_derived { "derived" } else { "measured" }),
            rsrp_dbm: s.rsrp_dbm,
            rsrq_db: s.rsrq_db,
            cqi: s.cqi,
            mcs: s.mcs,
            cell_generation: s.cell,
            source: source_name(s.source),
            owner_pid: s.owner_pid,
            owner_alive: s.owner_alive(),
        }
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        let owner = match self.owner_pid {
            None => "none".to_owned(),
            Some(pid) if self.owner_alive => pid.to_string(),
            Some(pid) => format!("{pid} (gone)"),
        };
        [
            self.link.clone(),
            cell(self.sinr_db.map(|v| format!("{v:.1}"))),
            cell(self.average_db.map(|v| format!("{v:.1}"))),
            cell(self.age_ms),
            self.state.to_owned(),
            self.max_age_ms.to_string(),
            self.updates.to_string(),
            cell(self.period_ms),
            cell(self.capacity_bps.map(|v| format!("{:.2}", v as f64 / 1e6))),
            self.capacity_text(),
            cell(self.rsrp_dbm.map(|v| format!("{v:.0}"))),
            cell(self.rsrq_db.map(|v| format!("{v:.0}"))),
            cell(self.cqi),
            self.source.to_owned(),
            owner,
        ]
    }
}

const COLUMNS: [&str; 15] = [
    "LINK",
    "SINR dB",
    "AVG dB",
    "AGE ms",
    "STATE",
    "MAX AGE ms",
    "UPDATES",
    "PERIOD ms",
    "CAPACITY Mbit/s",
    "CAPACITY IS",
    "RSRP dBm",
    "RSRQ dB",
    "CQI",
    "SOURCE",
    "OWNER",
];

fn cell(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |v| v.to_string())
}

pub fn show(args: &ShowArgs, pin_root: &Path) -> anyhow::Result<()> {
    let view = RadioView::open(pin_root)?;
    let clear = args.watch && !args.json && io::stdout().is_terminal();
    loop {
        let links = view.links()?;
        let now_ms = monotonic_ms32(); // after the snapshots, so that no reading seems to come from the future
        let links = links.iter().map(|l| Row::new(l, now_ms)).collect();
        let text = match (args.json, args.watch) {
            (true, true) => serde_json::to_string(&Report { version: 1, links })?,
            (true, false) => serde_json::to_string_pretty(&Report { version: 1, links })?,
            (false, _) => table(&links),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{}{text}", if clear { "\x1b[H\x1b[2J" } else { "" })?;
        out.flush()?;
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Formats the table: links aligned left, the other columns right.
fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "the radio map has no links".to_owned();
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_row(COLUMNS).add_rows(rows.iter().map(Row::cells));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if i == 0 { 0 } else { 2 }, 0));
        column.set_cell_alignment(if i == 0 { CellAlignment::Left } else { CellAlignment::Right });
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stand_to_the_left_and_figures_to_the_right() {
        let row = |link: &str, sinr_db, updates| Row {
            link: link.to_owned(),
            slot: 0,
            sinr_db,
            average_db: sinr_db,
            age_ms: sinr_db.map(|_| 5),
            state: "fresh",
            sinr_age_ms: sinr_db.map(|_| 5),
            sinr_state: "fresh",
            max_age_ms: 400,
            updates,
            period_ms: None,
            capacity_bps: Some(12_345_678),
            capacity_age_ms: Some(5),
            capacity_state: if sinr_db.is_some() { "stale" } else { "fresh" },
            capacity_origin: Some("measured"),
            rsrp_dbm: None,
            rsrq_db: None,
            cqi: None,
            mcs: None,
            cell_generation: 0,
            source: "udp",
            owner_pid: Some(77),
            owner_alive: sinr_db.is_none(),
        };
        let rows = [row("192.0.2.1/32", Some(-3.25), 1_234_567_890), row("::/0", None, 0)];
        let lines = [
            concat!(
                "LINK          SINR dB  AVG dB  AGE ms  STATE  MAX AGE ms     UPDATES",
                "  PERIOD ms  CAPACITY Mbit/s  CAPACITY IS  RSRP dBm  RSRQ dB  CQI  SOURCE      OWNER"
            ),
            concat!(
                "192.0.2.1/32     -3.2    -3.2       5  fresh         400  1234567890",
                "          -            12.35        stale         -        -    -     udp  77 (gone)"
            ),
            concat!(
                "::/0                -       -       -  fresh         400           0",
                "          -            12.35     measured         -        -    -     udp         77"
            ),
        ];
        assert_eq!(table(&rows), lines.join("\n"));
    }
}
