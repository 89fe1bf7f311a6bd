//! The scenarios that are here can run, the documented one too, and a wrong one is told by file and line.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "scenarios/command.rs"]
mod command;
mod common;
#[path = "scenarios/directory.rs"]
mod directory;
#[path = "scenarios/gates.rs"]
mod gates;
#[path = "scenarios/objects.rs"]
mod objects;
#[path = "scenarios/peers.rs"]
mod peers;
#[path = "scenarios/simulated.rs"]
mod simulated;
#[path = "scenarios/traces.rs"]
mod traces;

use hotcc_lab::planner::{check_plans, plan};
use hotcc_lab::scenario::Source;
use hotcc_lab::traces::TraceFiles;
use hotcc_lab_proto::plan::Action;
use std::fs;
use std::path::{Path, PathBuf};

/// Right in every line; each row of [`WRONG`] replaces one piece of it.
const RIGHT: &str = r#"duration_s = 10
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

/// What is replaced, by what, and how what is said then begins.
const WRONG: &[(&str, &str, &str)] = &[
    // TOML, keys, types
    ("duration_s = 10", "duration_s = ", "x.toml:1: "),
    ("duration_s = 10\n", "", "x.toml:1: missing field `duration_s`"),
    ("seeds = [1]", "seed = 1", "x.toml:2: unknown field `seed`"),
    ("mtu = 1500", "mru = 1500", "x.toml:19: unknown field `mru`"),
    ("mtu = 1500", "mtu = \"1500\"", "x.toml:19: invalid type: string \"1500\", expected u32"),
    ("both = { delay_ms = 20 }", "both = { delay_s = 20 }", "x.toml:20: unknown field `delay_s`"),
    (
        "model = \"constant\"",
        "model = \"magic\"",
        "x.toml:29: unknown variant `magic`, expected one of `trace`, `constant`, `steps`, `umi`",
    ),
    (
        "sinr_db = 20",
        "sinr = 20",
        "x.toml:27: unknown field `sinr`, expected one of `name`, `sinr_db`, `capacity_bps`, `rate`",
    ),
    ("kind = \"udp\"", "kind = \"quic\"", "x.toml:53: unknown variant `quic`, expected `tcp` or `udp`"),
    ("source = \"nowhere\"\n", "", "x.toml:62: missing field `source`"),
    // units and ranges
    (
        "rate = \"5Mbit/s\"",
        "rate = \"5MB/s\"",
        "x.toml:21: invalid rate `5MB/s`: expected 1bit/s to 100Gbit/s, e.g. `5Mbit/s`",
    ),
    (
        "rate = \"5Mbit/s\"",
        "rate = \"200Gbit/s\"",
        "x.toml:21: invalid rate `200Gbit/s`: expected 1bit/s to 100Gbit/s, e.g. `5Mbit/s`",
    ),
    ("rate = \"5Mbit/s\"", "rate = 0", "x.toml:21: invalid rate `0`: expected 1bit/s to 100Gbit/s, e.g. `5Mbit/s`"),
    (
        "queue = \"1BDP\"",
        "queue = \"1KB\"",
        "x.toml:21: invalid queue `1KB`: expected a size, e.g. `64kB`, `100packets` or `1.5BDP`",
    ),
    ("loss = [0.01]", "loss = [2]", "x.toml:21: invalid probability `2`: expected 0 to 1"),
    ("loss = [0.01]", "loss = [\"1%\"]", "x.toml:21: invalid type: string \"1%\", expected f64"),
    ("delay_ms = 20", "delay_ms = -20", "x.toml:20: invalid delay_ms `-20`: expected 0 to 60000"),
    ("delay_ms = 20", "delay_ms = nan", "x.toml:20: invalid delay_ms `NaN`: expected 0 to 60000"),
    ("duration_s = 10", "duration_s = 0", "x.toml:1: invalid duration_s `0`: expected 0.1 to 3600"),
    ("duration_s = 10", "duration_s = 4000", "x.toml:1: invalid duration_s `4000`: expected 0.1 to 3600"),
    ("mtu = 1500", "mtu = 65000", "x.toml:19: invalid mtu `65000`: expected 256 to 9000"),
    ("seeds = [1]", "seeds = []", "x.toml:1: a scenario needs at least one [[link]], one [[flow]] and one seed"),
    ("seeds = [1]", "seeds = [1, 2, 1]", "x.toml:1: duplicate seed 1: it would repeat the same run"),
    ("seeds = [1]", "series_ms = 0", "x.toml:2: invalid series_ms `0`: expected 1 to 10000"),
    ("sinr_db = 20", "sinr_db = 200", "x.toml:27: sinr_db = 200: must be from -40 to 60"),
    ("period_ms = 100", "period_ms = 0", "x.toml:42: period_ms = 0: must be from 1 to 3600000"),
    ("delay_ms = 20", "delay_ms = 20, jitter_ms = 5000", "x.toml:20: invalid jitter_ms `5000`: expected 0 to 4000"),
    ("loss = [0.01]", "loss = [0.01, 0.01]", "x.toml:1: duplicate case loss=0.01: a value is swept twice"),
    (
        "seeds = [1]",
        "sysctl = { \"kernel.panic\" = 1 }",
        "x.toml:2: invalid sysctl `kernel.panic`: expected a key of a network namespace (net.*)",
    ),
    (
        "seeds = [1]",
        "sysctl = { \"net./../../etc/hosts\" = 1 }",
        "x.toml:2: invalid sysctl `net./../../etc/hosts`: expected a key of a network namespace (net.*)",
    ),
    // names
    ("name = \"tv\"", "name = \"ue\"", "x.toml:14: duplicate host name `ue`"),
    ("name = \"cable\"", "name = \"air\"", "x.toml:24: duplicate link name `air`"),
    ("name = \"down\"", "name = \"up\"", "x.toml:52: duplicate flow name `up`"),
    (
        "name = \"cable\"",
        "name = \"Cable TV\"",
        "x.toml:24: invalid link name `Cable TV`: expected 1 to 15 characters of a-z, 0-9, - and _",
    ),
    ("name = \"tv\"", "name = \"tv\"\ncount = 0", "x.toml:15: invalid count `0`: expected 1 to 200"),
    (
        "between = [\"ue\", \"tv\"]",
        "between = [\"ue\", \"pc\"]",
        "x.toml:25: unknown host `pc`: expected one of server, ue, tv",
    ),
    ("between = [\"ue\", \"tv\"]", "between = [\"ue\", \"ue\"]", "x.toml:25: link `cable` connects `ue` to itself"),
    ("to = \"ue\"", "to = \"pc\"", "x.toml:47: unknown host `pc`: expected one of server, ue, tv"),
    ("to = \"ue\"", "to = \"server\"", "x.toml:47: a flow needs two different hosts"),
    ("forward = { radio = \"nr\" }", "forward = { radio = \"lte\" }", "x.toml:37: unknown radio `lte`: expected nr"),
    ("radio = \"nr\"\ntowards", "radio = \"lte\"\ntowards", "x.toml:40: unknown radio `lte`: expected nr"),
    ("towards = \"tv\"", "towards = \"radio\"", "x.toml:41: unknown host `radio`: expected one of server, ue, tv"),
    ("cc = \"dtcp\"", "cc = \"tahoe\"", "x.toml:48: unknown congestion control `tahoe`"),
    ("set = { eta = 2 }", "set = { zeta = 2 }", "x.toml:48: no tunable `zeta`"),
    ("set = { eta = 2 }", "set = { eta = 1000 }", "x.toml:48: invalid value `1000` for eta: out of range 1..16"),
    ("set = { eta = 2 }", "profile = \"fast\"", "x.toml:49: unknown profile `fast`: expected one of default, paper"),
    ("set = { eta = 2 }", "watch = \"mood\"", "x.toml:49: unknown state field `mood`"),
    // what does not go together
    (
        "change = { link = \"air\", forward = { rate",
        "change = { link = \"beam\", forward = { loss = 0.1, rate",
        "x.toml:36: a link with loss needs `offload_segments = 1`: it drops single packets, not bundles",
    ),
    (
        "mtu = 1500",
        "offload_segments = 8",
        "x.toml:19: a link with loss needs `offload_segments = 1`: it drops single packets, not bundles",
    ),
    (
        "rate = \"5Mbit/s\", queue",
        "queue",
        "x.toml:21: `queue` needs `rate` or `radio`: a link without a rate has no queue",
    ),
    (
        "forward = { radio = \"nr\" }",
        "forward = { radio = \"nr\", rate = \"1Mbit/s\" }",
        "x.toml:37: `radio` and `rate` conflict: the radio sets the rate; remove one",
    ),
    (
        "between = [\"ue\", \"tv\"]",
        "between = [\"ue\", \"tv\"]\nboth = { cell = \"lte\" }",
        "x.toml:26: `cell` needs `rate` or `radio`: a link without a rate has no capacity to share",
    ),
    ("rate = \"5Mbit/s\"", "cell = \"lte\", rate = \"5Mbit/s\"", "x.toml:21: cell `lte` has only one link"),
    ("rate = \"1Mbit/s\" } }", "cell = \"lte\" } }", "x.toml:60: `cell` cannot change during a run"),
    (
        "both = { delay_ms = 20 }",
        "both = { reorder = 0.1 }",
        "x.toml:20: `reorder` needs `reorder_ms`: the extra delay of reordered packets",
    ),
    (
        "both = { delay_ms = 20 }",
        "both = { reorder_ms = 5 }",
        "x.toml:20: `reorder_ms` needs `reorder`: the share of packets to delay",
    ),
    (
        "cc = \"dtcp\"\nset = { eta = 2 }",
        "cc = \"cubic\"\nset = { eta = 2 }",
        "x.toml:48: `cubic` is a kernel congestion control and has no tunables to set",
    ),
    (
        "cc = \"dtcp\"\nset = { eta = 2 }",
        "cc = \"cubic\"\nwatch = \"n_q16\"",
        "x.toml:49: `watch` needs a hotcc algorithm: this flow's congestion control has no state to watch",
    ),
    ("cc = \"dtcp\"\nset = { eta = 2 }", "", "x.toml:45: flow `up` needs `cc`"),
    ("rate = \"1Mbit/s\"\n\n[[event]]", "\n[[event]]", "x.toml:52: flow `down` needs `rate`"),
    (
        "rate = \"1Mbit/s\"\n\n[[event]]",
        "rate = \"1Mbit/s\"\ncc = \"cubic\"\n\n[[event]]",
        "x.toml:57: `cc` does not apply to a UDP flow",
    ),
    (
        "cc = \"dtcp\"",
        "cc = \"dtcp\"\nstart_s = 5\nstop_s = 4",
        "x.toml:50: invalid stop_s `4`: expected more than the flow's last start, 5 s",
    ),
    ("cc = \"dtcp\"", "cc = \"dtcp\"\nstop_s = 11", "x.toml:49: invalid stop_s `11`: expected 0 to 10"),
    ("cc = \"dtcp\"", "cc = \"dtcp\"\nstart_s = 10", "x.toml:45: flow `up` starts outside the run of 10 s"),
    ("cc = \"dtcp\"", "cc = \"dtcp\"\ncount = 3\nstagger_s = 5", "x.toml:45: flow `up` starts outside the run of 10 s"),
    ("cc = \"dtcp\"", "cc = \"dtcp\"\nwrite_bytes = 1000", "x.toml:49: `write_bytes` needs `rate`"),
    (
        "towards = \"tv\"",
        "towards = \"tv\"\noutages_s = [[3, 2]]",
        "x.toml:42: invalid outage [3, 2]: expected [from, until] with 0 <= from < until",
    ),
    // events
    ("at_s = 5", "at_s = 11", "x.toml:59: invalid at_s `11`: expected 0 to 10"),
    (
        "at_s = 5\n",
        "at_s = 5\nswap = { cc = \"dtcp\", new = \"westwoodp\" }\n",
        "x.toml:59: an event needs exactly one of swap, tune, change, handover, route, not 2",
    ),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }\n",
        "",
        "x.toml:59: an event needs exactly one of swap, tune, change, handover, route, not 0",
    ),
    (
        "change = { link = \"air\"",
        "change = { link = \"sea\"",
        "x.toml:60: unknown link `sea`: expected one of air, cable, beam",
    ),
    (
        "change = { link = \"air\", forward = { rate",
        "change = { link = \"air\", forward = { queue = \"1BDP\", rate",
        "x.toml:60: `queue` and `mark_above` cannot change during a run",
    ),
    (
        "change = { link = \"air\", forward = { rate",
        "change = { link = \"air\", forward = { police = { rate = \"1Mbit/s\", burst = \"9kB\" }, rate",
        "x.toml:60: `police` cannot change during a run",
    ),
    (
        "queue = \"1BDP\",",
        "police = { rate = \"1Mbit/s\", burst = \"1BDP\" },",
        "x.toml:21: a policer's `burst` is a size, e.g. `64kB` or `100packets`",
    ),
    (
        "forward = { radio = \"nr\" }",
        "forward = { radio = \"nr\", police = { rate = \"1Mbit/s\", burst = \"9kB\" } }",
        "x.toml:36: a link with `police` needs `offload_segments = 1`",
    ),
    (
        "between = [\"ue\", \"tv\"]",
        "between = [\"ue\", \"tv\"]\nboth = { police = { rate = \"1Mbit/s\", burst = \"9kB\" } }",
        "x.toml:26: `police` needs `rate` or `radio`",
    ),
    ("queue = \"1BDP\",", "police = { rate = \"1Mbit/s\" },", "x.toml:21: missing field `burst`"),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "swap = { cc = \"cubic\", new = \"dtcp\" }",
        "x.toml:60: unknown hotcc algorithm of a flow `cubic`: expected dtcp",
    ),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "tune = { cc = \"dtcp\", set = { zeta = 1 } }",
        "x.toml:60: no tunable `zeta`",
    ),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "handover = { link = \"beam\", gap_ms = -1, radio = \"nr\" }",
        "x.toml:59: invalid gap_ms `-1`: expected 0 to 60000",
    ),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "route = { host = \"server\", to = \"tv\", via = \"pc\" }",
        "x.toml:60: unknown host `pc`: expected one of server, ue, tv",
    ),
    // paths
    (
        "name = \"server\"",
        "name = \"server\"\nwatch_paths = true",
        "x.toml:9: `watch_paths` needs a `route` event of `server`",
    ),
    ("name = \"ue\"", "name = \"ue\"\nwatch_paths = true", "x.toml:12: `watch_paths` needs a TCP flow from `ue`"),
    (
        "name = \"ue\"",
        "name = \"ue\"\nwatch_paths = \"yes\"",
        "x.toml:12: invalid type: string \"yes\", expected a boolean",
    ),
    // sweep and expected
    ("loss = [0.01]", "loss = []", "x.toml:5: `sweep.loss` has no values"),
    (
        "loss = [0.01]",
        "loss = [0.01]\ncc = [\"dtcp\"]",
        "x.toml:6: `sweep.cc` is unused: write \"$cc\" where its values belong",
    ),
    (
        "loss = \"$loss\"",
        "loss = \"$lost\"",
        "x.toml:5: `sweep.loss` is unused: write \"$loss\" where its values belong",
    ),
    ("cc = \"dtcp\"", "cc = \"$ccc\"", "x.toml:48: cannot replace `$ccc`: `ccc` is not swept: expected loss"),
    ("loss = [0.01]", "loss = 0.01", "x.toml:5: invalid type: floating point `0.01`, expected a sequence"),
    ("metric = \"throughput_mbps\"", "metric = \"speed\"", "x.toml:62: unknown metric `speed`"),
    (
        "case = { loss = 0.01 }",
        "flow = \"uplink\"",
        "x.toml:62: unknown flow `uplink`: did you mean `up`? expected one of up, down",
    ),
    (
        "metric = \"throughput_mbps\"",
        "metric = \"utilisation\"\nlink = \"ether\"",
        "x.toml:62: unknown link `ether`: expected one of air, cable, beam",
    ),
    (
        "case = { loss = 0.01 }",
        "link = \"air\"",
        "x.toml:62: [[expected]] with `link` needs the metric `utilisation` and no `flow`",
    ),
    ("case = { loss = 0.01 }", "case = { cc = \"dtcp\" }", "x.toml:62: `case.cc` is not swept"),
    ("case = { loss = 0.01 }", "over = { cc = \"dtcp\" }", "x.toml:62: `over.cc` is not swept"),
    ("value = 3.5", "value = 3.5\nat_least = 1", "x.toml:62: [[expected]] needs exactly one of `value` and `at_least`"),
    ("value = 3.5", "note = \"all\"", "x.toml:62: [[expected]] needs exactly one of `value` and `at_least`"),
    // the PEP
    ("border = \"ue\"", "border = \"nobody\"", "x.toml:69: unknown host `nobody`"),
    ("servers = [\"server\"]", "servers = []", "x.toml:70: a PEP needs at least one server"),
    ("servers = [\"server\"]", "servers = [\"tv\"]", "x.toml:70: invalid PEP server `tv`: expected a sender of TCP"),
    ("segments = 16", "segments = 0", "x.toml:71: invalid segments `0`: expected 1 to 65536"),
    ("segments = 16", "fault = \"sleeps\"", "x.toml:71: unknown variant `sleeps`"),
];

