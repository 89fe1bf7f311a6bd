//! Properties of every radio, and of the example in the documentation.

use super::*;
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::Duration;

/// A street: the user walks along x = 20 from y = -20.005 on, at 1 m/s, behind a house.
const STREET: &str = r#"
model = "umi"
carrier_ghz = 28
tx_power_dbm = 30
tx_gain_dbi = 10
station = { at = [0, 0] }
ue = { path = [{ at = [20, -20.005] }, { at = [20, 20.005] }], speed_mps = 1 }
obstacles = [{ shape = "rectangle", from = [5, -2], to = [10, 2], extra_loss_db = 20 }]
rate = { table = "cqi-nr-256qam", bandwidth_mhz = 400 }
"#;

fn spec(text: &str) -> RadioSpec {
    toml::from_str(text).unwrap()
}

fn realise(text: &str, seed: u64, seconds: u64) -> Radio {
    spec(text).realise(Path::new("."), seed, Duration::from_secs(seconds)).unwrap()
}

fn with(extra: &str) -> String {
    format!("{STREET}{extra}\n")
}

fn hash(radio: &Radio) -> String {
    let mut hash = Sha256::new();
    radio.sinr_db.iter().flatten().for_each(|db| hash.update(db.to_le_bytes()));
    radio.capacity_bps.iter().for_each(|bps| hash.update(bps.to_le_bytes()));
    radio.line_of_sight.iter().for_each(|los| hash.update([u8::from(*los)]));
    radio.distance_m.iter().for_each(|m| hash.update(m.to_le_bytes()));
    HEXLOWER.encode(&hash.finalize())
}

fn sinr(radio: &Radio) -> Vec<f64> {
    radio.sinr_db.iter().flatten().map(|db| f64::from(*db)).collect()
}

#[test]
fn edges_are_where_the_house_is() {
    // The line from (20, y) to (0, 0) is at y/4 where x = 5, the near side of the house, which reaches from -2 to 2. So
    // the line is blocked from y = -8 to 8, which is from 12.005 s to 28.005 s: in the steps from 12.01 s to 28.00 s.
    let radio = realise(STREET, 1, 40);
    let edge = |ms, line_of_sight| Edge { at: Duration::from_millis(ms), line_of_sight };
    assert_eq!(radio.edges(), [edge(12_010, false), edge(28_010, true)]);
    assert_eq!(radio.duration(), Duration::from_secs(40));
    // In the middle, 20 m away, d3D = sqrt(400 + 72.25) = 21.7313 m.
    assert!((radio.distance_m[2000] - 21.7313).abs() < 0.001);
    // Noise -174 + 86.0206 + 9 = -78.9794 dBm. NLOS 35.3 * 1.337086 + 22.4 + 30.8245 = 100.4237, 20 more for the house:
    // 40 - 120.4237 + 78.9794 = -1.4443: CQI 2, 0.3770 * 400e6 * 0.79 = 119.132e6.
    assert!((sinr(&radio)[2000] - -1.4443).abs() < 0.005, "{}", sinr(&radio)[2000]);
    assert_eq!(radio.capacity_bps[2000], 119_132_000);
    // At 12 s the user still has line of sight: d2D = sqrt(400 + 8.005^2) = 21.5427, d3D = 23.1590, LOS 32.4 + 21 *
    // 1.364720 + 28.9432 = 90.0023; 40 - 90.0023 + 78.9794 = 28.9771: CQI 15.
    assert!((sinr(&radio)[1200] - 28.9771).abs() < 0.005, "{}", sinr(&radio)[1200]);
    assert_eq!(radio.capacity_bps[1200], 2_340_390_800);
}

#[test]
fn same_bytes_for_the_same_seed() {
    let text = with("shadowing = {}\nfading = { branches = 2 }");
    let first = realise(&text, 7, 40);
    assert_eq!(hash(&first), hash(&realise(&text, 7, 40)));
    assert_ne!(hash(&first), hash(&realise(&text, 8, 40)));
    assert_ne!(hash(&first), hash(&realise(&format!("name = \"other\"\n{text}"), 7, 40)));
    // The hash is the same on every machine. It changes only with the model: in that case, say so where results are
    // compared.
    assert_eq!(hash(&first), "f655e3ba535ea6ae236b71a573e035adbad8066f3052af8bf7b1110eb138513f");
}

