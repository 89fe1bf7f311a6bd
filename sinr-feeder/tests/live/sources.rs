//! Lines of JSON, base stations, wireless interfaces, models, and precedence among several sources.

use crate::sandbox::{Sandbox, sandbox};
use crate::tools::{Process, Sender, free_port, local, page, rejected, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::{self, Message};

fn link<'a>(links: &'a [Value], name: &str) -> &'a Value {
    links.iter().find(|l| l["link"] == name).unwrap_or(&Value::Null)
}

#[test]
fn lines_on_stdin_until_it_ends() {
    let Some(sandbox) = sandbox("lines_on_stdin_until_it_ends") else { return };
    let mut feeder = Process::feeder(
        &sandbox,
        &["--source", "stdin", "--link", "10.0.0.1", "--ue", "car-7=10.0.0.7", "--within", "10.1.0.0/16"],
    );
    let mut input = feeder.stdin();
    let long = format!("{{\"ue\":\"{}\"}}\n", "x".repeat(100_000));
    let lines = [
        r#"{"sinr_db": 12.5, "rsrp_dbm": -95, "rsrq_db": -11, "cqi": 9, "mcs": 17, "capacity_bps": 5e7}"#,
        long.trim(),
        r#"{"ue": "car-7", "sinr_db": 7}"#,
        r#"{"link": "10.1.2.3", "sinr_db": 3}"#,
    ];
    input.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    drop(input);
    assert_eq!(feeder.child.wait().unwrap().code(), Some(0), "{}", feeder.all_said());
    let links = sandbox.links();
    let first = link(&links, "10.0.0.1/32");
    let keys = ["sinr_db", "average_db", "rsrp_dbm", "rsrq_db", "cqi", "mcs", "capacity_bps", "source"];
    let expected = json!([12.5, 12.5, -95.0, -11.0, 9, 17, 50_000_000, "stdin"]);
    assert_eq!(Value::from(keys.map(|k| first[k].clone()).to_vec()), expected);
    assert_eq!(
        (&link(&links, "10.0.0.7/32")["sinr_db"], &link(&links, "10.1.2.3/32")["sinr_db"]),
        (&json!(7.0), &json!(3.0))
    );
    assert_eq!((links.len(), feeder.said("malformed")), (3, 1));
}

#[test]
fn an_input_without_a_reading_is_an_error() {
    let Some(sandbox) = sandbox("an_input_without_a_reading_is_an_error") else { return };
    for (input, said) in [
        ("garbage\n", "line 1: the line is not a JSON object"),
        ("\n\n{\"sinr_db\": 1, \"link\": \"10.0.0.1/8\"}\ngarbage\n", "line 3: "),
    ] {
        let mut feeder = Process::feeder(&sandbox, &["--source", "stdin", "--link", "10.0.0.1"]);
        feeder.stdin().write_all(input.as_bytes()).unwrap();
        assert_eq!(feeder.child.wait().unwrap().code(), Some(1), "{input}: {}", feeder.all_said());
        feeder.wait_to_say(&format!("standard input has no reading; {said}"));
    }
    let mut feeder = Process::feeder(&sandbox, &["--source", "stdin", "--link", "10.0.0.1"]);
    feeder.stdin().write_all(b"garbage\n{\"sinr_db\": 1}\n").unwrap();
    assert_eq!(feeder.child.wait().unwrap().code(), Some(0), "one bad line does not stop the others");
}

#[test]
fn a_source_of_which_nothing_was_applied_fails_when_it_is_stopped() {
    let Some(sandbox) = sandbox("a_source_of_which_nothing_was_applied_fails_when_it_is_stopped") else { return };
    let unknown_ue = r#"{"ue": "car-7", "sinr_db": 1}"#;
    let good = r#"{"sinr_db": 1}"#;
    // without lines, only a new link shows that the feeder runs: so this case comes first, before the others leave the
    // link behind
    for (lines, code) in [(&[][..], 0), (&["garbage", unknown_ue], 1), (&["garbage", good], 0)] {
        let port = free_port();
        let args = ["--source", &format!("udp:{}", local(port)), "--link", "10.0.0.1"];
        let mut feeder = Process::feeder(&sandbox, &args);
        let sender = Sender::new(port);
        for line in lines {
            let applied = || sandbox.links().first().is_some_and(|l| l["sinr_db"] == 1.0);
            let seen = || if *line == good { applied() } else { feeder.said("reading not applied") > 0 };
            let sent = || {
                sender.send(line);
                sleep(Duration::from_millis(20));
                seen()
            };
            wait(line, sent, || feeder.all_said());
        }
        wait("link", || !sandbox.links().is_empty(), || feeder.all_said());
        kill(Pid::from_raw(feeder.child.id() as i32), Signal::SIGTERM).unwrap();
        assert_eq!(feeder.child.wait().unwrap().code(), Some(code), "{lines:?}: {}", feeder.all_said());
        if code == 1 {
            wait("reasons", || feeder.said("no reading was applied: malformed ") == 1, || feeder.all_said());
        }
    }
}

