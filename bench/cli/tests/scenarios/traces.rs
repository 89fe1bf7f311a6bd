//! Scenarios with recorded links: where the files are found, how the link is planned, which files are refused.

use crate::{VALID, command::lab};
use hotcc_lab::planner::plan;
use hotcc_lab::scenario::Source;
use hotcc_lab::traces::List;
use hotcc_lab_proto::plan::{Plan, PlannedLink};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns two seconds in Mahimahi's format: a packet of 12 kbit every 100 ms (120 kbit/s), then every 50 ms (240
/// kbit/s).
fn delivery_trace() -> String {
    let times = (0..10).map(|k| k * 100).chain((20..41).map(|k| k * 50));
    times.map(|ms| format!("{ms}\n")).collect()
}

/// Returns the example with a recorded radio, with lines added to its `[[radio]]` and to its `[[feeder]]`.
fn scenario(radio: &str, feeder: &str) -> String {
    let recorded = format!("model = \"trace\"\n{radio}\n");
    let constant = "model = \"constant\"\nsinr_db = 20\nrate = { table = \"cqi-nr-64qam\", bandwidth_mhz = 40 }\n";
    let text = VALID.replace(constant, &recorded);
    text.replace("readings = { period_ms = 100 }", &format!("readings = {{ period_ms = 100 }}\n{feeder}"))
        .replace("forward = { radio = \"nr\" }", "forward = { radio = \"nr\", queue = \"100kB\" }")
}

fn planned(directory: &Path, text: String) -> Plan {
    let source = Source::parse(&directory.join("x.toml"), text).unwrap_or_else(|why| panic!("{why}"));
    let case = &source.cases().unwrap()[0];
    plan(&case.scenario, 1, &source.traces()).unwrap().plan
}

fn beams(plan: &Plan) -> [&PlannedLink; 2] {
    let beam = |way: &str| plan.links.iter().find(|link| link.name == format!("beam:{way}")).unwrap();
    [beam("server>tv"), beam("tv>server")]
}

#[test]
fn a_recorded_link_has_the_rates_of_its_window() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.down"), delivery_trace()).unwrap();
    let text = scenario("file = \"a.down\"\nfrom_s = 0.5\nlength_s = 1\nscale = 10", "publish = \"capacity\"");
    let plan = planned(directory.path(), text);
    let [down, _] = beams(&plan);
    assert_eq!(down.step_ns, 10_000_000);
    // Alternating half seconds of the two rates, times ten, until 5 s after the end of the run.
    assert_eq!(down.rates[..3], [(50, 1_200_000), (50, 2_400_000), (50, 1_200_000)]);
    assert_eq!(down.rates_by_step().count(), 1500);
    // The reading at 1 s is the mean of the 100 ms before.
    let reading = plan.feeds[0].readings[10];
    assert_eq!((reading.at_ns, reading.sinr_db, reading.capacity_bps), (1_000_000_000, None, Some(2_400_000)));
}

#[test]
fn the_delay_of_both_directions_follows_the_recorded_round_trip_time() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.down"), delivery_trace()).unwrap();
    fs::write(directory.path().join("a.rtt"), "time_s,rtt_ms\n0,40\n0.55,60\n0.7,60\n1.5,0\n").unwrap();
    let text = scenario("file = \"a.down\"\nrtt_file = \"a.rtt\"\nat_end = \"hold\"", "publish = \"none\"")
        .replace("offload_segments = 8", "both = { delay_ms = 5, jitter_ms = 1 }");
    let event = "\n[[event]]\nat_s = 0.65\nchange = { link = \"beam\", both = { delay_ms = 7 } }\n";
    let plan = planned(directory.path(), text + event);
    for link in beams(&plan) {
        let phases: Vec<(u64, u64)> =
            link.phases.iter().map(|phase| (phase.from_ns / 1_000_000, phase.delay_ns / 1_000_000)).collect();
        assert_eq!(phases, [(0, 25), (600, 35), (650, 37), (1500, 7)], "{}", link.name);
        assert!(link.phases.iter().all(|phase| phase.jitter_ns == 1_000_000));
    }
    assert!(plan.feeds[0].readings.is_empty());
}

