//! The configuration file, metrics, recording, and notifications to a service manager.

use crate::sandbox::{key, sandbox};
use crate::tools::{Process, Sender, free_port, has, local, metrics, page, wait};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_channel_model::trace::Trace;
use hotcc_radio_map::{LinkOptions, RadioMap, Reading};
use hotcc_testbed::command::stderr;
use hotcc_testbed::metrics as metrics_pages;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn options_come_from_a_file() {
    let Some(sandbox) = sandbox("options_come_from_a_file") else { return };
    let (port, http) = (free_port(), free_port());
    let file = sandbox.files.path().join("feeder.toml");
    let text = format!(
        "source = [\"udp:{}\"]\nlink = \"10.0.0.1\"\nlisten = \"{}\"\nmax_age_ms = 700\n[ue]\ncar-7 = \"10.0.0.7\"\n",
        local(port),
        local(http)
    );
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let options = ["run", "--config", &file, "--max-age-ms", "900", "--remove-on-exit"];
    let feeder = Process::start(sandbox.command(&options).stdin(Stdio::piped()));
    let sender = Sender::new(port);
    let sent = || {
        sender.send("{\"sinr_db\":5}\n{\"sinr_db\":6,\"ue\":\"car-7\"}");
        metrics(http).keys().any(|name| name.starts_with("hotcc_feeder_source_age"))
    };
    wait("readings", sent, || feeder.all_said());
    let root = sandbox.root.display();
    feeder.wait_to_say(&format!("reading udp:{}; writing to {root}; running as user 0, with ", local(port)));
    let links = sandbox.links();
    let seen: Vec<_> = links.iter().map(|l| (l["link"].as_str().unwrap(), l["max_age_ms"].as_u64())).collect();
    assert_eq!(seen, [("10.0.0.1/32", Some(900)), ("10.0.0.7/32", Some(900))], "the command line goes first");

    fs::write(&file, "source = [\"mm\"]\n\nlink = [\"10.0.0.1/8\"]\n").unwrap();
    let refused = sandbox.output(&["run", "--config", &file]);
    assert_eq!(refused.status.code(), Some(1), "2 is for the command line");
    let said = stderr(&refused);
    assert!(said.contains("feeder.toml:3: invalid value '10.0.0.1/8'") && !said.contains("panicked"), "{said}");
}

#[test]
fn missing_or_conflicting_options_are_reported() {
    let Some(sandbox) = sandbox("missing_or_conflicting_options_are_reported") else { return };
    let file = sandbox.files.path().join("empty.toml").display().to_string();
    fs::write(&file, "").unwrap();
    for (args, code, says) in [
        (&["--link", "10.0.0.1"][..], 2, "nothing to read: give --source or --subscribe"),
        (&["--link", "10.0.0.1", "--config", &file], 1, "empty.toml: nothing to read: give --source or --subscribe"),
        (&["--source", "mm"], 2, "nowhere to put readings: give --link"),
        (&["--source", "mm", "--link", "10.0.0.1", "--ue", "a=10.0.0.1"], 2, "cannot feed 10.0.0.1/32 twice"),
        (&["--source", "mm", "--ue", "a=10.0.0.1", "--ue", "a=10.0.0.2"], 2, "--ue a is given twice"),
        (&["--source", "peer:127.0.0.1:1,keys=/nonexistent"], 1, "cannot read /nonexistent"),
        (
            &["--source", "mm", "--ue", "a", "--as", "b", "--publish", "peer:127.0.0.1:1,keys=/nonexistent"],
            2,
            "a peer takes the readings of one UE",
        ),
    ] {
        let refused = sandbox.output(&[&["run"], args].concat());
        assert_eq!(refused.status.code(), Some(code), "{args:?}");
        assert!(stderr(&refused).contains(says), "{args:?}: {}", stderr(&refused));
    }
    let port = free_port();
    let source = format!("udp:{}", local(port));
    let _taken = std::net::UdpSocket::bind(local(port)).unwrap();
    let refused = sandbox.output(&["run", "--source", &source, "--link", "10.0.0.1"]);
    assert!(stderr(&refused).contains(&format!("cannot receive datagrams on {}", local(port))), "{}", stderr(&refused));
    assert!(!sandbox.root.exists());
}

#[test]
fn metrics_say_what_happens() {
    let Some(sandbox) = sandbox("metrics_say_what_happens") else { return };
    let (port, http) = (free_port(), free_port());
    let source = format!("udp:{}", local(port));
    let feeder =
        Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.1", "--listen", &local(http).to_string()]);
    let sender = Sender::new(port);
    wait("the page", || page(http, "/healthz").is_some(), || feeder.all_said());
    assert_eq!(page(http, "/healthz"), Some((503, format!("{source}: silent\n"))));
    for i in 0..20 {
        sender.sinr(f64::from(i) / 10.0);
        sleep(Duration::from_millis(10));
    }
    sender.sinr(400.0);
    let sample = |name: &str, more: &str| format!("hotcc_feeder_{name}{{source=\"{source}\"{more}}}");
    let rejected = sample("rejected_total", ",reason=\"range\"");
    wait("all readings", || metrics(http).get(&rejected) == Some(&1.0), || format!("{:?}", metrics(http)));
    let samples = metrics(http);
    assert_eq!((samples[&sample("readings_total", "")], samples["hotcc_feeder_links"]), (20.0, 1.0));
    assert!(samples[&sample("source_age_seconds", "")] < 60.0);
    if has("metrics_say_what_happens", "promtool") {
        metrics_pages::check(local(http)).unwrap();
    }
    sender.sinr(2.0);
    wait(
        "up",
        || {
            page(http, "/healthz").unwrap().0 == 200 || {
                sender.sinr(2.1);
                false
            }
        },
        String::new,
    );
}

