//! TCP flows, run by iperf3.

use super::path::{Network, RECEIVER};
use super::rtt::Recorder;
use super::tools::create;
use anyhow::{Context, Result, anyhow, bail, ensure};
use hotcc_testbed::netlab::{Process, pause};
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const PORT: u16 = 5201;
/// TCP_LISTEN, as /proc/net/tcp shows it.
const LISTEN: &str = "0A";
const INTERVAL_S: f64 = 0.25;
/// Maximum time that iperf3 takes to connect. [`Flow::elapsed_s`] starts before the connection is made; the times of
/// intervals start when it is made.
const SETUP_S: f64 = 0.25;

/// A running flow.
#[derive(Debug)]
pub struct Flow {
    client: Process,
    recorder: Recorder,
    server: Process,
    report: PathBuf,
    seconds: u64,
    started: Instant,
}

/// Measurements of a flow: iperf3's, and those of its ACKs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measurements {
    /// Congestion control of the sender's socket at the end of the flow.
    pub cc: String,
    /// Rate at which data arrived, over the whole flow.
    pub mbit_per_s: f64,
    /// Mean RTT: on this machine, of the sender's smoothed RTT, as iperf3 reads it; in the lab, of the RTT samples.
    pub mean_rtt_ms: f64,
    /// Least RTT sample.
    pub min_rtt_ms: f64,
    /// 95th percentile of the RTT samples, one per ACK.
    pub p95_rtt_ms: f64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// The flow's intervals.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

/// A quarter of a second of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// Its start, since iperf3 has connected.
    pub start_s: f64,
    /// Its end, since iperf3 has connected.
    pub end_s: f64,
    /// Bytes handed to the connection.
    pub bytes: u64,
    /// Segments retransmitted in it.
    pub retransmits: u64,
}

impl Flow {
    /// Starts a flow from the sender to the receiver.
    pub fn start(network: &Network, cc: &str, seconds: u64, files: &Path) -> Result<Self> {
        let mut server = network.receiver.command("iperf3");
        let stderr = files.join("iperf3-server.err");
        server.args(["--server", "--one-off"]).stdout(Stdio::null()).stderr(create(&stderr)?);
        let mut server = Process::start(&mut server)?;
        let started = Instant::now();
        while !is_listening(network)? {
            ensure!(started.elapsed() < Duration::from_secs(10), "iperf3 --server does not listen after 10 s");
            let message = || fs::read_to_string(&stderr).unwrap_or_default();
            ensure!(server.ended()?.is_none(), "iperf3 --server ended unexpectedly: {}", message().trim());
            pause(Duration::from_millis(20))?;
        }
        let report = files.join("iperf3.json");
        let mut client = network.sender.command("iperf3");
        client.args(["--client", RECEIVER, "--congestion", cc, "--json"]);
        client.args(["--interval", &INTERVAL_S.to_string(), "--time", &seconds.to_string()]).stdout(create(&report)?);
        let recorder = Recorder::start(cc, files)?;
        let started = Instant::now();
        let client = Process::start(&mut client)?;
        Ok(Self { client, recorder, server, report, seconds, started })
    }

    /// Returns the seconds since the flow was started.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Waits until `second` seconds after the start of the flow.
    pub fn wait_until(&self, second: f64) -> Result<()> {
        pause(Duration::from_secs_f64((second - self.elapsed_s()).max(0.0)))
    }

    /// Waits for the end of the flow. A broken connection is an error.
    pub fn finish(mut self) -> Result<Measurements> {
        let timeout = Duration::from_secs(self.seconds + 15);
        let status = self.client.wait(timeout)?;
        let text = fs::read_to_string(&self.report).context("cannot read iperf3's report")?;
        let report: Value = serde_json::from_str(&text).context("iperf3's report is not JSON")?;
        if let Some(error) = report["error"].as_str() {
            bail!("iperf3: {error}");
        }
        ensure!(status.success(), "iperf3 failed ({status})");
        self.server.wait(timeout)?; // so that the next flow finds the port free
        let rtt_ms = self.recorder.finish()?;
        let measured = parse_report(&report).ok_or_else(|| anyhow!("iperf3's report lacks a field: {text}"))?;
        Ok(Measurements { min_rtt_ms: rtt_ms.min, p95_rtt_ms: rtt_ms.p95, ..measured })
    }
}

fn parse_report(report: &Value) -> Option<Measurements> {
    let end = &report["end"];
    let interval = |value: &Value| {
        let stream = &value["streams"][0];
        Some(Interval {
            start_s: stream["start"].as_f64()?,
            end_s: stream["end"].as_f64()?,
            bytes: stream["bytes"].as_u64()?,
            retransmits: stream["retransmits"].as_u64()?,
        })
    };
    Some(Measurements {
        cc: end["sender_tcp_congestion"].as_str()?.to_owned(),
        mbit_per_s: end["sum_received"]["bits_per_second"].as_f64()? / 1e6,
        mean_rtt_ms: end["streams"][0]["sender"]["mean_rtt"].as_f64()? / 1e3,
        retransmits: end["sum_sent"]["retransmits"].as_u64()?,
        intervals: report["intervals"].as_array()?.iter().map(interval).collect::<Option<_>>()?,
        ..Measurements::default()
    })
}

/// Returns whether a server listens on the receiver. The server serves only one connection, so it cannot be probed with
/// one.
fn is_listening(network: &Network) -> Result<bool> {
    let sockets = || {
        let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        read("tcp") + &read("tcp6")
    };
    let port = format!(":{PORT:04X}");
    let is_server = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some(LISTEN)
    };
    Ok(network.receiver.enter(sockets)?.lines().any(is_server))
}

impl Measurements {
    /// Returns the intervals within a span of [`Flow::elapsed_s`]. An interval is up to [`SETUP_S`] later than its own
    /// times, so one that could reach beyond the end of the span is left out.
    fn between(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |i| i.start_s >= from_s && i.end_s + SETUP_S <= to_s)
    }

    /// Returns the bytes sent within the span.
    #[must_use]
    pub fn bytes_between(&self, from_s: f64, to_s: f64) -> u64 {
        self.between(from_s, to_s).map(|i| i.bytes).sum()
    }

    /// Returns the retransmissions per second within the span.
    #[must_use]
    pub fn retransmission_rate(&self, from_s: f64, to_s: f64) -> f64 {
        let (count, seconds) =
            self.between(from_s, to_s).fold((0, 0.0), |(n, s), i| (n + i.retransmits, s + i.end_s - i.start_s));
        count as f64 / f64::max(seconds, INTERVAL_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_may_reach_beyond_the_span_are_left_out() {
        let interval = |n: u64| Interval {
            start_s: n as f64 * INTERVAL_S,
            end_s: (n + 1) as f64 * INTERVAL_S,
            bytes: 1 << n,
            retransmits: n,
        };
        let measured = Measurements { intervals: (0..8).map(interval).collect(), ..Measurements::default() };
        assert_eq!(measured.bytes_between(0.0, 1.0), 0b111);
        assert_eq!(measured.bytes_between(0.6, 1.5), 0b1_1000);
        assert_eq!(measured.bytes_between(1.5, f64::INFINITY), 0b1100_0000);
        assert_eq!(measured.retransmission_rate(1.5, f64::INFINITY), 26.0);
    }
}
