//! The formats, with traces that are made here; recorded traces are in `tests/recorded.rs`.

use super::generate::{Generator, Kind};
use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> Trace {
    Trace::parse(Path::new("t"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refused(text: &str) -> String {
    Trace::parse(Path::new("t"), text.as_bytes()).expect_err(text).to_string()
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn plain_columns_in_any_order() {
    let trace =
        parsed("# a comment\ncqi,sinr_db, time_s,capacity_bps\n\n7,12.5,10.0,1e6\r\n# more\n,,10.25,\n15,-3,10.25,0\n");
    let first = Sample { sinr_db: Some(12.5), capacity_bps: Some(1e6), cqi: Some(7), ..Sample::default() };
    assert_eq!(trace.samples()[0], first);
    assert_eq!(trace.samples()[1], Sample { at: ms(250), ..Sample::default() });
    assert_eq!(trace.samples()[2].sinr_db, Some(-3.0));
    assert_eq!(trace.samples().len(), 3);
}

#[test]
fn plain_faults_name_their_line() {
    let head = "# one\n# two\ntime_s,sinr_db,cqi\n0,1,2\n\n# five and six\n";
    for (row, says) in [
        ("0.1,1", "t:7: 2 fields; the header has 3"),
        ("0.1,1,2,3", "t:7: 4 fields"),
        ("x,1,2", "t:7: time_s 'x' is not a finite number"),
        (",1,2", "t:7: time_s is missing"),
        ("nan,1,2", "t:7: time_s 'nan'"),
        ("0.1,inf,2", "t:7: sinr_db 'inf'"),
        ("0.1,60.5,2", "t:7: sinr_db 60.5 is out of range: expected -40 to 60"),
        ("0.1,-40.5,2", "t:7: sinr_db -40.5 is out of range"),
        ("0.1,1,16", "t:7: cqi '16' is not a whole number from 0 to 15"),
        ("-0.1,1,2", "t:7: time goes backwards: -0.1 after 0"),
        ("9e9,1,2", "t:7: the trace is longer than 366 days at this line"),
        ("1e300,1,2", "t:7: time_s 1e300 is out of range"),
    ] {
        for text in
            [format!("{head}{row}"), format!("{head}{row}\n0.2,1,2\n"), format!("{head}{row}\n").replace('\n', "\r\n")]
        {
            let error = refused(&text);
            assert!(error.contains(says), "{text}\n{error}");
        }
    }
    assert!(refused("time_s,sinr_db,speed\n").contains("t:1: unknown column `speed`: expected one of time_s, sinr_db"));
    assert!(refused("time_s,sinr,cqi\n").contains("did you mean `sinr_db`?"));
    assert!(refused("time_s,sinr_db,time_s\n").contains("t:1: the header has column time_s twice"));
    assert!(refused("\ntime_s,cqi\n0,1").contains("t:2: the header has no column sinr_db"));
}

#[test]
fn a_last_line_that_may_be_cut_off_is_refused() {
    let cut = |line: u64| {
        format!(
            "cannot use the trace: t:{line}: the file may be cut off: this line has no line end; add one if the line \
             is complete"
        )
    };
    for (text, line) in [
        ("time_s,sinr_db\n0,1\n0.1,15", 3),
        (&format!("{UCC}2020.01.01_00.00.05,1,-93,-18,3.0,5,3000,D"), 2),
        (&format!("{CICV}100 126 26 A 15 -92\n150 400 250 A 14 -9"), 3),
        ("0\n99\n120", 3),
        ("0 21 0\n101 3", 2),
    ] {
        assert_eq!(refused(text), cut(line));
    }
    assert_eq!(parsed("time_s,sinr_db\r\n0,1\r\n").samples().len(), 1);
}

#[test]
fn an_empty_file_is_no_trace() {
    for text in ["", "\n\n", "# only a comment\n", "time_s,sinr_db\n"] {
        assert!(refused(text).contains("t holds no samples"), "{text}");
    }
    assert!(refused("hello\n").contains("t:1: unknown trace format"));
    let error = Trace::parse(Path::new("t"), b"time_s,sinr_db\n0,1\n\xff,2\n").unwrap_err().to_string();
    assert!(error.contains("t:3: not UTF-8 text"), "{error}");
    let error = Trace::load(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nonexistent: No such file"), "{error}");
}

#[test]
fn plain_survives_writing() {
    let trace = parsed("time_s,sinr_db,rsrp_dbm,rsrq_db,mcs\n0,1.25,-90.5,-11,27\n0.5,,,,\n1.5,-3,-91,-12,0\n");
    assert_eq!(parsed(&trace.to_csv()), trace);
    assert!(
        trace.to_csv().starts_with("time_s,sinr_db,rsrp_dbm,rsrq_db,mcs\n0.000,1.25,-90.50,-11.00,27\n0.500,,,,\n")
    );
}

#[test]
fn plain_needs_something_of_the_link() {
    let capacity = parsed("time_s,capacity_bps\n0,1e6\n1,2e6\n");
    assert!(capacity.samples().iter().all(|s| s.sinr_db.is_none() && s.capacity_bps.is_some()));
    let rtt = parsed("time_s,rtt_ms\n0,40\n0.5,60.5\n");
    assert_eq!(rtt.samples()[1], Sample { at: ms(500), rtt_ms: Some(60.5), ..Sample::default() });
    assert_eq!(parsed(&rtt.to_csv()), rtt);
    let error = refused("time_s,rtt_ms\n0,40\n1,-1\n");
    assert!(error.contains("t:3: rtt_ms -1 is out of range: expected 0 to 60000"), "{error}");
}

const UCC: &str = "Timestamp,Speed,RSRP,RSRQ,SNR,CQI,DL_bitrate,State\n";

#[test]
fn ucc_spreads_rows_of_one_second() {
    let rows = "2019.12.31_23.59.59,1,-92,-19,-11.0,8,1000,D\n2019.12.31_23.59.59,1,-,-,-,-,2000,D\n\
                2020.01.01_00.00.00,1,-93,-18,3.0,5,3000,I\n2020.01.01_00.00.00,1,-93,-18,4,5,0,D\n\
                2020.01.01_00.00.00,1,-93,-18,5,5,4000,D\n";
    let trace = parsed(&format!("{UCC}{rows}"));
    let times: Vec<_> = trace.samples().iter().map(|s| s.at.as_millis()).collect();
    assert_eq!(times, [0, 500, 1000, 1333, 1666]);
    let first = Sample {
        sinr_db: Some(-11.0),
        capacity_bps: Some(1e6),
        rsrp_dbm: Some(-92.0),
        rsrq_db: Some(-19.0),
        cqi: Some(8),
        ..Sample::default()
    };
    assert_eq!(trace.samples()[0], first);
    assert_eq!(trace.samples()[1].sinr_db, None);
    // Only the rate of a download shows the link's capacity.
    let capacities: Vec<_> = trace.samples().iter().map(|s| s.capacity_bps).collect();
    assert_eq!(capacities, [Some(1e6), Some(2e6), None, None, Some(4e6)]);
}

#[test]
fn ucc_faults_name_their_line() {
    let good = "2020.01.01_00.00.05,1,-93,-18,3.0,5,3000,D\n";
    for (row, says) in [
        ("2020.01.01_00.00.04,1,-93,-18,3.0,5,3000,D", "t:3: time goes backwards"),
        ("2020.01.01,1,-93,-18,3.0,5,3000,D", "t:3: Timestamp '2020.01.01' is not"),
        ("2020.01.01_00.00.06,1,-93,-18,300,5,3000,D", "t:3: SNR 300 is out of range"),
        ("2020.01.01_00.00.06,1,-93,-18,3,5,x,D", "t:3: DL_bitrate 'x'"),
        ("2020.01.01_00.00.06,1,-93", "t:3: 3 fields"),
    ] {
        assert!(refused(&format!("{UCC}{good}{row}\n")).contains(says), "{row}");
    }
    assert!(refused("Timestamp,SNR\n").contains("t:1: the header has no column RSRP"));
}

const CICV: &str = "pub_time(ms) sub_time(ms) delay(ms) cellid(db) sinr(db) rsrp(db)\n";

#[test]
fn cicv5g_counts_by_arrival() {
    let trace = parsed(&format!("{CICV}100 126 26 A 15 -92\n150 400 250 A 14 -93\n200 226 26 A 13 -94\n"));
    let seen: Vec<_> = trace.samples().iter().map(|s| (s.at.as_millis(), s.sinr_db)).collect();
    assert_eq!(seen, [(0, Some(15.0)), (100, Some(13.0)), (274, Some(14.0))]);
    assert_eq!(trace.samples()[1].rsrp_dbm, Some(-94.0));
    for (row, says) in [
        ("1 2 3", "t:2: 3 fields; the header has 6"),
        ("1 x 3 A 15 -92", "t:2: sub_time(ms) 'x'"),
        ("1 2 3 A fine -92", "t:2: sinr(db) 'fine'"),
    ] {
        assert!(refused(&format!("{CICV}{row}\n")).contains(says), "{row}");
    }
    let far = refused(&format!("{CICV}1 2 1 A 15 -92\n1 99999999999999 1 A 15 -92\n"));
    assert!(far.contains("t:3: sub_time(ms) 99999999999999 is more than a year"), "{far}");
}

#[test]
fn mahimahi_sums_packets_per_bin() {
    let trace = parsed("0\n0\n99\n100\n350\n400\n");
    let seen: Vec<_> = trace.samples().iter().map(|s| (s.at.as_millis(), s.capacity_bps)).collect();
    assert_eq!(seen, [(0, Some(360e3)), (100, Some(120e3)), (200, Some(0.0)), (300, Some(120e3))]);
    assert!(trace.samples().iter().all(|s| s.sinr_db.is_none()));
    assert_eq!(trace.period(), Some(mahimahi::BIN));
    assert_eq!(parsed("7\n").samples().len(), 1);
    assert!(refused("5\n4\n").contains("t:2: time goes backwards"));
    assert!(refused("5\n\nx\n").contains("t:3: 'x' is not"));
    assert!(refused("5\n99999999999\n").contains("t:2: 99999999999 ms is more than seven days"));
}

#[test]
fn the_epoch_of_a_trace_does_not_matter() {
    let trace = |start: u64| -> Vec<Duration> {
        let rows: Vec<String> = (0..1000).map(|i| format!("{start}.{i:03},{}\n", i % 20)).collect();
        parsed(&format!("time_s,sinr_db\n{}", rows.concat())).samples().iter().map(|sample| sample.at).collect()
    };
    assert!(trace(0).into_iter().eq((0..1000).map(ms)));
    assert!(trace(1_764_500_000) == trace(0));
}

#[test]
fn period_is_that_of_readings() {
    assert_eq!(parsed("time_s,sinr_db\n0,1\n0.1,\n0.2,\n1,2\n2,3\n2,3\n7,3\n").period(), Some(ms(1000)));
    let single = parsed("time_s,sinr_db\n5,1\n");
    assert_eq!((single.period(), single.duration()), (None, ms(1000)));
}

fn generator(kind: Kind, seed: u64) -> Generator {
    Generator { kind, length: Duration::from_secs(600), period: ms(100), seed, bandwidth_hz: 20e6 }
}

#[test]
fn generated_traces_are_what_they_say() {
    let kinds = [Kind::Walk, Kind::Square, Kind::Blockage];
    for kind in kinds {
        let trace = generator(kind, 7).trace();
        assert_eq!(trace, generator(kind, 7).trace());
        assert_eq!(trace.samples().len(), 6000);
        assert_eq!(parsed(&trace.to_csv()).samples().len(), 6000);
        assert!(trace.samples().iter().all(|s| s.capacity_bps.is_some_and(|c| (0.0..=110e6).contains(&c))));
    }
    assert_ne!(generator(Kind::Walk, 1).trace(), generator(Kind::Walk, 2).trace());
    let sinr = |kind| -> Vec<f64> { generator(kind, 7).trace().samples().iter().filter_map(|s| s.sinr_db).collect() };
    let square = sinr(Kind::Square);
    assert_eq!((square[0], square[19], square[20], square[39], square[40]), (25.0, 25.0, 5.0, 5.0, 25.0));
    let walk = sinr(Kind::Walk);
    let mean = walk.iter().sum::<f64>() / walk.len() as f64;
    assert!((12.0..18.0).contains(&mean), "{mean}");
    for period in [ms(10), ms(100), ms(2000)] {
        let trace = Generator { period, length: 60_000 * period, ..generator(Kind::Blockage, 7) }.trace();
        let blocked = trace.samples().iter().filter(|s| s.sinr_db.is_some_and(|db| db < 15.0)).count();
        assert!((4400..6500).contains(&blocked), "{blocked} of 60000; 5454 on average");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Trace::parse(Path::new("t"), &bytes);
    }

    #[test]
    fn no_rows_make_it_panic(format in 0..5usize, rows in "([0-9.,:+e_ \"#D-]{0,40}[\r\n]{1,2}){0,8}") {
        let head = ["time_s,sinr_db,cqi\n", UCC, CICV, "0\n", "0 9 0 1\n"][format];
        if let Ok(trace) = Trace::parse(Path::new("t"), format!("{head}{rows}").as_bytes()) {
            prop_assert!(trace.samples().is_sorted_by_key(|s| s.at));
            prop_assert!(trace.period().is_none_or(|p| !p.is_zero()));
        }
    }
}
