//! The errors of fetching a kernel: what was tried, what went wrong, what to do.

use super::mirror::MIRROR;
use super::selector::{Selector, Suite};
use std::io;
use std::path::{Path, PathBuf};

/// Why no kernel is available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text does not name a kernel.
    #[error(
        "unknown kernel `{0}`: expected a suite (bookworm, trixie, trixie-backports, sid), a series (6.12), `newest`, or a \
         full release (6.12.1+deb13-cloud-amd64); append to one of the first three -generic for physical machines, -arm64 \
         for 64-bit ARM"
    )]
    Selector(String),
    /// Apt's configuration names no Debian mirror.
    #[error(
        "no Debian mirror in apt's sources or {MIRROR}: set {MIRROR} to a mirror's URL, e.g. http://deb.debian.org/debian"
    )]
    NoMirror,
    /// The network or the mirror does not answer.
    #[error("cannot reach the archive of {suite}: {why}")]
    Unreachable {
        /// Suite whose index was requested.
        suite: Suite,
        /// Apt's messages.
        why: String,
    },
    /// The index is not signed by a key of the installed keyring, or a file differs from the index.
    #[error(
        "the archive of {suite} has an invalid signature, or a file differs from the signed index: {why}. No file of it was \
         used. If its key is newer than this machine's keyring, upgrade the package debian-archive-keyring"
    )]
    Untrusted {
        /// Suite whose index was requested.
        suite: Suite,
        /// Apt's messages.
        why: String,
    },
    /// The indexes do not have this kernel.
    #[error(
        "no kernel matches `{selector}` in {suites}; `hotcc-bench kernels list SUITE` lists the kernels of a suite"
    )]
    NotFound {
        /// The requested kernel.
        selector: Selector,
        /// The suites that were searched.
        suites: String,
    },
    /// This program cannot parse the index.
    #[error("cannot parse the package index: {0}")]
    Index(String),
    /// A file's checksum is wrong.
    #[error("{what} is corrupt or truncated: its SHA-256 is {found}, expected {expected}; it was not used")]
    Corrupt {
        /// The file.
        what: String,
        /// Checksum in the signed index or the manifest.
        expected: String,
        /// Checksum of the file.
        found: String,
    },
    /// The kernel has no such module, neither as a file nor built in.
    #[error("kernel {release} lacks `{module}`, both as a module and built in")]
    NoModule {
        /// The kernel.
        release: String,
        /// The module.
        module: String,
    },
    /// A system program is missing.
    #[error("cannot run {program}: {source}; install the package {package}")]
    NoProgram {
        /// The command.
        program: String,
        /// Debian package that contains the program.
        package: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A system program failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The command.
        program: String,
        /// The program's messages.
        why: String,
    },
    /// The disk is full.
    #[error(
        "no space left in {}: unpacking a kernel needs up to 1 GB; partial files were removed",
        directory.display()
    )]
    Full {
        /// Directory in which the space ran out.
        directory: PathBuf,
    },
    /// Accessing a file or directory failed.
    #[error("{tried}: {source}")]
    Io {
        /// What was tried, such as "cannot read FILE".
        tried: String,
        /// The reason.
        source: io::Error,
    },
}

/// `Result` with this module's error type.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the exit code: 2 for a usage error, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Selector(_)) { 2 } else { 1 }
    }

    /// Returns whether the network failed, so that cached kernels may be used instead.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoMirror)
    }

    /// Returns [`Error::Full`] if a full disk is the cause, else `self`.
    pub(super) fn in_directory(self, directory: &Path) -> Self {
        let full = match &self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Program { why, .. } | Self::Unreachable { why, .. } => {
                ["No space left", "enough free space", "Disk quota exceeded"].iter().any(|said| why.contains(said))
            }
            _ => false,
        };
        if full { Self::Full { directory: directory.into() } } else { self }
    }
}

/// Adds what was tried to a system error.
pub(super) trait OnFile<T> {
    /// Adds `verb` and `path`, which read like "cannot read" and FILE.
    fn on_file(self, verb: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> OnFile<T> for std::result::Result<T, E> {
    fn on_file(self, verb: &str, path: &Path) -> Result<T> {
        self.map_err(|e| Error::Io { tried: format!("{verb} {}", path.display()), source: e.into() })
    }
}
