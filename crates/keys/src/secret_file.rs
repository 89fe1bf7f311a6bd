//! Reads files that hold secrets.

use std::env;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum size of a file of keys or credentials.
const MAX_BYTES: u64 = 1 << 20;
/// Permission bits of all users but the owner; none may be set.
const OTHERS: u32 = 0o077;
/// The same for a systemd credential, except that the group's read bit may be set: systemd may grant access to the
/// credential's one reader in a way that sets this bit.
const OTHERS_OF_CREDENTIAL: u32 = 0o037;

/// Why a file is not accepted as a secret, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is a pipe, a device or a directory.
    #[error("cannot use {path}: it is not a regular file", path = .0.display())]
    NotRegular(PathBuf),
    /// The file belongs to another user, who can therefore change it.
    #[error("cannot use {path}: it belongs to user {uid}, neither to root nor to user {own}, who reads it", path = path.display())]
    WrongOwner {
        /// The file.
        path: PathBuf,
        /// User that owns it.
        uid: u32,
        /// User of this process.
        own: u32,
    },
    /// Users other than its owner can access it.
    #[error("cannot use {path}: users other than its owner can access it; run `chmod 600 {path}`", path = .0.display())]
    Exposed(PathBuf),
}

/// Reads a secret of at most 1 MiB. Owner and permissions are checked on the open file, so they are those of the file
/// that is read.
///
/// A file in `$CREDENTIALS_DIRECTORY` is taken for a credential that systemd's `LoadCredential=` put there for this
/// process.
///
/// # Errors
/// Fails if the file cannot be read or is not a regular file, if it belongs neither to root nor to the user of this
/// process, or if users other than its owner can access it.
pub fn read(path: &Path) -> Result<String, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    // O_NONBLOCK: opening a FIFO must not wait for a writer
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path).map_err(unreadable)?;
    check(path, &file.metadata().map_err(unreadable)?)?;
    text_of(file).map_err(unreadable)
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), SecretError> {
    let (uid, own) = (metadata.uid(), nix::unistd::geteuid().as_raw());
    let is_credential = env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|dir| path.parent() == Some(Path::new(&dir)));
    let others = if is_credential { OTHERS_OF_CREDENTIAL } else { OTHERS };
    if !metadata.is_file() {
        Err(SecretError::NotRegular(path.to_owned()))
    } else if uid != 0 && uid != own {
        Err(SecretError::WrongOwner { path: path.to_owned(), uid, own })
    } else if metadata.mode() & others != 0 {
        Err(SecretError::Exposed(path.to_owned()))
    } else {
        Ok(())
    }
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn secret(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        for (mode, taken) in
            [(0o600, true), (0o400, true), (0o640, false), (0o440, false), (0o604, false), (0o620, false)]
        {
            let (_dir, path) = secret(mode);
            match read(&path) {
                Ok(text) => assert!(taken && text == "x", "{mode:o}"),
                Err(e) => assert!(!taken && matches!(e, SecretError::Exposed(_)), "{mode:o}: {e}"),
            }
        }
    }

    #[test]
    fn only_a_regular_file_of_this_user_or_root_is_a_secret() {
        let (dir, path) = secret(0o600);
        assert!(matches!(read(dir.path()), Err(SecretError::NotRegular(_))));
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(matches!(read(&fifo), Err(SecretError::NotRegular(_))));
        assert!(matches!(read(&dir.path().join("none")), Err(SecretError::Unreadable { .. })));
        fs::write(&path, vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
        assert!(matches!(read(&path), Err(SecretError::Unreadable { .. })));
        if nix::unistd::geteuid().is_root() {
            let (_dir, path) = secret(0o600);
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(read(&path), Err(SecretError::WrongOwner { uid: 65_534, own: 0, .. })));
        }
    }
}
