//! The results: flows, and verified facts.

use super::difference::least_rtt_ms;
use super::iperf::Measurements;
use super::tools::Say;
use serde::Serialize;

/// A claim of the demo, and whether it was verified.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// The claim, in one line.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
}

/// The final table. It is the schema of `--json`; fields are only ever added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// `uname -r` of the kernel that it ran on.
    pub kernel: String,
    /// Why it ran in the lab's virtual machine; `None` if it ran on this machine.
    pub lab: Option<String>,
    /// Whether the path itself has a delay.
    pub path_has_delay: bool,
    /// The flows.
    pub flows: Vec<Row>,
    /// The difference between crest and the other congestion controls, in one line.
    pub difference: String,
    /// The verified claims.
    pub facts: Vec<Fact>,
}

/// A row of the table: one flow.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Description of the flow.
    pub flow: String,
    /// Its measurements.
    #[serde(flatten)]
    pub measured: Measurements,
}

impl Report {
    /// Adds a fact, and prints it.
    pub fn add_fact(&mut self, say: Say, holds: bool, what: String) {
        say.line(format!("  {} {what}", if holds { "verified:" } else { "FAILED:" }));
        self.facts.push(Fact { what, holds });
    }

    /// Returns whether all facts hold.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        self.facts.iter().all(|f| f.holds)
    }

    /// Returns the report as text for people.
    #[must_use]
    pub fn text(&self) -> String {
        let width = self.flows.iter().map(|r| r.flow.chars().count()).max().unwrap_or(0).max(4);
        let least_ms = least_rtt_ms(&self.flows);
        let mut text = format!(
            "{:<width$}  {:>7}  {:>10}  {:>12}  {:>15}\n",
            "flow", "Mbit/s", "p95 RTT ms", "p95 delay ms", "retransmissions"
        );
        for Row { flow, measured: m } in &self.flows {
            let (rate, p95_ms, retransmits) = (m.mbit_per_s, m.p95_rtt_ms, m.retransmits);
            let delay_ms = p95_ms - least_ms;
            text += &format!("{flow:<width$}  {rate:>7.1}  {p95_ms:>10.1}  {delay_ms:>12.1}  {retransmits:>15}\n");
        }
        text += &format!("p95: of the RTT samples of all ACKs; delay: beyond the least RTT, {least_ms:.2} ms\n\n");
        text += &format!("{}\n", self.difference);
        if !self.path_has_delay {
            text +=
                "On this path, all delay is queueing: the kernel has no netem. `--lab` adds a path delay of 40 ms.\n";
        }
        text += "\n";
        for fact in &self.facts {
            text += &format!("{}  {}\n", if fact.holds { "ok    " } else { "FAILED" }, fact.what);
        }
        text
    }
}
