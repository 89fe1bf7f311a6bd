//! Marks of algorithms that `hotcc run` loaded, and locks of the runs that use one.

use super::algo::Algo;
use hotcc_host::error::{Result, Tried};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;

/// Whether it was loaded for runs, and not to stay.
pub(crate) fn is_for_runs(algo: &Algo) -> bool {
    algo.runs_path().exists()
}

/// Whether a run uses one that was loaded for runs. Call with the registry's lock held: a run that ends looks the same
/// way.
pub(crate) fn in_use(algo: &Algo) -> Result<bool> {
    Ok(hold(algo, FlockArg::LockExclusiveNonblock)?.is_none())
}

/// `None` where others' locks are in the way.
pub(crate) fn hold(algo: &Algo, how: FlockArg) -> Result<Option<Flock<File>>> {
    let tried = || format!("cannot lock {}", algo.runs_path().display());
    match Flock::lock(File::open(algo.runs_path()).tried(tried)?, how) {
        Ok(held) => Ok(Some(held)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, why)) => Err(why).tried(tried),
    }
}