fn error_of(text: String) -> String {
    match Source::parse(Path::new("x.toml"), text) {
        Ok(_) => "nothing".to_owned(),
        Err(why) => why.to_string(),
    }
}

#[test]
fn what_is_wrong_is_told_by_line() {
    Source::parse(Path::new("x.toml"), RIGHT.to_owned()).unwrap();
    for (right, wrong, what) in WRONG {
        assert_eq!(RIGHT.matches(right).count(), 1, "{right}");
        let error = error_of(RIGHT.replace(right, wrong));
        assert!(error.starts_with(what), "{wrong:?}: error `{error}`, not `{what}`");
    }
}

/// Likewise what is tuned or swapped.
#[test]
fn events_of_a_swept_congestion_control_are_in_its_own_cases() {
    let swept = RIGHT
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

/// A swept congestion control may lack what is watched; one of them must have it.
#[test]
fn what_is_watched_is_in_the_series_of_those_that_have_it() {
    let swept = RIGHT
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

fn plans(source: &Source) {
    // a recording that is not at hand is stood in for: as a table by a constant radio, else by 1000 s of 1.2 Mbit/s
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

/// A reader must find the paper: its author, year, and the place in it. What no paper says is this project's.
#[test]
fn every_papers_figure_says_whose_it_is() {
    for file in files() {
        let source = Source::read(&file).unwrap_or_else(|why| panic!("{why}"));
        for expected in &source.cases().unwrap()[0].scenario.expected {
            let source = &expected.get_ref().source;
            if source == "this project" {
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
    let with = RIGHT.replace("seeds = [1]", "seeds = [1]\nbounds = true");
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

/// The whole example of the documentation.
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
    let source = Source::parse(Path::new("x.toml"), format!("{RIGHT}{events}")).unwrap();
    let case = &source.cases().unwrap()[0];
    let planned = plan(&case.scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap();
    let beam =
        planned.plan.links.iter().find(|l| l.name.contains("beam") && l.rates_by_step().any(|r| r == 0)).unwrap();
    let served = beam.rates_by_step().map(|rate| rate > 0);
    let closed: Vec<u64> = served.enumerate().filter(|(_, open)| !open).map(|(i, _)| i as u64 * beam.step_ns).collect();
    assert_eq!((closed[0], *closed.last().unwrap() + beam.step_ns), (5_000_000_000, 5_400_000_000));
    assert_eq!(closed.len() as u64 * beam.step_ns, 400_000_000);
}

#[test]
fn users_of_a_cell_share_its_links_and_start_one_after_the_other() {
    let text = RIGHT
        .replace("name = \"ue\"", "name = \"ue\"\ncount = 3")
        .replace("[[link]]\nname = \"cable\"\nbetween = [\"ue\", \"tv\"]\n", "")
        .replace("rate = \"5Mbit/s\"", "cell = \"lte\", rate = \"5Mbit/s\"")
        .replace("set = { eta = 2 }", "stagger_s = 2")
        .replace("[[pep]]\nborder = \"ue\"\nservers = [\"server\"]\nsegments = 16\n", "");
    let source = Source::parse(Path::new("x.toml"), text).unwrap();
    let case = &source.cases().unwrap()[0];
    let planned = plan(&case.scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap().plan;
    assert_eq!(planned.cells(), [[0, 2, 4]], "what the server sends to each");
    let starts: Vec<u64> = planned.flows.iter().map(|f| f.start_ns / 1_000_000_000).collect();
    assert_eq!(starts, [0, 2, 4, 0]);
}

#[test]
fn a_variant_stands_for_an_algorithm_with_its_settings() {
    let with = |variant: &str| RIGHT.replace("cc = \"dtcp\"", "cc = \"slow\"") + "\n[[variant]]\n" + variant;
    let right = with("name = \"slow\"\ncc = \"dtcp\"\nprofile = \"paper\"\nset = { eta = 3, n_max = 7 }\n");
    let source = Source::parse(Path::new("x.toml"), right).unwrap();
    let case = &source.cases().unwrap()[0];
    let planned = plan(&case.scenario, 1, &TraceFiles::beside(Path::new("."))).unwrap();
    let [loaded] = &planned.plan.algorithms[..] else { panic!("{:?}", planned.plan.algorithms) };
    assert_eq!((&*loaded.object, &*loaded.cc, &*loaded.profile), ("dtcp", "dtcp", "paper"));
    assert_eq!(loaded.set, ["eta=2", "n_max=7"], "the flow's own goes before");
    for (wrong, what) in [
        (
            "name = \"cubic\"\ncc = \"dtcp\"\n",
            "x.toml:74: invalid variant name `cubic`: a congestion control has this name",
        ),
        ("name = \"slow\"\ncc = \"cubic\"\n", "x.toml:75: unknown hotcc algorithm `cubic`"),
        ("name = \"slow\"\ncc = \"dtcp\"\nprofile = \"p\"\n", "x.toml:76: unknown profile `p`"),
        ("name = \"slow\"\ncc = \"dtcp\"\nset = { etta = 1 }\n", "x.toml:75: "),
    ] {
        let error = error_of(with(wrong));
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn what_goes_together_is_swept_together() {
    let of = |values: &str| {
        let swept = RIGHT.replace("loss = [0.01]", &format!("loss = [0.01]\ncable = [{values}]"));
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

/// What shows only when the parts are put together has its line, too.
#[test]
fn what_cannot_be_planned_is_told_by_line() {
    for (right, wrong, what) in [
        ("model = \"constant\"\nsinr_db = 20", "model = \"trace\"\nfile = \"none.csv\"", "x.toml:27: radio `nr`: "),
        ("towards = \"tv\"", "towards = \"ue\"", "x.toml:41: no link to `ue` uses radio `nr`"),
    ] {
        assert_eq!(RIGHT.matches(right).count(), 1, "{right}");
        let source = Source::parse(Path::new("x.toml"), RIGHT.replace(right, wrong)).unwrap();
        let error = check_plans(&source).unwrap_err().to_string();
        assert!(error.starts_with(what), "{wrong:?}: error `{error}`, not `{what}`");
    }
}