#[test]
fn a_handover_to_another_radio_ends_the_recorded_round_trip_time() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.csv"), "time_s,sinr_db,capacity_bps,rtt_ms\n0,10,1000000,40\n").unwrap();
    let text = scenario("file = \"a.csv\"\nrtt_file = \"a.csv\"", "publish = \"none\"");
    let constant = "\n[[radio]]\nname = \"flat\"\nmodel = \"constant\"\ncapacity_bps = 1e6\n";
    let handover = |at_s: f64, radio: &str| {
        format!("\n[[event]]\nat_s = {at_s}\nhandover = {{ link = \"beam\", gap_ms = 50, radio = \"{radio}\" }}\n")
    };
    let there_and_back = text + constant + &handover(1.0, "flat") + &handover(2.0, "nr");
    let plan = planned(directory.path(), there_and_back);
    for link in beams(&plan) {
        let phases: Vec<(u64, u64)> =
            link.phases.iter().map(|phase| (phase.from_ns / 1_000_000, phase.delay_ns / 1_000_000)).collect();
        assert_eq!(phases, [(0, 20), (1000, 0), (2000, 20)], "{}", link.name);
    }
}

#[test]
fn a_feeder_publishes_what_it_is_to_publish() {
    let directory = tempfile::tempdir().unwrap();
    let rows = "time_s,sinr_db,capacity_bps\n0,10,1000000\n5,12,2000000\n";
    fs::write(directory.path().join("a.csv"), rows).unwrap();
    let text = |feeder: &str| scenario("file = \"a.csv\"", feeder);
    for (feeder, sinr_db, capacity_bps) in [
        ("", Some(10.0), None),
        ("publish = \"sinr\"", Some(10.0), None),
        ("publish = \"capacity\"", None, Some(1_000_000)),
        ("publish = \"both\"\noutages_s = [[0.5, 1]]", Some(10.0), Some(1_000_000)),
    ] {
        let plan = planned(directory.path(), text(feeder));
        let first = plan.feeds[0].readings[0];
        assert_eq!((first.sinr_db, first.average_db, first.capacity_bps), (sinr_db, sinr_db, capacity_bps), "{feeder}");
        let out = plan.feeds[0].readings.iter().filter(|r| (500_000_000..1_000_000_000).contains(&r.at_ns)).count();
        assert_eq!(out, if feeder.contains("outages") { 0 } else { 5 });
    }
    // Every option is a value that a scenario can sweep.
    let swept = text("publish = \"$what\"")
        .replace("loss = [0.01]", "loss = [0.01]\nwhat = [\"none\", \"both\"]\nbias = [0, 3]")
        .replace(
            "{ period_ms = 100 }",
            "{ period_ms = 100, phase_ms = 30, bias_db = \"$bias\", capacity_noise = 0.1 }",
        );
    let source = Source::parse(&directory.path().join("x.toml"), swept).unwrap();
    let first = source.cases().unwrap().into_iter().map(|case| {
        let plan = plan(&case.scenario, 1, &source.traces()).unwrap().plan;
        plan.feeds[0].readings.first().map(|r| (r.made_ns, r.sinr_db))
    });
    let first: Vec<_> = first.collect();
    assert_eq!(first, [None, Some((30_000_000, Some(10.0))), None, Some((30_000_000, Some(13.0)))]);
}

#[test]
fn a_sweep_makes_readings_rarer_older_noisier_biased_or_absent() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.csv"), "time_s,sinr_db,capacity_bps\n0,10,1000000\n5,10,1000000\n").unwrap();
    let signals = r#"loss = [0.01]
