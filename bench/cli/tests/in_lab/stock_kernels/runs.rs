//! Scenarios on stock kernels, in virtual time: results are byte-identical regardless of the machine's load, and every
//! run ends cleanly.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_kernels::Kernel;
use hotcc_lab::guest;
use hotcc_lab::image::Image;
use hotcc_lab::results::RunSummary;
use hotcc_lab::vm::{self, Clock, Machine};
use hotcc_lab_proto::job::{Job, Message};
use hotcc_testbed::kernel::skipped;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::iter;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BENCH: &str = env!("CARGO_BIN_EXE_hotcc-bench");

/// Radio, feeder, loss, jitter, reordering, cross traffic and a swap, in 4 s.
const SCENARIO: &str = r#"
duration_s = 4
[sweep]
cc = ["dtcp", "cubic"]
[[host]]
name = "server"
[[host]]
name = "ue"
[[link]]
name = "air"
between = ["server", "ue"]
both = { delay_ms = 10, jitter_ms = 1 }
forward = { radio = "cell", queue = "60kB", loss = 0.002, reorder = 0.001, reorder_ms = 2 }
[[radio]]
model = "steps"
name = "cell"
sinr_db = [[0, 18], [1.5, 6], [3, 15]]
rate = { table = "cqi-lte", bandwidth_mhz = 3 }
[[feeder]]
radio = "cell"
towards = "ue"
readings = { period_ms = 100, delay_ms = 20, noise_db = 0.5 }
[[flow]]
name = "main"
from = "server"
to = "ue"
cc = "$cc"
[[flow]]
name = "measured"
from = "server"
to = "ue"
cc = "reno"
start_s = 0.5
bytes = 200000
[[flow]]
name = "swapped"
from = "server"
to = "ue"
cc = "westwoodp"
[[flow]]
name = "background"
kind = "udp"
from = "server"
to = "ue"
rate = "200kbit/s"
[[event]]
at_s = 1
swap = { cc = "westwoodp", new = "dtcp" }
"#;

fn write_scenario(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("test.toml");
    fs::write(&path, text).unwrap();
    path
}

fn lab(out: &Path, kernel: &str, scenario: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(BENCH);
    command.arg("lab").arg("--lab").arg(format!("vm:{kernel}")).arg("--out").arg(out).args(more).arg(scenario);
    command
}

/// Returns the same command on a terminal, whose output is this command's.
fn in_terminal(command: &Command) -> Command {
    let words = iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"]).stdin(Stdio::null());
    script
}

