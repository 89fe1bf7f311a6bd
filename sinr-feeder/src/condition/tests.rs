use super::*;
use crate::reading::Sent;
use hotcc_channel_model::{FeederSpec, Radio, STEP, Table};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn raw(sinr_db: f64) -> RawReading {
    RawReading { reading: Reading { sinr_db: Some(sinr_db), ..Reading::default() }, ..RawReading::default() }
}

fn conditioner(settings: &Conditioning) -> Conditioner {
    Conditioner::new(settings, Pace::Unknown)
}

/// Returns the conditioner of a live source that has seen readings of 10 dB, `period_ms` apart, and the time of the
/// last one.
fn steady(settings: &Conditioning, period_ms: u64) -> (Conditioner, u64) {
    let mut c = conditioner(settings);
    for i in 0..10 {
        c.take(&raw(10.0), settings, SECOND + i * period_ms * MS).unwrap();
    }
    (c, SECOND + 9 * period_ms * MS)
}

#[test]
fn average_goes_by_time() {
    let ms = Duration::from_millis;
    let mut average = Average::new(Duration::from_secs(2));
    assert_eq!(average.add(10.0, ms(0)), 10.0);
    let expected = 10.0 + (1.0 - (-0.5f64).exp()) * 10.0;
    assert!((average.add(20.0, ms(1000)) - expected).abs() < 1e-12);
    // Two readings with the same value count as one that holds as long.
    let mut twice = average.clone();
    twice.add(0.0, ms(1500));
    assert!((twice.add(0.0, ms(2000)) - average.add(0.0, ms(2000))).abs() < 1e-12);
    let mut none = Average::new(Duration::ZERO);
    none.add(1.0, ms(0));
    assert_eq!(none.add(5.0, ms(1)), 5.0);
}

#[test]
fn published_average_is_of_what_is_published() {
    let settings = Conditioning::default();
    let mut c = conditioner(&settings);
    let first = c.take(&raw(60.0), &settings, SECOND).unwrap();
    let second = c.take(&raw(60.0), &settings, 2 * SECOND).unwrap();
    for conditioned in [first, second] {
        assert_eq!((conditioned.reading.sinr_db, conditioned.reading.average_db), (Some(50.0), Some(50.0)));
    }
}

#[test]
fn readings_out_of_range_are_rejected_as_a_whole() {
    let settings = Conditioning::default();
    let with = |change: fn(&mut RawReading)| {
        let mut s = raw(10.0);
        change(&mut s);
        conditioner(&settings).take(&s, &settings, SECOND).map(|_| ())
    };
    for bad in [f64::NAN, f64::INFINITY, -41.0, 60.1, 1e300] {
        assert_eq!(conditioner(&settings).take(&raw(bad), &settings, SECOND), Err(Reject::Range), "{bad}");
    }
    assert_eq!(with(|s| s.reading.rsrp_dbm = Some(51.0)), Err(Reject::Range));
    assert_eq!(with(|s| s.reading.rsrq_db = Some(f64::NAN)), Err(Reject::Range));
    assert_eq!(with(|s| s.reading.capacity_bps = Some(-1.0)), Err(Reject::Range));
    assert_eq!(with(|s| s.reading.cqi = Some(16)), Err(Reject::Range));
    assert_eq!(with(|s| s.reading.mcs = Some(32)), Err(Reject::Range));
    assert_eq!(with(|s| s.age_ms = -1.0), Err(Reject::Range));
    assert_eq!(with(|s| s.age_ms = f64::NAN), Err(Reject::Range));
    assert_eq!(with(|s| s.time_s = Some(f64::NAN)), Err(Reject::Range));
    assert_eq!(with(|s| s.reading.sinr_db = None), Err(Reject::Nothing));
    assert_eq!(with(|s| s.age_ms = 501.0), Err(Reject::Stale));
    assert_eq!(with(|s| s.age_ms = 499.0), Ok(()));
}

#[test]
fn age_is_taken_off_the_time() {
    let settings = Conditioning::default();
    let reading = RawReading { age_ms: 12.5, ..raw(1.0) };
    let conditioned = conditioner(&settings).take(&reading, &settings, SECOND).unwrap();
    assert_eq!(conditioned.made_ns, SECOND - 12_500_000);
}

