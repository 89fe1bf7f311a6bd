//! Why a source or an publisher cannot be used.

/// Why a source, or what sends readings to other hosts, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