#[test]
fn links_that_readings_named_are_forgotten() {
    let Some(sandbox) = sandbox("links_that_readings_named_are_forgotten") else { return };
    let port = free_port();
    let source = format!("udp:{}", local(port));
    let args = ["--source", &source, "--link", "10.0.0.1", "--within", "10.1.0.0/16", "--forget-after", "1"];
    let feeder = Process::feeder(&sandbox, &args);
    let sender = Sender::new(port);
    let all = |names: &[&str], hosts: &[u8]| {
        let seen = || {
            hosts.iter().for_each(|host| sender.send(&format!(r#"{{"link":"10.1.0.{host}","sinr_db":{host}}}"#)));
            let links = sandbox.links();
            let found: Vec<_> = links.iter().map(|l| l["link"].as_str().unwrap()).collect();
            found == names && hosts.iter().zip(&links[1..]).all(|(host, l)| l["sinr_db"] == f64::from(*host))
        };
        wait(&names.join(" "), seen, || format!("{:?}\n{}", sandbox.links(), feeder.all_said()));
    };
    all(&["10.0.0.1/32", "10.1.0.2/32", "10.1.0.3/32"], &[2, 3]);
    all(&["10.0.0.1/32", "10.1.0.3/32"], &[3]);
    all(&["10.0.0.1/32", "10.1.0.3/32", "10.1.0.4/32"], &[3, 4]);
    all(&["10.0.0.1/32"], &[]);
}

#[test]
fn the_first_source_counts_while_it_is_alive() {
    let Some(sandbox) = sandbox("the_first_source_counts_while_it_is_alive") else { return };
    let (better, other, http) = (free_port(), free_port(), free_port());
    let sources = [better, other].map(|port| format!("udp:{}", local(port)));
    let listen = local(http).to_string();
    let feeder = Process::feeder(
        &sandbox,
        &["--source", &sources[0], "--source", &sources[1], "--link", "10.0.0.1", "--listen", &listen],
    );
    let (better, other) = (Sender::new(better), Sender::new(other));
    let sinr = |wanted: f64, mut send: Box<dyn FnMut() + '_>| {
        let both = || {
            send();
            sleep(Duration::from_millis(20));
            sandbox.links().first().is_some_and(|l| l["sinr_db"] == wanted && l["state"] == "fresh")
        };
        wait(&format!("{wanted} dB"), both, || feeder.all_said());
    };
    sinr(5.0, Box::new(|| other.sinr(5.0)));
    sinr(20.0, Box::new(|| (better.sinr(20.0), other.sinr(5.0)).1));
    for _ in 0..20 {
        better.sinr(20.0);
        other.sinr(5.0);
        sleep(Duration::from_millis(10));
        assert_eq!(sandbox.links()[0]["sinr_db"], 20.0);
    }
    assert!(rejected(http)["outranked"] > 10);
    let up = format!("hotcc_feeder_source_up{{source=\"{}\"}} 1", sources[1]);
    assert!(page(http, "/metrics").unwrap().1.contains(&up), "one that stands by is up");
    sinr(5.0, Box::new(|| other.sinr(5.0)));
    feeder.wait_to_say(&format!("{}: no reading for more than", sources[0]));
    let one_speaks = || {
        other.sinr(5.0);
        page(http, "/healthz").unwrap().0 == 200
    };
    wait("one speaks", one_speaks, || feeder.all_said());
    wait("both silent", || page(http, "/healthz").unwrap().0 == 503, || feeder.all_said());
}

#[test]
fn a_dead_source_is_noticed_within_three_of_its_periods() {
    let Some(sandbox) = sandbox("a_dead_source_is_noticed_within_three_of_its_periods") else { return };
    let port = free_port();
    let (source, http) = (format!("udp:{}", local(port)), free_port());
    let listen = local(http).to_string();
    let feeder = Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.1", "--listen", &listen]);
    let sender = Sender::new(port);
    wait("a link", || !sandbox.links().is_empty(), String::new);
    let period = Duration::from_millis(500);
    for _ in 0..9 {
        sender.sinr(10.0);
        sleep(period);
    }
    sender.sinr(11.0);
    let died = Instant::now();
    let healthy = || page(http, "/healthz").is_some_and(|(status, _)| status == 200);
    wait("the last reading", || sandbox.links()[0]["sinr_db"] == 11.0 && healthy(), || feeder.all_said());
    wait("its end", || !healthy(), || feeder.all_said());
    let noticed = died.elapsed();
    feeder.wait_to_say(&format!("{source}: no reading for more than"));
    let last = &sandbox.links()[0];
    let measured = last["period_ms"].as_f64().unwrap();
    let (noticed, bound) = (noticed.as_secs_f64() * 1e3 / measured, last["max_age_ms"].as_f64().unwrap() / measured);
    println!("noticed after {noticed:.2} of its periods of {measured} ms; readers after {bound:.2}");
    assert!(noticed <= 3.0 && (2.0..=3.0).contains(&bound), "{noticed} and {bound} periods of {measured} ms");
    assert!((0.8..1.5).contains(&(measured / 500.0)), "{measured}");
}

/// Starts a base station: it answers one subscription after another, and sends each its documents.
fn base_station(documents: Vec<Vec<String>>) -> u16 {
    let listener = TcpListener::bind(local(0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for session in documents {
            let (stream, _) = listener.accept().unwrap();
            let mut socket = tungstenite::accept(stream).unwrap();
            let asked: Value = serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap();
            assert_eq!(asked, json!({"cmd": "metrics_subscribe"}));
            socket.send(Message::text(r#"{"cmd":"metrics_subscribe","timestamp":"2026-01-01T00:00:00"}"#)).unwrap();
            for document in session {
                let _ = socket.send(Message::text(document));
                sleep(Duration::from_millis(30));
            }
        }
        sleep(Duration::from_secs(60)); // later connections are not answered
    });
    port
}

fn ue(rnti: u32, cqi: u32, snr: f64) -> Value {
    json!({"ue": 0, "pci": 1, "rnti": rnti, "cqi": cqi, "dl_ri": 1, "ul_ri": 1, "dl_mcs": 20, "dl_brate": 1e6, "dl_nof_ok": 9,
           "dl_nof_nok": 1, "dl_bs": 0, "ul_mcs": 12, "ul_brate": 2e5, "bsr": 0, "pusch_snr_db": snr, "ta_ns": 260.0})
}

fn cells(ues: &[Value]) -> String {
    json!({"timestamp": 1.7e9, "cells": [{"cell_metrics": {"pci": 1, "nof_failed_pdcch_allocs": 0}, "event_list": [],
           "ue_list": ues}]})
    .to_string()
}

#[test]
fn a_base_station_that_comes_and_goes() {
    let Some(sandbox) = sandbox("a_base_station_that_comes_and_goes") else { return };
    let two = || cells(&[ue(17921, 9, 21.5), ue(17922, 12, 25.0), ue(17922, 3, 1.0)]);
    let other = json!({"timestamp": 1.7e9, "du": {"du_high": {"mac": {}}}}).to_string();
    let broken = r#"{"cells":[{"ue_list":[{"cqi":9}]}]}"#.to_owned();
    let silent = cells(&[ue(17921, 0, 21.5)]);
    let first = vec![other, two(), broken, silent, two()];
    let port = base_station(vec![first, vec![cells(&[ue(17921, 15, 30.0)]); 3]]);
    let (source, http) = (format!("srsran:ws://{}", local(port)), free_port());
    let feeder = Process::feeder(
        &sandbox,
        &[
            "--source",
            &source,
            "--ue",
            "17921=10.0.0.1",
            "--ue",
            "17922=10.0.0.2",
            "--max-age-ms",
            "30000",
            "--capacity",
            "cqi-nr-64qam:40",
            "--listen",
            &local(http).to_string(),
        ],
    );
    let first = sandbox.wait_for(|l| l["link"] == "10.0.0.1/32" && l["updates"] == 2);
    // A CQI of 9 is reported from 10.3 dB on; 40 MHz * (1 - 0.21) * 2.4063 bit/s/Hz.
    let seen = (&first["sinr_db"], &first["cqi"], &first["mcs"], &first["source"]);
    assert_eq!(seen, (&json!(10.30078125), &json!(9), &json!(20), &json!("srsran")));
    assert_eq!((&first["capacity_bps"], &first["capacity_origin"]), (&json!(76_039_000), &json!("derived")));
    let second = sandbox.wait_for(|l| l["link"] == "10.0.0.2/32");
    assert_eq!((&second["cqi"], &second["updates"]), (&json!(12), &json!(2)), "a UE that is there twice counts once");
    let again = sandbox.wait_for(|l| l["link"] == "10.0.0.1/32" && l["cqi"] == 15);
    assert_eq!(again["sinr_db"], 22.69921875, "{}", feeder.all_said());
    let counts = rejected(http);
    // A message without cells is valid; a CQI of 0 leaves no value.
    assert_eq!((counts["duplicate"], counts["malformed"], counts["nothing"]), (2, 1, 1), "{counts:?}");
}

#[test]
fn what_a_base_station_receives_is_marked_as_uplink() {
    let Some(sandbox) = sandbox("what_a_base_station_receives_is_marked_as_uplink") else { return };
    let port = base_station(vec![vec![cells(&[ue(17921, 15, 21.5)])]]);
    let source = format!("srsran:ws://{},uplink", local(port));
    let _feeder = Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.1", "--max-age-ms", "30000"]);
    let seen = sandbox.wait_for(|l| l["state"] == "fresh");
    let values = (&seen["sinr_db"], &seen["cqi"], &seen["mcs"], &seen["source"]);
    assert_eq!(values, (&json!(21.5), &Value::Null, &json!(12), &json!("srsran-uplink")));
}

#[test]
fn no_wireless_interface_is_waited_for() {
    let Some(sandbox) = sandbox("no_wireless_interface_is_waited_for") else { return };
    for (interface, why) in [("wlan-none", "no such interface"), ("lo", "")] {
        let mut feeder = Process::feeder(&sandbox, &["--source", &format!("wifi:{interface}"), "--link", "10.0.0.1"]);
        feeder.wait_to_say(&format!("{interface}: {why}"));
        feeder.wait_to_say("retrying every 0.5 s");
        sleep(Duration::from_millis(1200));
        assert!(feeder.child.try_wait().unwrap().is_none(), "{}", feeder.all_said());
        assert_eq!(feeder.said("retrying"), 1, "logged once: {}", feeder.all_said());
    }
}

const STREET: &str = r#"
seed = 7
duration_s = 10
[radio]
model = "umi"
carrier_ghz = 28
tx_power_dbm = 30
tx_gain_dbi = 18
rx_gain_dbi = 12
station = { at = [0, 0], height_m = 15 }
ue = { path = [{ at = [68, -12] }], speed_mps = 1.5 }
rate = { table = "cqi-nr-256qam", bandwidth_mhz = 1000, scale_to_bps = 1e9 }
[readings]
period_ms = 50
delay_ms = 20
"#;

fn model(sandbox: &Sandbox, text: &str) -> String {
    let file = sandbox.files.path().join("street.toml");
    fs::write(&file, text).unwrap();
    format!("model:{}", file.display())
}

#[test]
fn a_street_is_computed_live() {
    let Some(sandbox) = sandbox("a_street_is_computed_live") else { return };
    let feeder = Process::feeder(&sandbox, &["--source", &model(&sandbox, STREET), "--link", "10.0.0.1"]);
    let seen = sandbox.wait_for(|l| l["state"] == "fresh" && l["updates"].as_u64() > Some(5));
    // The example of docs/reference/radio.md: 34.86 dB in line of sight, CQI 15, the full 1 Gbit/s.
    let sinr_db = seen["sinr_db"].as_f64().unwrap();
    assert!((sinr_db - 34.86).abs() < 0.01, "{seen}");
    assert_eq!(
        (&seen["capacity_bps"], &seen["source"], &seen["period_ms"]),
        (&json!(1_000_000_000), &json!("model"), &json!(50))
    );
    assert!(seen["age_ms"].as_u64() >= Some(20), "its delay is part of its age: {seen}");
    drop(feeder);
    let wrong = model(&sandbox, &STREET.replace("carrier_ghz = 28", "carrier_ghz = 0"));
    let refused = sandbox.output(&["run", "--source", &wrong, "--link", "10.0.0.2"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("street.toml: radio: carrier_ghz = 0: must be from 0.5 to 100"), "{said}");
}
