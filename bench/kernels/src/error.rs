//! What can go wrong on the way to a kernel: what was tried, what went wrong, what to do.

use super::mirror::MIRROR;
use super::selector::{Selector, Suite};
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the name of a kernel.
    #[error(
        "unknown kernel `{0}`: expected a suite (bookworm, trixie, trixie-backports, sid), a series (6.12), `newest`, or a \
         full release (6.12.1+deb13-cloud-amd64); append -generic to one of the first three for physical machines"
    )]
    Selector(String),
    /// Apt's configuration names no mirror of Debian.
    #[error(
        "no Debian mirror in apt's sources or {MIRROR}: set {MIRROR} to a mirror's URL, e.g. http://deb.debian.org/debian"
    )]
    NoMirror,
    /// The network or the mirror does not answer.
    #[error("cannot reach the archive of {suite}: {why}")]
    Unreachable {
        /// Whose index.
        suite: Suite,
        /// Apt's words.
        why: String,
    },
    /// The index is not signed by a key of the installed keyring, or a file is not what the index says.
    #[error(
        "the archive of {suite} has an invalid signature, or a file differs from the signed index: {why}. No file of it was \
         used. If its key is newer than this machine's keyring, upgrade the package debian-archive-keyring"
    )]
    Untrusted {
        /// Whose index.
        suite: Suite,
        /// Apt's words.
        why: String,
    },
    /// The indexes have no such kernel.
    #[error(
        "no kernel matches `{selector}` in {suites}; `hotcc-bench kernels list SUITE` lists the kernels of a suite"
    )]
    NotFound {
        /// What was asked for.
        selector: Selector,
        /// Where it was looked for.
        suites: String,
    },
    /// An index that this program does not understand.
    #[error("cannot parse the package index: {0}")]
    Index(String),
    /// A file that is not what its checksum says.
    #[error("{what} is corrupt or truncated: its SHA-256 is {found}, expected {expected}; it was not used")]
    Corrupt {
        /// The file.
        what: String,
        /// From the signed index or the manifest.
        expected: String,
        /// Of the file.
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
    /// A program of the system is missing.
    #[error("cannot run {program}: {source}; install the package {package}")]
    NoProgram {
        /// The command.
        program: String,
        /// Debian's package that has it.
        package: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A program of the system failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The command.
        program: String,
        /// Its own words.
        why: String,
    },
    /// The disk is full.
    #[error(
        "no space left in {}: unpacking a kernel needs up to 1 GB; partial files were removed",
        directory.display()
    )]
    Full {
        /// Where.
        directory: PathBuf,
    },
    /// A file or directory.
    #[error("{tried}: {source}")]
    Io {
        /// Reads like "cannot read FILE".
        tried: String,
        /// Why not.
        source: io::Error,
    },
}

/// `Result` with this module's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Exit code: 2 usage, 1 everything else.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Selector(_)) { 2 } else { 1 }
    }

    /// It is the network that failed, so what is cached may serve instead.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NoMirror)
    }

    /// `self`, or [`Error::Full`] where that is its cause.
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

/// Adds what was tried to a failure of the system.
pub(super) trait OnFile<T> {
    /// `verb` and `path` read like "cannot read" and FILE.
    fn on_file(self, verb: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> OnFile<T> for std::result::Result<T, E> {
    fn on_file(self, verb: &str, path: &Path) -> Result<T> {
        self.map_err(|e| Error::Io { tried: format!("{verb} {}", path.display()), source: e.into() })
    }
}
