//! Valid names of congestion controls.

use hotcc_host::error::{Error, Result};

/// Length of the longest congestion control name that the kernel accepts, in bytes.
pub const CC_NAME_MAX: usize = 15;

/// Fails if the kernel would not accept the name.
pub fn check_cc_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > CC_NAME_MAX {
        return Err(Error::usage(format!(
            "invalid congestion control name `{name}`: it has {} bytes, the kernel accepts 1 to {CC_NAME_MAX}",
            name.len()
        )));
    }
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))) {
        return Err(Error::usage(format!(
            "invalid congestion control name `{name}`: it contains `{c}`; use letters, digits, `_` and `.`"
        )));
    }
    Ok(())
}