#[test]
fn what_is_recorded_can_be_replayed() {
    let Some(sandbox) = sandbox("what_is_recorded_can_be_replayed") else { return };
    let rows: String =
        (0..40).map(|i| format!("{:.2},{},{},{}\n", f64::from(i) * 0.05, i / 4, (1000 + i) * 1000, i % 16)).collect();
    let source = sandbox.trace("t.csv", &format!("time_s,sinr_db,capacity_bps,cqi\n{rows}"));
    let _feeder = Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.0/8", "--loop"]);
    sandbox.wait_for(|l| l["state"] == "fresh");
    let out = sandbox.files.path().join("out.csv");
    let record =
        || sandbox.output(&["record", "--link", "10.0.0.0/8", "--seconds", "1.5", "--out", out.to_str().unwrap()]);
    let done = record();
    assert!(done.status.success(), "{}", stderr(&done));
    let trace = Trace::load(&out).unwrap();
    let period_ms = trace.period().unwrap().as_millis();
    assert!((40..=60).contains(&period_ms), "{period_ms}");
    assert!(trace.samples().len() >= 15, "{}", trace.samples().len());
    // Each sample is one of the source's, with all its values.
    for sample in trace.samples() {
        let i = (sample.capacity_bps.unwrap() / 1000.0 - 1000.0) as u8;
        assert_eq!((sample.sinr_db, sample.cqi), (Some(f64::from(i / 4)), Some(i % 16)));
    }
    let again = record();
    assert!(stderr(&again).contains("cannot create"), "a recording is not overwritten: {}", stderr(&again));
    let absent = sandbox.output(&["record", "--link", "10.9.0.0/16", "--out", "/nonexistent/x"]);
    assert!(stderr(&absent).contains("cannot record 10.9.0.0/16: it is not in the radio map"), "{}", stderr(&absent));
    assert!(key("10.0.0.0/8").prefix_len > 0);
}

#[test]
fn a_service_manager_is_told() {
    let Some(sandbox) = sandbox("a_service_manager_is_told") else { return };
    let path = sandbox.files.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command =
        sandbox.command(&["run", "--source", &format!("udp:{}", local(free_port())), "--link", "10.0.0.1"]);
    let mut feeder = Process::start(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000"));
    let told = || {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1");
    assert_eq!(sandbox.links().len(), 1, "ready means that its links are there");
    assert_eq!([told(), told()], ["WATCHDOG=1", "WATCHDOG=1"]);
    kill(Pid::from_raw(feeder.child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(feeder.child.wait().unwrap().code(), Some(0));
    assert_eq!(std::iter::from_fn(|| Some(told())).find(|text| text != "WATCHDOG=1").unwrap(), "STOPPING=1");
}

/// Returns a recording of 4 s that has begun, and its file.
fn recording(sandbox: &crate::sandbox::Sandbox) -> (std::process::Child, std::path::PathBuf) {
    let out = sandbox.files.path().join("out.csv");
    let args = ["record", "--link", "10.0.0.1", "--seconds", "4", "--out", out.to_str().unwrap()];
    let record = sandbox.command(&args).stdout(Stdio::null()).spawn().unwrap();
    wait("the recording", || out.exists(), String::new);
    sleep(Duration::from_millis(500));
    (record, out)
}

#[test]
fn a_recording_is_of_its_link_alone() {
    let Some(sandbox) = sandbox("a_recording_is_of_its_link_alone") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let options = LinkOptions { source: 0, max_age_ms: 300, period_ms: 0, take_over: false };
    let first = map.take_link(key("10.0.0.1"), &options).unwrap();
    let slot = first.slot();
    let (mut record, out) = recording(&sandbox);
    drop(first);
    map.remove_link(key("10.0.0.1"), false).unwrap();
    sleep(Duration::from_millis(400)); // the slot rests for the maximum age
    let other = map.take_link(key("10.0.0.2"), &LinkOptions { max_age_ms: 30_000, ..options }).unwrap();
    assert_eq!(other.slot(), slot);
    other.publish(&Reading { sinr_db: Some(40.0), ..Reading::default() }, monotonic_ms32()).unwrap();
    assert!(record.wait().unwrap().success());
    let text = fs::read_to_string(&out).unwrap();
    assert!(!text.contains("40.00"), "{text}");
}

#[test]
fn a_recording_has_each_value_once_and_can_be_read() {
    let Some(sandbox) = sandbox("a_recording_has_each_value_once_and_can_be_read") else { return };
    let mut map = RadioMap::open_or_create(&sandbox.root).unwrap();
    let options = LinkOptions { source: 0, max_age_ms: 30_000, period_ms: 0, take_over: false };
    let writer = map.take_link(key("10.0.0.1"), &options).unwrap();
    let (mut record, out) = recording(&sandbox);
    let publish = |reading: Reading, age_ms: u32| {
        writer.publish(&reading, monotonic_ms32().wrapping_sub(age_ms)).unwrap();
        sleep(Duration::from_millis(150));
    };
    publish(Reading { rsrp_dbm: Some(-90.0), ..Reading::default() }, 1000);
    publish(Reading { sinr_db: Some(10.0), ..Reading::default() }, 1000);
    publish(Reading { capacity_bps: Some(5e7), ..Reading::default() }, 0);
    assert!(record.wait().unwrap().success());
    let trace = Trace::load(&out).unwrap();
    let seen: Vec<_> = trace.samples().iter().map(|s| (s.sinr_db, s.capacity_bps)).collect();
    assert_eq!(seen, [(None, None), (Some(10.0), None), (None, Some(5e7))]);
}
