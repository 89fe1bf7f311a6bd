//! The CICV5G data set (vehicle to cloud over 5G): space-separated, one row per application message, with the times at
//! which the message was sent and was received back.

use super::cells::{LONGEST, Malformed, lines, number};
use super::sample::Sample;
use crate::ranges;
use std::time::Duration;

/// The column that identifies this format, and the clock: the time at which a message was received back.
pub(super) const TIME: &str = "sub_time(ms)";

pub(super) fn parse(text: &str) -> Result<Vec<Sample>, Malformed> {
    let mut rows = lines(text);
    let Some((first, header)) = rows.next() else { return Ok(Vec::new()) };
    let header: Vec<&str> = header.split_whitespace().collect();
    let column = |name: &str| {
        let place = header.iter().position(|h| *h == name);
        place.ok_or_else(|| Malformed::new(first, format!("the header has no column {name}")))
    };
    let (time, sinr, rsrp) = (column(TIME)?, column("sinr(db)")?, column("rsrp(db)")?);
    let mut timed: Vec<(u64, u64, Sample)> = Vec::new();
    for (line, row) in rows {
        let cells: Vec<&str> = row.split_whitespace().collect();
        if cells.len() != header.len() {
            let what = format!("{} fields; the header has {}", cells.len(), header.len());
            return Err(Malformed::new(line, what));
        }
        let read = || -> Result<(u64, Sample), String> {
            let ms = cells[time].parse().map_err(|_| format!("{TIME} '{}' is not a whole number", cells[time]))?;
            let sinr_db = Some(number("sinr(db)", cells[sinr], &ranges::SINR_DB)?);
            let rsrp_dbm = Some(number("rsrp(db)", cells[rsrp], &ranges::RSRP_DBM)?);
            Ok((ms, Sample { sinr_db, rsrp_dbm, ..Sample::default() }))
        };
        let (ms, sample) = read().map_err(|what| Malformed::new(line, what))?;
        timed.push((ms, line, sample));
    }
    // Messages may overtake each other: rows are in the order of sending, but are needed in the order of receipt.
    timed.sort_by_key(|(ms, line, _)| (*ms, *line));
    let start = timed.first().map_or(0, |(ms, ..)| *ms);
    let placed = timed.into_iter().map(|(ms, line, mut sample)| {
        let at = Duration::from_millis(ms - start);
        if at > LONGEST {
            return Err(Malformed::new(line, format!("{TIME} {ms} is more than a year after the first")));
        }
        sample.at = at;
        Ok(sample)
    });
    placed.collect()
}