signal = [
    { name = "right", period = 100, phase = 0, delay = 0, noise = 0, bias = 0, out = [] },
    { name = "rare", period = 500, phase = 0, delay = 0, noise = 0, bias = 0, out = [] },
    { name = "shifted", period = 100, phase = 30, delay = 0, noise = 0, bias = 0, out = [] },
    { name = "old", period = 100, phase = 0, delay = 300, noise = 0, bias = 0, out = [] },
    { name = "noisy", period = 100, phase = 0, delay = 0, noise = 2, bias = 0, out = [] },
    { name = "high", period = 100, phase = 0, delay = 0, noise = 0, bias = 3, out = [] },
    { name = "out", period = 100, phase = 0, delay = 0, noise = 0, bias = 0, out = [[0, 0.5], [0.6, 0.9]] },
]"#;
    let readings = "{ period_ms = \"$signal.period\", phase_ms = \"$signal.phase\", delay_ms = \"$signal.delay\", \
                    noise_db = \"$signal.noise\", bias_db = \"$signal.bias\" }";
    let text = scenario("file = \"a.csv\"", "outages_s = \"$signal.out\"")
        .replace("loss = [0.01]", signals)
        .replace("{ period_ms = 100 }", readings);
    let source = Source::parse(&directory.path().join("x.toml"), text).unwrap();
    let of_case = |name: &str| {
        let case = source.cases().unwrap().into_iter().find(|case| case.values["signal"] == name).unwrap();
        let plan = plan(&case.scenario, 1, &source.traces()).unwrap().plan;
        let readings: Vec<(u64, u64, f32)> = plan.feeds[0]
            .readings
            .iter()
            .map(|r| (r.made_ns / 1_000_000, r.at_ns / 1_000_000, r.sinr_db.unwrap()))
            .collect();
        readings
    };
    let first = |name: &str| of_case(name)[..2].to_vec();
    assert_eq!(first("right"), [(0, 0, 10.0), (100, 100, 10.0)]);
    assert_eq!(first("rare"), [(0, 0, 10.0), (500, 500, 10.0)]);
    assert_eq!(first("shifted"), [(30, 30, 10.0), (130, 130, 10.0)]);
    assert_eq!(first("old"), [(0, 300, 10.0), (100, 400, 10.0)]);
    assert_eq!(first("high"), [(0, 0, 13.0), (100, 100, 13.0)]);
    assert_eq!(first("out"), [(500, 500, 10.0), (900, 900, 10.0)]);
    let noisy = of_case("noisy");
    assert!(noisy.iter().any(|reading| (reading.2 - 10.0).abs() > 1.0), "{noisy:?}");
}

/// Returns what `lab --check` prints to stderr for a scenario.
fn error_of(directory: &Path, text: &str, options: &[&str]) -> String {
    fs::write(directory.join("x.toml"), text).unwrap();
    let checked = lab(&[options, &["--check", "x.toml"]].concat(), directory);
    let error = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(i32::from(!error.is_empty())), "{error}");
    assert!(error.lines().count() <= 1, "{error}");
    error
}

#[test]
fn invalid_recorded_links_are_reported_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("a.down", &delivery_trace());
    write("empty.down", "");
    write("back.down", "5\n4\n");
    write("cut.csv", "time_s,sinr_db,capacity_bps\n0,1,5\n0.1,");
    let error_of = |radio: &str, feeder: &str| error_of(directory.path(), &scenario(radio, feeder), &[]);
    assert_eq!(
        error_of("file = \"a.down\"", ""),
        "hotcc-bench: x.toml:39: feeder of radio `nr`: this radio, or one after a handover, has no SINR to publish; use \
         one that has SINR, or set `publish` to \"capacity\" or \"none\"\n"
    );
    assert_eq!(error_of("file = \"a.down\"", "publish = \"capacity\""), "");
    let radio = "hotcc-bench: x.toml:27: radio `nr`: ";
    for (file, what) in [
        ("file = \"empty.down\"", "cannot use the trace: empty.down holds no samples"),
        ("file = \"back.down\"", "cannot use the trace: back.down:2: time goes backwards: 4 after 5"),
        ("file = \"cut.csv\"", "cannot use the trace: cut.csv:3: 2 fields; the header has 3"),
        ("file = \"a.down\"\nfrom_s = 3", "from_s = 3: must be before the end of a.down, at 2 s"),
        ("file = \"a.down\"\nfrom_s = 1\nlength_s = 2", "length_s = 2: the window ends at 3 s, but a.down lasts 2 s"),
    ] {
        assert_eq!(error_of(file, "publish = \"none\""), format!("{radio}{what}\n"));
    }
    let (listed, archived) = ("mahimahi_ATT-LTE-driving-2016.down", "ucc5g_driving_download.csv");
    write(listed, &delivery_trace());
    write(archived, "time_s,sinr_db,capacity_bps\n0,1,5\n");
    for (name, advice, what) in [
        (listed, format!("run `hotcc-bench traces fetch {listed}`"), "it has "),
        (archived, List::built_in().unwrap().entry(archived).unwrap().advice(), "the SHA-256 of its samples is "),
    ] {
        let damaged = error_of(&format!("file = \"{name}\""), "publish = \"none\"");
        let expected = format!("hotcc-bench: cannot use {name}; rename it, or delete it and {advice}: {what}");
        assert!(damaged.starts_with(&expected) && damaged.lines().count() == 1, "{damaged}");
    }
    let missing = error_of("file = \"none.down\"", "publish = \"none\"");
    assert!(missing.starts_with(&format!("{radio}cannot find the trace none.down: it is not in ., ")), "{missing}");
    let misspelt = error_of("file = \"a.down\"", "publish = \"snr\"");
    assert!(
        misspelt.starts_with("hotcc-bench: x.toml:42: unknown variant `snr`, expected one of `sinr`"),
        "{misspelt}"
    );
}

