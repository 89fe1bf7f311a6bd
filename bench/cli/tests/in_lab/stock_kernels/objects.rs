//! Object files and a peer as congestion controls of scenarios, and flows that TCP paces, on a stock kernel.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_lab::results::Results;
use std::fs;
use std::path::Path;
use std::process::Command;

/// An application that writes 30 kB at once, ten times a second, with and without pacing; and an object file that an
/// event replaces. Each flow has its own link.
const SCENARIO: &str = r#"
duration_s = 1.5
[[host]]
name = "server"
[[host]]
name = "even"
[[host]]
name = "burst"
[[host]]
name = "user"
[[host]]
name = "peer"
[[link]]
name = "even"
between = ["server", "even"]
both = { delay_ms = 20 }
forward = { rate = "40Mbit/s", queue = "25packets" }
[[link]]
name = "burst"
between = ["server", "burst"]
both = { delay_ms = 20 }
forward = { rate = "40Mbit/s", queue = "25packets" }
[[link]]
name = "user"
between = ["server", "user"]
both = { delay_ms = 20 }
forward = { rate = "10Mbit/s", queue = "100packets" }
[[link]]
name = "peer"
between = ["server", "peer"]
both = { delay_ms = 20 }
forward = { rate = "10Mbit/s", queue = "100packets" }
[[flow]]
name = "peer"
from = "server"
to = "peer"
cc = "bbr3"
[[flow]]
name = "even"
from = "server"
to = "even"
cc = "cubic"
paced = true
rate = "2.4Mbit/s"
write_bytes = 30000
[[flow]]
name = "burst"
from = "server"
to = "burst"
cc = "cubic"
rate = "2.4Mbit/s"
write_bytes = 30000
[[flow]]
name = "user"
from = "server"
to = "user"
cc = "objects/mine.bpf.o"
set = { extra_window = 8 }
[[event]]
at_s = 0.8
swap = { cc = "objects/mine.bpf.o", new = "objects/other.o" }
"#;

fn write_object(path: &Path, name: &str) {
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|object| object.name == name).unwrap();
    fs::write(path, object.bytes).unwrap();
}

#[test]
fn an_object_file_carries_a_flow_and_pacing_spreads_bursts() {
    const NAME: &str = "an_object_file_carries_a_flow_and_pacing_spreads_bursts";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let at = |path: &str| scratch.path().join(path);
    fs::create_dir(at("objects")).unwrap();
    for (file, name) in [("mine.bpf.o", "stranger"), ("other.o", "foreign"), ("bad.o", "unverifiable")] {
        write_object(&at("objects").join(file), name);
    }
    fs::write(at("good.toml"), SCENARIO).unwrap();
    let (flow, _) = SCENARIO.split_once("[[event]]").unwrap();
    let bad = flow.replace("mine.bpf.o", "bad.o").replace("set = { extra_window = 8 }\n", "");
    fs::write(at("bad.toml"), bad).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    lab.args(["lab", "--lab", "vm:6.12", "--jobs", "1", "--out"]).arg(at("out"));
    let output = lab.args([at("bad.toml"), at("good.toml")]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);

    // an object that does not load fails only its own run, with the loader's message in one line
    assert_eq!(output.status.code(), Some(1), "{said}");
    let why = "in the guest: cannot load bad (/objects/0/bad.bpf.o): the kernel's verifier rejects it: ";
    let failure = said.lines().skip_while(|line| !line.ends_with("bad.toml: 1 of 1 runs failed:")).skip(1);
    let failure: Vec<&str> = failure.take_while(|line| !line.contains("good.toml")).collect();
    assert!(matches!(failure[..], [line] if line.contains(why)), "{said}");
    assert!(!at("out/bad").join(&kernel.release).join("all/seed-1").exists());

    let results = Results::read(&at("out/good").join(&kernel.release)).unwrap();
    let files: Vec<&str> = results.manifest.files.keys().map(String::as_str).collect();
    assert_eq!(files, ["objects/mine.bpf.o", "objects/other.o"]);
    let run = &results.runs[0];
    assert_eq!(run.invalid, Vec::<String>::new());
    let flow = |name: &str| run.flows.iter().find(|flow| flow.name == name).unwrap();
    assert_eq!(flow("user").cc, "mine");
    assert_eq!(flow("peer").cc, "bbr3");
    assert!(flow("peer").throughput_bps > 5e6, "{run:?}");
    assert!(run.events[0].contains("swap mine -> objects/other.o: 1 connections moved"), "{:?}", run.events);
    let series = fs::read_to_string(results.directory.join("all/seed-1/flows.csv")).unwrap();
    let windows: Vec<&str> =
        series.lines().filter(|line| line.contains(",user,")).map(|line| line.split(',').nth(2).unwrap()).collect();
    // the first ACKs find the kernel's window; then the object's 40 segments and the scenario's 8 apply
    assert!(windows[1..7].iter().all(|window| *window == "48"), "{windows:?}");
    assert!(windows[10..].iter().any(|window| *window != "48"), "the other one moves the window: {windows:?}");

    // without the first ten packets, which the kernel never paces
    let queue_bytes = |link: &str| {
        let link = run.links.iter().find(|l| l.name == format!("{link}:server>{link}")).unwrap();
        link.queue_bytes.p95
    };
    let (even, burst) = (queue_bytes("even"), queue_bytes("burst"));
    let delay_ms = |name: &str| flow(name).metric("queue_delay_time_mean_ms").unwrap();
    println!(
        "95 % of packets find at most {even} and {burst} bytes, {:.2} and {:.2} ms",
        delay_ms("even"),
        delay_ms("burst")
    );
    assert!((flow("even").throughput_bps / flow("burst").throughput_bps - 1.0).abs() < 0.05, "{run:?}");
    assert!(even < burst / 2.0 && delay_ms("even") < delay_ms("burst") / 2.0, "{run:?}");
}
