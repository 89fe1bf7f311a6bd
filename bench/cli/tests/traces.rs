//! `hotcc-bench traces`: fetching from an HTTP server on this machine, checking, drawing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use data_encoding::HEXLOWER;
use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

/// A directory with a cache and a list of traces, and a server that serves them.
struct Bench {
    directory: tempfile::TempDir,
    port: u16,
}

const TRACE: &str = "0\n100\n150\n200\n300\n";

/// Starts a server that answers each request by its path until the test ends. Returns its port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let (status, length, body) = match request.split(' ').nth(1).unwrap() {
                "/whole" => ("200 OK", TRACE.len(), TRACE),
                "/moved" => ("302 Found\r\nLocation: /whole", 0, ""),
                "/other" => ("200 OK", TRACE.len(), "0\n100\n150\n200\n301\n"),
                "/less" => ("200 OK", 4, "0\n1\n"),
                "/more" => ("200 OK", 100, "0\n100\n150\n200\n300\n400\n"),
                "/cut" => ("200 OK", TRACE.len(), "0\n100\n"),
                "/silent" => {
                    silent.push(stream);
                    continue;
                }
                _ => ("404 Not Found", 0, ""),
            };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
    port
}

impl Bench {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), port: serve() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a list with these names; each trace's address is the path of the same name.
    fn list(&self, names: &[&str]) {
        let sha256 = HEXLOWER.encode(&Sha256::digest(TRACE));
        let entry = |name: &&str| {
            let port = if *name == "unreachable" { 1 } else { self.port };
            format!(
                "[[trace]]\nname = \"{name}\"\naddress = \"http://127.0.0.1:{port}/{name}\"\nlicence = \"MIT\"\n\
                 sha256 = \"{sha256}\"\nbytes = {}\nformat = \"mahimahi\"\nsummary = \"a test's\"\n\n",
                TRACE.len()
            )
        };
        fs::write(self.path("list.toml"), names.iter().map(entry).collect::<String>()).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
        command.arg("traces").args(arguments).current_dir(self.directory.path());
        command.env("HOTCC_CACHE", self.path("cache")).env_remove("HOTCC_TRACES").env("no_proxy", "127.0.0.1");
        command.output().unwrap()
    }

    /// Returns the names of the files in the cache.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/traces")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".lock").collect();
        names.sort();
        names
    }
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_trace_is_fetched_once_and_found() {
    let bench = Bench::new();
    bench.list(&["whole", "moved"]);
    let listed = bench.run(&["list", "--list", "list.toml", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&rows[0]["name"], &rows[0]["licence"], &rows[0]["file"]), (&"whole".into(), &"MIT".into(), &().into()));
    assert!(!bench.path("cache").exists(), "listing creates nothing");

    let fetched = bench.run(&["fetch", "--list", "list.toml"]);
    assert!(fetched.status.success(), "{}", err(&fetched));
    let place = |name: &str| bench.path("cache/traces").join(name).display().to_string();
    assert_eq!(out(&fetched), format!("{}\n{}\n", place("whole"), place("moved")));
    assert_eq!(bench.cached(), ["moved", "whole"]);
    assert_eq!(fs::read_to_string(place("whole")).unwrap(), TRACE);

    // A cached trace stays, even if its address has changed.
    let text = fs::read_to_string(bench.path("list.toml")).unwrap();
    fs::write(bench.path("gone.toml"), text.replace("/whole", "/gone")).unwrap();
    let again = bench.run(&["fetch", "--list", "gone.toml", "whole"]);
    assert!(again.status.success() && out(&again) == format!("{}\n", place("whole")), "{}", err(&again));

    let listed = bench.run(&["list", "--list", "list.toml"]);
    assert!(out(&listed).lines().skip(1).all(|line| line.contains(" yes ")), "{}", out(&listed));
    let checked = bench.run(&["check", "--list", "list.toml"]);
    assert!(checked.status.success(), "{}", err(&checked));
    assert!(out(&checked).starts_with("whole: valid, checksum as listed, 0 s, 3 samples; capacity 0.1 to 0.2 Mbit/s"));
    let shown = bench.run(&["show", "--list", "list.toml", "whole"]);
    assert!(out(&shown).contains("No SINR: a feeder can publish only the capacity"), "{}", out(&shown));
}

