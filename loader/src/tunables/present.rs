//! The current values of tunables: reads them from the bytes of a version's sections, compares them, and stores them in
//! its map.

use super::{Place, Section, Setting, Tunable, values};
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::{MapCore, MapHandle};
use memmap2::MmapOptions;
use serde::Serialize;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A tunable's current value.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// Name.
    pub name: String,
    /// Former name, if it was renamed.
    #[serde(skip)]
    pub former_name: Option<String>,
    /// Value; choices by name.
    pub value: String,
    /// Unit.
    pub unit: String,
    /// Whether it can be set while the algorithm runs.
    pub settable: bool,
    /// Help.
    pub help: String,
}

impl From<Setting> for Value {
    fn from(Setting { tunable, value }: Setting) -> Self {
        Self {
            value: values::format_value(&tunable, value),
            settable: tunable.section == Section::Data,
            name: tunable.name,
            former_name: tunable.former_name,
            unit: tunable.unit,
            help: tunable.help,
        }
    }
}

/// Reads the tunables' values from the sections.
pub(crate) fn read(tunables: &[Tunable], data: Option<&[u8]>, rodata: Option<&[u8]>) -> Vec<Setting> {
    let values = tunables.iter().filter_map(|tunable| {
        let bytes = if tunable.section == Section::Data { data } else { rodata };
        Some(Setting { tunable: tunable.clone(), value: tunable.place.read(bytes?)? })
    });
    values.collect()
}

/// A tunable whose value changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Name.
    pub name: String,
    /// Value before; choices by name.
    pub old: String,
    /// Value after.
    pub new: String,
}

/// Returns the tunables that are in both, with different values.
pub(crate) fn changed(old: &[Setting], new: &[Setting]) -> Vec<Changed> {
    let text = |setting: &Setting| values::format_value(&setting.tunable, setting.value);
    let changes = new.iter().filter_map(|new| {
        let old = old.iter().find(|old| new.tunable.is_successor_of(&old.tunable))?;
        let changed = Changed { name: new.tunable.name.clone(), old: text(old), new: text(new) };
        (changed.old != changed.new).then_some(changed)
    });
    changes.collect()
}

/// Stores each value in place, through a memory mapping of `.data`, which is pinned in `dir`: the programs may write
/// their own variables beside it at the same time.
pub(crate) fn store(settings: &[Setting], map: &MapHandle, dir: &Path) -> Result<()> {
    let tried = || format!("cannot set the tunables in {}", dir.display());
    let length = map.value_size() as usize;
    let mapped = MmapOptions::new().len(length).map_raw(map.as_fd().as_raw_fd()).tried(tried)?;
    for Setting { tunable, value } in settings {
        let Place { offset, size, .. } = tunable.place;
        if offset + size > length || offset % size != 0 {
            return Err(Error::failed(format!("{}: {} is outside the section", tried(), tunable.name)));
        }
        // SAFETY: `offset` is within the mapping and aligned, as just checked, and the mapping outlives the store. BPF
        // programs and other processes access the same memory, so the stores are atomic.
        unsafe {
            let at = mapped.as_mut_ptr().add(offset);
            match size {
                1 => AtomicU8::from_ptr(at).store(*value as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast()).store(*value as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast()).store(*value as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(at.cast()).store(*value as u64, Ordering::Relaxed),
            }
        }
    }
    Ok(())
}
