//! Directories that no other user can change.
//!
//! Each directory is opened relative to its parent, without following a link, and checked before anything in it is
//! looked up. A directory that passes belongs to root (or to the caller), and no other user can write to it. So no
//! other user can replace its entries, and a path through checked directories keeps leading to the same place.

use crate::error::{Error, Result, Tried};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, fchown, geteuid};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Mode of a directory that every user may read.
pub const PUBLIC: u32 = 0o755;

/// An open directory that no other user can change.
#[derive(Debug)]
pub struct RootDir {
    directory: OwnedFd,
    path: PathBuf,
}

impl RootDir {
    /// Opens a directory whose parents are trusted; returns `None` if it does not exist.
    ///
    /// # Errors
    /// Fails if it is a link or not a directory, or if another user owns it or can write to it.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        Self::open_at(nix::fcntl::AT_FDCWD, path.as_os_str(), path.to_owned())
    }

    /// Opens a directory whose parents are trusted; creates it with this mode if it does not exist.
    ///
    /// # Errors
    /// As for [`RootDir::open`]; also fails if the directory cannot be created.
    pub fn open_or_new(path: &Path, mode: u32) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(mode).create(path);
        // if something else exists at the path, `open` fails below, with advice
        if let Err(why) = made
            && why.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(why).tried(|| format!("cannot create {}", path.display()));
        }
        Self::open(path)?.ok_or_else(|| removed(path))
    }

    /// Opens a directory in this one; returns `None` if it does not exist.
    ///
    /// # Errors
    /// As for [`RootDir::open`].
    pub fn child(&self, name: &OsStr) -> Result<Option<Self>> {
        Self::open_at(&self.directory, name, self.path.join(name))
    }

    /// Opens a directory in this one; creates it with this mode if it does not exist.
    ///
    /// # Errors
    /// As for [`RootDir::open`]; also fails if the directory cannot be created.
    pub fn child_or_new(&self, name: &OsStr, mode: u32) -> Result<Self> {
        let path = self.path.join(name);
        match mkdirat(&self.directory, name, Mode::from_bits_truncate(mode)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(why) => return Err(io::Error::from(why)).tried(|| format!("cannot create {}", path.display())),
        }
        self.child(name)?.ok_or_else(|| removed(&path))
    }

    fn open_at(parent: impl AsFd, name: &OsStr, path: PathBuf) -> Result<Option<Self>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let directory = match openat(&parent, name, flags, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let stat = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW);
                let stat = stat.map_err(io::Error::from).tried(|| format!("cannot read {}", path.display()))?;
                return Err(if is(&stat, SFlag::S_IFLNK) { link(&path) } else { no_directory(&path) });
            }
            opened => opened.map_err(io::Error::from).tried(|| format!("cannot open {}", path.display()))?,
        };
        let stat = fstat(&directory).map_err(io::Error::from).tried(|| format!("cannot read {}", path.display()))?;
        owned(&stat, &path)?;
        if stat.st_mode & 0o002 != 0 || (stat.st_mode & 0o020 != 0 && stat.st_gid != 0) {
            let mode = stat.st_mode & 0o7777;
            let message = format!("cannot use {}: other users can write to it (mode {mode:04o})", path.display());
            return Err(Error::failed(message).and(&format!("run: chmod 0755 {}", path.display())));
        }
        Ok(Some(Self { directory, path }))
    }

    /// Sets the directory's group and mode.
    ///
    /// # Errors
    /// Fails if the caller does not own it.
    pub fn set_access(&self, group: Option<Gid>, mode: u32) -> Result<()> {
        let set =
            fchown(&self.directory, None, group).and_then(|()| fchmod(&self.directory, Mode::from_bits_truncate(mode)));
        set.map_err(io::Error::from).tried(|| format!("cannot set the permissions of {}", self.path.display()))
    }

    /// Checks everything below: each directory must pass the same checks as this one, and nothing may be a link or
    /// belong to another user.
    ///
    /// # Errors
    /// Fails if a check fails.
    pub fn check_below(&self) -> Result<()> {
        let tried = || format!("cannot list {}", self.path.display());
        let entries = fs::read_dir(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).tried(tried)?;
        for entry in entries {
            let entry = entry.tried(tried)?;
            let name = entry.file_name();
            if entry.file_type().tried(tried)?.is_dir() {
                if let Some(child) = self.child(&name)? {
                    child.check_below()?;
                }
                continue;
            }
            let path = self.path.join(&name);
            match fstatat(&self.directory, &*name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) => {} // another command removed it meanwhile
                Err(why) => return Err(io::Error::from(why)).tried(|| format!("cannot read {}", path.display())),
                Ok(stat) if is(&stat, SFlag::S_IFLNK) => return Err(link(&path)),
                Ok(stat) => owned(&stat, &path)?,
            }
        }
        Ok(())
    }
}