/// Returns every result file below a directory, by its relative path.
pub(super) fn results(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(directory).unwrap().display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the first line in which two versions of a file differ: 200 bytes of it, from 50 before the first that differs.
fn difference(path: &str, one: &[u8], other: &[u8]) -> Option<String> {
    let place = one.iter().zip(other).position(|(one, other)| one != other);
    let place = place.or((one.len() != other.len()).then_some(one.len().min(other.len())))?;
    let start = one[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let excerpt = |content: &[u8]| {
        let line = content[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let from = (place - start).saturating_sub(50).min(line.len());
        String::from_utf8_lossy(&line[from..line.len().min(from + 200)]).into_owned()
    };
    let number = 1 + one[..start].iter().filter(|byte| **byte == b'\n').count();
    let column = 1 + place - start;
    Some(format!("{path}, line {number}, byte {column}:\n  {}\n  {}", excerpt(one), excerpt(other)))
}

/// Copies the files that differ below a directory that outlives the test, and returns its path.
fn keep_differing(name: &str, paths: &[&String], results: [(&str, &BTreeMap<String, Vec<u8>>); 2]) -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&kept); // of an earlier failure
    for (of, files) in results {
        for (path, content) in paths.iter().filter_map(|path| Some((*path, files.get(*path)?))) {
            let copy = kept.join(of).join(path);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::write(copy, content).unwrap();
        }
    }
    kept
}

fn summaries(results: &BTreeMap<String, Vec<u8>>) -> Vec<RunSummary> {
    let summaries = results.iter().filter(|(path, _)| path.ends_with("summary.json"));
    summaries.map(|(_, text)| serde_json::from_slice(text).unwrap()).collect()
}

/// A process that is killed when the value is dropped.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process that is always busy.
fn start_busy_process() -> KilledOnDrop {
    KilledOnDrop(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
}

#[test]
fn a_difference_shows_the_first_differing_line_and_no_more() {
    let long = |middle: &str| format!("same\n{}{middle}{}\nend\n", "a".repeat(1000), "z".repeat(1000));
    let found = difference("x/report.html", long("1").as_bytes(), long("2").as_bytes()).unwrap();
    assert!(found.starts_with("x/report.html, line 2, byte 1001:\n"), "{found}");
    assert!(found.contains("a1z") && found.contains("a2z") && found.len() < 500, "{found}");
    assert_eq!(difference("x", b"a\n", b"a\nb\n").unwrap(), "x, line 2, byte 1:\n  \n  b");
    assert_eq!(difference("x", b"a\n", b"a\n"), None);
}

#[test]
fn results_are_identical_on_a_busy_machine_and_with_parallel_runs() {
    const NAME: &str = "results_are_identical_on_a_busy_machine_and_with_parallel_runs";
    let scratch = tempfile::tempdir().unwrap();
    let scenario = write_scenario(scratch.path(), SCENARIO);
    let _processor = Processor::take();
    for series in ["6.1", "6.12", "newest"] {
        let Some(kernel) = stock_kernel(NAME, series) else { return };
        let run = |out: &str, more: &[&str]| {
            let out = scratch.path().join(series).join(out);
            let output = lab(&out, series, &scenario, more).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            // results of a booted guest are others
            assert!(!said.contains("booting the guest for each run"), "{said}");
            results(&out.join("test").join(&kernel.release))
        };
        let alone = run("alone", &["--jobs", "1"]);
        let hog = start_busy_process(); // on the same processor as both machines
        let beside = run("beside", &["--jobs", "2"]);
        drop(hog);
        let paths: BTreeSet<&String> = alone.keys().chain(beside.keys()).collect();
        let differing: Vec<&String> = paths.into_iter().filter(|path| alone.get(*path) != beside.get(*path)).collect();
        if !differing.is_empty() {
            let kept = keep_differing(NAME, &differing, [("alone", &alone), ("beside", &beside)]);
            let of = |path: &&String| match (alone.get(*path), beside.get(*path)) {
                (Some(one), Some(other)) => difference(path, one, other),
                (one, _) => Some(format!("{path}: only {}", if one.is_some() { "alone" } else { "beside others" })),
            };
            let lines: Vec<String> = differing.iter().filter_map(of).collect();
            let (release, kept) = (&kernel.release, kept.display());
            panic!("on {release}, alone and beside others (files kept in {kept}):\n{}", lines.join("\n"));
        }
        let page = String::from_utf8_lossy(&alone["report.html"]);
        let (_, receivers) = page.split_once("<summary>Receivers</summary>").unwrap();
        for summary in summaries(&alone) {
            assert_eq!(summary.invalid, Vec::<String>::new());
            let flow = |name: &str| summary.flows.iter().find(|f| f.name == name).unwrap();
            assert!(flow("main").throughput_bps > 1e6, "{summary:?}");
            assert!(flow("main").losses > 0 && flow("main").retransmits > 0, "{summary:?}");
            let received = flow("main").receiver.unwrap();
            assert!(received.out_of_order_segments > 0, "{received:?}");
            assert!(received.segments > Some(received.data_segments), "the handshake has no data: {received:?}");
            assert!(received.bytes >= flow("main").bytes && received.last_window_bytes > Some(0), "{received:?}");
            assert!(receivers.contains(&format!(">{}<", received.out_of_order_segments)), "{receivers}");
            assert_eq!(flow("measured").receiver.unwrap().bytes, 200_000);
            assert_eq!(flow("background").receiver, None);
            assert_eq!(flow("measured").bytes, 200_000);
            assert_eq!(flow("measured").complete, Some(true));
            // at least one ACK for each two of its segments
            assert!(flow("measured").rtt_ms.count >= 200_000 / 1448 / 2, "{summary:?}");
            assert!(flow("measured").rtt_ms.min >= 20.0, "{summary:?}");
            let rto_ms = &flow("main").rto_ms;
            assert!(rto_ms.min >= 216.0 && rto_ms.p50 < 1000.0, "the smoothed RTT and 200 ms: {summary:?}");
            // this is what the application sends; some of it may be dropped by a full queue
            let sent_bps = flow("background").packets as f64 * f64::from(1428 * 8) / summary.duration_s;
            assert!((sent_bps / 200e3 - 1.0).abs() < 0.05, "{summary:?}");
            assert!(summary.events[0].contains("swap westwoodp -> dtcp: 1 connections moved"), "{:?}", summary.events);
            assert!(flow("main").rtt_ms.min >= 20.0, "two delays of 10 ms: {summary:?}");
            assert!(flow("main").utilisation.unwrap() < 1.0, "{summary:?}");
        }
    }
}

/// Unpacking the image takes most of a boot's time besides the kernel's own start.
#[test]
fn the_guest_image_is_small_and_boots_fast() {
    const NAME: &str = "the_guest_image_is_small_and_boots_fast";
    const MAX_BYTES: u64 = 32 << 20;
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let boot_s = |name: &str, image: &Image| {
        let initramfs = scratch.path().join(name);
        image.write(&mut File::create(&initramfs).unwrap()).unwrap();
        let bytes = fs::metadata(&initramfs).unwrap().len();
        let machine = Machine {
            kernel: kernel.clone(),
            memory_mib: 1024,
            clock: Clock::Virtual,
            results: None,
            cpu: None,
            patience: Duration::from_secs(300),
        };
        let mut booted_s = None;
        vm::run(&machine, &initramfs, scratch.path(), |message| {
            if let Message::Booted { uptime_s, .. } = message {
                booted_s = Some(*uptime_s);
            }
            Ok(())
        })
        .unwrap();
        let booted_s = booted_s.unwrap();
        println!("{name}: image of {:.1} MB, booted after {booted_s:.2} s of the guest's time", bytes as f64 / 1e6);
        (bytes, booted_s)
    };
    let mut image = Image::default();
    guest::build_initramfs(&mut image, &kernel, &[], &Job::Commands(Vec::new())).unwrap();
    let (bytes, small_s) = boot_s("guest", &image);
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    // as large as the image would be with debugging information in every program
    image.file("/ballast", 0o644, vec![1; 64 << 20]);
    let (_, large_s) = boot_s("guest with 67 MB more", &image);
    assert!(small_s < large_s, "{small_s} s and {large_s} s");
}

/// Returns the number of QEMU processes whose command line names this directory.
fn qemu_processes(directory: &Path) -> usize {
    let text = directory.display().to_string();
    let commands = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| fs::read(e.path().join("cmdline")).ok());
    commands.filter(|c| c.starts_with(b"qemu") && String::from_utf8_lossy(c).contains(&text)).count()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "timeout while waiting for {what}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_lab_leaves_no_machine_and_can_be_resumed() {
    const NAME: &str = "a_killed_lab_leaves_no_machine_and_can_be_resumed";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let scenario = write_scenario(scratch.path(), &SCENARIO.replace("duration_s = 4", "duration_s = 2.5"));
    let out = scratch.path().join("out");
    let directory = out.join("test").join(&kernel.release);
    let mut first = KilledOnDrop(lab(&out, "6.12", &scenario, &["--jobs", "1"]).stderr(Stdio::null()).spawn().unwrap());
    let first_summary = directory.join("cc=dtcp/seed-1/summary.json");
    wait_until("the first result", || first_summary.exists());
    wait_until("the second machine", || qemu_processes(scratch.path()) == 1);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    wait_until("the end of the machine", || qemu_processes(scratch.path()) == 0);
    let made = fs::metadata(&first_summary).unwrap().modified().unwrap();
    let output = in_terminal(&lab(&out, "6.12", &scenario, &["--jobs", "1"])).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let progress =
        said.split('\r').map(str::trim_start).filter(|line| line.contains(" of 2.5 s at ") && line.ends_with('%'));
    assert!(progress.clone().count() > 1, "each message replaces the one before: {said:?}");
    assert!(progress.clone().all(|line| line.starts_with("[1/2] ") && line.contains(" guest seconds a second, ")));
    assert_eq!(fs::metadata(&first_summary).unwrap().modified().unwrap(), made, "a completed run is kept");
    let found = results(&directory);
    assert_eq!(summaries(&found).len(), 2);
    assert!(!directory.join(".unfinished").exists());
}

#[test]
fn an_interrupt_prints_one_line_and_leaves_no_unfinished_run() {
    const NAME: &str = "an_interrupt_prints_one_line_and_leaves_no_unfinished_run";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let scenario = write_scenario(scratch.path(), SCENARIO);
    let out = scratch.path().join("out");
    let mut command = lab(&out, "6.12", &scenario, &["--jobs", "2", "--case", "cc=dtcp"]);
    let child = command.process_group(0).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the machine", || qemu_processes(scratch.path()) == 1);
    // as a terminal does it: to the whole process group
    killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with('[')).collect();
    let [begins, ends] = lines[..] else { panic!("{said}") };
    assert!(
        begins.contains("1 of 2 runs of the scenario: only cc=dtcp; 4 s of guest time in total; 1 at a time"),
        "{said}"
    );
    assert!(begins.ends_with(&kernel.release), "{said}");
    assert_eq!(ends, "hotcc-bench: interrupted; run the same command again to resume");
    assert_eq!(qemu_processes(scratch.path()), 0);
    let left: Vec<String> = results(&out).into_keys().collect();
    let expected = ["manifest.json", "scenario.toml"].map(|file| format!("test/{}/{file}", kernel.release));
    assert_eq!(left, expected);
    assert!(!out.join("test").join(&kernel.release).join(".unfinished").exists());
}

