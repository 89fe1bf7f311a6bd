//! The pinned maps: finds, creates and checks them, and locks them against other commands.

use crate::error::MapError;
use crate::index::Index;
use crate::share::give_lock;
use aya::maps::{MapData, MapType};
use aya::{EbpfLoader, VerifierLogLevel};
use hotcc_abi::pins;
use hotcc_abi::radio::{INDEX_ENTRIES, IndexKey, SLOTS, Slot};
use hotcc_host::bpffs;
use hotcc_host::error::io_error;
use hotcc_host::lock::{self, Lock};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn signal_dir(pin_root: &Path) -> PathBuf {
    pin_root.join("signal")
}

/// Opens and checks both maps; returns `None` if one does not exist.
pub(crate) fn open(pin_root: &Path) -> Result<Option<(Index, MapData)>, MapError> {
    if bpffs::is_at(pin_root) {
        bpffs::need(pin_root).map_err(MapError::Pins)?;
    } else if pin_root == Path::new(pins::FEEDERS) {
        let source = format!("root shares none at {}", pins::FEEDERS).into();
        return Err(MapError::NotPermitted { action: "use the radio map".to_owned(), source });
    }
    let dir = signal_dir(pin_root);
    let index = open_pin(&dir, pins::RADIO_INDEX, MapType::LpmTrie, [size_of::<IndexKey>(), 4], INDEX_ENTRIES)?;
    let slots = open_pin(&dir, pins::RADIO_SLOTS, MapType::Array, [4, size_of::<Slot>()], SLOTS)?;
    let (Some(index), Some(slots)) = (index, slots) else { return Ok(None) };
    Ok(Some((Index::new(index)?, slots)))
}

fn open_pin(
    dir: &Path,
    name: &str,
    map_type: MapType,
    [key, value]: [usize; 2],
    entries: u32,
) -> Result<Option<MapData>, MapError> {
    let path = dir.join(name);
    let action = format!("open {}", path.display());
    let map = match MapData::from_pin(&path) {
        Ok(map) => map,
        Err(e) if io_error(&e).is_some_and(|e| e.kind() == ErrorKind::NotFound) => return Ok(None),
        Err(e) => return Err(MapError::system(&action, e)),
    };
    let info = map.info().map_err(|e| MapError::system(&action, e))?;
    let has = (info.map_type().ok(), info.key_size() as usize, info.value_size() as usize, info.max_entries());
    let wants = (Some(map_type), key, value, entries);
    if has != wants {
        let text = |(t, k, v, n): (Option<MapType>, usize, usize, u32)| {
            let t = t.map_or("unknown type".to_owned(), |t| format!("{t:?}"));
            format!("{t}, key {k} bytes, value {v} bytes, {n} entries")
        };
        let path = path.display();
        return Err(MapError::Version(format!("{path} has another layout: {}; expected {}", text(has), text(wants))));
    }
    Ok(Some(map))
}

/// Creates missing maps, from the object that has the same map definitions as every algorithm.
pub(crate) fn create(pin_root: &Path) -> Result<(Index, MapData), MapError> {
    bpffs::need(pin_root).map_err(MapError::Pins)?;
    let _lock = lock(lock::PATIENCE)?;
    let dir = signal_dir(pin_root);
    bpffs::make(&dir).map_err(MapError::Pins)?;
    let object = hotcc_bpf::prog("radio_maps")
        .ok_or_else(|| MapError::system("create the radio map", "this program was built without its BPF object"))?;
    // A command that loads an algorithm at the same time does not hold this lock: if it pins first, loading fails here,
    // and the next attempt uses its map.
    let mut attempts = 0..3;
    let maps = loop {
        let mut loader = EbpfLoader::new();
        loader.default_map_pin_directory(&dir).verifier_log_level(VerifierLogLevel::DISABLE);
        match loader.load(object.bytes) {
            Ok(_) => {}
            Err(e)
                if attempts.next().is_some() && io_error(&e).is_some_and(|e| e.kind() == ErrorKind::AlreadyExists) => {}
            Err(e) => return Err(MapError::creating(e)),
        }
        if let Some(maps) = open(pin_root)? {
            break maps;
        }
    };
    Ok(maps)
}

/// Takes the lock that excludes all other commands that change the index, until it is dropped. Waits for up to `patience`.
pub(crate) fn lock(patience: Duration) -> Result<Lock, MapError> {
    let path = Path::new(pins::RUN).join(pins::RADIO_LOCK);
    let action = format!("lock {}", path.display());
    let lock = lock::acquire(&path, 0o660, patience).map_err(|e| MapError::system(&action, e))?;
    give_lock(lock.file()).map_err(|e| MapError::system(&action, e))?;
    Ok(lock)
}