/// Opens `path` below `top`, whose parents are trusted. Checks every directory on the way, and creates missing ones.
///
/// # Errors
/// Fails if `top` does not exist; otherwise as for [`RootDir::open`].
pub fn make(top: &Path, path: &Path, mode: u32) -> Result<RootDir> {
    let mut directory =
        RootDir::open(top)?.ok_or_else(|| Error::failed(format!("{} does not exist", top.display())))?;
    for name in path.strip_prefix(top).unwrap_or(path) {
        directory = directory.child_or_new(name, mode)?;
    }
    Ok(directory)
}

fn removed(path: &Path) -> Error {
    Error::failed(format!("another process removed {}", path.display()))
}

fn is(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
}

fn owned(stat: &FileStat, path: &Path) -> Result<()> {
    if [0, geteuid().as_raw()].contains(&stat.st_uid) {
        return Ok(());
    }
    let message = format!("cannot use {}: it belongs to user {}, not to root", path.display(), stat.st_uid);
    Err(Error::failed(message).and(&format!("run: rm -r {}", path.display())))
}

fn link(path: &Path) -> Error {
    let message = format!("cannot use {}: it is a symbolic link", path.display());
    Error::failed(message).and(&format!("run: rm {}", path.display()))
}

fn no_directory(path: &Path) -> Error {
    let message = format!("cannot use {}: it is not a directory", path.display());
    Error::failed(message).and(&format!("run: rm {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// Returns the error for a directory tree after `spoil` changed it; empty if there is none.
    fn refused(spoil: impl FnOnce(&Path)) -> String {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("pins/algo");
        make(top.path(), &below, PUBLIC).unwrap();
        spoil(top.path());
        let checked = make(top.path(), &below, PUBLIC).and_then(|_| RootDir::open(top.path())?.unwrap().check_below());
        checked.err().map_or_else(String::new, |error| format!("{error:#}"))
    }

    #[test]
    fn links_are_not_followed() {
        assert_eq!(refused(|_| ()), "");
        let said = refused(|top| {
            fs::remove_dir(top.join("pins/algo")).unwrap();
            symlink("/etc", top.join("pins/algo")).unwrap();
        });
        assert!(said.contains("pins/algo: it is a symbolic link; run: rm "), "{said}");
        let said = refused(|top| symlink("/etc/passwd", top.join("pins/algo/pin")).unwrap());
        assert!(said.contains("pins/algo/pin: it is a symbolic link; run: rm "), "{said}");
    }

    #[test]
    fn what_others_can_write_is_refused() {
        for (mode, shown) in [(0o1777, "1777"), (0o757, "0757")] {
            let said = refused(|top| fs::set_permissions(top, Permissions::from_mode(mode)).unwrap());
            assert!(said.contains(&format!("other users can write to it (mode {shown}); run: chmod 0755")), "{said}");
        }
    }

    #[test]
    fn what_others_own_is_refused() {
        if !geteuid().is_root() {
            return; // only root can give a file away
        }
        for path in ["pins", "pins/algo"] {
            let said = refused(|top| chown(top.join(path), Some(65_534), None).unwrap());
            assert!(said.contains(&format!("{path}: it belongs to user 65534, not to root; run: rm -r")), "{said}");
        }
        let said = refused(|top| {
            fs::write(top.join("pins/file"), "").unwrap();
            chown(top.join("pins/file"), Some(65_534), None).unwrap();
        });
        assert!(said.contains("pins/file: it belongs to user 65534"), "{said}");
    }
}
