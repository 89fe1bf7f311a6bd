//! The results: flows, and verified facts.

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
        let mut text =
            format!("{:<width$}  {:>7}  {:>12}  {:>15}\n", "flow", "Mbit/s", "mean RTT ms", "retransmissions");
        for Row { flow, measured: m } in &self.flows {
            let (rate, rtt, retransmits) = (m.mbit_per_s, m.mean_rtt_ms, m.retransmits);
            text += &format!("{flow:<width$}  {rate:>7.1}  {rtt:>12.1}  {retransmits:>15}\n");
        }
        text += "\n";
        for fact in &self.facts {
            text += &format!("{}  {}\n", if fact.holds { "ok    " } else { "FAILED" }, fact.what);
        }
        text
    }
}
