//! The second pins of the radio maps, for feeders that are not root.
//!
//! On many systems, only root can enter `/sys/fs/bpf`. So root pins the radio maps, and nothing else, once more in a
//! BPF file system of their own. Members of group `hotcc` may enter it; only root can change it.

use aya::maps::MapData;
use hotcc_abi::pins;
use hotcc_host::error::{Result, Tried, io_error};
use hotcc_host::lock;
use hotcc_host::root_dir::{PUBLIC, RootDir};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use nix::unistd::{Gid, Group, geteuid};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, fchown, lchown};
use std::path::Path;

/// Members of this group may feed the radio map without being root.
const GROUP: &str = "hotcc";
/// Mode of the directories for feeders.
const ENTERED: u32 = 0o750;

/// Returns the default pin root of this process: root's pins for root, else the feeders' pins.
#[must_use]
pub fn default_pin_root() -> &'static Path {
    Path::new(if geteuid().is_root() { pins::ROOT } else { pins::FEEDERS })
}

/// Shares what root's commands created with feeders, if the group of feeders exists. Call it each time, because a
/// command may have been killed before it did so, or the maps may have been created again.
///
/// # Errors
/// Fails if the BPF file system of feeders cannot be mounted, or if another user can change the directories.
pub fn share_with_feeders() -> Result<()> {
    let Some(group) = feeders()? else { return Ok(()) };
    let run = RootDir::open_or_new(Path::new(pins::RUN), PUBLIC)?;
    run.set_access(None, PUBLIC)?;
    give_lock(&lock::open(&Path::new(pins::RUN).join(pins::RADIO_LOCK), 0o660)?)?;
    let top = Path::new(pins::FEEDERS);
    mount_for_feeders(top)?;
    let entered = RootDir::open_or_new(top, ENTERED)?;
    entered.set_access(Some(group), ENTERED)?;
    let signal = entered.child_or_new("signal".as_ref(), ENTERED)?;
    signal.set_access(Some(group), ENTERED)?;
    for name in [pins::RADIO_INDEX, pins::RADIO_SLOTS] {
        pin_again(name, group)?;
    }
    Ok(())
}

fn mount_for_feeders(top: &Path) -> Result<()> {
    RootDir::open_or_new(top, ENTERED)?;
    if statfs(top).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC) {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mounted = mount(Some("bpf"), top, Some("bpf"), flags, Some("mode=0750"));
    mounted.tried(|| format!("cannot mount the BPF file system of feeders at {}", top.display()))
}

/// Pins a radio map a second time; replaces an existing pin of another map.
fn pin_again(name: &str, group: Gid) -> Result<()> {
    let (first, second) = (pins::signal(name), Path::new(pins::FEEDERS).join("signal").join(name));
    let tried = || format!("cannot pin {}", second.display());
    let Some(map) = open(&first)? else { return Ok(()) }; // the map does not exist yet
    let id = |map: &MapData| map.info().map(|info| info.id()).tried(tried);
    let pinned = open(&second)?;
    if pinned.as_ref().map(id).transpose()? != Some(id(&map)?) {
        if pinned.is_some() {
            fs::remove_file(&second).tried(|| format!("cannot remove {}", second.display()))?;
        }
        map.pin(&second).tried(tried)?;
    }
    lchown(&second, None, Some(group.as_raw())).tried(tried)?;
    // the path cannot be a symbolic link, because only root can create one there
    fs::set_permissions(&second, Permissions::from_mode(0o660)).tried(tried)
}

fn open(pin: &Path) -> Result<Option<MapData>> {
    match MapData::from_pin(pin) {
        Err(e) if io_error(&e).is_some_and(|e| e.kind() == ErrorKind::NotFound) => Ok(None),
        map => map.map(Some).tried(|| format!("cannot open {}", pin.display())),
    }
}

/// If this process is root, gives the lock of the radio index to the group of feeders, who need it, too.
pub(crate) fn give_lock(file: impl AsFd) -> Result<()> {
    match feeders()?.filter(|_| geteuid().is_root()) {
        Some(group) => fchown(file, None, Some(group.as_raw())).tried(|| "cannot share the radio lock".to_owned()),
        None => Ok(()),
    }
}

/// Returns the group of feeders, if it exists.
fn feeders() -> Result<Option<Gid>> {
    match Group::from_name(GROUP) {
        Err(Errno::ENOENT) => Ok(None), // there is no /etc/group, so the group does not exist
        group => Ok(group.tried(|| format!("cannot look up group {GROUP}"))?.map(|group| group.gid)),
    }
}