#[test]
fn a_longer_radio_starts_like_a_shorter_one() {
    let text = with("shadowing = {}\nfading = {}");
    let (long, short) = (realise(&text, 7, 40), realise(&text, 7, 11));
    assert_eq!(sinr(&long)[..1100], sinr(&short));
}

#[test]
fn no_purpose_shifts_another() {
    let plain = realise(STREET, 7, 40);
    let shadowed = realise(&with("shadowing = {}"), 7, 40);
    let faded = realise(&with("fading = {}"), 7, 40);
    let both = realise(&with("shadowing = {}\nfading = {}"), 7, 40);
    assert_ne!(sinr(&plain), sinr(&shadowed));
    let (plain, shadowed, faded, both) = (sinr(&plain), sinr(&shadowed), sinr(&faded), sinr(&both));
    for i in 0..plain.len() {
        let apart = shadowed[i] - plain[i] + faded[i] - plain[i];
        assert!((both[i] - plain[i] - apart).abs() < 1e-4, "{i}");
    }
    // What happened behind the house has no effect either: without the house, the rest of the way is the same.
    let open: Vec<&str> = STREET.lines().filter(|line| !line.starts_with("obstacles")).collect();
    let open = sinr(&realise(&format!("{}\nshadowing = {{}}\n", open.join("\n")), 7, 40));
    assert_ne!(open[1201..2801], shadowed[1201..2801]);
    assert_eq!(open[..1201], shadowed[..1201]);
    assert_eq!(open[2801..], shadowed[2801..]);
}

