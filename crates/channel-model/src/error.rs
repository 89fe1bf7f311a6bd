//! Errors in the description of a radio.

use crate::trace::TraceError;
use std::path::PathBuf;

/// Why a radio cannot be created from its description.
#[derive(Debug, thiserror::Error)]
pub enum RadioError {
    /// A key has an invalid value.
    #[error("{key} = {value}: {what}")]
    Value {
        /// The key, with the tables that contain it (`obstacles[2].to`).
        key: String,
        /// Its value, as read.
        value: String,
        /// What is wrong, or which values are valid.
        what: String,
    },
    /// A key is missing that other keys need.
    #[error("{key} is missing: {what}")]
    Missing {
        /// The key.
        key: &'static str,
        /// Why it is needed.
        what: &'static str,
    },
    /// The trace file could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace lacks a column that is needed.
    #[error("cannot use the trace: {} holds no {column}; {what}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// The missing column.
        column: &'static str,
        /// Why it is needed.
        what: &'static str,
    },
}