#[test]
fn traces_are_found_in_the_directory_that_is_given() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::write(there.path().join("a.down"), delivery_trace()).unwrap();
    let text = scenario("file = \"a.down\"", "publish = \"none\"");
    assert!(error_of(here.path(), &text, &[]).contains("cannot find the trace a.down"));
    let directory = there.path().to_str().unwrap();
    assert_eq!(error_of(here.path(), &text, &["--traces", directory]), "");
}

#[test]
fn a_check_prints_the_part_of_a_longer_recording_that_runs_use() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    // 120 s; the last tenth of a second is left out
    write("long.down", &(0..=1200).map(|k| format!("{}\n", k * 100)).collect::<String>());
    let notes = |radio: &str| -> Vec<String> {
        let text = scenario(radio, "publish = \"none\"");
        write("x.toml", &text.replace("loss = [0.01]", "loss = [0.01, 0.02]"));
        let checked = lab(&["--check", "x.toml"], directory.path());
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(said.starts_with("x.toml: valid, 2 cases, "), "{said}");
        said.lines().skip(1).map(str::to_owned).collect()
    };
    let file = "file = \"long.down\"\nfrom_s = ";
    let note = "x.toml: long.down lasts 120 s; runs use 15 s of it, from second 20";
    assert_eq!(notes(&format!("{file}20")), [note], "one line for all cases");
    for all_used in ["20\nlength_s = 15", "105", "110"] {
        assert!(notes(&format!("{file}{all_used}")).is_empty(), "{all_used}");
    }
}

/// Uses a recorded trace if `HOTCC_TRACES` has it, else one of the same format.
#[test]
fn a_long_trace_is_used_as_far_as_the_run_goes() {
    let listed = "mahimahi_ATT-LTE-driving-2016.down";
    let recorded = std::env::var_os("HOTCC_TRACES").map(|directory| PathBuf::from(directory).join(listed));
    let directory = tempfile::tempdir().unwrap();
    let name = "long.down";
    match recorded.filter(|path| path.exists()) {
        Some(path) => drop(fs::copy(path, directory.path().join(name)).unwrap()),
        None => {
            fs::write(directory.path().join(name), (0..12_000).map(|k| format!("{}\n", k * 10)).collect::<String>())
                .unwrap()
        }
    }
    let plan = planned(directory.path(), scenario(&format!("file = \"{name}\""), "publish = \"capacity\""));
    let [down, _] = beams(&plan);
    assert_eq!(down.rates_by_step().count(), 1500);
    let mean_bps = down.rates_by_step().sum::<u64>() as f64 / 1500.0;
    assert!((1e5..5e7).contains(&mean_bps), "{mean_bps}");
    assert_eq!(plan.feeds[0].readings.len(), 150);
}