#[test]
fn time_never_goes_backwards() {
    let settings = Conditioning::default();
    let mut c = conditioner(&settings);
    let aged = |age_ms| RawReading { age_ms, ..raw(1.0) };
    assert!(c.take(&aged(0.0), &settings, SECOND).is_ok());
    assert_eq!(c.take(&aged(0.0), &settings, SECOND), Err(Reject::Duplicate));
    assert_eq!(c.take(&aged(100.0), &settings, SECOND + 50 * MS), Err(Reject::Backwards));
    let timed = |time_s| RawReading { time_s: Some(time_s), ..raw(1.0) };
    assert!(c.take(&timed(7.0), &settings, SECOND + 60 * MS).is_ok());
    assert_eq!(c.take(&timed(6.9), &settings, SECOND + 70 * MS), Err(Reject::Backwards));
    assert_eq!(c.take(&timed(7.0), &settings, SECOND + 80 * MS), Err(Reject::Duplicate));
    assert!(c.take(&timed(7.1), &settings, SECOND + 90 * MS).is_ok());
    // A source that restarted, or whose time was far off, is accepted again once its latest reading is too old to be
    // used.
    assert_eq!(c.take(&timed(0.1), &settings, SECOND + 590 * MS), Err(Reject::Backwards));
    assert!(c.take(&timed(0.2), &settings, SECOND + 591 * MS).is_ok());
    assert_eq!(c.take(&timed(0.1), &settings, SECOND + 592 * MS), Err(Reject::Backwards));
}

#[test]
fn maximum_age_follows_the_measured_period() {
    let settings = Conditioning::default();
    for (period_ms, max_age_ms) in [(10, 50), (100, 250), (500, 1250), (1000, 2500), (20_000, 30_000)] {
        // With periods beyond the default maximum age of 500 ms, the first readings are stale before the next one; this
        // does not matter.
        let (c, at) = steady(&settings, period_ms);
        assert_eq!((c.max_age_ms(&settings), u64::from(c.period_ms())), (max_age_ms, period_ms));
        assert!(c.is_fresh(&settings, at + u64::from(max_age_ms) * MS));
        assert!(!c.is_fresh(&settings, at + u64::from(max_age_ms) * MS + 1));
    }
    // If readings come in bursts, or very often, the period is that of the bursts, whatever the ages of the single
    // readings.
    for (every_ms, ages_ms, expected) in [(1, &[0.0][..], (50, 10)), (200, &[133.0, 66.0, 0.0], (500, 200))] {
        let mut c = conditioner(&settings);
        for i in 0..100 {
            for &age_ms in ages_ms {
                c.take(&RawReading { age_ms, ..raw(10.0) }, &settings, SECOND + i * every_ms * MS).unwrap();
            }
        }
        assert_eq!((c.max_age_ms(&settings), c.period_ms()), expected);
    }
    // A single pause, or a single early reading, changes nothing.
    let (mut c, at) = steady(&settings, 100);
    for later_ms in [5000, 5100, 5101, 5200] {
        c.take(&raw(10.0), &settings, at + later_ms * MS).unwrap();
    }
    assert_eq!(c.max_age_ms(&settings), 250);
    // Before anything is measured, the expected period or the default applies.
    let expected = Conditioner::new(&settings, Pace::Expected(Duration::from_secs(1)));
    assert_eq!((expected.max_age_ms(&settings), expected.period_ms()), (2500, 1000));
    assert_eq!(conditioner(&settings).max_age_ms(&settings), 500);
}

#[test]
fn maximum_age_of_what_is_known_beforehand() {
    for (period, age) in [(None, 500), (Some(50), 500), (Some(1000), 3000), (Some(13_000), 30_000)] {
        assert_eq!(default_max_age_ms(period.map(Duration::from_millis)), age);
    }
    let settings = Conditioning::default();
    assert_eq!(Conditioner::new(&settings, Pace::Fixed(Duration::from_secs(1))).max_age_ms(&settings), 3000);
}

#[test]
fn hold_over_is_added_and_the_age_grows() {
    let settings = Conditioning { hold_over: Duration::from_secs(3), ..Conditioning::default() };
    let (mut c, at) = steady(&settings, 100);
    assert_eq!(c.max_age_ms(&settings), 3250);
    // A reading without SINR does not change the SINR or its time.
    let other = RawReading { reading: Reading { cqi: Some(7), ..Reading::default() }, ..RawReading::default() };
    let conditioned = c.take(&other, &settings, at + 1000 * MS).unwrap();
    assert_eq!((conditioned.reading.sinr_db, conditioned.reading.average_db), (None, None));
    assert!(c.is_fresh(&settings, at + 3250 * MS) && !c.is_fresh(&settings, at + 3251 * MS));
    let long = Conditioning { hold_over: Duration::from_secs(3600), ..settings };
    assert_eq!(c.max_age_ms(&long), 30_000);
    assert_eq!(c.max_age_ms(&Conditioning { max_age_ms: Some(200), ..settings }), 3200);
}

