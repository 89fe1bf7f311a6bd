//! The network namespaces of this machine that have a process or a mount.

use crate::error::{Error, Kind, Result, Tried};
use nix::libc;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

const OWN: &str = "/proc/self/ns/net";
/// Directory in which `ip netns` mounts namespaces.
const NAMED: &str = "/run/netns";

/// Label of the caller's own namespace.
pub const HERE: &str = "here";

/// One network namespace.
#[derive(Debug)]
pub struct NetNs {
    file: File,
    /// Inode, as in `net:[INODE]`.
    pub inode: u64,
    /// Path at which it was found.
    pub path: PathBuf,
}

/// Returns every network namespace with a process in it or a mount below `/run/netns`; the caller's own comes first.
pub fn all() -> Result<Vec<NetNs>> {
    let own = own()?;
    let others = others(own.inode);
    Ok(std::iter::once(own).chain(others).collect())
}

fn own() -> Result<NetNs> {
    open(Path::new(OWN)).tried(|| format!("cannot open {OWN}"))
}

fn others(own_inode: u64) -> Vec<NetNs> {
    let mut found = BTreeMap::new();
    let named = std::fs::read_dir(NAMED).into_iter().flatten().flatten().map(|e| e.path());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    for path in named.chain(processes.map(|e| e.path().join("ns/net"))) {
        // Processes may end during the search, and those of other users may not be readable: neither is an error. A
        // stat is cheaper than an open, and most processes share one namespace.
        let Ok(inode) = std::fs::metadata(&path).map(|m| m.st_ino()) else { continue };
        if inode != own_inode
            && !found.contains_key(&inode)
            && let Ok(ns) = open(&path)
        {
            found.insert(inode, ns);
        }
    }
    found.into_values().collect()
}

/// Returns the named namespaces, each once, or all if none is named.
pub fn chosen(names_or_paths: &[String]) -> Result<Vec<NetNs>> {
    if names_or_paths.is_empty() {
        return all();
    }
    let mut found: Vec<NetNs> = Vec::new();
    for name_or_path in names_or_paths {
        let ns = named(name_or_path)?;
        if found.iter().all(|other| other.inode != ns.inode) {
            found.push(ns);
        }
    }
    Ok(found)
}

/// Returns the namespace with this name in `ip netns`, or, if the text contains a `/`, the one at this path.
pub fn named(name_or_path: &str) -> Result<NetNs> {
    let path = Path::new(NAMED).join(name_or_path);
    let path = if name_or_path.contains('/') { Path::new(name_or_path) } else { &path };
    open(path)
        .tried(|| format!("no network namespace `{name_or_path}`: cannot open {}", path.display()))
        .map_err(|error| error.as_kind(Kind::Usage))
}

impl NetNs {
    /// Returns a label for people: the name in `ip netns`, `here` for the caller's own, or the path.
    #[must_use]
    pub fn label(&self) -> String {
        match self.path.strip_prefix(NAMED) {
            Ok(name) => name.display().to_string(),
            Err(_) if self.path == Path::new(OWN) => HERE.to_owned(),
            Err(_) => self.path.display().to_string(),
        }
    }
}

/// Opens a namespace. Plain files are rejected: `ip netns add` and `del` leave such files while they work, and after a
/// crash.
fn open(path: &Path) -> std::io::Result<NetNs> {
    let file = File::open(path)?;
    if fstatfs(&file)?.filesystem_type() != NSFS_MAGIC {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let inode = file.metadata()?.st_ino();
    Ok(NetNs { file, inode, path: path.to_owned() })
}

/// Returns the cookie of the caller's network namespace, which no other one has until the next boot; `None` before Linux
/// 5.14.
#[must_use]
pub fn cookie() -> Option<u64> {
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).ok()?;
    let (mut cookie, mut size) = (0u64, size_of::<u64>() as libc::socklen_t);
    let value = (&raw mut cookie).cast();
    // SAFETY: the socket is open for the call, and `value` points to as many bytes as `size` says.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, value, &raw mut size) };
    (result == 0).then_some(cookie)
}

/// Runs `work` once in each namespace. It runs in the caller's own namespace while a thread searches for the others.
pub fn in_each<T: Send>(work: impl Fn(&NetNs) -> Result<T> + Send + Sync) -> Result<Vec<T>> {
    let own = own()?;
    let (mut results, others) = std::thread::scope(|scope| {
        let search = scope.spawn(|| others(own.inode));
        let results = vec![work(&own)?];
        let others = search.join().map_err(|_| Error::failed("finding the network namespaces panicked"))?;
        Ok((results, others))
    })?;
    results.extend(in_these(&others, work)?);
    Ok(results)
}

/// Runs `work` in this namespace.
pub fn inside<T: Send>(ns: &NetNs, work: impl Fn() -> Result<T> + Send + Sync) -> Result<T> {
    let results = in_these(std::slice::from_ref(ns), |_| work())?;
    results.into_iter().next().ok_or_else(|| Error::failed(format!("cannot enter network namespace {}", ns.label())))
}

/// Runs `work` once in each of these namespaces, on a separate thread, because a thread cannot safely return to its
/// namespace.
pub fn in_these<T: Send>(namespaces: &[NetNs], work: impl Fn(&NetNs) -> Result<T> + Send + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut results = Vec::new();
            for ns in namespaces {
                if let Err(error) = setns(&ns.file, CloneFlags::CLONE_NEWNET) {
                    // a namespace that cannot be entered does not stop the work in the others
                    tracing::warn!("cannot enter network namespace {}: {error}", ns.path.display());
                    continue;
                }
                results.push(work(ns)?);
            }
            Ok(results)
        });
        worker.join().unwrap_or_else(|_| Err(Error::failed("walking the network namespaces panicked")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_namespace_with_two_names_is_chosen_once() {
        let names = ["/proc/self/ns/net", "/proc/thread-self/ns/net"].map(str::to_owned);
        let inodes: Vec<u64> = chosen(&names).unwrap().iter().map(|ns| ns.inode).collect();
        assert_eq!(inodes, [named(&names[0]).unwrap().inode]);
    }

    #[test]
    fn an_unknown_name_is_wrong_usage_and_keeps_the_systems_error() {
        let error = named("/nonexistent").unwrap_err();
        assert!(error.source().is_some_and(|cause| cause.is::<std::io::Error>()));
        let text =
            "no network namespace `/nonexistent`: cannot open /nonexistent: No such file or directory (os error 2)";
        assert_eq!((format!("{error:#}").as_str(), error.kind()), (text, Kind::Usage));
    }
}
