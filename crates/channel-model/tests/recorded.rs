//! Traces recorded by others, if `HOTCC_TRACES` names their directory; otherwise, a few lines in the same formats.

use hotcc_channel_model::trace::{Sample, Trace};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The known properties of a file: samples, seconds until the last, period in ms, samples with SINR, samples with
/// capacity.
type Known = (usize, f64, u128, usize, usize);

/// A file with its known properties, and some lines of its format with theirs.
const FILES: [(&str, Known, &str, Known); 3] = [
    (
        "ucc5g_driving_download.csv",
        (2887, 2949.0, 1000, 2887, 2736),
        "Timestamp,Longitude,Latitude,Speed,RSRP,RSRQ,SNR,CQI,DL_bitrate,State\n\
         2020.01.01_00.00.00,0,0,9,-92,-19,-11.0,8,1000,D\n\
         2020.01.01_00.00.01,0,0,9,-93,-18,3.0,9,0,I\n\
         2020.01.01_00.00.02,0,0,9,-,-,-,-,2000,D\n\
         2020.01.01_00.00.03,0,0,9,-91,-12,5.5,11,52000,D\n",
        (4, 3.0, 2000, 3, 3),
    ),
    (
        "cicv5g_urban_n78_v40_07.txt",
        (3196, 189.51, 55, 3196, 0),
        "pub_time(ms) sub_time(ms) delay(ms) velocity(m/s) cellid(db) sinr(db) rsrp(db)\n\
         1000 1025 25 11.1 7 15 -92\n1050 1071 21 11.1 7 15 -92\n1100 1127 27 11.2 7 16 -91\n",
        (3, 0.102, 56, 3, 0),
    ),
    (
        "mahimahi_ATT-LTE-driving-2016.down",
        (1200, 119.9, 100, 0, 1200),
        "0\n3\n99\n150\n350\n401\n",
        (4, 0.3, 100, 0, 4),
    ),
];

/// Returns the path of the recorded file, if there is one.
fn recorded(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os("HOTCC_TRACES")?).join(name);
    path.exists().then_some(path)
}

#[test]
fn recorded_traces_are_understood() {
    for (name, of_file, lines, of_lines) in FILES {
        check(Path::new(name), lines.as_bytes(), of_lines);
        if let Some(path) = recorded(name) {
            let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
            check(&path, &bytes, of_file);
        }
    }
}

fn check(path: &Path, bytes: &[u8], (samples, seconds, period_ms, with_sinr, with_capacity): Known) {
    let name = path.display();
    let trace = Trace::parse(path, bytes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(trace.samples().len(), samples, "{name}");
    let last = trace.samples()[samples - 1].at.as_secs_f64();
    assert!((last - seconds).abs() < 1.0, "{name} ends at {last} s");
    assert_eq!(trace.period().map(|period| period.as_millis()), Some(period_ms), "{name}");
    let count = |has: fn(&Sample) -> bool| trace.samples().iter().filter(|s| has(s)).count();
    assert_eq!(count(|s| s.sinr_db.is_some()), with_sinr, "{name}");
    assert_eq!(count(|s| s.capacity_bps.is_some()), with_capacity, "{name}");
    // A trace can be written in our own format and read again.
    let again = Trace::parse(path, trace.to_csv().as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.samples().len(), samples, "{name}");
}
