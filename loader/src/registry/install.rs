//! Loads, pins and registers versions, and replaces one by another.

use super::algo::Algo;
use super::bpffs::remove_tree;
use super::files::Files;
use super::value_map::create_value_map;
use super::version::Version;
use crate::failpoint;
use crate::object::{Loaded, Opened, Source, kernel};
use crate::sys;
use crate::sysctl;
use crate::tunables::{Section, present};
use bytemuck::Zeroable;
use hotcc_abi::pins;
use hotcc_abi::version::{META_VERSION, Meta};
use hotcc_host::bpffs;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_radio_map::{MapError, RadioView, share_with_feeders};
use libbpf_rs::{ErrorKind, MapCore, MapHandle};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Loads an object into the kernel; registers nothing.
pub(crate) fn prepare(opened: Opened) -> Result<Loaded> {
    let loaded = opened.load(kernel::has_links())?;
    share_with_feeders()?;
    // an algorithm that finds radio maps of another version reads nothing from them, and cannot report that
    if let Err(error @ MapError::Version(_)) = RadioView::open(Path::new(pins::ROOT)) {
        tracing::warn!("no algorithm of this version reads radio signals: {error}");
    }
    Ok(loaded)
}

/// Pins everything that belongs to a version, before it serves.
pub(crate) fn pin_version(algo: &Algo, loaded: &mut Loaded, source: &Source, profile: &str) -> Result<Version> {
    let ops = loaded.ops()?;
    let map_id = ops.info().tried(|| "cannot read the struct_ops map".to_owned())?.info.id;
    let dir = algo.dir().join(format!("v{map_id}"));
    bpffs::make(&dir)?;
    let version = Version { map_id, dir };
    pin_parts(algo, &version, loaded, source, profile).inspect_err(|_| {
        let _ = remove_tree(&version.dir);
    })?;
    Ok(version)
}

fn pin_parts(algo: &Algo, version: &Version, loaded: &mut Loaded, source: &Source, profile: &str) -> Result<()> {
    let pin = |map: &mut libbpf_rs::MapMut<'_>, name: &str| {
        let path = version.dir.join(name);
        MapHandle::try_from(&*map).and_then(|mut m| m.pin(&path)).tried(|| format!("cannot pin {}", path.display()))
    };
    pin(&mut loaded.ops()?, "map")?;
    let keeps_stats = loaded.keeps_stats;
    for mut map in loaded.object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(".data") {
            pin(&mut map, "tunables")?;
        } else if name.ends_with(".rodata") {
            pin(&mut map, "constants")?;
        } else if keeps_stats && name == pins::STATS && algo.stats_map()?.is_none() {
            let _ = fs::remove_file(algo.stats_path()); // counters of another layout
            pin(&mut map, "../stats")?;
        }
    }
    let program = loaded.object.progs_mut().find(|p| p.autoload());
    let mut program = program.ok_or_else(|| Error::failed("the object has no program"))?;
    let path = version.dir.join("prog");
    program.pin(&path).tried(|| format!("cannot pin {}", path.display()))?;
    let mut meta = Meta { version: META_VERSION, sha256: source.sha256(), ..Meta::zeroed() };
    copy_tail(&mut meta.object, &source.origin);
    copy_tail(&mut meta.profile, profile);
    create_value_map(&version.dir.join("meta"), "hotcc_meta", bytemuck::bytes_of(&meta))?;
    Ok(())
}

/// Copies the end of `text`, leaving room for a NUL. The end of a path is its most informative part.
fn copy_tail(field: &mut [u8], text: &str) {
    let bytes = text.as_bytes();
    let tail = &bytes[bytes.len().saturating_sub(field.len() - 1)..];
    field[..tail.len()].copy_from_slice(tail);
}

/// Registers a version under a free name.
pub(crate) fn register(algo: &Algo, loaded: &mut Loaded) -> Result<()> {
    let name = loaded.cc_name.clone();
    let attached = loaded.ops()?.attach_struct_ops();
    if attached.as_ref().is_err_and(|e| e.kind() == ErrorKind::AlreadyExists) {
        return Err(Error::failed(format!(
            "cannot register `{name}`: another process registered that name in the meantime"
        )));
    }
    let mut link = attached.tried(|| format!("cannot register {name}"))?;
    failpoint::kill("registered");
    if kernel::has_links() {
        let path = algo.link_path();
        link.pin(&path).tried(|| format!("cannot pin {}", path.display()))?;
    } else {
        link.disconnect(); // the map is the registration, and it is pinned
    }
    Ok(())
}

