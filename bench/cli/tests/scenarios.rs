//! The project's scenarios and the documented one can run, and errors in a scenario are reported with file and line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "scenarios/command.rs"]
mod command;
mod common;
#[path = "scenarios/directory.rs"]
mod directory;
#[path = "scenarios/dossier.rs"]
mod dossier;
#[path = "scenarios/gates.rs"]
mod gates;
#[path = "scenarios/invalid.rs"]
mod invalid;
#[path = "scenarios/objects.rs"]
mod objects;
#[path = "scenarios/peers.rs"]
mod peers;
#[path = "scenarios/scoreboard.rs"]
mod scoreboard;
#[path = "scenarios/simulated.rs"]
mod simulated;
#[path = "scenarios/traces.rs"]
mod traces;
#[path = "scenarios/validate.rs"]
mod validate;

use hotcc_lab::planner::{Planned, plan};
use hotcc_lab::scenario::Source;
use hotcc_lab::traces::TraceFiles;
use hotcc_lab_proto::plan::Action;
use std::fs;
use std::path::{Path, PathBuf};

/// A valid scenario; each row of [`invalid::INVALID`] replaces one piece of it.
const VALID: &str = r#"duration_s = 10
seeds = [1]

[sweep]
loss = [0.01]

[[host]]
name = "server"

[[host]]
name = "ue"

[[host]]
name = "tv"

[[link]]
name = "air"
between = ["server", "ue"]
mtu = 1500
both = { delay_ms = 20 }
forward = { rate = "5Mbit/s", queue = "1BDP", loss = "$loss" }

[[link]]
name = "cable"
between = ["ue", "tv"]

[[radio]]
name = "nr"
model = "constant"
sinr_db = 20
rate = { table = "cqi-nr-64qam", bandwidth_mhz = 40 }

[[link]]
name = "beam"
between = ["server", "tv"]
offload_segments = 8
forward = { radio = "nr" }

[[feeder]]
radio = "nr"
towards = "tv"
readings = { period_ms = 100 }

[[flow]]
name = "up"
from = "server"
to = "ue"
cc = "dtcp"
set = { eta = 2 }

[[flow]]
name = "down"
kind = "udp"
from = "server"
to = "tv"
rate = "1Mbit/s"

[[event]]
at_s = 5
change = { link = "air", forward = { rate = "1Mbit/s" } }

[[expected]]
case = { loss = 0.01 }
metric = "throughput_mbps"
value = 3.5
source = "nowhere"

[[pep]]
border = "ue"
servers = ["server"]
segments = 16
"#;

fn error_of(text: String) -> String {
    match Source::parse(Path::new("x.toml"), text) {
        Ok(_) => "nothing".to_owned(),
        Err(why) => why.to_string(),
    }
}