#[test]
fn a_failed_machine_reports_the_reason() {
    const NAME: &str = "a_failed_machine_reports_the_reason";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let initramfs = scratch.path().join("empty.cpio");
    Image::default().write(&mut File::create(&initramfs).unwrap()).unwrap();
    let machine = Machine {
        kernel: kernel.clone(),
        memory_mib: 512,
        clock: Clock::Virtual,
        results: None,
        cpu: None,
        patience: Duration::from_secs(120),
    };
    let panicked = vm::run(&machine, &initramfs, scratch.path(), |_| Ok(())).unwrap_err().to_string();
    assert!(panicked.contains("the guest ended before its result"), "{panicked}");
    assert!(panicked.contains("Kernel panic"), "the error includes the end of the console: {panicked}");
    let hung = Machine { patience: Duration::from_millis(300), ..machine.clone() };
    let silent = vm::run(&hung, &initramfs, scratch.path(), |_| Ok(())).unwrap_err().to_string();
    assert!(silent.contains("the guest sent no message for"), "{silent}");
    let no_kernel = Kernel { vmlinuz: PathBuf::from("/dev/null"), ..kernel };
    let broken = Machine { kernel: no_kernel, ..machine };
    let refused = vm::run(&broken, &initramfs, scratch.path(), |_| Ok(())).unwrap_err().to_string();
    assert!(refused.contains("end of QEMU's messages"), "{refused}");
    assert_eq!(qemu_processes(scratch.path()), 0);
}

