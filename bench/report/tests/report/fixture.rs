//! Result directories as the lab would write them, with known figures.

use hotcc_lab::results::{
    Distribution, FLOW_COLUMNS, FlowSummary, LINK_COLUMNS, LinkSummary, Manifest, RunId, RunSummary,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub fn case(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn manifest(runs: Vec<RunId>) -> Manifest {
    Manifest {
        scenario: "mmwave-blockage".to_owned(),
        scenario_sha256: "a".repeat(64),
        files: BTreeMap::from([("walk.csv".to_owned(), "b".repeat(64))]),
        backend: "vm".to_owned(),
        kernel: "6.12.57+deb13-cloud-amd64".to_owned(),
        kernel_sha256: "b".repeat(64),
        qemu: "QEMU emulator version 10.0.2".to_owned(),
        cpu: "qemu64".to_owned(),
        objects: BTreeMap::from([("dtcp".to_owned(), "c".repeat(64)), ("hotcc".to_owned(), "d".repeat(64))]),
        runs,
        results: BTreeMap::new(),
    }
}

fn distribution(mean: f64) -> Distribution {
    let (p95, p99) = (mean * 1.5, mean * 1.8);
    Distribution { count: 1000, mean, min: mean / 2.0, p50: mean * 0.9, p95, p99, max: mean * 2.0 }
}

pub fn flow(name: &str, cc: &str, mbps: f64, rtt_ms: f64) -> FlowSummary {
    FlowSummary {
        name: name.to_owned(),
        cc: cc.to_owned(),
        end_s: 30.0,
        bytes: (mbps * 1e6 * 30.0 / 8.0) as u64,
        throughput_bps: mbps * 1e6,
        utilisation: Some(mbps / 50.0),
        rtt_ms: distribution(rtt_ms),
        queue_delay_ms: distribution(rtt_ms - 20.0),
        queue_delay_time_mean_ms: Some(rtt_ms - 22.0),
        mean_cwnd: 80.0,
        packets: 10_000,
        losses: 10,
        queue_drops: 15,
        retransmits: 25,
        timeouts: 2,
        ..FlowSummary::default()
    }
}

pub fn run(case: BTreeMap<String, String>, seed: u64, flows: Vec<FlowSummary>) -> RunSummary {
    RunSummary {
        run: RunId { case, seed },
        duration_s: 30.0,
        busy_max: 0.5,
        busy_mean: 0.2,
        flows,
        links: vec![LinkSummary { name: "radio:gnb>ue".to_owned(), utilisation: Some(0.9), ..LinkSummary::default() }],
        jain: 0.98,
        ..RunSummary::default()
    }
}

/// Writes runs with their summaries, and a scenario that contains only its name.
pub fn write(directory: &Path, runs: &[RunSummary]) {
    write_manifest(directory, &manifest(runs.iter().map(|run| run.run.clone()).collect()));
    fs::write(directory.join("scenario.toml"), "name = \"mmwave-blockage\"\n").unwrap();
    for run in runs {
        write_run(directory, run);
    }
}

pub fn write_manifest(directory: &Path, manifest: &Manifest) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("manifest.json"), serde_json::to_vec_pretty(manifest).unwrap()).unwrap();
}

pub fn write_run(directory: &Path, run: &RunSummary) {
    let directory = directory.join(run.run.path());
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("summary.json"), serde_json::to_vec(run).unwrap()).unwrap();
}

