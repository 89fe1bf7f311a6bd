//! An opened object: describes it, prepares it, and loads it into the kernel.

use super::btf::btf_of;
use super::describe::{Description, describe};
use super::name::{CC_NAME_MAX, check_cc_name};
use super::ops_table::{OpsTable, ops_tables};
use super::prepare::{apply, use_shared};
use super::rehearsal::rehearse;
use super::{kernel, libbpf_log, load_error};
use crate::tunables::{Section, Setting};
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use libbpf_rs::{AsRawLibbpf, MapCore, MapHandle, MapType, Object, OpenMapMut, OpenObject};
use std::{fs, io};

/// An object that is parsed, but not yet loaded into the kernel.
#[derive(Debug)]
pub struct Opened {
    object: OpenObject,
    origin: String,
    /// The object's description of itself.
    pub description: Description,
    /// Name that it will be registered under: the object's own, unless [`rename`](Self::rename) changed it.
    pub cc_name: String,
    table: OpsTable,
    /// Whether the object came from a file; a child process then rehearses libbpf's work on it first.
    foreign: bool,
}

impl Opened {
    /// Checks and describes a parsed object. `table` selects one of several congestion controls.
    pub(super) fn new(mut object: OpenObject, origin: &str, table: Option<&str>, foreign: bool) -> Result<Self> {
        let (table, cc_name) = choose(&mut object, origin, table)?;
        let description = describe(&btf_of(&object, origin)?, Some(&table.map));
        if let Some(contradiction) = description.contradiction() {
            return Err(Error::failed(format!(
                "cannot use {origin}: its description is inconsistent: {contradiction}"
            )));
        }
        Ok(Self { object, origin: origin.to_owned(), description, cc_name, table, foreign })
    }

    fn ops_value(&mut self) -> Result<&mut [u8]> {
        ops_value(&mut self.object, &self.table, &self.origin)
    }

    /// Renames the congestion control.
    pub fn rename(&mut self, cc_name: &str) -> Result<()> {
        check_cc_name(cc_name)?;
        let offset = self.table.name_offset;
        let field = self.ops_value()?.get_mut(offset..=offset + CC_NAME_MAX);
        let field = field.ok_or_else(|| Error::failed("the object's tcp_congestion_ops has no 16-byte name"))?;
        field.fill(0);
        field[..cc_name.len()].copy_from_slice(cc_name.as_bytes());
        self.cc_name = cc_name.to_owned();
        Ok(())
    }

