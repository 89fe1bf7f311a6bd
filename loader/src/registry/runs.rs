//! Marks of algorithms that `hotcc run` loaded, and locks of the runs that use them.

use super::algo::Algo;
use hotcc_host::error::{Result, Tried};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};

/// Returns whether the algorithm was loaded for runs only.
pub(crate) fn is_for_runs(algo: &Algo) -> bool {
    algo.runs_path().exists()
}

/// Marks the algorithm as loaded for runs. Only root may open the mark, because any process that can open it can lock
/// it.
pub(crate) fn mark(algo: &Algo) -> Result<()> {
    let path = algo.runs_path();
    DirBuilder::new().mode(0o700).create(&path).tried(|| format!("cannot create {}", path.display()))
}

/// Returns whether a run uses the algorithm, or `None` if it was not loaded for runs. Takes no lock, so it is for
/// commands that only read.
pub(crate) fn is_held(algo: &Algo) -> Result<Option<bool>> {
    let mark = match fs::metadata(algo.runs_path()) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        mark => mark.tried(|| format!("cannot read {}", algo.runs_path().display()))?,
    };
    let locks = fs::read_to_string("/proc/locks").tried(|| "cannot read /proc/locks".to_owned())?;
    Ok(Some(names_lock(&locks, mark.dev(), mark.ino())))
}

/// Returns whether `/proc/locks` has a `flock` on this inode. Its lines are like
/// `1: FLOCK  ADVISORY  READ 4711 00:1c:42 0 EOF`.
fn names_lock(locks: &str, device: u64, inode: u64) -> bool {
    let place = format!("{:02x}:{:02x}:{inode}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    locks.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some("FLOCK") && fields.nth(3) == Some(&place)
    })
}

/// Returns whether a run uses an algorithm that was loaded for runs. Call it with the registry's lock held: it takes
/// the mark's lock for a moment, as a run that ends does for the same check.
pub(crate) fn in_use(algo: &Algo) -> Result<bool> {
    Ok(hold(algo, FlockArg::LockExclusiveNonblock)?.is_none())
}

/// Locks the mark; returns `None` if a conflicting lock is held.
pub(crate) fn hold(algo: &Algo, how: FlockArg) -> Result<Option<Flock<File>>> {
    let tried = || format!("cannot lock {}", algo.runs_path().display());
    match Flock::lock(File::open(algo.runs_path()).tried(tried)?, how) {
        Ok(held) => Ok(Some(held)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, why)) => Err(why).tried(tried),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_found_in_the_kernels_list() {
        let file = tempfile::tempfile().unwrap();
        let metadata = file.metadata().unwrap();
        let is_listed = || names_lock(&fs::read_to_string("/proc/locks").unwrap(), metadata.dev(), metadata.ino());
        assert!(!is_listed());
        let held = Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, why)| why).unwrap();
        assert!(is_listed());
        drop(held);
        assert!(!is_listed());
    }
}
