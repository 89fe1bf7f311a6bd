//! A lock file that keeps commands from changing the same thing at once. The kernel releases it when its holder ends.

use crate::error::{Error, Result, Tried};
use crate::root_dir::{PUBLIC, RootDir};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a command waits for another one to finish.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A held lock; dropping it releases the lock.
#[derive(Debug)]
pub struct Lock(Flock<File>);

impl Lock {
    /// Returns the locked file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// Takes the lock at `path`; creates the file and its directory if necessary. Waits up to `patience` for another
/// holder. Choose `mode` with care: every user who can open the file can hold the lock for ever.
///
/// # Errors
/// Fails if the file cannot be created, or if another process still holds the lock.
pub fn acquire(path: &Path, mode: u32, patience: Duration) -> Result<Lock> {
    let mut file = open(path, mode)?;
    let started = Instant::now();
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(Lock(held)),
            Err((_, why)) if why != Errno::EWOULDBLOCK => {
                return Err(why).tried(|| format!("cannot lock {}", path.display()));
            }
            Err((back, _)) => back,
        };
        if started.elapsed() > patience {
            let busy = format!("another hotcc command has been running for {} s", patience.as_secs_f64());
            return Err(Error::failed(busy)
                .and(&format!("wait for it to finish, or find its process: fuser {}", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens the file of a lock; creates it and its directory if necessary.
///
/// # Errors
/// Fails if the file cannot be created, or if another user can change the directory.
pub fn open(path: &Path, mode: u32) -> Result<File> {
    if let Some(directory) = path.parent() {
        RootDir::open_or_new(directory, PUBLIC)?;
    }
    open_file(path, mode).tried(|| format!("cannot open {}", path.display()))
}

fn open_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(mode).custom_flags(nix::libc::O_NOFOLLOW);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    // an older version, or the umask, gave it another mode
    if metadata.mode() & 0o7777 != mode && metadata.uid() == nix::unistd::geteuid().as_raw() {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn other_users_cannot_hold_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        acquire(&path, 0o600, Duration::ZERO).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(acquire(&link, 0o660, Duration::ZERO).is_err(), "a link is not followed");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_second_holder_waits_and_then_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/lock");
        let first = acquire(&path, 0o600, Duration::ZERO).unwrap();
        let error = acquire(&path, 0o600, Duration::from_millis(50)).unwrap_err();
        assert!(format!("{error:#}").contains(&path.display().to_string()), "{error:#}");
        drop(first);
        acquire(&path, 0o600, Duration::ZERO).unwrap();
    }
}