/// Replaces `old` by `loaded`, which is already pinned.
pub(crate) fn replace(algo: &Algo, old: &Version, loaded: &mut Loaded) -> Result<()> {
    let Some(link) = open_link(algo)? else {
        unregister(old)?;
        failpoint::kill("unregistered");
        return register(algo, loaded).map_err(|error| restore(algo, old, error));
    };
    let name = algo.name.clone();
    let mut ops = loaded.ops()?;
    commit(&mut ops, &name)?;
    sys::link_update(link, ops.as_fd(), old.need_map("map")?.as_fd())
        .tried(|| format!("the kernel refuses to put the new version behind {name}"))
}

/// Replaces `serving` by `previous`, which served before; on kernels without links, it needs the file of `previous`.
/// Returns the version that serves then.
pub(crate) fn put_back(algo: &Algo, serving: &Version, previous: &Version, files: &mut Files) -> Result<Version> {
    if let Some(link) = open_link(algo)? {
        sys::link_update(link, previous.need_map("map")?.as_fd(), serving.need_map("map")?.as_fd())
            .tried(|| format!("the kernel refuses to put the previous version back behind {}", algo.name))?;
        return Ok(previous.clone());
    }
    // A map can be registered only once, so an equal one is loaded and registered.
    let (again, mut loaded) = load_again(algo, previous, files)?;
    let registered =
        unregister(serving).and_then(|()| register(algo, &mut loaded).map_err(|error| restore(algo, serving, error)));
    registered.inspect_err(|_| {
        let _ = remove_tree(&again.dir);
    })?;
    remove_tree(&previous.dir)?;
    Ok(again)
}

/// Restores `version` after its replacement failed with `error`, on kernels without links. Returns `error`, and adds
/// the reason if `version` could not be restored.
fn restore(algo: &Algo, version: &Version, error: Error) -> Error {
    match register_again(algo, version) {
        Ok(()) => error,
        Err(why) => error.and(&format!("the old version could not be restored: {why:#}")),
    }
}

/// Registers a copy of `version`, which takes its place. Nothing serves in the meantime, so this reads the file at
/// once, although the lock is held.
fn register_again(algo: &Algo, version: &Version) -> Result<()> {
    let mut files = Files::read([version.clone()]);
    let meta = version.meta()?;
    version.mark_pending()?; // so is the copy: if this command is killed, the next one writes the defaults
    let (again, mut loaded) = load_again(algo, version, &mut files)?;
    let removed = remove_tree(&version.dir); // else it would count as the previous version
    register(algo, &mut loaded)?;
    // defaults still refer to what was unregistered
    sysctl::replace_defaults(&algo.name, |_| vec![algo.name.clone()])?;
    removed?;
    again.set_meta(&meta)
}

/// Writes the table of operations into its map. libbpf does so when it registers the map; the registration then fails,
/// as intended, because the name is taken.
fn commit(ops: &mut libbpf_rs::MapMut<'_>, name: &str) -> Result<()> {
    match ops.attach_struct_ops() {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e).tried(|| format!("cannot prepare the new version of {name}")),
        Ok(_registered) => Err(Error::failed(format!("`{name}` was unregistered by another process in the meantime"))),
    }
}

/// Loads a version's object again, with the version's current tunables.
fn load_again(algo: &Algo, version: &Version, files: &mut Files) -> Result<(Version, Loaded)> {
    let source = files.take(&algo.name, version)?;
    let meta = version.meta()?;
    let mut opened = source.open()?;
    opened.rename(&algo.name)?;
    let [data, rodata] = [version.section(Section::Data)?, version.section(Section::Rodata)?];
    opened.apply(&present::read(&opened.description.tunables, data.as_deref(), rodata.as_deref()))?;
    let mut loaded = prepare(opened)?;
    let again = pin_version(algo, &mut loaded, &source, &text(&meta.profile))?;
    again.set_meta(&meta)?;
    Ok((again, loaded))
}

pub(crate) fn unregister(version: &Version) -> Result<()> {
    version.need_map("map")?.delete(&[0; 4]).tried(|| format!("cannot unregister {}", version.dir.display()))
}

/// Opens the pinned link, if there is one.
pub fn open_link(algo: &Algo) -> Result<Option<OwnedFd>> {
    let path = algo.link_path();
    if !path.exists() {
        return Ok(None);
    }
    sys::obj_get(&path).map(Some).tried(|| format!("cannot open {}", path.display()))
}
