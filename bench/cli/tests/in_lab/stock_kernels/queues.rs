//! Queueing disciplines: the lab's against the kernel's own, and in scenarios.

use crate::common::machine::{Processor, stock_kernel};
use crate::common::run_lab;
use hotcc_lab::qdisc::compare;
use hotcc_lab_proto::qdisc::{Arrival, Comparison, Counts};
use hotcc_lab_proto::queue::{Kind, Parameters};
use hotcc_testbed::soak;
use std::collections::BTreeMap;
use std::{fs, thread};

const PACKETS: u64 = 100_000;
const BYTES: u32 = 1000;
const RATE_BPS: u64 = 10_000_000;
/// Queue, in packets and in bytes.
const LIMIT: (u64, u64) = (1000, 1_000_000);
/// Ethernet's MTU with its header, which the kernel counts, too.
const FRAME_BYTES: u32 = 1514;

/// Returns packets of four flows, of which the second half is ECN-capable. For three seconds they are a fifth more than
/// the link carries, and for two seconds a third less.
fn arrivals(seed: u64, packets: u64) -> Vec<Arrival> {
    let service_ns = u64::from(BYTES) * 8_000_000_000 / RATE_BPS;
    let mut at_ns = 0;
    let mut random = seed;
    let next = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let flow = (random >> 33) as u16 % 4;
        let mean_ns = if at_ns % 5_000_000_000 < 3_000_000_000 { service_ns * 5 / 6 } else { service_ns * 3 / 2 };
        at_ns += mean_ns / 2 + (random >> 40) % mean_ns;
        Arrival { at_ns, bytes: BYTES, ecn_bits: if n >= packets / 2 { 2 } else { 0 }, flow }
    };
    (0..packets).map(next).collect()
}

fn add(sum: &mut Counts, counts: Counts) {
    sum.sent += counts.sent;
    sum.marked += counts.marked;
    sum.dropped += counts.dropped;
}

#[test]
#[ignore = "takes minutes for each discipline: just soak"]
fn the_labs_disciplines_drop_and_mark_as_many_packets_as_the_kernels() {
    const NAME: &str = "the_labs_disciplines_drop_and_mark_as_many_packets_as_the_kernels";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let of_linux = |kind| Some(Parameters::of_linux(kind, FRAME_BYTES, 1));
    let codel_ecn = of_linux(Kind::Codel).map(|parameters| Parameters { ecn: true, ..parameters });
    // no stock kernel has DualPI2, so only its cost is printed
    let disciplines = [
        (format!("bfifo limit {}", LIMIT.1 / 10), None, LIMIT.1 / 10),
        (format!("codel limit {}", LIMIT.0), of_linux(Kind::Codel), LIMIT.1),
        (format!("codel limit {} ecn", LIMIT.0), codel_ecn, LIMIT.1),
        (format!("fq_codel limit {}", LIMIT.0), of_linux(Kind::FqCodel), LIMIT.1),
        (format!("bfifo limit {}", LIMIT.1), of_linux(Kind::Dualpi2), LIMIT.1),
    ];
    let seeds: Vec<u64> = soak::seeds(1, 1).collect();
    let each = seeds.iter().flat_map(|seed| disciplines.iter().map(move |discipline| (*seed, discipline)));
    let one = |seed, (kernels, ours, limit_bytes): &(String, Option<Parameters>, u64)| {
        let _processor = Processor::take();
        let (kernels, ours, limit_bytes) = (kernels.clone(), *ours, *limit_bytes);
        let comparison =
            Comparison { kernel: kernels, ours, limit_bytes, rate_bps: RATE_BPS, arrivals: arrivals(seed, PACKETS) };
        compare(&kernel, &comparison).unwrap()
    };
    let all: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> =
            each.map(|(seed, discipline)| (discipline, scope.spawn(move || one(seed, discipline)))).collect();
        running.into_iter().map(|(discipline, run)| (discipline, run.join().unwrap())).collect()
    });
    // sums over the seeds: with FQ-CoDel, one packet more or less changes all that follows
    let mut sums: BTreeMap<&str, (Counts, Counts)> = BTreeMap::new();
    for ((kernels, ours, _), compared) in &all {
        println!("{kernels}, {:?}: {compared:?}", ours.map(|parameters| parameters.kind));
        if ours.is_none_or(|parameters| parameters.kind != Kind::Dualpi2) {
            let (kernel, ours) = sums.entry(kernels.as_str()).or_default();
            add(kernel, compared.kernel);
            add(ours, compared.ours);
        }
    }
    let near = |ours: u64, kernel: u64| (ours as f64 - kernel as f64).abs() <= 0.02 * kernel as f64;
    let (mut failed, mut results) = (Vec::new(), Vec::new());
    for (kernels, (kernel, ours)) in sums {
        assert!(kernel.dropped + kernel.marked > 500, "too little to compare");
        if !near(ours.dropped, kernel.dropped) || !near(ours.marked, kernel.marked) {
            failed.push(kernels);
        }
        let [ours, kernel] = [ours, kernel].map(|sum| format!("{} drops and {} marks", sum.dropped, sum.marked));
        results.push(format!("{kernels}: {ours}, the kernel {kernel}"));
    }
    assert!(failed.is_empty(), "more than 2 % apart: {failed:?}");
    soak::report(&results.join("; "));
}

