//! Invalid scenarios, and the errors that they cause.

use crate::{VALID, error_of};
use hotcc_lab::planner::check_plans;
use hotcc_lab::scenario::Source;
use std::path::Path;

/// A piece of [`VALID`], its replacement, and the beginning of the error.
const INVALID: &[(&str, &str, &str)] = &[
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
    (
        "rate = \"1Mbit/s\"\n\n[[event]]",
        "rate = \"1Mbit/s\"\nset = { eta = 2 }\n\n[[event]]",
        "x.toml:52: `profile` and `set` do not apply to a UDP flow",
    ),
    (
        "rate = \"1Mbit/s\"\n\n[[event]]",
        "rate = \"1Mbit/s\"\nprofile = \"paper\"\n\n[[event]]",
        "x.toml:52: `profile` and `set` do not apply to a UDP flow",
    ),
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
    // flows whose names become the same, and delays of handovers
    (
        "cc = \"dtcp\"\nset = { eta = 2 }",
        "cc = \"dtcp\"\ncount = 2\n\n[[flow]]\nname = \"up-2\"\nfrom = \"server\"\nto = \"ue\"\ncc = \"dtcp\"",
        "x.toml:52: duplicate flow name `up-2`",
    ),
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "handover = { link = \"beam\", gap_ms = 1, radio = \"nr\", delay_ms = -20 }",
        "x.toml:60: invalid delay_ms `-20`: expected 0 to 60000",
    ),
    // queueing disciplines
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"red\" }",
        "x.toml:21: unknown variant `red`, expected one of `drop_tail`, `codel`, `fq_codel`, `dualpi2`",
    ),
    ("queue = \"1BDP\"", "queue = { limit = \"1BDP\" }", "x.toml:21: missing field `discipline`"),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"codel\", quantum = 300 }",
        "x.toml:21: unknown field `quantum`, expected one of `discipline`, `limit`, `target_ms`, `interval_ms`, `ecn`",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"codel\", limit = \"1KB\" }",
        "x.toml:21: invalid queue `1KB`: expected a size, e.g. `64kB`, `100packets` or `1.5BDP`",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"codel\", target_ms = 0 }",
        "x.toml:21: invalid target_ms `0`: expected 0.001 to 10000",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"drop_tail\", target_ms = 5 }",
        "x.toml:21: `target_ms` does not apply to `drop_tail`",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"dualpi2\", ecn = false }",
        "x.toml:21: `ecn` does not apply to `dualpi2`: it always marks ECN-capable packets",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"dualpi2\", interval_ms = 20 }",
        "x.toml:21: `interval_ms` does not apply to `dualpi2`",
    ),
    (
        "queue = \"1BDP\"",
        "queue = { discipline = \"codel\" }, mark_above = \"10kB\"",
        "x.toml:21: `mark_above` needs a drop-tail queue: a queueing discipline decides what it marks",
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
    ("loss = [0.01]", "loss = [1, 0.5, 1.0]", "x.toml:1: duplicate case loss=1.0: a value is swept twice"),
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
    ("cc = \"dtcp\"\nset = { eta = 2 }", "cc = \"fbtcp\"\nset = { a = 2 }", "x.toml:48: tunable `a` is now `c1_add`"),
    ("set = { eta = 2 }", "set = { eta = 1000 }", "x.toml:48: invalid value `1000` for eta: out of range 1..16"),
    ("set = { eta = 2 }", "profile = \"fast\"", "x.toml:49: unknown profile `fast`: expected one of default, paper"),
    ("set = { eta = 2 }", "watch = \"mood\"", "x.toml:49: unknown state field `mood`"),
    // invalid combinations
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
    (
        "change = { link = \"air\", forward = { rate = \"1Mbit/s\" } }",
        "route = { host = \"many\", to = \"tv\", via = \"ue\" }\n[[host]]\nname = \"many\"\ncount = 2",
        "x.toml:60: a `route` event needs single hosts: `many` has `count` > 1",
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
    ("value = 3.5", "value = \"$loss\"", "x.toml:62: `$loss` in [[expected]] needs a `gate`"),
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
    (
        "case = { loss = 0.01 }",
        "over = { loss = 0.02 }",
        "x.toml:62: `over.loss` is never `0.02`: did you mean `0.01`?",
    ),
    ("case = { loss = 0.01 }", "over = { loss = [0.01] }", "x.toml:62: `over.loss` is never `[0.01]`: "),
    ("value = 3.5", "value = 3.5\nat_least = 1", "x.toml:62: [[expected]] needs exactly one of `value` and `at_least`"),
    ("value = 3.5", "note = \"all\"", "x.toml:62: [[expected]] needs exactly one of `value` and `at_least`"),
    // the PEP
    ("border = \"ue\"", "border = \"nobody\"", "x.toml:69: unknown host `nobody`"),
    ("servers = [\"server\"]", "servers = []", "x.toml:70: a PEP needs at least one server"),
    ("servers = [\"server\"]", "servers = [\"tv\"]", "x.toml:70: invalid PEP server `tv`: expected a sender of TCP"),
    ("segments = 16", "segments = 0", "x.toml:71: invalid segments `0`: expected 1 to 65536"),
    ("segments = 16", "fault = \"sleeps\"", "x.toml:71: unknown variant `sleeps`"),
];

#[test]
fn errors_name_their_line() {
    Source::parse(Path::new("x.toml"), VALID.to_owned()).unwrap();
    for (valid, invalid, what) in INVALID {
        assert_eq!(VALID.matches(valid).count(), 1, "{valid}");
        let error = error_of(VALID.replace(valid, invalid));
        assert!(error.starts_with(what), "{invalid:?}: error `{error}`, not `{what}`");
    }
}

/// Errors that only planning finds name their line, too.
#[test]
fn planning_errors_name_their_line() {
    for (valid, invalid, what) in [
        ("model = \"constant\"\nsinr_db = 20", "model = \"trace\"\nfile = \"none.csv\"", "x.toml:27: radio `nr`: "),
        ("towards = \"tv\"", "towards = \"ue\"", "x.toml:41: no link to `ue` uses radio `nr`"),
        (
            "set = { eta = 2 }",
            "watch = \"forecast\"",
            "x.toml:46: flow `up`: `forecast` cannot be watched: it is signed",
        ),
        (
            "sinr_db = 20\nrate = { table = \"cqi-nr-64qam\", bandwidth_mhz = 40 }",
            "sinr_db = 20\ncapacity_bps = 2e12",
            "x.toml:27: radio `nr`: its capacity reaches 2000000000000 bit/s",
        ),
        (
            "rate = \"1Mbit/s\"\n\n[[event]]",
            "rate = \"1Mbit/s\"\nwrite_bytes = 2000\n\n[[event]]",
            "x.toml:54: flow `down`: a datagram of 2000 bytes",
        ),
    ] {
        assert_eq!(VALID.matches(valid).count(), 1, "{valid}");
        let source = Source::parse(Path::new("x.toml"), VALID.replace(valid, invalid)).unwrap();
        let error = check_plans(&source).unwrap_err().to_string();
        assert!(error.starts_with(what), "{invalid:?}: error `{error}`, not `{what}`");
    }
}

#[test]
fn there_is_room_for_512_links() {
    let group = |name: &str| {
        format!(
            "\n[[host]]\nname = \"{name}\"\ncount = 200\n\n[[link]]\nname = \"to-{name}\"\nbetween = [\"server\", \
             \"{name}\"]\n"
        )
    };
    let error = error_of(VALID.to_owned() + &["p", "q", "r"].map(group).concat());
    assert!(error.ends_with("too many links: expected at most 512 in total"), "{error}");
}