#[test]
fn noise_of_readings_is_its_own() {
    let feeder: FeederSpec = toml::from_str("period_ms = 100\nnoise_db = 2").unwrap();
    let flat = "model = 'constant'\nsinr_db = 10\nrate = { table = 'cqi-lte', bandwidth_mhz = 20 }";
    let noise = |radio: &Radio| -> Vec<f64> {
        let truth = sinr(radio);
        let readings = radio.readings(&feeder, 7);
        readings.iter().map(|r| f64::from(r.sinr_db.unwrap()) - truth[(r.made.as_millis() / 10) as usize]).collect()
    };
    let (quiet, faded) = (noise(&realise(flat, 7, 10)), noise(&realise(&with("fading = {}"), 7, 10)));
    assert_eq!(quiet.len(), 100);
    assert!(quiet.iter().zip(&faded).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn line_of_sight_by_the_table_is_as_often_as_it_says() {
    // 36 m from the station the probability is 0.684 (computed by hand in umi.rs). Each seed is one draw for a user who
    // stands.
    let text = r#"
        model = "umi"
        carrier_ghz = 2
        tx_power_dbm = 30
        line_of_sight = "table"
        station = { at = [0, 0] }
        ue = { path = [{ at = [36, 0] }] }
        rate = { table = "cqi-lte", bandwidth_mhz = 20 }
    "#;
    let spec = spec(text);
    let seen = (0..4000).filter(|seed| {
        let radio = spec.realise(Path::new("."), *seed, Duration::from_millis(50)).unwrap();
        assert!(radio.edges().is_empty());
        radio.line_of_sight[0]
    });
    // Four standard errors of 4000 draws: 4 * sqrt(0.684 * 0.316 / 4000).
    let share = seen.count() as f64 / 4000.0;
    assert!((share - 0.684).abs() < 0.0295, "{share}");
}

#[test]
fn traces_give_sinr_or_capacity() {
    let dir = tempfile::tempdir().unwrap();
    let at = |text: &str, ms| spec(text).realise(dir.path(), 1, Duration::from_millis(ms));
    std::fs::write(dir.path().join("both.csv"), "time_s,sinr_db,capacity_bps\n0,10,\n0.02,,4000000\n0.04,23,8e6\n")
        .unwrap();
    std::fs::write(dir.path().join("sinr.csv"), "time_s,sinr_db\n0,10\n0.02,-10\n").unwrap();
    let own = at("model = 'trace'\nfile = 'both.csv'", 80).unwrap();
    assert_eq!(own.capacity_bps[..6], [4_000_000, 4_000_000, 4_000_000, 4_000_000, 8_000_000, 8_000_000]);
    // A gap keeps the last value. The trace repeats one period after its last sample (40 ms between samples with SINR).
    assert_eq!(own.sinr_db.unwrap(), [10.0, 10.0, 10.0, 10.0, 23.0, 23.0, 23.0, 23.0]);
    let scaled = at("model = 'trace'\nfile = 'both.csv'\nscale_to_bps = 1e9", 50).unwrap();
    assert_eq!(scaled.capacity_bps[3..], [500_000_000, 1_000_000_000]);
    let rate = "rate = { table = 'cqi-lte', bandwidth_mhz = 1, overhead = 0 }";
    let again = at(&format!("model = 'trace'\nfile = 'sinr.csv'\n{rate}"), 60).unwrap();
    assert_eq!(again.capacity_bps, [1_914_100, 1_914_100, 0, 0, 1_914_100, 1_914_100]);
    let held = at(&format!("model = 'trace'\nfile = 'sinr.csv'\nat_end = 'hold'\n{rate}"), 60).unwrap();
    assert_eq!(held.capacity_bps[2..], [0, 0, 0, 0]);
    for (text, error) in [
        ("model = 'trace'\nfile = 'sinr.csv'", "holds no capacity_bps; it is needed without `rate`"),
        ("model = 'trace'\nfile = 'none.csv'", "cannot read"),
    ] {
        let found = at(text, 10).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
}

#[test]
fn a_window_of_a_trace_is_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let at = |text: &str, ms| {
        let text = format!("model = 'trace'\nfile = 'a.csv'\n{text}");
        spec(&text).realise(dir.path(), 1, Duration::from_millis(ms))
    };
    let rows = "time_s,sinr_db,capacity_bps\n0,1,1000\n0.02,2,\n0.04,3,3000\n0.06,4,4000\n";
    std::fs::write(dir.path().join("a.csv"), rows).unwrap();
    std::fs::write(dir.path().join("rtt.csv"), "time_s,rtt_ms\n7,40\n7.03,50\n").unwrap();
    // The window from 10 to 50 ms repeats; before 20 ms the values of 0 hold.
    let window = at("from_s = 0.01\nlength_s = 0.04\nscale = 1.5", 60).unwrap();
    assert_eq!(window.sinr_db.unwrap(), [1.0, 2.0, 2.0, 3.0, 1.0, 2.0]);
    assert_eq!(window.capacity_bps, [1500, 1500, 1500, 4500, 1500, 1500]);
    assert_eq!(window.base_rtt_ms, None);
    let held = at("from_s = 0.04\nat_end = 'hold'", 40).unwrap();
    assert_eq!(held.capacity_bps, [3000, 3000, 4000, 4000]);
    // In both files, times count from the first line, and both repeat together.
    let rtt = at("from_s = 0.01\nlength_s = 0.04\nrtt_file = 'rtt.csv'", 60).unwrap();
    assert_eq!(rtt.base_rtt_ms.unwrap(), [40.0, 40.0, 50.0, 50.0, 40.0, 40.0]);
    let scaled = at("scale = 2\nrate = { table = 'shannon', bandwidth_mhz = 1 }", 10).unwrap();
    let unscaled = at("rate = { table = 'shannon', bandwidth_mhz = 1 }", 10).unwrap();
    assert_eq!(scaled.capacity_bps[0], 2 * unscaled.capacity_bps[0]);
    // A trace that is longer than the run: the rest is not used.
    assert_eq!(at("", 20).unwrap().capacity_bps, [1000, 1000]);
    let (a, rtt) = (dir.path().join("a.csv"), dir.path().join("rtt.csv"));
    for (text, error) in [
        ("from_s = 0.08", format!("from_s = 0.08: must be before the end of {}, at 0.08 s", a.display())),
        (
            "from_s = 0.05\nlength_s = 0.04",
            format!("length_s = 0.04: the window ends at 0.09 s, but {} lasts 0.08 s", a.display()),
        ),
        (
            "from_s = 0.07\nrtt_file = 'rtt.csv'",
            format!("from_s = 0.07: must be before the end of {}, at 0.06 s", rtt.display()),
        ),
        ("rtt_file = 'a.csv'", format!("cannot use the trace: {} holds no rtt_ms; `rtt_file` needs it", a.display())),
        ("scale = 2\nscale_to_bps = 1e6", "scale = 2: cannot be used with scale_to_bps; remove one of them".to_owned()),
        ("scale = 0", "scale = 0: must be from 0.000001 to 1000000".to_owned()),
        ("from_s = -1", "from_s = -1: must be from 0 to 31622400".to_owned()),
        ("length_s = 0", "length_s = 0: must be from 0.01 to 31622400".to_owned()),
        ("rtt_file = ''", "rtt_file = \"\": must name a trace with rtt_ms".to_owned()),
    ] {
        assert_eq!(at(text, 10).unwrap_err().to_string(), error);
    }
}

#[test]
fn steps_may_repeat_and_need_no_sinr() {
    let radio = realise("model = 'steps'\ncapacity_bps = [[0, 5e6], [0.5, 0]]\nrepeat_s = 1", 1, 2);
    assert_eq!(radio.sinr_db, None);
    assert_eq!((radio.capacity_bps[49], radio.capacity_bps[50], radio.capacity_bps[100]), (5_000_000, 0, 5_000_000));
    assert_eq!((radio.capacity_bps[199], radio.distance_m[0], radio.line_of_sight[0]), (0, 0.0, true));
}

#[test]
fn too_long_is_refused() {
    let spec = spec("model = 'constant'\ncapacity_bps = 1");
    let error = spec.realise(Path::new("."), 1, Duration::MAX).unwrap_err().to_string();
    assert!(error.ends_with("s: must be at most 86400 s"), "{error}");
}

#[test]
fn the_documented_examples_are_what_they_say() {
    #[derive(serde::Deserialize)]
    struct Scenario {
        radio: Vec<RadioSpec>,
    }
    let page = include_str!("../../../docs/reference/radio.md");
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let specs: Vec<RadioSpec> =
        blocks.iter().flat_map(|block| toml::from_str::<Scenario>(block).expect(block).radio).collect();
    specs.iter().for_each(|spec| spec.check().unwrap());
    let example = specs.iter().find(|spec| spec.name() == "walker").unwrap();
    let radio = example.realise(Path::new("."), 1, Duration::from_secs(20)).unwrap();
    // The numbers on the page.
    assert!((sinr(&radio)[0] - 34.86).abs() < 0.005, "{}", sinr(&radio)[0]);
    assert_eq!(radio.capacity_bps[0], 1_000_000_000);
    let edges: Vec<_> = radio.edges().iter().map(|e| (e.at.as_millis(), e.line_of_sight)).collect();
    assert_eq!(edges, [(4470, false), (13_540, true)]);
    assert!((sinr(&radio)[900] - 1.79).abs() < 0.005, "{}", sinr(&radio)[900]);
    assert_eq!(radio.capacity_bps[900], 50_902_610);
}

/// Returns values within a range, sometimes at its ends, and rarely invalid.
fn about(low: f64, high: f64) -> BoxedStrategy<f64> {
    prop_oneof![
        60 => low..=high,
        5 => Just(low),
        5 => Just(high),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1e300), Just(1e300), Just(0.0)],
    ]
    .boxed()
}

