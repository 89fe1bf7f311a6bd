//! What came out: flows, and facts that were verified.

use super::iperf::Measured;
use super::tools::Say;
use serde::Serialize;

/// Something the demo claims, and whether it was found to be so.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// In one line.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
}

/// The final table. Schema of `--json`; fields are only ever added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// `uname -r` where it ran.
    pub kernel: String,
    /// Why it ran in the lab's virtual machine; absent: it ran on this machine.
    pub lab: Option<String>,
    /// Whether the path has a delay of its own.
    pub path_has_delay: bool,
    /// Flow by flow.
    pub flows: Vec<Row>,
    /// What was verified.
    pub facts: Vec<Fact>,
}

/// A flow.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it was about.
    pub flow: String,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

impl Report {
    /// Takes a fact in, and says it.
    pub fn fact(&mut self, say: Say, holds: bool, what: String) {
        say.line(format!("  {} {what}", if holds { "verified:" } else { "FAILED:" }));
        self.facts.push(Fact { what, holds });
    }

    /// Whether all facts hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.facts.iter().all(|f| f.holds)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let width = self.flows.iter().map(|r| r.flow.chars().count()).max().unwrap_or(0).max(4);
        let mut text =
            format!("{:<width$}  {:>7}  {:>12}  {:>15}\n", "flow", "Mbit/s", "mean RTT ms", "retransmissions");
        for Row { flow, measured: m } in &self.flows {
            let (rate, rtt, lost) = (m.mbit_per_s, m.mean_rtt_ms, m.retransmits);
            text += &format!("{flow:<width$}  {rate:>7.1}  {rtt:>12.1}  {lost:>15}\n");
        }
        text += "\n";
        for fact in &self.facts {
            text += &format!("{}  {}\n", if fact.holds { "ok    " } else { "FAILED" }, fact.what);
        }
        text
    }
}