/// Noise that a seed determines, in -1..1.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Writes series that look like a link that loses its line of sight every ten seconds.
pub fn write_series(directory: &Path, run: &RunSummary, period: f64) {
    let mut noise = Noise::new(run.run.seed);
    let mut flows = FLOW_COLUMNS.join(",") + "\n";
    let mut links = LINK_COLUMNS.join(",") + "\n";
    let mut windows = vec![10.0; run.flows.len()];
    for step in 0..(run.duration_s / period) as usize {
        let t = step as f64 * period;
        let blocked = t % 10.0 > 7.0;
        let sinr = if blocked { -2.0 } else { 18.0 } + noise.next() * 1.5;
        let capacity = if blocked { 8e6 } else { 50e6 + 5e6 * (t / 3.0).sin().round() };
        let mut queue: f64 = 0.0;
        let share = capacity / run.flows.len() as f64;
        for (flow, window) in run.flows.iter().zip(&mut windows) {
            // one flow keeps its queue shorter than the other
            let limit = share * (0.036 - 0.001 * flow.cc.len() as f64) / 12_000.0;
            *window = if *window > limit * 1.8 { *window * 0.6 } else { *window + 0.4 + 0.2 * noise.next() };
            queue += (*window - limit).max(0.0) * 1500.0;
            let rtt = 20e3 + queue * 8e6 / capacity + 800.0 * noise.next().abs();
            let rate = (*window * 12e3 / (rtt / 1e6)).min(share) * (0.9 + 0.1 * noise.next());
            if noise.next() > -0.9 {
                let name = flow.name.replace('"', "\"\"");
                let _ = writeln!(
                    flows,
                    "{t:.3},\"{name}\",{window:.0},,{rtt:.0},{:.0},20000,240,{window:.0},{rate:.0},0,{sinr:.1},",
                    rtt * (1.0 + 0.1 * noise.next())
                );
            }
        }
        let sent = capacity * period / 8.0;
        let _ = writeln!(links, "{t:.3},radio:gnb>ue,{capacity:.0},{sinr:.1},{queue:.0},{sent:.0},0,0,0,0");
        let _ = writeln!(links, "{t:.3},radio:ue>gnb,10000000,,100,{:.0},0,0,0,0", sent / 50.0);
    }
    let directory = directory.join(run.run.path());
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("flows.csv"), flows).unwrap();
    fs::write(directory.join("links.csv"), links).unwrap();
}

/// Writes a whole comparison: three congestion controls, three loss rates, five seeds, competing flows, events, and
/// papers' figures.
pub fn write_comparison(directory: &Path) {
    let mut runs = Vec::new();
    for (place, cc) in ["cubic", "dtcp", "westwoodp"].into_iter().enumerate() {
        for (step, loss) in ["0", "0.001", "0.01"].into_iter().enumerate() {
            for seed in 1..=5 {
                let mut noise = Noise::new(seed + 100 * place as u64 + 1000 * step as u64);
                let mbps = (38.0 + 3.0 * place as f64) / (1.0 + step as f64 * (0.9 - 0.4 * place as f64).abs());
                let rtt = 55.0 - 12.0 * place as f64 + noise.next() * 4.0;
                let mut flows: Vec<_> = ["bulk-1", "bulk-2"]
                    .iter()
                    .map(|name| flow(name, cc, mbps / 2.0 + noise.next() * 1.5, rtt + noise.next()))
                    .collect();
                for one in &mut flows {
                    one.losses = (1e4 * loss.parse::<f64>().unwrap()) as u64;
                    one.retransmits = one.losses + one.queue_drops + seed;
                    one.recovery_s = vec![Some(0.4 + 0.1 * noise.next()), None];
                }
                let mut one = run(case(&[("cc", cc), ("loss", loss)]), seed, flows);
                one.jain = 0.99 + 0.01 * noise.next();
                one.events = vec![
                    "12.5 swap dtcp -> westwoodp: moved 2".to_owned(),
                    "12.9 radio: readings stop".to_owned(),
                    "22 radio: readings come again".to_owned(),
                ];
                runs.push(one);
            }
        }
    }
    write(directory, &runs);
    for run in runs.iter().filter(|run| run.run.seed == 1) {
        write_series(directory, run, 0.02);
    }
    let papers = r#"
name = "mmwave-blockage"
[[expected]]
case = { cc = "dtcp", loss = 0.001 }
metric = "throughput_mbps_total"
value = 31.5
source = "Doe 2017, Table 4"
note = "theirs was a testbed with a 25 m cell and another blocker, so the order of the algorithms is what to compare"
[[expected]]
case = { cc = "westwoodp" }
metric = "rtt_mean_ms"
value = 24.0
source = "Doe 2017, Fig. 9"
[[expected]]
case = { cc = "bbr" }
metric = "utilisation"
value = 0.93
source = "Roe 2021, Table 2"
[[expected]]
metric = "jain"
source = "no value"
"#;
    fs::write(directory.join("scenario.toml"), papers).unwrap();
}