fn point() -> BoxedStrategy<[f64; 2]> {
    [about(-1500.0, 1500.0), about(-1500.0, 1500.0)].boxed()
}

fn rate() -> BoxedStrategy<RateSpec> {
    let table = prop_oneof![
        Just(Table::CqiLte),
        Just(Table::CqiNr64Qam),
        Just(Table::CqiNr256Qam),
        Just(Table::McsNr64Qam),
        Just(Table::McsNr256Qam),
        Just(Table::Shannon)
    ];
    let scale = prop_oneof![
        (Just(None), proptest::option::of(about(0.0, 0.99))),
        (about(1.0, 1e15).prop_map(Some), Just(None))
    ];
    (table, about(0.1, 10_000.0), scale)
        .prop_map(|(table, bandwidth_mhz, (scale_to_bps, overhead))| RateSpec {
            table,
            bandwidth_mhz,
            overhead,
            scale_to_bps,
        })
        .boxed()
}

fn user() -> BoxedStrategy<User> {
    let waypoint = (point(), about(0.0, 2.0)).prop_map(|(at, wait_s)| Waypoint { at, wait_s });
    (proptest::collection::vec(waypoint, 1..4), about(0.01, 150.0), about(1.5, 22.5))
        .prop_map(|(path, speed_mps, height_m)| User { path, speed_mps, height_m })
        .boxed()
}

