//! CellReplay's base delays (Sentosa et al., NSDI 2025). Each line has a time in ms, the one-way delay in ms of a
//! packet that was sent at this time, and the times at which the packets of a short burst arrived after the first.
//! CellReplay's heavy traces, of a saturated link, are in the format of [`super::mahimahi`].

use super::cells::{LONGEST, Malformed, lines};
use super::sample::Sample;
use crate::ranges::RTT_MS;
use std::time::Duration;

/// Returns whether the first line of a file is of this format.
pub(super) fn is(first: &str) -> bool {
    let mut cells = first.split_whitespace();
    let whole = |cell: &str| cell.bytes().all(|b| b.is_ascii_digit());
    cells.clone().count() >= 2 && cells.all(whole)
}

/// Parses the file, and keeps only the delays: a short burst shows how an idle link starts, not the link's capacity.
pub(super) fn parse(text: &str) -> Result<Vec<Sample>, Malformed> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut start_ms = None;
    for (line, row) in lines(text) {
        let malformed = |what: String| Malformed::new(line, what);
        let mut numbers = Vec::new();
        for cell in row.split_whitespace() {
            let shown: String = cell.chars().take(40).collect();
            let number: u64 = cell.parse().map_err(|_| malformed(format!("'{shown}' is not a whole number of ms")))?;
            numbers.push(number);
        }
        let [time_ms, delay_ms, burst @ ..] = &numbers[..] else {
            return Err(malformed("one number; expected a time, a delay and the arrivals of a burst".to_owned()));
        };
        if !burst.is_sorted() {
            return Err(malformed("the arrivals of the burst go backwards".to_owned()));
        }
        let rtt_ms = 2.0 * *delay_ms as f64;
        if !RTT_MS.contains(&rtt_ms) {
            return Err(malformed(format!(
                "delay {delay_ms} ms is out of range: expected 0 to {}",
                RTT_MS.end() / 2.0
            )));
        }
        let start = *start_ms.get_or_insert(*time_ms);
        let at = time_ms.checked_sub(start).map(Duration::from_millis);
        let last = samples.last().map_or(Duration::ZERO, |sample| sample.at);
        let at = at.filter(|at| *at >= last);
        let at = at.ok_or_else(|| {
            malformed(format!("time goes backwards: {time_ms} after {}", last.as_millis() + u128::from(start)))
        })?;
        if at > LONGEST {
            return Err(malformed(format!("{time_ms} ms is more than a year after the first line")));
        }
        samples.push(Sample { at, rtt_ms: Some(rtt_ms), ..Sample::default() });
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_counts_there_and_back() {
        let samples = parse("0 21 0 0 3 9\n101 35 0\n200 20\n").unwrap_or_else(|e| panic!("{e:?}"));
        let seen: Vec<_> = samples.iter().map(|s| (s.at.as_millis(), s.rtt_ms)).collect();
        assert_eq!(seen, [(0, Some(42.0)), (101, Some(70.0)), (200, Some(40.0))]);
        assert!(samples.iter().all(|s| s.capacity_bps.is_none() && s.sinr_db.is_none()));
    }

    #[test]
    fn faults_name_their_line() {
        for (row, says) in [
            ("7", "one number"),
            ("x 1", "'x' is not a whole number"),
            ("4 1 0", "time goes backwards: 4 after 5"),
            ("6 1 3 2", "the arrivals of the burst go backwards"),
            ("6 99999 0", "delay 99999 ms is out of range"),
            ("99999999999999 1 0", "99999999999999 ms is more than a year"),
        ] {
            let error = parse(&format!("5 1 0\n{row}\n")).map(|_| ()).unwrap_err();
            assert!(error.line == 2 && error.what.starts_with(says), "{row}: {error:?}");
        }
    }

    #[test]
    fn is_told_from_delivery_traces() {
        assert!(is("0 21 0 0 3") && is("5 1"));
        assert!(!is("0") && !is("a b") && !is("0,21"));
    }
}
