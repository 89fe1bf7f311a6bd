//! Tests `hotcc trace`, which records what each ACK found.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

type Row = BTreeMap<String, String>;

/// A running `hotcc trace`; ends with the value.
struct Trace(Child);

impl Trace {
    /// Starts it, and waits until it records.
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(hotcc_path());
        command.arg("trace").args(arguments).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "recording; Ctrl-C ends it\n");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    /// Waits for the end and returns the summary.
    fn end(mut self) -> Value {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success());
        serde_json::from_str(&text).unwrap()
    }

    fn interrupt(self) -> Value {
        self.signal(Signal::SIGINT);
        self.end()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn csv(file: &str) -> Vec<Row> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    lines.map(|values| names.iter().cloned().zip(values).collect()).collect()
}

fn parquet(file: &str) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        other => other.to_string(),
    };
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()).collect()
}

fn numbers(rows: &[Row], column: &str) -> Vec<u64> {
    rows.iter().map(|row| row[column].parse().unwrap()).collect()
}

/// Exchanges single bytes: a segment, and thus an ACK of data, for each.
fn ping(connection: &mut Connection, times: usize) {
    for _ in 0..times {
        connection.client.write_all(b"?").unwrap();
        connection.server.read_exact(&mut [0]).unwrap();
        connection.server.write_all(b"!").unwrap();
        connection.client.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn each_ack_becomes_a_row_in_both_formats() {
    let Some(test) = kernel_test("each_ack_becomes_a_row_in_both_formats", &["cc_trace"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_trace"]);
    let (text, columns) = (test.file("acks.csv", b""), test.file("acks.parquet", b""));
    let traces = [&text, &columns].map(|file| Trace::start(&["--out", file, "--cc", "cc_trace"]));
    let (mut traced, mut other) = (Connection::new("cc_trace"), Connection::new("reno"));
    for _ in 0..20 {
        traced.send(300_000);
        other.send(10_000);
    }
    let flow = json(&["flows", "--cc", "cc_trace", "--json"])[0].clone();
    let summaries = traces.map(Trace::interrupt);

    let rows = csv(&text);
    for summary in summaries {
        assert_eq!((&summary["acks"], &summary["connections"]), (&rows.len().into(), &1.into()));
        assert_eq!(summary["dropped"], 0);
    }
    assert!(rows.len() > 20, "{} rows", rows.len());
    for column in ["time_ns", "acked_bytes", "delivered_segments"] {
        assert!(numbers(&rows, column).is_sorted(), "{column}");
    }
    let last = rows.last().unwrap();
    for (column, key) in
        [("local", "local"), ("peer", "peer"), ("netns", "netns"), ("cc", "cc"), ("ca_state", "ca_state")]
    {
        assert_eq!(last[column], flow[key].as_str().unwrap(), "{column}");
    }
    // the last ACK came after the last row's state
    assert!(numbers(&rows, "acked_bytes").last().unwrap() + 1_000_000 > flow["acked_bytes"].as_u64().unwrap());
    assert!(numbers(&rows, "cwnd_segments").contains(&flow["cwnd"].as_u64().unwrap()));
    assert!(numbers(&rows[1..], "rtt_us").iter().chain(&numbers(&rows[1..], "srtt_us")).all(|us| *us > 0));
    assert!(numbers(&rows, "in_flight_segments").iter().all(|segments| *segments > 0));

    let binary = parquet(&columns);
    let without_time = |rows: &[Row]| {
        let row = |row: &Row| {
            row.iter().filter(|(name, _)| *name != "time_ns").map(|(n, v)| (n.clone(), v.clone())).collect()
        };
        rows.iter().map(row).collect::<Vec<Row>>()
    };
    assert_eq!(without_time(&binary), without_time(&rows));
}

#[test]
fn a_trace_is_limited_to_a_prefix_to_every_nth_ack_and_in_time() {
    let Some(test) = kernel_test("a_trace_is_limited_to_a_prefix_to_every_nth_ack_and_in_time", &[]) else { return };
    let files = ["all.csv", "tenth.csv", "here.csv", "elsewhere.csv", "v6.csv"].map(|name| test.file(name, b""));
    let here = ["--to-prefix", "127.0.0.1"];
    let limits: [&[&str]; 5] = [
        &here,
        &["--every", "10", here[0], here[1]],
        &["--to-prefix", "127.0.0.0/8"],
        &["--to-prefix", "10.0.0.0/8"],
        &["--to-prefix", "::/0"],
    ];
    let traces: Vec<Trace> =
        files.iter().zip(limits).map(|(file, limit)| Trace::start(&[&["--out", file], limit].concat())).collect();
    let mut connections = [Connection::new("reno"), Connection::new("cubic")];
    for connection in &mut connections {
        ping(connection, 100);
    }
    let ports = connections.each_ref().map(|connection| connection.client.local_addr().unwrap().to_string());
    let acks = |file: &str, local: &str| csv(file).iter().filter(|row| row["local"] == local).count();
    let summaries: Vec<Value> = traces.into_iter().map(Trace::interrupt).collect();
    for local in &ports {
        let all = acks(&files[0], local);
        assert!(all >= 100, "{all}");
        assert_eq!(acks(&files[1], local), all.div_ceil(10));
        assert_eq!(acks(&files[2], local), all);
    }
    assert_eq!((&summaries[3]["acks"], &summaries[4]["acks"]), (&0.into(), &0.into()));
    assert!(
        fs::read_to_string(&files[3]).unwrap().starts_with("time_ns,netns,local,peer,cc,"),
        "no line but the names"
    );
    assert_eq!(csv(&files[3]), []);
    let timed = Trace::start(&["--out", &files[3], "--for", "1s"]).end();
    assert!(timed["duration_s"].as_f64().unwrap() >= 1.0, "{timed}");
}

#[test]
fn acks_that_are_not_recorded_are_counted() {
    let Some(test) = kernel_test("acks_that_are_not_recorded_are_counted", &["cc_fast"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_fast"]);
    let (large, small) = (test.file("large.csv", b""), test.file("small.csv", b""));
    let all = Trace::start(&["--out", &large, "--cc", "cc_fast"]);
    let slow = Trace::start(&["--out", &small, "--cc", "cc_fast", "--buffer-kib", "4"]);
    slow.signal(Signal::SIGSTOP);
    let mut connection = Connection::new("cc_fast");
    ping(&mut connection, 500);
    slow.signal(Signal::SIGCONT);
    let (all, slow) = (all.interrupt(), slow.interrupt());
    let recorded = slow["acks"].as_u64().unwrap();
    assert!(recorded > 0 && slow["dropped"].as_u64().unwrap() > 0, "{slow}");
    assert_eq!(recorded + slow["dropped"].as_u64().unwrap(), all["acks"].as_u64().unwrap());
    assert_eq!(csv(&small).len() as u64, recorded);
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let Some(_test) = kernel_test("what_cannot_be_traced_is_refused", &[]) else { return };
    for (code, arguments, said) in [
        (2, &["--out", "acks.txt"][..], "acks.txt: expected a name that ends with .csv or .parquet, or `-`"),
        (2, &["--out", "-", "--json"], "name a file"),
        (2, &["--out", "a.csv", "--every", "0"], "--every"),
        (2, &["--out", "a.csv", "--to-prefix", "10.0.0.0/33"], "--to-prefix"),
        (1, &["--out", "/nowhere/acks.csv"], "cannot create /nowhere/acks.csv: No such file or directory"),
        (1, &["--out", "a.csv", "--cc", "cc_none"], "cc_none"),
    ] {
        let text = fails(code, &[&["trace"], arguments].concat());
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_full_disk_ends_the_trace_with_an_error() {
    let Some(test) = kernel_test("a_full_disk_ends_the_trace_with_an_error", &["cc_full"]) else { return };
    ok(&["load", "westwoodp", "--as", "cc_full"]);
    let file = test.file("acks.csv", b"");
    fs::remove_file(&file).unwrap();
    symlink("/dev/full", &file).unwrap();
    let mut trace = Trace::start(&["--out", &file, "--cc", "cc_full"]);
    ping(&mut Connection::new("cc_full"), 100);
    let mut error = String::new();
    trace.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(trace.0.wait().unwrap().code(), Some(1));
    assert!(error.contains(&format!("cannot write to {file}: No space left on device")), "{error}");
}
