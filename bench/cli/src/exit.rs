//! Exit codes.

/// Returns the exit code of a command that fails with `error`: the error's own code, or 1.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, hotcc_host::error::Error::exit_code)
}
