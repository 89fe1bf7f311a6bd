//! Exit codes.

/// What a command ends with that fails so: 1, or what the error itself asks for.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    error.downcast_ref().map_or(1, hotcc_host::error::Error::exit_code)
}