/// In virtual time the kernel's own disciplines repeat: each packet of the second run has the fate and the place that it
/// had in the first.
#[test]
#[ignore = "takes minutes: just soak"]
fn the_kernels_disciplines_repeat() {
    let Some(kernel) = stock_kernel("the_kernels_disciplines_repeat", "6.12") else { return };
    let arrivals = arrivals(1, soak::times(20_000));
    for discipline in ["codel limit 1000 ecn", "fq_codel limit 1000"] {
        let comparison = Comparison {
            kernel: discipline.to_owned(),
            ours: None,
            limit_bytes: LIMIT.1,
            rate_bps: RATE_BPS,
            arrivals: arrivals.clone(),
        };
        let once = || {
            let _processor = Processor::take();
            compare(&kernel, &comparison).unwrap()
        };
        let (first, again) = (once(), once());
        assert!(first.kernel.dropped > 100 && first.kernel.marked > 100, "too little happened: {first:?}");
        assert_eq!((first.kernel, first.kernel_hash), (again.kernel, again.kernel_hash), "{discipline}");
        soak::report(&format!("the kernel's {discipline} repeats the fates of {} packets", arrivals.len()));
    }
}

const SCENARIO: &str = r#"
duration_s = 5
[sysctl]
"net.ipv4.tcp_ecn" = 1
[sweep]
queue = [
    { name = "drop-tail", is = { discipline = "drop_tail", limit = "400kB" } },
    { name = "codel", is = { discipline = "codel" } },
    { name = "fq-codel", is = { discipline = "fq_codel" } },
    { name = "dualpi2", is = { discipline = "dualpi2" } },
]
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
name = "path"
between = ["server", "client"]
both = { delay_ms = 20 }
forward = { rate = "10Mbit/s", queue = "$queue.is" }
[[flow]]
name = "main"
from = "server"
to = "client"
cc = "cubic"
"#;

#[test]
fn disciplines_keep_a_flows_queue_short_and_runs_repeat() {
    if stock_kernel("disciplines_keep_a_flows_queue_short_and_runs_repeat", "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let scenario = scratch.path().join("queues.toml");
    fs::write(&scenario, SCENARIO).unwrap();
    let [once, again] = ["once", "again"].map(|out| run_lab("vm:6.12", [], &scenario, &scratch.path().join(out)));
    assert_eq!(once.runs, again.runs, "two runs differ");
    let compared = hotcc_report::repeated::compare(&once.directory, &again.directory).unwrap();
    assert_eq!((compared.repeated, compared.differing.len()), (4, 0), "{}", compared.text());
    let names: Vec<&str> = compared.environment.keys().map(String::as_str).collect();
    assert!(names[0].starts_with("package linux-image-6.12") && names[1] == "qemu-system-x86_64", "{names:?}");
    let of = |queue: &str| {
        let run = once.runs.iter().find(|run| run.run.case["queue"] == queue).unwrap();
        assert_eq!(run.invalid, Vec::<String>::new());
        let (link, flow) = (&run.links[0], &run.flows[0]);
        println!(
            "{queue}: {:.2} Mbit/s, {:.1} ms, {} drops, {} marks, {:.1} % busy",
            flow.throughput_bps / 1e6,
            flow.queue_delay_ms.mean,
            link.queue_drops,
            link.ce_marks,
            100.0 * run.busy_mean
        );
        (link.queue_drops, link.ce_marks, flow.queue_delay_ms.mean)
    };
    let drop_tail = of("drop-tail");
    for (queue, marks) in [("codel", false), ("fq-codel", true), ("dualpi2", true)] {
        let (drops, ce_marks, delay_ms) = of(queue);
        assert!(delay_ms < 0.3 * drop_tail.2, "{queue}");
        assert_eq!((drops > 0, ce_marks > 0), (!marks, marks), "{queue}");
    }
}
