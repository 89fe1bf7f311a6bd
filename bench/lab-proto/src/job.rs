//! What the host asks of the guest, and what the guest answers: JSON, one message a line.

use crate::cost::{CostJob, Counted};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// Where the guest finds its job.
pub const JOB_PATH: &str = "/job.json";
/// Where the guest finds object files.
pub const OBJECTS_PATH: &str = "/objects";
/// Where the guest finds modules, in load order by file name.
pub const MODULES_PATH: &str = "/modules";
/// Where the guest finds the modules that only its job needs, in the same order.
pub const JOB_MODULES_PATH: &str = "/job-modules";

/// Where a guest has the PEP's agent.
pub const AGENT_PATH: &str = "/bin/pep-agent";

/// Name of the file in QEMU's configuration device (`fw_cfg`) that has the job's files as a cpio archive, for a guest whose
/// initramfs has no job.
pub const JOB_FILE: &str = "opt/org.hotcc/job";

/// Name of the virtio port that takes a run's results.
pub const RESULTS_PORT: &str = "results";

/// The guest's job.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Load, carry traffic, swap, roll back, unload: for each algorithm.
    Matrix {
        /// What to load; each is swapped for the next one.
        subjects: Vec<Subject>,
        /// Bytes of each transfer.
        bytes: u64,
    },
    /// One run of a scenario.
    Scenario(Box<Plan>),
    /// Commands, one after the other.
    Commands(Vec<Command>),
    /// The same plan under each algorithm, whose instructions are counted.
    Cost(Box<CostJob>),
}

/// A command to run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// It is run again, ten times a second, until its output has this.
    pub until: Option<String>,
    /// It goes on while the next ones run.
    pub stays: bool,
}

/// An object under test.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Subject {
    /// As `hotcc load` takes it: a built-in name, or a path in the guest.
    pub object: String,
    /// Name of its congestion control.
    pub cc: String,
}

/// One line from the guest.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The guest's first process runs.
    Booted {
        /// `uname -r`.
        release: String,
        /// Virtual time since the start of the machine.
        uptime_s: f64,
    },
    /// Something takes a while.
    Progress(String),
    /// One algorithm's row of the matrix.
    Row(Row),
    /// What a command of [`Job::Commands`] wrote to stdout.
    Output(String),
    /// Something counted for [`Job::Cost`].
    Counted(Counted),
    /// The job is done.
    Done {
        /// Virtual time since the start of the machine.
        uptime_s: f64,
    },
    /// The job could not be done.
    Failed(String),
}

/// How one algorithm fared on one kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub algorithm: String,
    /// What was tried, in order, up to the first that failed.
    pub steps: Vec<Step>,
}

/// One thing tried.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Step {
    /// "load", "traffic", ...
    pub what: String,
    /// `None`: it worked.
    pub error: Option<String>,
}

impl Row {
    /// Whether every step worked.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|s| s.error.is_none())
    }
}
