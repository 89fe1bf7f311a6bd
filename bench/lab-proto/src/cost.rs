//! What is counted in the guest: the job, and each count that comes back.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// What the guest is to count.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CostJob {
    /// What happens; the flow's congestion control is each of the subjects in turn.
    pub plan: Plan,
    /// Congestion controls.
    pub subjects: Vec<Subject>,
}

/// A congestion control.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Subject {
    /// Its name.
    pub cc: String,
    /// The object that has it; `None`: the kernel.
    pub object: Option<String>,
}

/// One thing counted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// What clocks around a function take.
    Clocks {
        /// Arguments of the function.
        arguments: u64,
        /// Each call.
        ns: u64,
    },
    /// A subject's transfer.
    Sample(Sample),
}

/// How a subject was counted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The kernel's run-time statistics of BPF programs.
    Statistics,
    /// Clocks at entry and exit of the kernel's functions.
    Clocks,
}

/// A subject's transfer, as counted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Congestion control.
    pub cc: String,
    /// How it was counted.
    pub method: Method,
    /// ACKs that the sender got.
    pub acks: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Programs or functions.
    pub parts: Vec<Part>,
}

/// A program or function.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Arguments of a function.
    pub arguments: u64,
    /// Calls.
    pub calls: u64,
    /// Time they took, what takes the time included.
    pub ns: u64,
}
