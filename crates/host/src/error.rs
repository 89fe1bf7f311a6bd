//! One error type: what was tried, why it failed, what to do, and the exit code.

use std::error::Error as StdError;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};

/// The kind of failure, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The command failed: nothing changed, or the message says what did.
    Failed,
    /// The command line is invalid. An invalid file is [`Kind::Failed`].
    Usage,
    /// The kernel lacks a feature.
    KernelLacks,
    /// Privileges are missing.
    NotPermitted,
    /// The command to run does not exist.
    NoCommand,
    /// The command to run cannot be executed.
    NotExecutable,
}

/// A failure: what was tried, its cause, and advice.
///
/// `{}` prints what was tried; `{:#}` adds each cause once, then the advice. If there is no cause, `{}` prints the
/// advice, too. The causes are the chain of [`StdError::source`].
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    advice: Option<String>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), advice: None, cause: None }
    }

    /// Creates an error of kind [`Kind::Failed`]; `message` says why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Creates an error of kind [`Kind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Creates an error of kind [`Kind::KernelLacks`].
    pub fn kernel_lacks(message: impl Into<String>) -> Self {
        Self::new(Kind::KernelLacks, message)
    }

    /// Creates an error of kind [`Kind::NotPermitted`].
    pub fn not_permitted(message: impl Into<String>) -> Self {
        Self::new(Kind::NotPermitted, message)
    }

    /// Creates the error for a command to run that could not be started: [`Kind::NoCommand`] or
    /// [`Kind::NotExecutable`].
    #[must_use]
    pub fn not_started(program: &str, why: io::Error) -> Self {
        let kind = if why.kind() == ErrorKind::NotFound { Kind::NoCommand } else { Kind::NotExecutable };
        Self { cause: Some(Box::new(why)), ..Self::new(kind, format!("cannot run {program}")) }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Changes the kind of failure.
    #[must_use]
    pub fn as_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns the exit code: 1 failed, 2 usage, 3 the kernel lacks a feature, 4 not permitted; as in shells, 126 if
    /// the command to run cannot be executed, 127 if it does not exist.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::KernelLacks => 3,
            Kind::NotPermitted => 4,
            Kind::NotExecutable => 126,
            Kind::NoCommand => 127,
        }
    }

    /// Appends advice.
    #[must_use]
    pub fn and(mut self, advice: &str) -> Self {
        self.advice = Some(match self.advice {
            Some(before) => format!("{before}; {advice}"),
            None => advice.to_owned(),
        });
        self
    }

    /// Wraps this failure as the cause of a failure of what was `tried`. Kind and advice stay the same.
    #[must_use]
    pub fn during(mut self, tried: &str) -> Self {
        let (kind, advice) = (self.kind, self.advice.take());
        Self { kind, message: tried.to_owned(), advice, cause: Some(Box::new(self)) }
    }

    /// Returns the operating system's error among the causes, if any.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        io_error(self)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.cause {
            None => f.write_str(&self.message)?,
            Some(_) if f.alternate() => f.write_str(&chain(self))?,
            Some(_) => return f.write_str(&self.message),
        }
        self.advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Adds what was tried to another library's error, which becomes the cause.
pub trait Tried<T> {
    /// Wraps an error with what was tried, such as "cannot pin the map".
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: StdError + Send + Sync + 'static> Tried<T> for std::result::Result<T, E> {
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|mut cause| {
            let (mut kind, mut advice) = (Kind::Failed, None);
            if let Some(ours) = (&mut cause as &mut (dyn StdError + 'static)).downcast_mut::<Error>() {
                (kind, advice) = (ours.kind, ours.advice.take());
            } else if is_permission_denied(&cause) && !nix::unistd::geteuid().is_root() {
                // for root, "permission denied" has another cause, e.g. the verifier, that running as root does not
                // remove
                (kind, advice) = (Kind::NotPermitted, Some("run it as root".to_owned()));
            }
            Error { kind, message: tried(), advice, cause: Some(Box::new(cause)) }
        })
    }
}

/// Fails with exit code 4 unless the caller is root.
///
/// # Errors
/// Fails if the caller is not root.
pub fn need_root(command: &str) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let message = format!("`{command}` needs root: only root can load BPF programs and open their maps");
    Err(Error::not_permitted(message).and("run it with sudo"))
}

/// Returns the operating system's error in a chain of causes, if any.
#[must_use]
pub fn io_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    causes(error).find_map(|e| e.downcast_ref())
}

/// Returns the texts of all causes, joined by `: `, each once: many libraries repeat the cause's text in their own, or
/// end it with a newline.
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error).map(ToString::to_string) {
        let cause = cause.trim_end();
        if !text.ends_with(cause) {
            if !text.is_empty() {
                text += ": ";
            }
            text += cause;
        }
    }
    text
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}

fn is_permission_denied(error: &(dyn StdError + 'static)) -> bool {
    // libbpf-rs does not expose the io::Error that it wraps, but its text ends like that of the io::Error
    let hidden = [nix::libc::EPERM, nix::libc::EACCES].map(|code| format!("(os error {code})"));
    causes(error).any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(system) => system.kind() == ErrorKind::PermissionDenied,
        None => hidden.iter().any(|end| cause.to_string().ends_with(end)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the call failed")]
    struct Outer(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the call failed: {0}")]
    struct Repeats(#[source] io::Error);

    fn invalid() -> io::Error {
        io::Error::from_raw_os_error(nix::libc::EINVAL)
    }

    #[test]
    fn causes_are_printed_once() {
        let failed: std::result::Result<(), _> = Err(Outer(invalid()));
        let error = failed.tried(|| "cannot attach".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "cannot attach");
        assert_eq!(format!("{error:#}"), "cannot attach: the call failed: Invalid argument (os error 22)");
        assert_eq!(error.exit_code(), 1);
        let failed: std::result::Result<(), _> = Err(Repeats(invalid()));
        let error = failed.tried(|| "cannot attach".to_owned()).unwrap_err();
        assert_eq!(format!("{error:#}"), "cannot attach: the call failed: Invalid argument (os error 22)");
    }

    #[test]
    fn the_cause_can_be_reached() {
        let error = Err::<(), _>(Outer(invalid())).tried(|| "cannot attach".to_owned()).unwrap_err();
        assert!(error.source().is_some_and(|cause| cause.is::<Outer>()));
        assert_eq!(error.io().and_then(io::Error::raw_os_error), Some(nix::libc::EINVAL));
    }

    #[test]
    fn kind_and_advice_survive_what_was_tried_around_them() {
        let inner = || Error::kernel_lacks("no TCX").and("use clsact");
        for error in
            [inner().during("cannot start"), Err::<(), _>(inner()).tried(|| "cannot start".into()).unwrap_err()]
        {
            assert_eq!(format!("{error:#}"), "cannot start: no TCX; use clsact");
            assert_eq!(error.to_string(), "cannot start");
            assert_eq!(error.exit_code(), 3);
        }
    }

    #[test]
    fn missing_privileges_are_recognized_below_any_library() {
        let denied = io::Error::from_raw_os_error(nix::libc::EPERM);
        assert!(is_permission_denied(&Repeats(denied)));
        assert!(!is_permission_denied(&Outer(invalid())));
    }
}