#[test]
fn a_trace_in_an_archive_is_explained_instead_of_fetched() {
    let (bench, name) = (Bench::new(), "ucc5g_driving_download.csv");
    let listed = bench.run(&["list"]);
    assert!(out(&listed).lines().any(|line| line.starts_with(name) && line.contains(" archive ")), "{}", out(&listed));
    let listed = bench.run(&["list", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    let conversion = row["conversion"].as_str().unwrap();
    let fetched = bench.run(&["fetch", name]);
    assert_eq!(fetched.status.code(), Some(2));
    assert!(err(&fetched).starts_with(&format!("hotcc-bench: {name} is in an archive: download https://")));
    assert!(err(&fetched).contains(conversion) && err(&fetched).lines().count() == 1, "{}", err(&fetched));
    assert!(!bench.path("cache").exists());
}

#[test]
fn a_copy_of_a_trace_in_an_archive_may_differ_only_in_what_is_not_read() {
    const COPY: &str = "Timestamp,Longitude,RSRP,RSRQ,SNR,CQI,State,DL_bitrate\n\
                        2020.01.01_00.00.00,8.4,-92,-19,-11.0,8,D,1000\n\
                        2020.01.01_00.00.01,8.4,-93,-18,3.0,-,D,52000\n";
    const SAMPLES: &str = "time_s,sinr_db,capacity_bps,rsrp_dbm,rsrq_db,cqi\n\
                           0.000,-11.00,1000000,-92.00,-19.00,8\n1.000,3.00,52000000,-93.00,-18.00,\n";
    let bench = Bench::new();
    bench.list(&["whole"]);
    let list = fs::read_to_string(bench.path("list.toml")).unwrap();
    let sha256 = HEXLOWER.encode(&Sha256::digest(SAMPLES));
    let archived = format!(
        "[[archived]]\nname = \"drive.csv\"\naddress = \"https://x/a.zip\"\nlicence = \"MIT\"\nsha256 = \"{sha256}\"\n\
         conversion = \"copy drive.csv out of the archive\"\nformat = \"cork\"\nsummary = \"a test's\"\n"
    );
    fs::write(bench.path("list.toml"), list + &archived).unwrap();
    fs::create_dir(bench.path("copies")).unwrap();
    let check = |copy: &str, names: &[&str]| {
        fs::write(bench.path("copies/drive.csv"), copy).unwrap();
        bench.run(&[&["check", "--list", "list.toml", "--traces", "copies"], names].concat())
    };
    for copy in [COPY, &COPY.replace("8.4", "0")] {
        for names in [&["drive.csv"][..], &[]] {
            let checked = check(copy, names);
            assert!(checked.status.success(), "{}", err(&checked));
            assert!(out(&checked).starts_with("drive.csv: valid, checksum as listed, 2 s, 2 samples; "), "{copy}");
        }
    }
    let rest = "hotcc-bench: cannot use copies/drive.csv; delete it and download https://x/a.zip, copy drive.csv out of the \
                archive, and name its directory with --traces or HOTCC_TRACES: ";
    // cut within the last number, and another number
    for (copy, why) in [
        (COPY.strip_suffix("00\n").unwrap(), "cannot use the trace: copies/drive.csv:3: the file may be cut off: "),
        (&COPY.replace("52000", "520"), "the SHA-256 of its samples is "),
    ] {
        let refused = check(copy, &[]);
        assert_eq!((refused.status.code(), out(&refused), err(&refused).lines().count()), (Some(1), "", 1));
        assert!(err(&refused).starts_with(&format!("{rest}{why}")), "{}", err(&refused));
    }
    fs::remove_file(bench.path("copies/drive.csv")).unwrap();
    let missing = bench.run(&["check", "--list", "list.toml", "drive.csv"]);
    let message = "hotcc-bench: cannot find drive.csv: download https://x/a.zip, ";
    assert!(missing.status.code() == Some(1) && err(&missing).starts_with(message), "{}", err(&missing));
}

#[test]
fn failed_and_damaged_downloads_are_not_kept() {
    let bench = Bench::new();
    let cases = [
        ("other", "its SHA-256 is ".to_owned()),
        ("less", format!("it has 4 bytes, expected {}", TRACE.len())),
        ("more", format!("the answer is longer than {} bytes", TRACE.len())),
        ("cut", "transfer closed with 12 bytes remaining to read".to_owned()),
        ("none", "The requested URL returned error: 404".to_owned()),
        ("unreachable", "Failed to connect to 127.0.0.1".to_owned()),
    ];
    let names: Vec<&str> = cases.iter().map(|(name, _)| *name).chain(["whole"]).collect();
    bench.list(&names);
    // The rest of an interrupted fetch, and a damaged file: the latter stays until a valid one replaces it.
    fs::create_dir_all(bench.path("cache/traces")).unwrap();
    fs::write(bench.path("cache/traces/.fetch-old"), "0\n").unwrap();
    fs::write(bench.path("cache/traces/other"), "damaged").unwrap();
    for (name, why) in &cases {
        let refused = bench.run(&["fetch", "--list", "list.toml", name]);
        assert_eq!((refused.status.code(), out(&refused)), (Some(1), ""), "{name}");
        let told = err(&refused);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.starts_with(&format!("hotcc-bench: cannot fetch {name} from http://127.0.0.1:")), "{told}");
        assert!(told.contains(why), "{told}");
        assert_eq!(bench.cached(), ["other"], "{name}");
    }
    assert_eq!(fs::read_to_string(bench.path("cache/traces/other")).unwrap(), "damaged");
    let all = bench.run(&["fetch", "--list", "list.toml"]);
    assert_eq!((all.status.code(), err(&all).lines().count()), (Some(1), cases.len()));
    assert_eq!(bench.cached(), ["other", "whole"], "a failure does not keep the others from being fetched");

    let checked = bench.run(&["check", "--list", "list.toml", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(err(&checked).contains("other; delete it and run `hotcc-bench traces fetch other`: it has 7 bytes"));
    let rows: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["name"]), (1, &"whole".into()));
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let bench = Bench::new();
    bench.list(&["silent"]);
    let refused = bench.run(&["fetch", "--list", "list.toml", "silent"]);
    assert_eq!((refused.status.code(), err(&refused).lines().count()), (Some(1), 1), "{}", err(&refused));
    assert!(err(&refused).contains("transferred the last 30 seconds"), "{}", err(&refused));
    assert!(bench.cached().is_empty());
}

#[test]
fn invalid_names_and_lists_are_reported() {
    let bench = Bench::new();
    bench.list(&["whole"]);
    for (arguments, code, says) in [
        (
            &["fetch", "--list", "list.toml", "while"][..],
            2,
            "unknown trace `while`: did you mean `whole`? expected whole",
        ),
        (&["fetch", "--list", "none.toml"], 1, "cannot read none.toml: No such file"),
        (&["check", "--list", "list.toml", "whole"], 1, "cannot find whole: run `hotcc-bench traces fetch whole`"),
        (&["check", "none.csv"], 1, "cannot find the trace none.csv: it is not in ., "),
        (&["show", "none.csv"], 1, "cannot find the trace none.csv: it is not in ., "),
    ] {
        let refused = bench.run(arguments);
        assert_eq!(refused.status.code(), Some(code), "{}", err(&refused));
        assert!(err(&refused).starts_with(&format!("hotcc-bench: {says}")), "{}", err(&refused));
        assert_eq!(err(&refused).lines().count(), 1, "{}", err(&refused));
    }
    let none = bench.run(&["check", "--list", "list.toml"]);
    assert!(none.status.success() && err(&none).starts_with("none of the listed traces is on this machine"));
}

#[test]
fn files_are_checked_and_drawn() {
    let bench = Bench::new();
    let rows: String = (0..120).map(|s| format!("{s},{},{},{}\n", s % 17, s % 17 * 1_000_000, 40 + s % 5)).collect();
    fs::write(bench.path("drive.csv"), format!("time_s,sinr_db,capacity_bps,rtt_ms\n{rows}")).unwrap();
    fs::write(bench.path("back.csv"), "time_s,sinr_db\n0,1\n-1,2\n").unwrap();
    fs::write(bench.path("empty.csv"), "").unwrap();
    let checked = bench.run(&["check", "drive.csv", "back.csv", "empty.csv"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(out(&checked).starts_with("drive.csv: valid, 120 s, 120 samples; capacity 0.0 to 16.0 Mbit/s, mean 7.9;"));
    let told = "hotcc-bench: cannot use the trace: back.csv:3: time goes backwards: -1 after 0\n\
                hotcc-bench: cannot use the trace: empty.csv holds no samples\n";
    assert_eq!(err(&checked), told);

    let shown = bench.run(&["show", "drive.csv", "--svg", "drive.svg"]);
    assert!(shown.status.success(), "{}", err(&shown));
    for part in ["capacity, Mbit/s", "SINR, dB", "RTT, ms", "█", "0 s           1.00      120"] {
        assert!(out(&shown).contains(part), "{part}\n{}", out(&shown));
    }
    assert!(out(&shown).lines().all(|line| line.chars().count() <= 100));
    let svg = fs::read_to_string(bench.path("drive.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns="));
    for part in ["capacity, Mbit/s", "SINR, dB", "RTT, ms", "time, s", "age of the SINR that is compared"] {
        assert!(svg.contains(part), "{part}");
    }
    let shown = bench.run(&["show", "drive.csv", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&shown["samples"], &shown["correlations"][0]["pairs"]), (&120.into(), &120.into()));
}

/// The recorded traces in the directory that `HOTCC_TRACES` names match the list.
#[test]
fn recorded_traces_are_those_of_the_list() {
    let bench = Bench::new();
    let Some(directory) = std::env::var_os("HOTCC_TRACES") else {
        hotcc_testbed::kernel::skipped("recorded_traces_are_those_of_the_list", "HOTCC_TRACES is not set");
        return;
    };
    let checked = bench.run(&["check", "--traces", Path::new(&directory).to_str().unwrap()]);
    assert!(checked.status.success(), "{}", err(&checked));
    assert!(!out(&checked).is_empty(), "{} has none of the listed traces", Path::new(&directory).display());
    assert!(out(&checked).lines().all(|line| line.contains("valid, checksum as listed")), "{}", out(&checked));
}

#[test]
fn a_reader_that_goes_away_ends_the_command_silently() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    let output = command.args(["traces", "list", "--json"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.signal(), Some(Signal::SIGPIPE as i32));
}