fn random_spec() -> BoxedStrategy<RadioSpec> {
    let shape = prop_oneof![Just(Shape::Rectangle), Just(Shape::Wall)];
    let obstacle = (shape, point(), point(), about(0.0, 200.0)).prop_map(|(shape, from, to, extra_loss_db)| Obstacle {
        shape,
        from,
        to,
        extra_loss_db,
    });
    let sight = prop_oneof![
        proptest::collection::vec(obstacle, 0..4).prop_map(|all| (LineOfSight::Obstacles, all)),
        prop_oneof![Just(LineOfSight::Table), Just(LineOfSight::Always), Just(LineOfSight::Never)]
            .prop_map(|by| (by, Vec::new())),
    ];
    let shadowing = (about(0.0, 30.0), about(0.0, 30.0), about(0.1, 1e4), about(0.1, 1e4)).prop_map(|(a, b, c, d)| {
        Shadowing { los_sigma_db: a, nlos_sigma_db: b, los_correlation_m: c, nlos_correlation_m: d }
    });
    let fading = (about(-40.0, 40.0), about(0.0, 50_000.0), 0u32..5)
        .prop_map(|(rician_k_db, least_doppler_hz, branches)| Fading { rician_k_db, least_doppler_hz, branches });
    let station = (point(), about(2.0, 100.0)).prop_map(|(at, height_m)| Station { at, height_m });
    let budget = (about(0.5, 100.0), about(-200.0, 100.0), about(-50.0, 60.0), about(0.0, 40.0), about(-100.0, 100.0));
    let random = (proptest::option::of(shadowing), proptest::option::of(fading));
    let interference = proptest::option::of(about(-200.0, 100.0));
    let umi = (budget, interference, station, user(), sight, random, rate()).prop_map(
        |(budget, interference_dbm, station, ue, (line_of_sight, obstacles), (shadowing, fading), rate)| {
            let (carrier_ghz, tx_power_dbm, gain, noise_figure_db, sinr_offset_db) = budget;
            RadioSpec::Umi(Box::new(UmiSpec {
                name: "r".into(),
                carrier_ghz,
                tx_power_dbm,
                tx_gain_dbi: gain,
                rx_gain_dbi: -gain,
                noise_figure_db,
                interference_dbm,
                sinr_offset_db,
                station,
                ue,
                line_of_sight,
                obstacles,
                shadowing,
                fading,
                rate,
            }))
        },
    );
    let points = |low, high| {
        let later = proptest::collection::vec([about(0.01, 3.0), about(low, high)], 0..4);
        (about(low, high), later).prop_map(|(first, mut later)| {
            later.sort_by(|a, b| a[0].total_cmp(&b[0]));
            later.insert(0, [0.0, first]);
            later
        })
    };
    let given = (proptest::option::of(points(-40.0, 60.0)), proptest::option::of(points(0.0, 1e15)));
    let steps = (given, proptest::option::of(about(3.1, 9.0)), proptest::option::of(rate())).prop_map(
        |((sinr_db, capacity_bps), repeat_s, rate)| {
            RadioSpec::Steps(StepsSpec { name: "r".into(), sinr_db, capacity_bps, repeat_s, rate })
        },
    );
    let constant = (proptest::option::of(about(-40.0, 60.0)), rate()).prop_map(|(sinr_db, rate)| {
        RadioSpec::Constant(ConstantSpec { name: "r".into(), sinr_db, capacity_bps: None, rate: Some(rate) })
    });
    prop_oneof![6 => umi.boxed(), 3 => steps.boxed(), 1 => constant.boxed()].boxed()
}

