//! Series of a run, read from `flows.csv` and `links.csv`, and thinned out to what a chart can show.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Points of a line: time, value.
pub type Points = Vec<(f64, f64)>;

/// One flow's or one link's series.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name of the flow or link.
    pub name: String,
    /// Points of each requested column, in the order of the request; an empty cell makes no point.
    pub columns: Vec<Points>,
}

/// The series of a file, by name in the order in which they first appear, and any problem with the file.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Each flow or link.
    pub series: Vec<Series>,
    /// Why something is missing, as text.
    pub problem: Option<String>,
}

/// Reads some columns of one of the lab's CSV files; `name` is the column that tells series apart.
///
/// If the file is missing, or broken from some line on, the result has what precedes the error.
#[must_use]
pub fn read(path: &Path, name: &str, columns: &[&str]) -> Recorded {
    let file = path.file_name().map(|f| f.to_string_lossy().into_owned()).unwrap_or_default();
    let mut recorded = Recorded::default();
    let problem = match fs::read(path) {
        Ok(text) => read_rows(&text, name, columns, &mut recorded.series).err(),
        Err(error) => Some(error.to_string()),
    };
    recorded.problem = problem.map(|why| format!("{file} is incomplete: {why}"));
    recorded
}

fn read_rows(text: &[u8], name: &str, columns: &[&str], found: &mut Vec<Series>) -> Result<(), String> {
    // the last number of a line without a line end may be only a part of it
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let (lines, cut) = text.split_at(end);
    let mut reader = csv::Reader::from_reader(lines);
    let headers = reader.headers().map_err(|e| e.to_string())?.clone();
    let place = |column: &str| headers.iter().position(|h| h == column).ok_or(format!("missing column `{column}`"));
    let (time, name) = (place("t_s")?, place(name)?);
    let columns = columns.iter().map(|column| place(column)).collect::<Result<Vec<_>, _>>()?;
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let broken_at = |line: usize, why: &str| format!("line {line} {why}; the rest of the file is ignored");
    for (index, record) in reader.records().enumerate() {
        // the first line is the header
        let broken = |why: &str| broken_at(index + 2, why);
        let record = record.map_err(|_| broken("is cut off"))?;
        let cell = |at: usize| -> Result<Option<f64>, String> {
            match record.get(at).unwrap_or_default() {
                "" => Ok(None),
                text => text.parse().map(Some).map_err(|_| broken(&format!("has an invalid number `{text}`"))),
            }
        };
        let t = cell(time)?.filter(|t: &f64| t.is_finite()).ok_or_else(|| broken("has no time"))?;
        let key = record.get(name).unwrap_or_default();
        let series = match places.get(key) {
            Some(place) => &mut found[*place],
            None => {
                places.insert(key.to_owned(), found.len());
                found.push(Series { name: key.to_owned(), columns: vec![Vec::new(); columns.len()] });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        for (points, at) in series.columns.iter_mut().zip(&columns) {
            if let Some(value) = cell(*at)?.filter(|v| v.is_finite()) {
                points.push((t, value));
            }
        }
    }
    if cut.is_empty() {
        return Ok(());
    }
    let whole = lines.iter().filter(|byte| **byte == b'\n').count();
    Err(broken_at(whole + 1, "is cut off"))
}

/// Returns the sampling period: the 5th percentile of the time between neighbouring points, in whole milliseconds. `None`
/// if no series has two points.
#[must_use]
pub fn period<'a>(all: impl Iterator<Item = &'a Points>) -> Option<f64> {
    // without the last point, if others are left: the run's end may cut its period short
    let whole = |points: &'a Points| &points[..points.len().min(2.max(points.len().saturating_sub(1)))];
    let gaps = all.flat_map(|points| whole(points).windows(2)).map(|pair| pair[1].0 - pair[0].0);
    let mut gaps: Vec<f64> = gaps.filter(|gap| *gap > 1e-6).collect();
    gaps.sort_by(f64::total_cmp);
    gaps.get(gaps.len() / 20).map(|gap| (gap * 1e3).round().max(1.0) / 1e3)
}

/// Returns a rate in buckets of `width` seconds: what arrived in each bucket, divided by its length. A row's rate
/// covers the period that ends with the row, or the part of it before the end of the run; a period without a row carried
/// nothing. The last bucket ends with the last row.
#[must_use]
pub fn bucket_rates(points: &Points, period: f64, width: f64) -> Points {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Points::new() };
    let covered = |t: f64| {
        let part = t % period;
        let is_whole = part < 1e-6 || period - part < 1e-6;
        if is_whole { period } else { part }.min(width)
    };
    let bucket = |t: f64| ((t - covered(t) / 2.0) / width).floor() as i64;
    let (from, to) = (bucket(first.0), bucket(last.0));
    let mut sums = vec![0.0; (to - from + 1).unsigned_abs() as usize];
    for (t, rate) in points {
        if let Some(sum) = sums.get_mut((bucket(*t) - from).unsigned_abs() as usize) {
            *sum += rate * covered(*t);
        }
    }
    let rate = |(k, sum): (usize, &f64)| {
        let start = (from as f64 + k as f64) * width;
        let length = width.min(last.0 - start);
        (start + length / 2.0, sum / length)
    };
    sums.iter().enumerate().map(rate).collect()
}

/// Returns a level (capacity) in buckets of `width` seconds: the mean of each bucket that has points.
#[must_use]
pub fn bucket_means(points: &Points, width: f64) -> Points {
    bucketed(points, width, |bucket| {
        let mean = bucket.iter().map(|p| p.1).sum::<f64>() / bucket.len() as f64;
        vec![((bucket[0].0 / width).floor() * width, mean)]
    })
}