#[test]
fn a_jump_has_to_be_confirmed() {
    let settings = Conditioning::default();
    let (mut c, at) = steady(&settings, 100);
    let mut take = |sinr_db, later_ms| c.take(&raw(sinr_db), &settings, at + later_ms * MS).map(|_| ());
    assert_eq!(take(36.0, 100), Err(Reject::Outlier));
    assert_eq!(take(11.0, 200), Ok(()));
    assert_eq!(take(-20.0, 300), Err(Reject::Outlier), "the confirmation must follow at once");
    assert_eq!(take(40.0, 400), Err(Reject::Outlier), "and say the same");
    assert_eq!(take(38.0, 500), Ok(()));
    assert_eq!(take(39.0, 600), Ok(()));
    // After some time, any value is possible.
    assert_eq!(take(-10.0, 2700), Ok(()));
    let all = Conditioning { outlier_db: 0.0, ..settings };
    assert!(c.take(&raw(40.0), &all, at + 2800 * MS).is_ok());
    // Recorded or computed readings are never outliers.
    let mut recorded = Conditioner::new(&settings, Pace::Fixed(Duration::from_millis(100)));
    assert!(
        [0.0, 50.0, 0.0].into_iter().zip(1..).all(|(db, i)| recorded.take(&raw(db), &settings, i * SECOND).is_ok())
    );
}

#[test]
fn floods_are_limited_to_a_plausible_rate() {
    let settings = Conditioning::default();
    let mut c = conditioner(&settings);
    let mut applied = 0;
    // 100,000 readings in a second
    for i in 0..100_000u64 {
        match c.take(&raw(10.0), &settings, SECOND + i * 10_000) {
            Ok(_) => applied += 1,
            Err(reason) => assert_eq!(reason, Reject::Flood),
        }
    }
    assert!((1000..=1200).contains(&applied), "{applied}");
}

#[test]
fn repeated_values_are_ignored_on_request() {
    let settings = Conditioning { skip_repeats: true, ..Conditioning::default() };
    let mut c = conditioner(&settings);
    // Reported ten times a second, measured once a second.
    for i in 0..100u64 {
        let taken = c.take(&raw((i / 10) as f64), &settings, SECOND + i * 100 * MS);
        assert_eq!(taken.err(), (i % 10 != 0).then_some(Reject::Repeat));
    }
    assert_eq!((c.period_ms(), c.max_age_ms(&settings)), (1000, 2500));
}

#[test]
fn capacity_follows_from_cqi_mcs_or_sinr() {
    let rate = RateSpec { table: Table::CqiLte, bandwidth_mhz: 20.0, overhead: None, scale_to_bps: None };
    let settings = Conditioning { rate: Some(rate), ..Conditioning::default() };
    let by = |settings: &Conditioning, reading| {
        let said = RawReading { reading, ..RawReading::default() };
        conditioner(settings).take(&said, settings, SECOND).unwrap().reading.capacity_bps.map(f64::round)
    };
    let capacity = |reading| by(&settings, reading);
    let (sinr_db, cqi, mcs) = (Some(10.5), Some(15), Some(20));
    // 20 MHz * (1 - 0.34) = 13.2 MHz; CQI 9 is 2.4063, CQI 15 is 5.5547 bit/s/Hz.
    assert_eq!(capacity(Reading { sinr_db, ..Reading::default() }), Some(31_763_160.0));
    assert_eq!(capacity(Reading { sinr_db, cqi, ..Reading::default() }), Some(73_322_040.0));
    assert_eq!(capacity(Reading { sinr_db, mcs, ..Reading::default() }), Some(31_763_160.0));
    // 100 MHz * (1 - 0.21) = 79 MHz; MCS 20 is 5.3320, and 10.5 dB is MCS 9: 2.4063.
    let rate = RateSpec { table: Table::McsNr256Qam, bandwidth_mhz: 100.0, ..rate };
    let settings = Conditioning { rate: Some(rate), ..Conditioning::default() };
    assert_eq!(by(&settings, Reading { sinr_db, cqi, mcs, ..Reading::default() }), Some(421_228_000.0));
    assert_eq!(by(&settings, Reading { sinr_db, mcs: Some(31), ..Reading::default() }), Some(190_097_700.0));
    assert_eq!(capacity(Reading { rsrp_dbm: Some(-90.0), ..Reading::default() }), None);
    assert_eq!(capacity(Reading { sinr_db, capacity_bps: Some(5e6), ..Reading::default() }), Some(5e6));
    assert_eq!(capacity(Reading { sinr_db, capacity_bps: Some(0.0), ..Reading::default() }), Some(31_763_160.0)); // not known
}