fn cap(spec: &RadioSpec) -> Option<u64> {
    match spec {
        RadioSpec::Trace(spec) => spec.rate,
        RadioSpec::Constant(spec) => spec.rate,
        RadioSpec::Steps(spec) => spec.rate,
        RadioSpec::Umi(spec) => Some(spec.rate),
    }
    .map(|rate| rate.peak_bps())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        max_global_rejects: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_checked_can_be_realised(spec in random_spec(), seed: u64, ms in 0u64..1500) {
        prop_assume!(spec.check().is_ok());
        let radio = spec.realise(Path::new("."), seed, Duration::from_millis(ms)).unwrap();
        let steps = ms.div_ceil(10) as usize;
        prop_assert_eq!(radio.capacity_bps.len(), steps);
        prop_assert_eq!(radio.line_of_sight.len(), steps);
        prop_assert_eq!(radio.distance_m.len(), steps);
        prop_assert!(radio.distance_m.iter().all(|m| m.is_finite() && *m >= 0.0));
        if let Some(sinr) = &radio.sinr_db {
            prop_assert_eq!(sinr.len(), steps);
            prop_assert!(sinr.iter().all(|db| SINR_DB.contains(&f64::from(*db))));
        }
        if let Some(cap) = cap(&spec) {
            prop_assert!(radio.capacity_bps.iter().all(|bps| *bps <= cap));
        }
        prop_assert!(radio.edges().windows(2).all(|w| w[0].at < w[1].at && w[0].line_of_sight != w[1].line_of_sight));
    }

    #[test]
    fn feeders_that_are_checked_read(
        period_ms in 0u32..500,
        delay_ms in 0u32..1000,
        noise_db in about(0.0, 40.0),
        average_time_constant_ms in 0u32..5000,
        seed: u64,
    ) {
        let feeder = FeederSpec { delay_ms, noise_db, average_time_constant_ms, ..FeederSpec::every(period_ms) };
        prop_assume!(feeder.check().is_ok());
        let steps = "model = 'steps'\nsinr_db = [[0, 50], [0.5, -30]]\nrate = { table = 'shannon', bandwidth_mhz = 1 }";
        let radio = realise(steps, 1, 1);
        let readings = radio.readings(&feeder, seed);
        prop_assert_eq!(readings.len(), 1000usize.div_ceil(period_ms as usize));
        let delay = Duration::from_millis(delay_ms.into());
        prop_assert!(readings.iter().all(|r| r.at == r.made + delay));
        let held = -20.0..=50.0;
        prop_assert!(readings.iter().all(|r| held.contains(&r.sinr_db.unwrap()) && held.contains(&r.average_db.unwrap())));
    }
}

#[test]
fn a_window_before_the_first_value_has_that_value() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "time_s,sinr_db,capacity_bps\n0,1,\n0.04,2,3000\n").unwrap();
    std::fs::write(dir.path().join("b.csv"), "time_s,sinr_db,capacity_bps\n0,,1000\n0.04,2,3000\n").unwrap();
    let at = |file: &str| {
        let text = format!("model = 'trace'\nfile = '{file}'\nlength_s = 0.02");
        spec(&text).realise(dir.path(), 1, Duration::from_millis(20)).unwrap()
    };
    assert_eq!(at("a.csv").capacity_bps, [3000, 3000]);
    assert_eq!(at("b.csv").sinr_db.unwrap(), [2.0, 2.0]);
}
