//! What happens to a canary, and the log of it.

use super::plan::Plan;
use super::state::{Cohorts, State};
use hotcc_abi::pins;
use hotcc_canary::Verdict;
use hotcc_host::error::{Result, Tried};
use hotcc_host::root_dir::{PUBLIC, RootDir};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the default log.
const FILE: &str = "canary.log";
/// Default path of the log.
pub const LOG: &str = "/var/lib/hotcc/canary.log";

/// Something that happened. Schema of the log and of `hotcc canary start --json`: one line each.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Unix time, seconds.
    pub time_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub occasion: Occasion,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Occasion {
    /// The canary started.
    Start(Plan),
    /// A step began.
    Step {
        /// Number of the step, from 1.
        step: u32,
        /// Share of the new connections, per cent.
        share_percent: f64,
    },
    /// How far the step is. Not in the log.
    Progress {
        /// Number of the step, from 1.
        step: u32,
        /// Connections that began and ended in the step.
        connections: Cohorts,
    },
    /// Connections ended while the ring of records was full, so the step began again.
    Dropped {
        /// Number of the step, from 1.
        step: u32,
        /// Number of such connections since the canary started.
        dropped_records: u64,
    },
    /// The judge decided on a step.
    Verdict {
        /// Number of the step, from 1.
        step: u32,
        /// Verdict and findings.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// The canary ended.
    End {
        /// `promoted`, `rolled_back` or `aborted`.
        state: State,
        /// Why, for people.
        reason: String,
        /// Connections that ended while the ring of records was full, in all steps.
        dropped_records: u64,
        /// The `[[policy]]` table that keeps the new congestion control; empty if it was not promoted.
        policy: String,
    },
}

impl Event {
    pub(super) fn now(occasion: Occasion) -> Self {
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Self { time_s, occasion }
    }
}

/// The log, opened for appending.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new(pins::STATE).join(FILE) {
            RootDir::open_or_new(Path::new(pins::STATE), PUBLIC)?;
        }
        let file = File::options().append(true).create(true).open(path);
        let file = file.tried(|| format!("cannot open the log {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends an event. A full disk does not end a canary, so a failure is only reported.
    pub(super) fn add(&mut self, event: &Event) {
        if matches!(event.occasion, Occasion::Progress { .. }) {
            return;
        }
        let line = serde_json::to_string(event).map_err(std::io::Error::from);
        if let Err(error) = line.and_then(|line| writeln!(self.file, "{line}")) {
            tracing::error!("cannot write the log {}: {error}", self.path.display());
        }
    }
}