#[test]
fn invalid_input_is_reported_and_nothing_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let stderr_of = |kernel: &str, scenario: &Path| {
        let output = lab(&out, kernel, scenario, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = stderr_of("6.12", &scratch.path().join("none.toml"));
    assert!(missing.contains("cannot read") && missing.contains("none.toml"), "{missing}");
    let invalid = write_scenario(scratch.path(), &SCENARIO.replace("queue = \"60kB\"", "queue = \"60 boxes\""));
    let error = stderr_of("6.12", &invalid);
    assert!(error.contains("test.toml:13: invalid queue `60 boxes`: expected a size"), "{error}");
    let valid = write_scenario(scratch.path(), SCENARIO);
    let no_kernel = stderr_of("99.9", &valid);
    assert!(no_kernel.contains("99.9"), "{no_kernel}");
    let backend = Command::new(BENCH).args(["lab", "--lab", "cloud"]).arg(&valid).output().unwrap();
    assert!(String::from_utf8_lossy(&backend.stderr).contains("unknown backend `cloud`"), "{backend:?}");
    assert!(!out.exists());
}

#[test]
fn a_full_disk_is_reported() {
    const NAME: &str = "a_full_disk_is_reported";
    if !nix::unistd::geteuid().is_root() {
        skipped(NAME, "not root, so no small disk can be made");
        return;
    }
    let Some(_) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let scenario = write_scenario(scratch.path(), SCENARIO);
    let disk = SmallDisk::new(scratch.path().join("disk"));
    let other = scratch.path().join("other.toml");
    fs::copy(&scenario, &other).unwrap();
    let output = lab(&disk.0, "6.12", &scenario, &["--jobs", "1"]).arg(&other).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("test.toml: 2 of 2 runs failed") && said.contains("No space left on device"), "{said}");
    assert!(said.contains("other.toml: cannot write"), "the second scenario runs although the first failed: {said}");
    assert!(said.contains("cannot write"), "{said}");
}

