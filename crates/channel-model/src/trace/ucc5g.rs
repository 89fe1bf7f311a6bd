//! The 5G and 4G production data sets of University College Cork (Raca et al., MMSys 2018 and 2020): one row per second
//! as written by G-NetTrack, several rows in some seconds, and `-` for missing values.

use super::cells::{Malformed, id, index, number, offset};
use super::sample::Sample;
use super::table::Table;
use crate::ranges;
use csv::StringRecord;
use std::time::Duration;

/// The column that identifies this format.
pub(super) const TIME: &str = "Timestamp";
/// The serving cell, in the files that have it.
const CELL: &str = "RAWCELLID";

pub(super) fn parse(text: &str) -> Result<Vec<Sample>, Malformed> {
    let mut table = Table::new(text)?;
    let time = table.need(TIME)?;
    let columns = ["RSRP", "RSRQ", "SNR", "CQI", "DL_bitrate", "State"];
    let mut places = [0; 6];
    for (place, name) in places.iter_mut().zip(columns) {
        *place = table.need(name)?;
    }
    let cell = table.column(CELL);
    let mut row = StringRecord::new();
    let mut samples: Vec<(i64, Sample)> = Vec::new();
    let mut start = None;
    while let Some(line) = table.next(&mut row)? {
        let malformed = |what| Malformed::new(line, what);
        let stamp = row.get(time).unwrap_or_default();
        let second = seconds(stamp)
            .ok_or_else(|| malformed(format!("{TIME} '{stamp}' is not of the form YYYY.MM.DD_HH.MM.SS")))?;
        let cells = places.map(|i| row.get(i).filter(|cell| !matches!(*cell, "-" | "")));
        let mut sample = sample(&cells).map_err(malformed)?;
        let cell = cell.and_then(|i| row.get(i)).filter(|cell| !matches!(*cell, "-" | ""));
        sample.cell = cell.map(|t| id(CELL, t)).transpose().map_err(malformed)?;
        if samples.last().is_some_and(|(last, _)| second < *last) {
            return Err(malformed(format!("time goes backwards: {stamp}")));
        }
        sample.at = offset((second - *start.get_or_insert(second)) as f64).map_err(malformed)?;
        samples.push((second, sample));
    }
    let rows = samples.chunk_by_mut(|a, b| a.0 == b.0);
    for same_second in rows {
        let n = same_second.len() as u32;
        for (i, (_, sample)) in same_second.iter_mut().enumerate() {
            sample.at += Duration::from_secs(1) * i as u32 / n;
        }
    }
    Ok(samples.into_iter().map(|(_, sample)| sample).collect())
}

fn sample([rsrp, rsrq, snr, cqi, rate, state]: &[Option<&str>; 6]) -> Result<Sample, String> {
    let kbps = rate.map(|t| number("DL_bitrate", t, &(0.0..=1e12))).transpose()?;
    Ok(Sample {
        sinr_db: snr.map(|t| number("SNR", t, &ranges::SINR_DB)).transpose()?,
        // The rate of a download. Without a download, the rate does not show the link's capacity.
        capacity_bps: kbps.filter(|k| *state == Some("D") && *k > 0.0).map(|k| k * 1000.0),
        rsrp_dbm: rsrp.map(|t| number("RSRP", t, &ranges::RSRP_DBM)).transpose()?,
        rsrq_db: rsrq.map(|t| number("RSRQ", t, &ranges::RSRQ_DB)).transpose()?,
        cqi: cqi.map(|t| index("CQI", t, ranges::CQI)).transpose()?,
        ..Sample::default()
    })
}

/// Returns the seconds since 1970 of the local time in the file (the data sets have no time zone).
fn seconds(stamp: &str) -> Option<i64> {
    let parts: Vec<&str> = stamp.split(['.', '_']).collect();
    let parts: [&str; 6] = parts.try_into().ok()?;
    let mut n = [0i64; 6];
    for (value, (part, width)) in n.iter_mut().zip(parts.into_iter().zip([4, 2, 2, 2, 2, 2])) {
        if part.len() != width || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *value = part.parse().ok()?;
    }
    let [year, month, day, hour, minute, second] = n;
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    // Days from the civil calendar, with years that start in March so that the leap day is the last one.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 719_469;
    valid.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn stamps_are_counted() {
        assert_eq!(seconds("1970.01.01_00.00.00"), Some(0));
        assert_eq!(seconds("2019.12.16_14.23.32"), Some(1_576_506_212));
        assert_eq!(seconds("2020.03.01_00.00.00"), Some(1_583_020_800));
        for bad in ["", "2019.12.16", "2019.13.16_14.23.32", "19.12.16_14.23.32", "2019.12.16_24.00.00", "é"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
