//! One error type: what was tried, what went wrong, what to do; and the exit code that goes with it.

use libbpf_rs::ErrorKind;

/// What kind of failure it was; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing was changed, for a reason of its own.
    Failed,
    /// The command was not understood.
    Usage,
    /// The kernel lacks something.
    KernelLacks,
    /// Missing privileges.
    NotPermitted,
    /// There is no such command to run.
    NoCommand,
    /// The command to run cannot be executed.
    NotExecutable,
}

/// A failure, told in full sentences.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: Kind,
    message: String,
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Nothing was changed; `message` says why.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, message: message.into() }
    }

    /// The command was not understood.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    /// The kernel lacks something.
    pub fn kernel_lacks(message: impl Into<String>) -> Self {
        Self { kind: Kind::KernelLacks, message: message.into() }
    }

    /// The command of `hotcc run` could not be started.
    pub fn not_started(program: &str, why: &std::io::Error) -> Self {
        let kind = if why.kind() == std::io::ErrorKind::NotFound { Kind::NoCommand } else { Kind::NotExecutable };
        Self { kind, message: format!("cannot run {program}: {why}") }
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Exit code: 1 failed, 2 usage, 3 the kernel lacks it, 4 not permitted; and as shells have it, 126 for a command
    /// that cannot be executed, 127 for one that is not there.
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

    /// Puts further advice behind.
    #[must_use]
    pub fn and(mut self, advice: &str) -> Self {
        self.message = format!("{}; {advice}", self.message);
        self
    }

    /// Puts what was tried in front.
    #[must_use]
    pub fn during(mut self, tried: &str) -> Self {
        self.message = format!("{tried}: {}", self.message);
        self
    }
}

/// Adds what was tried to a failure of the system or of libbpf.
pub trait Tried<T> {
    /// `tried` reads like "cannot pin the map".
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Tried<T> for std::result::Result<T, libbpf_rs::Error> {
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| from_parts(&tried(), e.kind() == ErrorKind::PermissionDenied, &e.to_string()))
    }
}

impl<T> Tried<T> for std::io::Result<T> {
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| from_parts(&tried(), e.kind() == std::io::ErrorKind::PermissionDenied, &e.to_string()))
    }
}

impl<T> Tried<T> for nix::Result<T> {
    fn tried(self, tried: impl FnOnce() -> String) -> Result<T> {
        self.map_err(std::io::Error::from).tried(tried)
    }
}

fn from_parts(tried: &str, permission: bool, why: &str) -> Error {
    // As root a "permission denied" has another cause (the verifier's, say) and must not send anybody to sudo.
    if permission && !nix::unistd::geteuid().is_root() {
        return Error { kind: Kind::NotPermitted, message: format!("{tried}: {why}; run it as root") };
    }
    Error { kind: Kind::Failed, message: format!("{tried}: {why}") }
}

/// Stops a command that changes the kernel's state early, with exit code 4, where it is not run as root.
pub fn need_root(command: &str) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let message = format!("`{command}` needs root (BPF programs and their maps are root's alone); run it with sudo");
    Err(Error { kind: Kind::NotPermitted, message })
}
