//! A lock file that keeps commands from changing the same thing at once. The kernel releases it when its holder ends.

use crate::error::{Error, Result, Tried};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

/// The lock; released on drop.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not read")] Flock<File>);

/// Takes the lock at `path`, creating file and directory. Waits up to `patience` for another holder.
///
/// # Errors
/// The file cannot be created, or another process still holds it.
pub fn acquire(path: &Path, patience: Duration) -> Result<Lock> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).tried(|| format!("cannot create {}", directory.display()))?;
    }
    let mut file = File::create(path).tried(|| format!("cannot open {}", path.display()))?;
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
            let busy = format!("another hotcc command has been running for {} s", patience.as_secs());
            return Err(Error::failed(busy)
                .and(&format!("wait for it to finish, or find its process: fuser {}", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_waits_and_then_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/lock");
        let first = acquire(&path, Duration::ZERO).unwrap();
        let error = acquire(&path, Duration::from_millis(50)).unwrap_err();
        assert!(format!("{error:#}").contains(&path.display().to_string()), "{error:#}");
        drop(first);
        acquire(&path, Duration::ZERO).unwrap();
    }
}
