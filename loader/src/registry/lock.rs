//! The lock of every command that changes something.

use super::bpffs::need_bpffs;
use crate::error::{Error, Result, Tried, need_root};
use hotcc_abi::pins;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Held by every command that changes something.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not read")] Flock<File>);

/// Takes the lock; waits a while for another command to finish.
pub fn lock() -> Result<Lock> {
    fs::create_dir_all(pins::RUN).tried(|| format!("cannot make {}", pins::RUN))?;
    let path = Path::new(pins::RUN).join("lock");
    let mut file = File::create(&path).tried(|| format!("cannot open {}", path.display()))?;
    let started = Instant::now();
    loop {
        file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(Lock(held)),
            Err((_, why)) if why != nix::errno::Errno::EWOULDBLOCK => {
                return Err(why).tried(|| format!("cannot lock {}", path.display()));
            }
            Err((back, _)) => back,
        };
        if started.elapsed() > LOCK_PATIENCE {
            let text = "another hotcc command has been at work for 10 s; wait for it, or see who holds";
            return Err(Error::failed(format!("{text} {} (fuser)", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What every command that changes something begins with.
pub(crate) fn begin(command: &str) -> Result<Lock> {
    need_root(command)?;
    need_bpffs()?;
    lock()
}