/// Returns the least and the greatest value of each bucket of `width` seconds, in the order of their time, so that no
/// peak is lost.
#[must_use]
pub fn bucket_extremes(points: &Points, width: f64) -> Points {
    bucketed(points, width, |bucket| {
        let at = |best: fn(&f64, &f64) -> bool| {
            (1..bucket.len()).fold(0, |found, k| if best(&bucket[k].1, &bucket[found].1) { k } else { found })
        };
        let (least, greatest) = (at(|a, b| a < b), at(|a, b| a > b));
        let mut kept = vec![least.min(greatest), least.max(greatest)];
        kept.dedup();
        kept.into_iter().map(|k| bucket[k]).collect()
    })
}

fn bucketed(points: &Points, width: f64, keep: impl Fn(&[(f64, f64)]) -> Points) -> Points {
    points.chunk_by(|a, b| (a.0 / width).floor() == (b.0 / width).floor()).flat_map(keep).collect()
}

/// Splits a line where neighbouring points are more than `gap` seconds apart.
#[must_use]
pub fn split_at_gaps(points: &Points, gap: f64) -> Vec<Points> {
    points.chunk_by(|a, b| b.0 - a.0 <= gap).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Recorded {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flows.csv");
        fs::write(&path, text).unwrap();
        read(&path, "flow", &["cwnd", "srtt_us"])
    }

    #[test]
    fn columns_by_flow() {
        let read = read_text("t_s,flow,cwnd,srtt_us\n0.1,a,10,\n0.1,b,4,5\n0.2,a,11,7\n");
        assert_eq!(read.problem, None);
        assert_eq!(read.series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read.series[0].columns, [vec![(0.1, 10.0), (0.2, 11.0)], vec![(0.2, 7.0)]]);
    }

    #[test]
    fn half_a_file_gives_its_half() {
        let half = read_text("t_s,flow,cwnd,srtt_us\n0.1,a,10,5\n0.2,a,1");
        assert_eq!(half.series[0].columns[0], [(0.1, 10.0)]);
        assert_eq!(
            half.problem.unwrap(),
            "flows.csv is incomplete: line 3 is cut off; the rest of the file is ignored"
        );
        // a last line with all its fields, but perhaps not all digits
        let half = read_text("t_s,flow,cwnd,srtt_us\n0.1,a,10,5\n0.2,a,11,1");
        assert_eq!(half.series[0].columns[1], [(0.1, 5.0)]);
        assert!(half.problem.unwrap().contains("line 3 is cut off"));
        assert!(
            read_text("t_s,flow,cwnd,srtt_us\n0.1,a,x,5\n")
                .problem
                .unwrap()
                .contains("line 2 has an invalid number `x`")
        );
        assert!(read_text("t_s,flow,cwnd\n").problem.unwrap().contains("missing column `srtt_us`"));
        let missing = read(Path::new("/nowhere/links.csv"), "link", &[]);
        assert!(missing.problem.unwrap().starts_with("links.csv is incomplete"));
    }

    #[test]
    fn rates_keep_their_bytes() {
        // 10 ms periods; no rows from 0.02 to 0.08
        let points = vec![(0.01, 100.0), (0.02, 300.0), (0.09, 100.0), (0.1, 500.0)];
        assert!((period([&points].into_iter()).unwrap() - 0.01).abs() < 1e-9);
        let buckets = bucket_rates(&points, 0.01, 0.05);
        assert_eq!(buckets.len(), 2);
        assert!((buckets[0].1 - 80.0).abs() < 1e-9 && (buckets[1].1 - 120.0).abs() < 1e-9, "{buckets:?}");
    }

    #[test]
    fn a_last_span_that_is_cut_short_is_no_drop() {
        let steady: Points = (1..=12).map(|k| (f64::from(k) * 0.01, 100.0)).collect();
        let buckets = bucket_rates(&steady, 0.01, 0.05);
        assert_eq!(buckets.len(), 3);
        assert!(buckets.iter().all(|(_, rate)| (rate - 100.0).abs() < 1e-6), "{buckets:?}");
        assert!((buckets[2].0 - 0.11).abs() < 1e-9, "{buckets:?}");
    }

    #[test]
    fn a_last_period_that_the_end_of_the_run_cuts_short_is_no_drop_and_no_peak() {
        let mut steady: Points = (1..=12).map(|k| (f64::from(k) * 0.1, 100.0)).collect();
        steady.push((1.23, 100.0));
        let period = period([&steady].into_iter()).unwrap();
        assert_eq!(period, 0.1);
        let buckets = bucket_rates(&steady, period, 0.5);
        assert_eq!(buckets.len(), 3);
        assert!(buckets.iter().all(|(_, rate)| (rate - 100.0).abs() < 1e-6), "{buckets:?}");
    }

    #[test]
    fn peaks_survive() {
        let points: Points = (0..1000).map(|k| (f64::from(k) * 0.001, if k == 537 { 9.0 } else { 1.0 })).collect();
        let thin = bucket_extremes(&points, 0.1);
        assert!(thin.len() <= 20 && thin.contains(&(0.537, 9.0)));
        assert_eq!(bucket_means(&vec![(0.0, 1.0), (0.05, 3.0), (0.1, 8.0)], 0.1), [(0.0, 2.0), (0.1, 8.0)]);
    }

    #[test]
    fn silences_break_a_line() {
        let parts = split_at_gaps(&vec![(0.0, 1.0), (0.1, 1.0), (2.0, 1.0)], 0.5);
        assert_eq!(parts, [vec![(0.0, 1.0), (0.1, 1.0)], vec![(2.0, 1.0)]]);
    }
}
