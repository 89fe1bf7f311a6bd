//! One error type for both agents: what was tried, what went wrong, what to do; and the exit code that goes with it.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};

/// A failure, told in full sentences.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// For a reason of its own.
    #[error("{0}")]
    Failed(String),
    /// Options or configuration that make no sense.
    #[error("{0}")]
    Usage(String),
    /// The kernel lacks something.
    #[error("{0}")]
    KernelLacks(String),
    /// Missing privileges.
    #[error("{0}")]
    NotPermitted(String),
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What failed, and the system's error below it; without root, one for want of privileges says so.
    fn of(text: String, system: Option<&io::Error>) -> Self {
        match system.map(io::Error::kind) {
            Some(ErrorKind::PermissionDenied) if !nix::unistd::geteuid().is_root() => {
                Self::NotPermitted(format!("{text}; run it as root"))
            }
            _ => Self::Failed(text),
        }
    }

    /// Exit code: 1 failed, 2 usage, 3 the kernel lacks it, 4 not permitted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::KernelLacks(_) => 3,
            Self::NotPermitted(_) => 4,
        }
    }
}

/// Our own as it was, any other with its causes.
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast() {
            Ok(own) => return own,
            Err(error) => error,
        };
        Self::of(format!("{error:#}"), io_error(error.as_ref()))
    }
}

/// Adds what was tried to a failure of the system or of a library.
pub trait Tried<T> {
    /// `tried` reads like "cannot pin the map".
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: StdError + 'static> Tried<T> for std::result::Result<T, E> {
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::of(format!("{}: {}", tried(), chain(&error)), io_error(&error)))
    }
}

/// The system's error below a library's.
#[must_use]
pub fn io_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    std::iter::successors(Some(error), |&e| e.source()).find_map(|e| e.downcast_ref())
}

/// Each cause once: libraries often say their cause's text as their own.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(error), |&e| e.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            if !text.is_empty() {
                text += ": ";
            }
            text += &cause;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the call failed")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_are_told_once() {
        let failed: std::result::Result<(), _> = Err(Outer(io::Error::from_raw_os_error(22)));
        let error = failed.tried(|| "cannot attach".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "cannot attach: the call failed: Invalid argument (os error 22)");
        assert_eq!(error.exit_code(), 1);
    }
}