/// An event that tunes or swaps a swept congestion control is planned only in the cases that run it.
#[test]
fn events_of_a_swept_congestion_control_are_in_its_own_cases() {
    let swept = VALID
        .replace("loss = [0.01]", "loss = [0.01]\nalgorithm = [\"cubic\", \"dtcp\", \"westwoodp\"]")
        .replace("cc = \"dtcp\"\nset = { eta = 2 }", "cc = \"$algorithm\"")
        .replace(
            "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
            "tune = { cc = \"dtcp\", set = { eta = 3 } }",
        );
    let source = Source::parse(Path::new("x.toml"), swept.clone()).unwrap_or_else(|why| panic!("{why}"));
    let tuned = source.cases().unwrap().into_iter().map(|case| {
        let planned = plan(&case.scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap();
        planned.plan.events.iter().filter(|event| matches!(event.action, Action::Tune { .. })).count()
    });
    assert_eq!(tuned.collect::<Vec<_>>(), [0, 1, 0]);
    let nobodys = error_of(swept.replace("tune = { cc = \"dtcp\"", "tune = { cc = \"dcm\""));
    assert!(nobodys.contains("no tunable `eta`"), "{nobodys}");
    let nobodys = error_of(swept.replace("tune = { cc = \"dtcp\"", "tune = { cc = \"reno\""));
    assert!(nobodys.contains("unknown hotcc algorithm of a flow `reno`: expected one of dtcp, westwoodp"), "{nobodys}");
}

#[test]
fn a_tunable_changes_for_each_combination_of_settings() {
    let second = "set = { eta = 2 }\n\n[[flow]]\nname = \"up2\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"dtcp\"\n\
                  set = { eta = 4 }";
    let text = VALID.replace("set = { eta = 2 }", second).replace(
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "tune = { cc = \"dtcp\", set = { eta = 3 } }",
    );
    let planned = planned(&text);
    let tuned = planned.plan.events.iter().filter_map(|event| match &event.action {
        Action::Tune { cc, .. } => Some(cc.as_str()),
        _ => None,
    });
    assert_eq!(tuned.collect::<Vec<_>>(), ["dtcp", "dtcp_2"]);
}

/// Some of the swept congestion controls may lack the watched field, but at least one must have it.
#[test]
fn what_is_watched_is_in_the_series_of_those_that_have_it() {
    let swept = VALID
        .replace("loss = [0.01]", "loss = [0.01]\nalgorithm = [\"cubic\", \"dtcp\", \"westwoodp\"]")
        .replace("cc = \"dtcp\"\nset = { eta = 2 }", "cc = \"$algorithm\"\nwatch = \"n_q16\"");
    let source = Source::parse(Path::new("x.toml"), swept.clone()).unwrap_or_else(|why| panic!("{why}"));
    let watched = source.cases().unwrap().into_iter().map(|case| {
        let planned = plan(&case.scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap();
        (case.values["algorithm"].clone(), planned.plan.flows[0].watch.is_some())
    });
    let expected = [("cubic", false), ("dtcp", true), ("westwoodp", false)];
    assert_eq!(watched.collect::<Vec<_>>(), expected.map(|(cc, has)| (cc.to_owned(), has)));
    let nobodys = error_of(swept.replace("n_q16", "mood"));
    assert!(nobodys.starts_with("x.toml:50: unknown state field `mood`: expected one of "), "{nobodys}");
    assert!(nobodys.contains("n_q16"), "{nobodys}");
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the plan of a scenario's first case.
fn planned(text: &str) -> Planned {
    let source = Source::parse(Path::new("x.toml"), text.to_owned()).unwrap_or_else(|why| panic!("{why}"));
    plan(&source.cases().unwrap()[0].scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap()
}

fn plans(source: &Source) {
    // a missing recording is replaced: a table by a constant radio, any other by 1000 s of 1.2 Mbit/s
    let stand_ins = tempfile::tempdir().unwrap();
    let traces = source.traces().then(&[stand_ins.path().to_owned()]);
    for case in source.cases().unwrap() {
        for missing in case.scenario.trace_files().filter(|file| traces.find(file).is_err()) {
            let text = if missing.extension().is_some_and(|extension| extension == "csv") {
                "time_s,sinr_db,capacity_bps\n0,10,4e6\n10000,10,4e6\n".to_owned()
            } else {
                (0..100_000).map(|packet| format!("{}\n", 10 * packet)).collect()
            };
            fs::write(stand_ins.path().join(missing), text).unwrap();
        }
        let seed = case.scenario.seeds[0];
        let planned = plan(&case.scenario, seed, &traces);
        planned.unwrap_or_else(|why| panic!("{} {:?}: {why:#}", source.path.display(), case.values));
    }
}

/// A reader must be able to find the paper: the source names its author, its year, and the place in it. For an RFC, the
/// number is enough. A figure from no paper has the source `this project`.
#[test]
fn every_papers_figure_says_whose_it_is() {
    for file in files() {
        let source = Source::read(&file).unwrap_or_else(|why| panic!("{why}"));
        for expected in &source.cases().unwrap()[0].scenario.expected {
            let source = &expected.get_ref().source;
            if source == "this project" || source.starts_with("RFC ") {
                continue;
            }
            let mut words = source.split(' ');
            assert!(words.next().unwrap().starts_with(char::is_uppercase), "{}: {source}", file.display());
            let year = words.next().and_then(|word| word.parse::<u32>().ok());
            assert!(year.is_some_and(|year| (1980..2100).contains(&year)), "{}: {source}", file.display());
        }
    }
}

#[test]
fn bounds_need_a_capacity_to_know() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.toml");
    let checked = |text: &str| {
        fs::write(&path, text).unwrap();
        Source::read(&path).map(drop).map_err(|why| why.to_string())
    };
    let with = VALID.replace("seeds = [1]", "seeds = [1]\nbounds = true");
    assert_eq!(checked(&with), Ok(()));
    let without = with
        .replace(
            "forward = { rate = \"5Mbit/s\", queue = \"1BDP\", loss = \"$loss\" }",
            "forward = { loss = \"$loss\" }",
        )
        .replace("forward = { radio = \"nr\" }", "")
        .replace("[[event]]\nat_s = 5\nchange = { link = \"air\", forward = { rate = \"1Mbit/s\" } }", "");
    let why = checked(&without).unwrap_err();
    assert!(why.contains("x.toml:3: `bounds` needs a link with a `rate` or a `radio` of its own"), "{why}");
}

#[test]
fn every_scenario_plans() {
    for file in files() {
        plans(&Source::read(&file).unwrap_or_else(|why| panic!("{why}")));
    }
}

/// The complete example of the documentation.
#[test]
fn the_documented_scenario_plans() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenarios.md");
    let text = fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let source =
        Source::parse(Path::new("docs/example.toml"), example.to_owned()).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(source.cases().unwrap().len(), 4);
    plans(&source);
}

#[test]
fn what_changes_meanwhile_does_not_end_a_handovers_gap() {
    let events = "\n[[event]]\nat_s = 5\nhandover = { link = \"beam\", gap_ms = 400, radio = \"nr\" }\n\
                  \n[[event]]\nat_s = 5.1\nchange = { link = \"beam\", forward = { rate = \"1Mbit/s\" } }\n";
    let planned = planned(&format!("{VALID}{events}"));
    let beam =
        planned.plan.links.iter().find(|l| l.name.contains("beam") && l.rates_by_step().any(|r| r == 0)).unwrap();
    let served = beam.rates_by_step().map(|rate| rate > 0);
    let closed: Vec<u64> = served.enumerate().filter(|(_, open)| !open).map(|(i, _)| i as u64 * beam.step_ns).collect();
    assert_eq!((closed[0], *closed.last().unwrap() + beam.step_ns), (5_000_000_000, 5_400_000_000));
    assert_eq!(closed.len() as u64 * beam.step_ns, 400_000_000);
}

#[test]
fn users_of_a_cell_share_its_links_and_start_one_after_the_other() {
    let text = VALID
        .replace("name = \"ue\"", "name = \"ue\"\ncount = 3")
        .replace("[[link]]\nname = \"cable\"\nbetween = [\"ue\", \"tv\"]\n", "")
        .replace("rate = \"5Mbit/s\"", "cell = \"lte\", rate = \"5Mbit/s\"")
        .replace("set = { eta = 2 }", "stagger_s = 2")
        .replace("[[pep]]\nborder = \"ue\"\nservers = [\"server\"]\nsegments = 16\n", "");
    let planned = planned(&text).plan;
    assert_eq!(planned.cells(), [[0, 2, 4]], "what the server sends to each");
    let starts: Vec<u64> = planned.flows.iter().map(|f| f.start_ns / 1_000_000_000).collect();
    assert_eq!(starts, [0, 2, 4, 0]);
}

#[test]
fn a_variant_stands_for_an_algorithm_with_its_settings() {
    let with = |variant: &str| VALID.replace("cc = \"dtcp\"", "cc = \"slow\"") + "\n[[variant]]\n" + variant;
    let right = with("name = \"slow\"\ncc = \"dtcp\"\nprofile = \"paper\"\nset = { eta = 3, n_max = 7 }\n");
    let planned = planned(&right);
    let [loaded] = &planned.plan.algorithms[..] else { panic!("{:?}", planned.plan.algorithms) };
    assert_eq!((&*loaded.object, &*loaded.cc, &*loaded.profile), ("dtcp", "dtcp", "paper"));
    assert_eq!(loaded.set, ["eta=2", "n_max=7"], "the flow's own goes before");
    for (invalid, what) in [
        (
            "name = \"cubic\"\ncc = \"dtcp\"\n",
            "x.toml:74: invalid variant name `cubic`: a congestion control has this name",
        ),
        ("name = \"slow\"\ncc = \"cubic\"\n", "x.toml:75: unknown hotcc algorithm `cubic`"),
        ("name = \"slow\"\ncc = \"dtcp\"\nprofile = \"p\"\n", "x.toml:76: unknown profile `p`"),
        ("name = \"slow\"\ncc = \"dtcp\"\nset = { etta = 1 }\n", "x.toml:75: "),
    ] {
        let error = error_of(with(invalid));
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn what_goes_together_is_swept_together() {
    let of = |values: &str| {
        let swept = VALID.replace("loss = [0.01]", &format!("loss = [0.01]\ncable = [{values}]"));
        swept.replace("mtu = 1500", "mtu = \"$cable.mtu\"").replace("delay_ms = 20", "delay_ms = \"$cable.ms\"")
    };
    let right = of("{ name = \"near\", mtu = 1400, ms = 1 }, { name = \"far\", mtu = 576, ms = 300 }");
    let cases = Source::parse(Path::new("x.toml"), right).unwrap().cases().unwrap();
    let read = |case: &hotcc_lab::scenario::Case| {
        let link = &case.scenario.link[0];
        (case.values["cable"].clone(), *link.mtu.get_ref(), *link.both.delay_ms.as_ref().unwrap().get_ref())
    };
    let read: Vec<_> = cases.iter().map(read).collect();
    assert_eq!(read, [("near".to_owned(), 1400, 1.0), ("far".to_owned(), 576, 300.0)]);
    for (values, what) in [
        ("{ mtu = 1400, ms = 1 }", "a table in `sweep.cable` has no `name`"),
        ("{ name = 1, mtu = 1400 }", "cannot replace `$cable.ms`"),
        ("{ name = 1, mtu = 1400, ms = 1 }, { name = 1, mtu = 576, ms = 1 }", "a value is swept twice"),
    ] {
        let error = error_of(of(values));
        assert!(error.contains(what), "{error}");
    }
}

/// A link without a rate carries what its losses let pass, and a queue also records the datagrams that it drops.
#[test]
fn there_is_room_for_the_records_of_lossy_links_and_of_dropped_datagrams() {
    let room = |forward: &str, flow: &str| {
        let text = format!(
            "duration_s = 60\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"x\"\n\
             between = [\"a\", \"b\"]\nboth = {{ delay_ms = 10 }}\nforward = {{ {forward} }}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        planned(&text).plan.packet_records
    };
    // a window of 120 segments per 20 ms
    assert!(room("loss = 0.0001", "cc = \"cubic\"") > 60 * 120 * 50);
    // 100 Mbit/s of packets of 1428 bytes, most of which the queue drops
    assert!(room("rate = \"5Mbit/s\"", "kind = \"udp\"\nrate = \"100Mbit/s\"") > 525_000);
    assert!(room("rate = \"5Mbit/s\"", "cc = \"cubic\"") < 300_000, "as before");
}

/// Forwarding is one variable with two names.
#[test]
fn sysctls_of_the_file_come_after_the_labs_own() {
    let forwarding = |text: &str| {
        let sysctls = planned(text).plan.hosts[0].sysctls.clone();
        let of_forwarding = sysctls.iter().filter(|(key, _)| key.ends_with("forward") || key.ends_with("forwarding"));
        of_forwarding.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    let off = "seeds = [1]\nsysctl = { \"net.ipv4.conf.all.forwarding\" = 0 }";
    let text = VALID.replace("seeds = [1]", off);
    assert_eq!(forwarding(&text), ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.forwarding=0"]);
    // those of a host come last
    let text = text.replacen("[[host]]", "[[host]]\nsysctl = { \"net.ipv4.ip_forward\" = 2 }", 1);
    assert_eq!(forwarding(&text), ["net.ipv4.conf.all.forwarding=0", "net.ipv4.ip_forward=2"]);
}

#[test]
fn a_handover_interrupts_one_direction_and_delays_both_from_its_time_on() {
    let event = "\n[[event]]\nat_s = 6\nhandover = { link = \"beam\", gap_ms = 400, radio = \"nr\", delay_ms = 40 }\n";
    let planned = planned(&format!("{VALID}{event}"));
    let beam: Vec<_> = planned.plan.links.iter().filter(|link| link.name.starts_with("beam:")).collect();
    let [forward, reverse] = beam[..] else { panic!("{beam:?}") };
    assert!(forward.rates_by_step().any(|rate| rate == 0) && reverse.rates.is_empty());
    for link in [forward, reverse] {
        let last = link.phases.last().unwrap();
        assert_eq!((last.from_ns, last.delay_ns), (6_000_000_000, 40_000_000));
    }
}
