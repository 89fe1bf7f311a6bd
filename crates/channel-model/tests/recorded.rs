//! Traces that others recorded, where `HOTCC_TRACES` names the directory they are in.

use hotcc_channel_model::trace::{Sample, Trace};
use hotcc_testbed::kernel::skipped;
use std::env;
use std::path::Path;

/// What is known of a file: start of its name, samples, seconds, period in ms, samples with SINR, with capacity.
type Known = (&'static str, usize, f64, u128, usize, usize);

const KNOWN: [Known; 3] = [
    ("ucc5g_driving_download.csv", 2887, 2949.0, 1000, 2887, 2736),
    ("cicv5g_urban_n78_v40_07.txt", 3196, 189.51, 55, 3196, 0),
    ("mahimahi_ATT-LTE-driving-2016.down", 1200, 119.9, 100, 0, 1200),
];

#[test]
fn recorded_traces_are_understood() {
    let Some(dir) = env::var_os("HOTCC_TRACES") else {
        skipped("recorded_traces_are_understood", "HOTCC_TRACES is not set");
        return;
    };
    for (name, samples, seconds, period_ms, with_sinr, with_capacity) in KNOWN {
        let path = Path::new(&dir).join(name);
        if !path.exists() {
            skipped("recorded_traces_are_understood", format_args!("no {name} in HOTCC_TRACES"));
            continue;
        }
        let trace = Trace::load(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(trace.samples().len(), samples, "{name}");
        let last = trace.samples()[samples - 1].at.as_secs_f64();
        assert!((last - seconds).abs() < 1.0, "{name} ends at {last} s");
        assert_eq!(trace.period().unwrap().as_millis(), period_ms, "{name}");
        let count = |has: fn(&Sample) -> bool| trace.samples().iter().filter(|s| has(s)).count();
        assert_eq!(count(|s| s.sinr_db.is_some()), with_sinr, "{name}");
        assert_eq!(count(|s| s.capacity_bps.is_some()), with_capacity, "{name}");
        // What is read can be written in our own format, and read again.
        let again = Trace::parse(&path, trace.to_csv().as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.samples().len(), samples, "{name}");
    }
}