    /// Returns the initial bytes of a section, or `None` if the object has no such section.
    #[must_use]
    pub fn initial_values(&self, section: Section) -> Option<Vec<u8>> {
        let map = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(section.name()))?;
        map.initial_value().map(<[u8]>::to_vec)
    }

    /// Writes settings into the object's initial values.
    pub fn apply(&mut self, settings: &[Setting]) -> Result<()> {
        apply(&mut self.object, &self.origin, settings)
    }

    /// Loads the object: verifies its programs and creates its maps; registers nothing. Without `links` (before Linux
    /// 6.4), the struct_ops map itself will be the registration.
    pub fn load(mut self, links: bool) -> Result<Loaded> {
        let stats_pin = pins::algo_dir(&self.cc_name).join(pins::STATS);
        // maps that the object asks to pin are pinned here, not at the object's path, so that unloading removes them
        let own_pins = pins::algo_dir(&self.cc_name).join("pins");
        let mut keeps_stats = false;
        for mut map in self.object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if map.map_type() == MapType::StructOps {
                // the kernel's support for links decides, not the section that the author chose (".struct_ops" or
                // ".struct_ops.link")
                let link = libbpf_rs::libbpf_sys::BPF_F_LINK;
                let flags = if links { map.map_flags() | link } else { map.map_flags() & !link };
                let prepared = map.set_map_flags(flags).and_then(|()| map.set_autocreate(name == self.table.map));
                prepared.tried(|| "cannot prepare the struct_ops map".to_owned())?;
            }
            if pins::shared(&name).is_some() {
                use_shared(&mut map)?;
            } else if is_pinned(&map) {
                bpffs::make(&own_pins)?;
                let path = own_pins.join(name.replace('.', "-"));
                map.set_pin_path(&path).tried(|| format!("cannot pin {}", path.display()))?;
            }
            // An object that does not describe itself may use this name for an unrelated map.
            if name == pins::STATS
                && self.description.summary.is_some()
                && map.value_size() as usize == size_of::<AlgoStats>()
            {
                keeps_stats = true;
                // All versions of a name share one map: connections that still run a removed version continue to count
                // in it.
                let pinned = MapHandle::from_pinned_path(&stats_pin);
                // else an earlier hotcc pinned counters with another layout
                if pinned.is_ok_and(|pinned| pinned.value_size() == map.value_size()) {
                    map.reuse_pinned_map(&stats_pin).tried(|| format!("cannot use {}", stats_pin.display()))?;
                }
            }
        }
        self.clear_missing_operations()?;
        self.check_operations()?;
        self.skip_unreferenced_programs()?;
        self.check_descriptors()?;
        if self.foreign {
            let (result, log) = rehearse(&self.origin, || prepare(&mut self.object))?;
            load_error::explained(result, &self.cc_name, &self.origin, &log)?;
        }
        let (result, log) = libbpf_log::capture(|| self.object.load());
        let object = load_error::explained(result, &self.cc_name, &self.origin, &log).inspect_err(|_| {
            // a directory that is not empty belongs to another version, and is kept
            let _ = fs::remove_dir(&own_pins).and_then(|()| fs::remove_dir(pins::algo_dir(&self.cc_name)));
        })?;
        Ok(Loaded { object, ops_map: self.table.map, cc_name: self.cc_name, keeps_stats })
    }

    /// Checks for the operations without which the kernel rejects a congestion control; the kernel does not report the
    /// reason.
    fn check_operations(&mut self) -> Result<()> {
        let operations = self.table.operations.clone();
        let value = self.ops_value()?;
        let has = |wanted: &str| {
            let place = operations.iter().find(|(member, _)| member == wanted);
            let pointer = place.and_then(|(_, offset)| value.get(*offset..offset + size_of::<u64>()));
            pointer.is_some_and(|pointer| pointer.iter().any(|&byte| byte != 0))
        };
        let mut lacking: Vec<&str> = ["ssthresh", "undo_cwnd"].into_iter().filter(|wanted| !has(wanted)).collect();
        if !has("cong_avoid") && !has("cong_control") {
            lacking.push("cong_avoid (or cong_control)");
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let lacking = lacking.join(", ");
        Err(Error::failed(format!(
            "cannot load {} ({}): its table of operations lacks {lacking}, which the kernel requires of every congestion \
             control",
            self.cc_name, self.origin
        )))
    }

    /// Checks that enough file descriptors are left. If they run out during loading, libbpf concludes that the kernel
    /// lacks features, and fails without naming the cause.
    fn check_descriptors(&self) -> Result<()> {
        const OTHER_DESCRIPTORS: usize = 24;
        let wanted = self.object.maps().count() + self.object.progs().count() + OTHER_DESCRIPTORS;
        let opened: io::Result<Vec<fs::File>> = (0..wanted).map(|_| fs::File::open("/dev/null")).collect();
        let tried = || format!("cannot load {} ({}), which takes {wanted} file descriptors", self.cc_name, self.origin);
        opened.map(drop).tried(tried)
    }

    /// Excludes programs that the table does not refer to from loading.
    fn skip_unreferenced_programs(&mut self) -> Result<()> {
        let offsets: Vec<usize> = self.table.operations.iter().map(|(_, offset)| *offset).collect();
        let value = self.ops_value()?;
        let pointers = offsets.into_iter().filter_map(|at| value.get(at..)?.first_chunk().copied());
        let named: Vec<usize> = pointers.map(usize::from_ne_bytes).collect(); // libbpf's own pointers to its programs
        for mut program in self.object.progs_mut() {
            let is_named = named.contains(&(program.as_libbpf_object().as_ptr() as usize));
            program.set_autoload(is_named);
        }
        Ok(())
    }

    /// Clears the operations that the running kernel's tcp_congestion_ops does not have. libbpf then does not load
    /// their programs; otherwise it would reject the whole table.
    fn clear_missing_operations(&mut self) -> Result<()> {
        let known = &kernel::kernel()?.operations;
        for (member, offset) in self.table.operations.clone() {
            if !known.contains(&member)
                && let Some(pointer) = self.ops_value()?.get_mut(offset..offset + size_of::<u64>())
            {
                pointer.fill(0);
            }
        }
        Ok(())
    }
}

