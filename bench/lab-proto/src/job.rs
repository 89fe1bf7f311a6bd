//! The host's job for the guest, and the guest's messages: JSON, one message per line.

use crate::cost::{CostJob, Counted};
use crate::plan::Plan;
use crate::qdisc::Comparison;
use serde::{Deserialize, Serialize};

/// Path at which the guest finds its job.
pub const JOB_PATH: &str = "/job.json";
/// Directory in which the guest finds object files.
pub const OBJECTS_PATH: &str = "/objects";
/// Directory in which the guest finds kernel modules; the order of their file names is the load order.
pub const MODULES_PATH: &str = "/modules";
/// Directory in which the guest finds the modules that only its job needs, in the same order.
pub const JOB_MODULES_PATH: &str = "/job-modules";

/// Path of the PEP's agent in the guest.
pub const AGENT_PATH: &str = "/bin/pep-agent";

/// Name of the file in QEMU's configuration device (`fw_cfg`) that holds the job's files as a cpio archive, for a guest
/// whose initramfs has no job.
pub const JOB_FILE: &str = "opt/org.hotcc/job";

/// Name of the virtio port that takes a run's results.
pub const RESULTS_PORT: &str = "results";

/// Address of the server of the downloads of [`Job::Canaries`], which clients reach through the loopback device.
pub const CANARY_SERVER: &str = "127.0.0.2";

/// Name of the row of [`Job::Matrix`] that is about policy rules.
pub const POLICY_ROW: &str = "policy";

/// Name of the row of [`Job::Matrix`] that is about receivers.
pub const RECEIVERS_ROW: &str = "receivers";

/// The guest's job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// For each algorithm: load, carry traffic, swap, roll back, unload. Then policy rules, and receivers.
    Matrix {
        /// Objects to load; each is swapped for the next one.
        subjects: Vec<Subject>,
        /// Bytes of each transfer.
        bytes: u64,
    },
    /// One run of a scenario.
    Scenario(Box<Plan>),
    /// Commands to run one after the other.
    Commands(Vec<Command>),
    /// Canaries, one after the other, each beside downloads.
    Canaries {
        /// Commands that precede them.
        setup: Vec<Command>,
        /// The canaries.
        canaries: Vec<Canary>,
    },
    /// One plan to run under each algorithm, to count what the algorithm costs.
    Cost(Box<CostJob>),
    /// The same arrivals into a queueing discipline of the kernel and into the lab's.
    Qdisc(Box<Comparison>),
}

/// A command to run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Text to wait for: the command is run again, ten times a second, until its output contains this text.
    pub until: Option<String>,
    /// Whether the command keeps running while the next ones run.
    pub stays: bool,
}

/// A canary to run beside downloads.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Canary {
    /// `hotcc canary start` with its arguments.
    pub words: Vec<String>,
    /// Port of the downloads' server, whose address is [`CANARY_SERVER`].
    pub port: u16,
    /// Seed of the downloads' sizes.
    pub seed: u64,
}

/// An object under test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Subject {
    /// The argument of `hotcc load`: a built-in name, or a path in the guest.
    pub object: String,
    /// Name under which the object registers its congestion control.
    pub cc: String,
}

/// One line from the guest.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The guest has booted and has its job.
    Booted {
        /// `uname -r`.
        release: String,
        /// Virtual time since the start of the machine.
        uptime_s: f64,
    },
    /// Progress of a long operation.
    Progress(String),
    /// One algorithm's row of the matrix.
    Row(Row),
    /// What a command of [`Job::Commands`] or [`Job::Canaries`] wrote to stdout, or the result of [`Job::Qdisc`].
    Output(String),
    /// A result of [`Job::Cost`].
    Counted(Counted),
    /// The job is done.
    Done {
        /// Virtual time since the start of the machine.
        uptime_s: f64,
    },
    /// The job could not be done.
    Failed(String),
}

/// The result of one algorithm on one kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Name of the algorithm.
    pub algorithm: String,
    /// The steps that were tried, in order, up to the first failure.
    pub steps: Vec<Step>,
}

/// One step of a row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Step {
    /// Name of the step: "load", "traffic", ...
    pub what: String,
    /// The error; `None` if the step succeeded.
    pub error: Option<String>,
}

impl Row {
    /// Returns whether every step succeeded.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|s| s.error.is_none())
    }
}