/// A tmpfs that has room for a manifest but not for a job, and is unmounted when the value is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(at: PathBuf) -> Self {
        fs::create_dir(&at).unwrap();
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("tmpfs"), &at, Some("tmpfs"), flags, Some("size=16k")).unwrap();
        Self(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount(&self.0);
    }
}

/// Two links share a cell in which each alone would have 8 Mbit/s; one of them has nothing to send in the second half.
const CELL: &str = r#"
duration_s = 4
[[host]]
name = "server"
[[host]]
name = "near"
[[host]]
name = "far"
[[link]]
name = "near"
between = ["server", "near"]
both = { delay_ms = 5 }
forward = { cell = "enb", rate = "8Mbit/s", queue = "60kB" }
[[link]]
name = "far"
between = ["server", "far"]
both = { delay_ms = 5 }
forward = { cell = "enb", rate = "8Mbit/s", queue = "60kB" }
[[flow]]
name = "near"
from = "server"
to = "near"
cc = "cubic"
[[flow]]
name = "far"
from = "server"
to = "far"
cc = "cubic"
stop_s = 2
"#;

#[test]
fn a_cell_redistributes_unused_shares() {
    const NAME: &str = "a_cell_redistributes_unused_shares";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let scenario = write_scenario(scratch.path(), CELL);
    let run = |out: &str| {
        let out = scratch.path().join(out);
        let output = lab(&out, "6.12", &scenario, &["--jobs", "1"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(" instructions per packet"), "{said}");
        results(&out.join("test").join(&kernel.release))
    };
    let (once, again) = (run("once"), run("again"));
    assert_eq!(once, again, "the same bytes");
    let summary = &summaries(&once)[0];
    assert_eq!(summary.invalid, Vec::<String>::new());
    let mbps = |name: &str| summary.flows.iter().find(|f| f.name == name).unwrap().throughput_bps / 1e6;
    println!("{:.2} Mbit/s in 2 s, {:.2} Mbit/s in 4 s", mbps("far"), mbps("near"));
    assert!((3.4..4.0).contains(&mbps("far")), "half of the cell: {summary:?}");
    assert!((5.2..6.0).contains(&mbps("near")), "half of it, then all: {summary:?}");
}

#[test]
fn westwoodp_has_the_mean_window_of_the_stock_module() {
    const NAME: &str = "westwoodp_has_the_mean_window_of_the_stock_module";
    let Some(kernel) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let scratch = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/westwood-side-by-side.toml");
    let output = lab(scratch.path(), "6.12", &scenario, &["--jobs", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let runs = summaries(&results(&scratch.path().join("westwood-side-by-side").join(&kernel.release)));
    for loss in ["0", "0.001"] {
        let mean_cwnd = |cc: &str| {
            let of = runs.iter().filter(|r| r.run.case["cc"] == cc && r.run.case["loss"] == loss);
            let windows: Vec<f64> = of.map(|r| r.flows[0].mean_cwnd).collect();
            assert_eq!(windows.len(), 2);
            windows.iter().sum::<f64>() / 2.0
        };
        let (ours, stock) = (mean_cwnd("westwoodp"), mean_cwnd("westwood"));
        println!("loss {loss}: mean window {ours:.2} and {stock:.2} segments");
        assert!((0.9..=1.1).contains(&(ours / stock)), "loss {loss}: {ours} against {stock}");
    }
}