/// Returns the names of the congestion controls in an object.
pub(super) fn cc_names(object: &mut OpenObject, origin: &str) -> Result<Vec<String>> {
    Ok(tables(object, origin)?.into_iter().map(|(_, name)| name).collect())
}

/// Returns the tables of operations, each with the name of its congestion control.
fn tables(object: &mut OpenObject, origin: &str) -> Result<Vec<(OpsTable, String)>> {
    let found = ops_tables(&btf_of(object, origin)?);
    let named = found.into_iter().map(|table| {
        let stored = ops_value(object, &table, origin)?.get(table.name_offset..).unwrap_or_default();
        let end = stored.iter().take(CC_NAME_MAX).position(|&b| b == 0).unwrap_or(stored.len().min(CC_NAME_MAX));
        let name = String::from_utf8_lossy(&stored[..end]).into_owned();
        Ok((table, name))
    });
    named.collect()
}

fn choose(object: &mut OpenObject, origin: &str, wanted: Option<&str>) -> Result<(OpsTable, String)> {
    let mut found = tables(object, origin)?;
    let names: Vec<String> = found.iter().map(|(_, name)| name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let at = match (wanted, &names[..]) {
        (_, []) => {
            let text = "contains no congestion control (no struct_ops table of type tcp_congestion_ops)";
            return Err(Error::failed(format!("{origin} {text}")));
        }
        (None, [_]) => 0,
        (None, [first, ..]) => {
            let text = "contains several congestion controls";
            return Err(Error::failed(format!(
                "{origin} {text}: {}; choose one, e.g. {origin}:{first}",
                names.join(", ")
            )));
        }
        (Some(wanted), _) => {
            let at = found.iter().position(|(table, name)| name == wanted || table.map == wanted);
            let hint = || nearest::hint(wanted, &names);
            at.ok_or_else(|| Error::failed(format!("{origin}: no congestion control `{wanted}` in it{}", hint())))?
        }
    };
    Ok(found.swap_remove(at))
}

fn ops_value<'a>(object: &'a mut OpenObject, table: &OpsTable, origin: &str) -> Result<&'a mut [u8]> {
    let map = object.maps_mut().find(|m| m.name().to_str() == Some(&table.map));
    // The slice borrows from the object, not from the temporary handle of the map.
    let value = map.and_then(|mut m| m.initial_value_mut().map(|v| (v.as_mut_ptr(), v.len())));
    let (at, len) = value.ok_or_else(|| Error::failed(format!("the struct_ops map of {origin} has no value")))?;
    // SAFETY: libbpf owns this buffer for the life of the object, which is borrowed mutably for as long as the slice
    // lives.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// Returns whether libbpf would pin a map.
fn is_pinned(map: &OpenMapMut<'_>) -> bool {
    // SAFETY: the map is libbpf's own.
    unsafe { !libbpf_rs::libbpf_sys::bpf_map__pin_path(map.as_libbpf_object().as_ptr()).is_null() }
}

/// Does what libbpf does before it loads the programs into the kernel, but pins nothing. The object cannot be used
/// afterwards.
fn prepare(object: &mut OpenObject) -> io::Result<()> {
    for map in object.maps_mut() {
        // SAFETY: the map is libbpf's own; a null path means that it is not pinned.
        unsafe { libbpf_rs::libbpf_sys::bpf_map__set_pin_path(map.as_libbpf_object().as_ptr(), std::ptr::null()) };
    }
    // SAFETY: the object is libbpf's own, and opened.
    match unsafe { libbpf_rs::libbpf_sys::bpf_object__prepare(object.as_libbpf_object().as_ptr()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// An object that is loaded into the kernel, but whose congestion control is not yet registered.
#[derive(Debug)]
pub struct Loaded {
    /// The object.
    pub object: Object,
    /// Name of the struct_ops map.
    pub ops_map: String,
    /// Name that the congestion control will be registered under.
    pub cc_name: String,
    /// Whether its map `stats` has the layout of [`AlgoStats`].
    pub keeps_stats: bool,
}

impl Loaded {
    /// Returns the struct_ops map.
    pub fn ops(&mut self) -> Result<libbpf_rs::MapMut<'_>> {
        let name = &self.ops_map;
        self.object
            .maps_mut()
            .find(|m| m.map_type() == MapType::StructOps && m.name().to_str() == Some(name))
            .ok_or_else(|| Error::failed("the loaded object has no struct_ops map"))
    }
}
