//! The error of sources and publishers.

/// Why a source or publisher cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
