//! Why a radio cannot be.

use crate::trace::TraceError;
use std::path::PathBuf;

/// Why a radio cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RadioError {
    /// A key has a value that cannot be.
    #[error("{key} = {value}: {what}")]
    Value {
        /// The key, with the tables it stands in (`obstacles[2].to`).
        key: String,
        /// Its value, as read.
        value: String,
        /// What it must be.
        what: String,
    },
    /// A key is missing that the others need.
    #[error("{key} is missing: {what}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What needs it.
        what: &'static str,
    },
    /// The trace file could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no value of a kind that is needed.
    #[error("cannot use the trace: {} holds no {column}; {what}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        column: &'static str,
        /// What needs it.
        what: &'static str,
    },
}
