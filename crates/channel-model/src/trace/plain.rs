//! This project's own CSV: `time_s`, at least one of `sinr_db`, `capacity_bps` and `rtt_ms`, and optional columns, in
//! any order.

use super::cells::{Malformed, id, index, number, offset};
use super::sample::Sample;
use super::table::Table;
use crate::ranges;
use csv::StringRecord;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// The column that identifies this format.
pub(super) const TIME: &str = "time_s";
const COLUMNS: [&str; 9] = [TIME, "sinr_db", "capacity_bps", "rtt_ms", "rsrp_dbm", "rsrq_db", "cqi", "mcs", "cell"];
/// Columns of which a trace needs at least one to describe a link.
const LINK_COLUMNS: [&str; 3] = ["sinr_db", "capacity_bps", "rtt_ms"];
/// Seconds since any epoch. Beyond this range, an f64 no longer represents milliseconds accurately.
const TIME_S: RangeInclusive<f64> = -1e10..=1e10;

pub(super) fn parse(text: &str) -> Result<Vec<Sample>, Malformed> {
    let mut table = Table::new(text)?;
    check_header(&mut table)?;
    if LINK_COLUMNS.iter().all(|name| table.column(name).is_none()) {
        let line = table.line();
        return Err(Malformed::new(line, "the header has no column sinr_db, capacity_bps or rtt_ms"));
    }
    let columns = COLUMNS.map(|name| table.column(name));
    let mut row = StringRecord::new();
    let mut samples = Vec::new();
    let mut first_s = None;
    let mut last_s = f64::NEG_INFINITY;
    while let Some(line) = table.next(&mut row)? {
        let cells = columns.map(|column| column.and_then(|i| row.get(i)).filter(|cell| !cell.is_empty()));
        let (time_s, mut sample) = parse_row(&cells).map_err(|what| Malformed::new(line, what))?;
        if time_s < last_s {
            return Err(Malformed::new(line, format!("time goes backwards: {time_s} after {last_s}")));
        }
        last_s = time_s;
        let start_s = *first_s.get_or_insert(time_s);
        sample.at = offset(time_s - start_s).map_err(|what| Malformed::new(line, what))?;
        samples.push(sample);
    }
    Ok(samples)
}

fn check_header(table: &mut Table) -> Result<(), Malformed> {
    let line = table.line();
    for (i, name) in table.header().iter().enumerate() {
        if !COLUMNS.contains(&name) {
            return Err(Malformed::new(line, unknown_column(name)));
        }
        if table.column(name) != Some(i) {
            return Err(Malformed::new(line, format!("the header has column {name} twice")));
        }
    }
    Ok(())
}

fn unknown_column(name: &str) -> String {
    let nearest = COLUMNS.iter().map(|one| (strsim::jaro(name, one), one)).max_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = nearest.filter(|(similarity, _)| *similarity > 0.8);
    let suggestion = nearest.map_or_else(String::new, |(_, one)| format!("did you mean `{one}`? "));
    format!("unknown column `{name}`: {suggestion}expected one of {}", COLUMNS.join(", "))
}

fn parse_row(
    [time, sinr, capacity, rtt, rsrp, rsrq, cqi, mcs, cell]: &[Option<&str>; 9],
) -> Result<(f64, Sample), String> {
    let time_s = number(TIME, time.ok_or_else(|| format!("{TIME} is missing"))?, &TIME_S)?;
    let sample = Sample {
        sinr_db: sinr.map(|t| number("sinr_db", t, &ranges::SINR_DB)).transpose()?,
        capacity_bps: capacity.map(|t| number("capacity_bps", t, &ranges::CAPACITY_BPS)).transpose()?,
        rtt_ms: rtt.map(|t| number("rtt_ms", t, &ranges::RTT_MS)).transpose()?,
        rsrp_dbm: rsrp.map(|t| number("rsrp_dbm", t, &ranges::RSRP_DBM)).transpose()?,
        rsrq_db: rsrq.map(|t| number("rsrq_db", t, &ranges::RSRQ_DB)).transpose()?,
        cqi: cqi.map(|t| index("cqi", t, ranges::CQI)).transpose()?,
        mcs: mcs.map(|t| index("mcs", t, ranges::MCS)).transpose()?,
        cell: cell.map(|t| id("cell", t)).transpose()?,
        ..Sample::default()
    };
    Ok((time_s, sample))
}

/// Returns the samples as CSV text. Leaves out columns that no sample has.
pub(super) fn write(samples: &[Sample]) -> String {
    type Cell = fn(&Sample) -> Option<String>;
    let optional: [(&str, Cell); 7] = [
        ("capacity_bps", |s| s.capacity_bps.map(|v| format!("{v:.0}"))),
        ("rtt_ms", |s| s.rtt_ms.map(|v| format!("{v:.3}"))),
        ("rsrp_dbm", |s| s.rsrp_dbm.map(|v| format!("{v:.2}"))),
        ("rsrq_db", |s| s.rsrq_db.map(|v| format!("{v:.2}"))),
        ("cqi", |s| s.cqi.map(|v| v.to_string())),
        ("mcs", |s| s.mcs.map(|v| v.to_string())),
        ("cell", |s| s.cell.map(|v| v.to_string())),
    ];
    let used: Vec<_> = optional.iter().filter(|(_, cell)| samples.iter().any(|s| cell(s).is_some())).collect();
    let mut out = format!("{TIME},sinr_db");
    for (name, _) in &used {
        out.extend([",", name]);
    }
    for s in samples {
        let sinr = s.sinr_db.map_or(String::new(), |v| format!("{v:.2}"));
        // Writing to a String cannot fail.
        let _ = write!(out, "\n{:.3},{sinr}", s.at.as_secs_f64());
        for (_, cell) in &used {
            let _ = write!(out, ",{}", cell(s).unwrap_or_default());
        }
    }
    out.push('\n');
    out
}
