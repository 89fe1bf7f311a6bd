//! Fetches public traces into the cache. A trace is stored only if it is complete and has the right checksum.

use super::list::Listed;
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prefix of the names of unfinished files.
const UNFINISHED: &str = ".fetch-";
/// curl's exit code for an answer that is longer than `--max-filesize`.
const TOO_LONG: i32 = 63;

/// The outcome of fetching a trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fetched {
    /// The trace was fetched into the cache.
    New(PathBuf),
    /// The trace was already in the cache.
    Cached(PathBuf),
}

/// Fetches a trace into `directory`, unless a file with its checksum is there.
///
/// # Errors
/// If the address cannot be reached, the answer is not the listed file, or the file cannot be written. In each case,
/// `directory` is unchanged.
pub fn fetch(trace: &Listed, directory: &Path) -> Result<Fetched> {
    let place = directory.join(&trace.name);
    if fs::read(&place).is_ok_and(|bytes| trace.verify(&bytes).is_ok()) {
        return Ok(Fetched::Cached(place));
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let _lock = lock(directory)?;
    let scratch = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory);
    let scratch = scratch.with_context(|| format!("cannot create a file in {}", directory.display()))?;
    let tried = || format!("cannot fetch {} from {}", trace.name, trace.address);
    download(trace, scratch.path()).with_context(tried)?;
    let bytes = fs::read(scratch.path()).with_context(tried)?;
    trace.verify(&bytes).with_context(tried)?;
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o644)).with_context(tried)?;
    scratch.as_file().sync_all().with_context(tried)?;
    scratch.persist(&place).map_err(|e| e.error).with_context(|| format!("cannot write {}", place.display()))?;
    Ok(Fetched::New(place))
}

/// Locks the cache for changes. Removes the files of fetches that were killed.
fn lock(directory: &Path) -> Result<Flock<File>> {
    let path = directory.join(".lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error);
    let lock = lock.with_context(|| format!("cannot lock {}", path.display()))?;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path()).with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(lock)
}

/// Downloads with the system's curl, which uses this machine's proxies and certificates.
fn download(trace: &Listed, to: &Path) -> Result<()> {
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--silent", "--show-error", "--location", "--proto", "=http,https"]);
    // A server that stops sending fails after 30 s; a slow server is permitted.
    curl.args(["--connect-timeout", "30", "--speed-time", "30", "--speed-limit", "1", "--max-time", "3600"]);
    curl.arg("--max-filesize").arg(trace.bytes.to_string()).arg("--output").arg(to).arg("--").arg(&trace.address);
    let ran = curl.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let ran = ran.context("cannot run curl; install the package curl")?;
    if ran.status.success() {
        return Ok(());
    }
    if ran.status.code() == Some(TOO_LONG) {
        bail!("the answer is longer than {} bytes", trace.bytes);
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("curl failed");
    // removes the prefix of `curl: (22) The requested URL returned error: 404`
    bail!("{}", last.split_once(") ").map_or(last, |(_, why)| why))
}
