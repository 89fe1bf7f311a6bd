//! A recorded link on a stock kernel and in the simulator: its capacity from one file, its base RTT from another, a window of
//! both, and readings of the capacity.

use crate::common::machine::stock_kernel;
use crate::common::{run_lab, simulate};
use hotcc_lab::results::RunSummary;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The files are in the two formats of CellReplay, whose packets have 1400 bytes. The run is long enough that one probe of
/// crest more or less, just when the capacity rises, is no hundredth of the throughput.
const SCENARIO: &str = r#"
duration_s = 24
[sweep]
publish = ["none", "capacity"]
delay_ms = [2, 5, 9]
[[host]]
name = "server"
[[host]]
name = "phone"
[[radio]]
name = "air"
model = "trace"
file = "heavy.down"
rtt_file = "light.down"
scale = 0.9333
from_s = 3
length_s = 24
[[link]]
name = "path"
between = ["server", "phone"]
both = { delay_ms = "$delay_ms" }
forward = { radio = "air", queue = "500kB" }
[[feeder]]
radio = "air"
towards = "phone"
publish = "$publish"
readings = { period_ms = 20, delay_ms = 10 }
[[flow]]
name = "main"
from = "server"
to = "phone"
cc = "crest"
"#;
const PACKET_BITS: f64 = 1400.0 * 8.0;

/// Times (ms) at which 30 s of a link can deliver a packet: 12 in 10 ms in each even second, 3 in each odd one.
fn heavy() -> String {
    let per_10_ms = |step: u32| if (step / 100).is_multiple_of(2) { 12 } else { 3 };
    (0..3000).flat_map(|step| (0..per_10_ms(step)).map(move |_| format!("{}\n", step * 10))).collect()
}

/// Bursts each 200 ms. Their one-way delay is 30 ms until 6 s, then 15 ms.
fn light() -> String {
    let line = |at_ms: u32| format!("{at_ms} {} 1 2 3\n", if at_ms < 6000 { 30 } else { 15 });
    (0..150).map(|burst| line(burst * 200)).collect()
}

/// What a run measured: throughput (Mbit/s), least RTT (ms), RTT's 95th percentile (ms), and the 99th of the queue (ms).
type Figures = [f64; 4];

/// Returns the figures by what is published and the link's own delay (ms).
fn run(backend: &str, scenario: &Path, out: &Path) -> BTreeMap<(String, u32), Figures> {
    let runs = match backend {
        "simulator" => simulate([], scenario, out).runs,
        _ => run_lab(backend, [], scenario, out).runs,
    };
    let figures = |run: RunSummary| {
        assert_eq!(run.invalid, Vec::<String>::new());
        let flow = &run.flows[0];
        let figures = [flow.throughput_bps / 1e6, flow.rtt_ms.min, flow.rtt_ms.p95, flow.queue_delay_ms.p99];
        println!("{backend}, {}: {figures:.2?}", run.run.case_name());
        ((run.run.case["publish"].clone(), run.run.case["delay_ms"].parse().unwrap()), figures)
    };
    runs.into_iter().map(figures).collect()
}

#[test]
fn a_recorded_link_has_the_capacity_of_one_file_and_the_rtt_of_another() {
    if stock_kernel("a_recorded_link_has_the_capacity_of_one_file_and_the_rtt_of_another", "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(scratch.path().join(name), content).unwrap();
    write("heavy.down", &heavy());
    write("light.down", &light());
    write("recorded.toml", SCENARIO);
    let scenario = scratch.path().join("recorded.toml");
    let [measured, simulated] =
        ["vm:6.12", "simulator"].map(|backend| run(backend, &scenario, &scratch.path().join(backend)));
    // 3 % of the packets are in flight when the capacity falls; the queue of the others is a matter of chance
    let sum = |figures: &BTreeMap<(String, u32), Figures>, publish: &str, figure: usize| -> f64 {
        figures.iter().filter(|((published, _), _)| published == publish).map(|(_, figures)| figures[figure]).sum()
    };
    // the window's 24 s have as many even seconds as odd ones
    let mean_mbps = PACKET_BITS * (1200.0 + 300.0) / 2.0 / 1e6;
    for figures in [&measured, &simulated] {
        for ((_, delay_ms), [throughput_mbps, least_ms, p95_ms, _]) in figures {
            assert!((0.8..1.0).contains(&(throughput_mbps / mean_mbps)), "{throughput_mbps} of {mean_mbps} Mbit/s");
            // this delay and half of the RTT file's value, each way
            let path_ms = f64::from(2 * delay_ms + 30);
            assert!((path_ms..path_ms + 1.5).contains(least_ms), "{least_ms}");
            assert!(*p95_ms >= path_ms + 30.0, "{p95_ms}: the path is longer in the first 3 s");
        }
        let [with, without] = ["capacity", "none"].map(|publish| sum(figures, publish, 3));
        assert!(with < 0.9 * without, "the readings shorten the queue: {with} ms, without {without} ms, in all cases");
    }
    for (case, measured) in &measured {
        let ratio = simulated[case][0] / measured[0];
        assert!((ratio - 1.0).abs() < 0.02, "{case:?}: the simulator has {ratio} of the kernel's throughput");
    }
    for publish in ["none", "capacity"] {
        let ratio = sum(&simulated, publish, 0) / sum(&measured, publish, 0);
        assert!((ratio - 1.0).abs() < 0.01, "{publish}: the simulator has {ratio} of the kernel's throughput");
    }
}
