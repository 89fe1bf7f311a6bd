//! Tunables of a running algorithm: read back from the kernel, and set there.

use crate::describe::{Description, Place, Section};
use crate::error::{Error, Result, Tried, need_root};
use crate::manage::{connections, count_sockets};
use crate::registry::{self, Algo, Version};
use crate::values::{self, Setting};
use libbpf_rs::{MapCore, MapFlags};
use memmap2::MmapOptions;
use serde::Serialize;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A tunable's present value.
#[derive(Clone, Debug, Serialize)]
pub struct Value {
    /// Name.
    pub name: String,
    /// Value, choices by name.
    pub value: String,
    /// Unit.
    pub unit: String,
    /// Whether it can be set while running.
    pub settable: bool,
    /// Help.
    pub help: String,
}

/// Values of the serving version's tunables, read back from the kernel.
pub fn get(name: &str) -> Result<Vec<Value>> {
    need_root("hotcc get")
        .map_err(|e| e.and(&format!("`hotcc list {name}` shows what is built in, with its profiles, without")))?;
    let (_, version) = Algo::serving(name)?;
    Ok(of_version(&version)?.into_iter().map(Value::from).collect())
}

impl From<Setting> for Value {
    fn from(Setting { tunable, value }: Setting) -> Self {
        Self {
            value: values::format_value(&tunable, value),
            settable: tunable.section == Section::Data,
            name: tunable.name,
            unit: tunable.unit,
            help: tunable.help,
        }
    }
}

/// A version's tunables and their present values.
pub(crate) fn of_version(version: &Version) -> Result<Vec<Setting>> {
    let data = read_section(version, "tunables")?;
    let rodata = read_section(version, "constants")?;
    Ok(read(&version.description()?, data.as_deref(), rodata.as_deref()))
}

/// The tunables' values as they stand in the sections.
pub(crate) fn read(description: &Description, data: Option<&[u8]>, rodata: Option<&[u8]>) -> Vec<Setting> {
    let values = description.tunables.iter().filter_map(|tunable| {
        let bytes = if tunable.section == Section::Data { data } else { rodata };
        Some(Setting { tunable: tunable.clone(), value: tunable.place.read(bytes?)? })
    });
    values.collect()
}

/// A tunable that has another value than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Name.
    pub name: String,
    /// Value it had, choices by name.
    pub old: String,
    /// Value it has.
    pub new: String,
}

/// The tunables that both have, with different values.
pub(crate) fn changed(old: &[Setting], new: &[Setting]) -> Vec<Changed> {
    let text = |setting: &Setting| values::format_value(&setting.tunable, setting.value);
    let changes = new.iter().filter_map(|new| {
        let old = old.iter().find(|old| old.tunable.name == new.tunable.name)?;
        let changed = Changed { name: new.tunable.name.clone(), old: text(old), new: text(new) };
        (changed.old != changed.new).then_some(changed)
    });
    changes.collect()
}

/// Bytes of a version's `.data` or `.rodata`; `None` if it has none.
pub(crate) fn read_section(version: &Version, pin: &str) -> Result<Option<Vec<u8>>> {
    let Some(map) = version.map(pin)? else { return Ok(None) };
    map.lookup(&[0; 4], MapFlags::empty()).tried(|| format!("cannot read {}/{pin}", version.dir.display()))
}

/// What setting came to.
#[derive(Clone, Debug, Serialize)]
pub struct SetOutcome {
    /// Versions that were set: the serving one, and older ones that connections still run.
    pub versions: usize,
    /// Connections that run a version that could not be reached; `None` where sockets cannot be walked.
    pub connections_missed: Option<u64>,
}

/// Sets tunables of every version of `name` that is still pinned. All are checked before the first is set.
pub fn set(name: &str, assignments: &[String]) -> Result<SetOutcome> {
    need_root("hotcc set")?;
    let _lock = registry::lock()?;
    let (algo, serving) = Algo::serving(name)?;
    algo.tidy()?;
    let parse = |version: &Version| -> Result<Vec<Setting>> {
        let description = version.description()?;
        assignments.iter().map(|text| values::parse(&description, text)).collect()
    };
    let settings = parse(&serving)?;
    if let Some(fixed) = settings.iter().find(|s| s.tunable.section == Section::Rodata) {
        let tunable = &fixed.tunable.name;
        return Err(Error::usage(format!(
            "{tunable} is fixed once it is loaded; set it with: hotcc swap {name} OBJECT --set {tunable}=…"
        )));
    }
    write_settings(&serving, &settings)?;
    let mut reached = vec![serving.map_id];
    for older in algo.versions()?.into_iter().filter(|v| v.map_id != serving.map_id) {
        // another algorithm may have stood behind the name: then its tunables are others
        if let Ok(settings) = parse(&older)
            && write_settings(&older, &settings).is_ok()
        {
            reached.push(older.map_id);
        }
    }
    let connections_missed =
        connections(&count_sockets(), |g| g.cc == name && g.map_id != 0 && !reached.contains(&g.map_id));
    Ok(SetOutcome { versions: reached.len(), connections_missed })
}

/// Stores each value in place, in the mapped `.data`: the programs write their own variables beside it meanwhile.
fn write_settings(version: &Version, settings: &[Setting]) -> Result<()> {
    let map = version.need_map("tunables")?;
    let tried = || format!("cannot set the tunables in {}", version.dir.display());
    let length = map.value_size() as usize;
    let mapped = MmapOptions::new().len(length).map_raw(map.as_fd().as_raw_fd()).tried(tried)?;
    for Setting { tunable, value } in settings {
        let Place { offset, size, .. } = tunable.place;
        if offset + size > length || offset % size != 0 {
            return Err(Error::failed(format!("{}: {} has no place there", tried(), tunable.name)));
        }
        // SAFETY: `offset` is within the mapping and aligned, as just checked, and the mapping lives over the store.
        // Others read and write the same memory, which is what atomics are for.
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