#[test]
fn delayed_readings_keep_their_age() {
    let settings = Conditioning::default();
    let mut c = conditioner(&settings);
    let mut came = |sent_ms: u64, now_ms: u64| {
        let sent = Some(Sent { session: 1, at_us: sent_ms * 1000 });
        c.take(&RawReading { sent, ..raw(10.0) }, &settings, SECOND + now_ms * MS).map(|r| r.made_ns)
    };
    assert_eq!(came(0, 0), Ok(SECOND));
    assert_eq!(came(100, 150), Ok(SECOND + 100 * MS));
    assert_eq!(came(200, 2000), Err(Reject::Stale));
    assert_eq!(came(2100, 2100), Ok(SECOND + 2100 * MS));
}

/// The lab's average of a radio is the one that a feeder would publish.
#[test]
fn average_is_that_of_the_feeder() {
    let radio = Radio {
        name: "a".to_owned(),
        step: STEP,
        sinr_db: Some((0..500u16).map(|i| f32::from(i % 40)).collect()),
        capacity_bps: vec![1; 500],
        line_of_sight: vec![true; 500],
        distance_m: vec![0.0; 500],
        base_rtt_ms: None,
    };
    for average_time_constant_ms in [0, 1, 300, 2000] {
        let spec = FeederSpec { noise_db: 3.0, average_time_constant_ms, ..FeederSpec::every(50) };
        let mut average = Average::new(Duration::from_millis(average_time_constant_ms.into()));
        for reading in radio.readings(&spec, 9) {
            let expected = average.add(f64::from(reading.sinr_db.unwrap()), reading.made);
            assert!((f64::from(reading.average_db.unwrap()) - expected).abs() < 1e-4, "{reading:?} {expected}");
        }
    }
}

#[test]
fn a_capacity_alone_has_a_pace_and_keeps_its_source_fresh() {
    let rate = RateSpec { table: Table::CqiLte, bandwidth_mhz: 20.0, overhead: None, scale_to_bps: None };
    let settings = Conditioning { rate: Some(rate), ..Conditioning::default() };
    let mut c = Conditioner::new(&settings, Pace::Unknown);
    let measured = |bps| {
        let reading = Reading { capacity_bps: Some(bps), ..Reading::default() };
        RawReading { reading, ..RawReading::default() }
    };
    let mut last = None;
    for i in 0..6 {
        last = Some(c.take(&measured(5e7), &settings, SECOND + i * 100 * MS).unwrap());
    }
    let last = last.unwrap();
    assert_eq!((last.max_age_ms, last.period_ms, last.reading.is_capacity_derived), (250, 100, false));
    assert!(c.is_fresh(&settings, SECOND + 750 * MS) && !c.is_fresh(&settings, SECOND + 751 * MS));
    // 0 is not known, and keeps nothing fresh
    c.take(&measured(0.0), &settings, SECOND + 760 * MS).unwrap();
    assert!(!c.is_fresh(&settings, SECOND + 760 * MS));
    // a capacity computed from the SINR counts as part of the SINR
    let taken = c.take(&raw(10.0), &settings, SECOND + 2000 * MS).unwrap();
    assert!(taken.reading.capacity_bps.is_some() && taken.reading.is_capacity_derived);
}

#[test]
fn a_computed_capacity_replaces_no_measured_one() {
    let rate = RateSpec { table: Table::CqiLte, bandwidth_mhz: 20.0, overhead: None, scale_to_bps: None };
    let settings = Conditioning { rate: Some(rate), max_age_ms: Some(2000), ..Conditioning::default() };
    let mut c = conditioner(&settings);
    let reading = Reading { capacity_bps: Some(5e7), ..Reading::default() };
    c.take(&RawReading { reading, ..RawReading::default() }, &settings, SECOND).unwrap();
    let soon = c.take(&raw(10.0), &settings, SECOND + 100 * MS).unwrap().reading;
    assert_eq!(soon.capacity_bps, None, "the measured one stays");
    let later = c.take(&raw(10.0), &settings, SECOND + 2001 * MS).unwrap().reading;
    assert!(later.capacity_bps.is_some() && later.is_capacity_derived);
}

#[test]
fn the_period_of_a_source_that_is_always_late_is_found() {
    let settings = Conditioning::default();
    let mut c = conditioner(&settings);
    let late = RawReading { age_ms: 800.0, ..raw(10.0) };
    let taken = [10, 11, 12, 13, 14].map(|second| c.take(&late, &settings, second * SECOND).map(|r| r.max_age_ms));
    let stale = Err(Reject::Stale);
    assert_eq!(taken, [stale, stale, stale, stale, Ok(2500)]);
}
