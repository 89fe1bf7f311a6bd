//! What is counted in the guest: the job, and each count that the guest returns.

use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// The guest's job to count what congestion controls cost.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CostJob {
    /// The plans to run, one after another. The flow's congestion control is each of the subjects in turn.
    pub plans: Vec<Plan>,
    /// Congestion controls to count.
    pub subjects: Vec<Subject>,
}

/// A congestion control.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Subject {
    /// Name.
    pub cc: String,
    /// The object that has the congestion control; `None` if it is the kernel's own.
    pub object: Option<String>,
}

/// One result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// The time that clocks around a function add to each of its calls.
    Clocks {
        /// Number of arguments of the function.
        arguments: u64,
        /// Time per call.
        ns: u64,
    },
    /// The count of a subject's transfers.
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

/// The count of a subject's transfers, together.
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
    /// Retransmitted segments.
    pub retransmits: u64,
    /// The programs or functions that were counted.
    pub parts: Vec<Part>,
}

/// A program or function.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Part {
    /// Name.
    pub name: String,
    /// Number of arguments, for a function.
    pub arguments: u64,
    /// Number of calls.
    pub calls: u64,
    /// Total time of the calls, including the cost of measuring it.
    pub ns: u64,
}
