//! A running exporter, and what it serves.
#![allow(dead_code, reason = "each test binary uses its part")]

use super::common::*;
use hotcc_testbed::metrics;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A process that is killed when the value is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    pub fn stop(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // fails if it has already ended
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `hotcc exporter` on a free port.
pub fn exporter(options: &[&str]) -> (Process, SocketAddr) {
    started_by(&mut Command::new(hotcc_path()), options)
}

/// Starts the exporter on a free port with `command`, which runs `hotcc`.
pub fn started_by(command: &mut Command, options: &[&str]) -> (Process, SocketAddr) {
    listening_on("127.0.0.1:0", command, options)
}

/// Starts the exporter on this address.
pub fn listening_on(address: &str, command: &mut Command, options: &[&str]) -> (Process, SocketAddr) {
    command.args(["exporter", "--listen", address]).args(options).stdout(Stdio::piped());
    let mut process = Process::start(command);
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on http://").unwrap_or_else(|| panic!("it said {line:?}"));
    (process, address.parse().unwrap())
}

pub fn scrape(address: SocketAddr) -> String {
    let body = metrics::open_metrics(address).unwrap();
    for line in body.lines().filter(|l| l.starts_with("hotcc_scrape_errors_total")) {
        assert!(line.ends_with(" 0"), "{line}");
    }
    body
}

/// Returns the value of a series, given with its labels as on the page.
pub fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|l| l.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}
