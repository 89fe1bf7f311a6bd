//! Helpers for the tests of live sources.

use crate::sandbox::Sandbox;
use hotcc_testbed::kernel::skipped;
use hotcc_testbed::{http, ports};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A background process whose stderr is kept; killed when dropped.
pub struct Process {
    pub child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&said));
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        Self { child, said }
    }

    /// Starts a feeder with these arguments of `run`.
    pub fn feeder(sandbox: &Sandbox, args: &[&str]) -> Self {
        Self::start(sandbox.command(&["run", "--quiet"]).args(args).stdin(Stdio::piped()))
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Returns the number of lines on stderr that contain `text`.
    pub fn said(&self, text: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    pub fn all_said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    pub fn wait_to_say(&self, text: &str) {
        wait(text, || self.said(text) > 0, || self.all_said());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds; fails after 20 s with the output of `otherwise`.
pub fn wait(what: &str, mut is_so: impl FnMut() -> bool, otherwise: impl Fn() -> String) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}\n{}", otherwise());
        sleep(Duration::from_millis(5));
    }
}

/// Returns a port that is free at the moment, for UDP and for TCP.
pub fn free_port() -> u16 {
    ports::free().unwrap()
}

pub fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Sends readings to a `udp` source.
pub struct Sender {
    pub socket: UdpSocket,
    to: SocketAddr,
}

impl Sender {
    pub fn new(port: u16) -> Self {
        Self { socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), to: local(port) }
    }

    pub fn send(&self, lines: &str) {
        let _ = self.socket.send_to(lines.as_bytes(), self.to); // refused while no socket listens
    }

    pub fn sinr(&self, db: f64) {
        self.send(&format!(r#"{{"sinr_db":{db}}}"#));
    }
}

/// Returns the status and the body of a page.
pub fn page(port: u16, path: &str) -> Option<(u16, String)> {
    let (head, body) = http::get(local(port), path).ok()?;
    Some((head.split(' ').next()?.parse().ok()?, body))
}

/// Returns the samples of `/metrics`, by name with labels.
pub fn metrics(port: u16) -> BTreeMap<String, f64> {
    let (_, text) = page(port, "/metrics").unwrap_or_default();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// Returns the numbers of rejected readings by reason, over all sources, without zeros.
pub fn rejected(port: u16) -> BTreeMap<String, u64> {
    let mut by_reason = BTreeMap::new();
    for (name, value) in metrics(port).into_iter().filter(|(_, value)| *value > 0.0) {
        if let Some((_, rest)) = name.split_once("rejected_total{").and_then(|(_, l)| l.split_once("reason=\"")) {
            *by_reason.entry(rest.trim_end_matches("\"}").to_owned()).or_default() += value as u64;
        }
    }
    by_reason
}

/// Whether a program is installed; if not, prints a line that says so.
pub fn has(test: &str, program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]).output().unwrap().status.success();
    if !found {
        skipped(test, format_args!("{program} is not installed (./setup.sh installs it)"));
    }
    found
}
