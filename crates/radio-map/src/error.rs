//! Errors of the radio map, with advice.

use hotcc_abi::radio::IndexKey;
use hotcc_host::error::{Kind, io_error};
use std::error::Error;
use std::io::{self, ErrorKind};

/// The underlying error.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why the radio map could not be used.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The pins are not in a BPF file system, or other users can change them.
    #[error(transparent)]
    Pins(hotcc_host::error::Error),
    /// A permission is missing.
    #[error("cannot {action} (run as root, or as a member of group hotcc if the radio map already exists)")]
    NotPermitted {
        /// What was tried.
        action: String,
        /// The underlying error.
        source: Cause,
    },
    /// The kernel lacks a map type or flag.
    #[error("cannot {action} (this needs Linux 5.5 or later with CONFIG_BPF_SYSCALL)")]
    Kernel {
        /// What was tried.
        action: String,
        /// The underlying error.
        source: Cause,
    },
    /// No radio map is pinned.
    #[error("the radio map does not exist yet; `sinr-feeder run` or a loaded algorithm that reads it creates it")]
    Absent,
    /// The maps have another version.
    #[error(
        "cannot use the radio map: {0}; use the version of hotcc that created it, or remove its pins (radio_index, radio_slots) and \
         load the algorithms again, which a reboot does too"
    )]
    Version(String),
    /// Another process feeds the link.
    #[error("cannot take {link}: process {pid} feeds it; stop that process, or use --take-over")]
    Owned {
        /// The link.
        link: IndexKey,
        /// Process that feeds it.
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
    /// No slot is free, or all free slots are still in quarantine.
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
    /// Any other failure of the system.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: String,
        /// The underlying error.
        source: Cause,
    },
}

impl MapError {
    /// Returns the command's exit code for this error: 3 the kernel lacks a feature, 4 not permitted, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Kernel { .. } => 3,
            Self::NotPermitted { .. } => 4,
            Self::Pins(error) if error.kind() == Kind::NotPermitted => 4,
            _ => 1,
        }
    }

    pub(crate) fn system(action: &str, error: impl Into<Cause>) -> Self {
        let (action, source) = (action.to_owned(), error.into());
        match io_error(&*source) {
            Some(e) if e.kind() == ErrorKind::PermissionDenied => Self::NotPermitted { action, source },
            Some(e) if e.raw_os_error() == Some(nix::libc::ENOSYS) => Self::Kernel { action, source },
            _ => Self::System { action, source },
        }
    }

    /// Creates the error for a failed map creation, in which "invalid argument" means an unknown type or flag.
    pub(crate) fn creating(error: impl Into<Cause>) -> Self {
        let lacking = [nix::libc::EINVAL, nix::libc::EOPNOTSUPP];
        match Self::system("create the radio map", error) {
            Self::System { action, source }
                if io_error(&*source).and_then(io::Error::raw_os_error).is_some_and(|e| lacking.contains(&e)) =>
            {
                Self::Kernel { action, source }
            }
            other => other,
        }
    }

    pub(crate) fn inserting(error: impl Error + Send + Sync + 'static) -> Self {
        match io_error(&error).and_then(io::Error::raw_os_error) {
            Some(nix::libc::ENOSPC) => Self::IndexFull,
            _ => Self::system("write the radio index", error),
        }
    }

    pub(crate) fn mapping(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidData => Self::Version(error.to_string()),
            _ => Self::system("map the radio slots into memory", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_host::error::chain;

    #[test]
    fn the_cause_is_kept_and_printed_once() {
        let of = |code| MapError::creating(io::Error::from_raw_os_error(code));
        for (code, exit_code, text) in [
            (
                nix::libc::EPERM,
                4,
                "cannot create the radio map (run as root, or as a member of group hotcc if the radio map already exists): \
                 Operation not permitted (os error 1)",
            ),
            (
                nix::libc::EINVAL,
                3,
                "cannot create the radio map (this needs Linux 5.5 or later with CONFIG_BPF_SYSCALL): \
                 Invalid argument (os error 22)",
            ),
            (nix::libc::ENOMEM, 1, "cannot create the radio map: Cannot allocate memory (os error 12)"),
        ] {
            let error = of(code);
            assert!(error.source().is_some_and(|cause| cause.is::<io::Error>()));
            assert_eq!((chain(&error).as_str(), error.exit_code()), (text, exit_code));
        }
    }
}
