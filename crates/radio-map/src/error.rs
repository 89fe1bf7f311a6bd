//! What can go wrong with the radio map, and what to do about it.

use hotcc_abi::radio::IndexKey;
use hotcc_host::bpffs::HOW_TO_MOUNT;
use hotcc_host::error::{chain, io_error};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Why the radio map could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The pins would not be in a BPF file system.
    #[error("cannot use {path}: no BPF file system there; mount it: {HOW_TO_MOUNT}")]
    NoBpffs {
        /// The pin directory.
        path: PathBuf,
    },
    /// A permission is missing.
    #[error("cannot {action}: {reason}; run as root, or as a member of group hotcc if the radio map already exists")]
    NotPermitted {
        /// What was tried.
        action: String,
        /// What the kernel said.
        reason: String,
    },
    /// The kernel lacks a map type or flag.
    #[error("cannot {action}: {reason}; this needs Linux 5.5 or later with CONFIG_BPF_SYSCALL")]
    Kernel {
        /// What was tried.
        action: String,
        /// What the kernel said.
        reason: String,
    },
    /// Nothing is pinned.
    #[error("the radio map does not exist yet; `sinr-feeder run` or a loaded algorithm that reads it creates it")]
    Absent,
    /// The maps speak another version.
    #[error(
        "cannot use the radio map: {0}; use the version of hotcc that created it, or remove its pins to create a new one"
    )]
    Version(String),
    /// Another process feeds the link.
    #[error("cannot take {link}: process {pid} feeds it; stop that process, or use --take-over")]
    Owned {
        /// The link.
        link: IndexKey,
        /// Who feeds it.
        pid: u32,
    },
    /// The writer lost its link to another process.
    #[error("cannot publish for {link}: {by}")]
    Lost {
        /// The link.
        link: IndexKey,
        /// How it was lost.
        by: String,
    },
    /// The index is full.
    #[error("cannot add the link: the radio index is full; remove links with `sinr-feeder remove`")]
    IndexFull,
    /// No slot is free, or none has rested long enough.
    #[error(
        "cannot add the link: the radio map has no free slot; remove links with `sinr-feeder remove`, and retry \
         after up to 30 s (a removed link's slot is not reused earlier)"
    )]
    NoFreeSlot,
    /// The prefix is not in the index.
    #[error("cannot remove {link}: it is not in the radio map; `sinr-feeder show` lists its links")]
    NoSuchLink {
        /// The link.
        link: IndexKey,
    },
    /// Anything else the system refused.
    #[error("cannot {action}: {reason}")]
    System {
        /// What was tried.
        action: String,
        /// What the system said.
        reason: String,
    },
}

impl MapError {
    /// The command's exit code for this error: 3 the kernel lacks it, 4 not permitted, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Kernel { .. } => 3,
            Self::NotPermitted { .. } => 4,
            _ => 1,
        }
    }

    pub(crate) fn system(action: &str, error: &(dyn Error + 'static)) -> Self {
        let (action, reason) = (action.to_owned(), chain(error));
        match io_error(error) {
            Some(e) if e.kind() == ErrorKind::PermissionDenied => Self::NotPermitted { action, reason },
            Some(e) if e.raw_os_error() == Some(nix::libc::ENOSYS) => Self::Kernel { action, reason },
            _ => Self::System { action, reason },
        }
    }

    /// For map creation, where "invalid argument" means an unknown type or flag.
    pub(crate) fn creating(error: &(dyn Error + 'static)) -> Self {
        let lacking = [nix::libc::EINVAL, nix::libc::EOPNOTSUPP];
        match Self::system("create the radio map", error) {
            Self::System { action, reason }
                if io_error(error).and_then(io::Error::raw_os_error).is_some_and(|e| lacking.contains(&e)) =>
            {
                Self::Kernel { action, reason }
            }
            other => other,
        }
    }

    pub(crate) fn inserting(error: &(dyn Error + 'static)) -> Self {
        match io_error(error).and_then(io::Error::raw_os_error) {
            Some(nix::libc::ENOSPC) => Self::IndexFull,
            _ => Self::system("write the radio index", error),
        }
    }

    pub(crate) fn mapping(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidData => Self::Version(error.to_string()),
            _ => Self::system("map the radio slots into memory", error),
        }
    }
}
