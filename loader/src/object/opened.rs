//! An opened object: described, made ready, and loaded into the kernel.

use super::btf::btf_of;
use super::describe::{Description, describe};
use super::load_error::load_error;
use super::name::{CC_NAME_MAX, check_cc_name};
use super::ops_table::{OpsTable, ops_tables};
use super::prepare::{apply, use_shared};
use super::{kernel, libbpf_log};
use crate::tunables::{Section, Setting};
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::{MapCore, MapType, Object, OpenObject};

/// An object that is parsed and not yet in the kernel.
#[derive(Debug)]
pub struct Opened {
    object: OpenObject,
    origin: String,
    /// What it says of itself.
    pub description: Description,
    /// Name it wants to be registered under.
    pub cc_name: String,
    table: OpsTable,
}

impl Opened {
    pub(super) fn new(object: OpenObject, origin: &str) -> Result<Self> {
        let btf = btf_of(&object, origin)?;
        let description = describe(&btf);
        if let Some(contradiction) = description.contradiction() {
            return Err(Error::failed(format!(
                "cannot use {origin}: its description is inconsistent: {contradiction}"
            )));
        }
        let mut found = ops_tables(&btf);
        drop(btf);
        let table = match found.len() {
            1 => found.swap_remove(0),
            0 => {
                let text = "contains no congestion control (no struct_ops table of type tcp_congestion_ops)";
                return Err(Error::failed(format!("{} {text}", origin)));
            }
            _ => {
                let names: Vec<String> = found.into_iter().map(|t| t.map).collect();
                let text = "contains several congestion controls; compile each into its own object";
                return Err(Error::failed(format!("{} {text}: {}", origin, names.join(", "))));
            }
        };
        let mut opened = Self { object, origin: origin.to_owned(), description, cc_name: String::new(), table };
        let offset = opened.table.name_offset;
        let stored = opened.ops_value()?.get(offset..).unwrap_or_default();
        let end = stored.iter().take(CC_NAME_MAX).position(|&b| b == 0).unwrap_or(stored.len().min(CC_NAME_MAX));
        opened.cc_name = String::from_utf8_lossy(&stored[..end]).into_owned();
        Ok(opened)
    }

    fn ops_value(&mut self) -> Result<&mut [u8]> {
        let name = self.table.map.clone();
        let map = self.object.maps_mut().find(|m| m.name().to_str() == Some(&name));
        // The map hands out a slice that borrows from the object, not from the temporary handle.
        let value = map.and_then(|mut m| m.initial_value_mut().map(|v| (v.as_mut_ptr(), v.len())));
        let (at, len) =
            value.ok_or_else(|| Error::failed(format!("the struct_ops map of {} has no value", self.origin)))?;
        // SAFETY: libbpf owns this buffer for the life of the object, which `self` borrows mutably for as long as
        // the slice lives.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
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

    /// What a section holds before anything runs; `None` if there is none.
    #[must_use]
    pub fn initial_values(&self, section: Section) -> Option<Vec<u8>> {
        let map = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(section.name()))?;
        map.initial_value().map(<[u8]>::to_vec)
    }

    /// Writes settings into the object's initial values.
    pub fn apply(&mut self, settings: &[Setting]) -> Result<()> {
        apply(&mut self.object, &self.origin, settings)
    }

    /// Loads it: every program through the verifier, every map made; nothing is registered yet. Without `links` (a
    /// kernel before 6.4) the struct_ops map itself will be the registration.
    pub fn load(mut self, links: bool) -> Result<Loaded> {
        let stats_pin = pins::algo_dir(&self.cc_name).join(pins::STATS);
        let mut keeps_stats = false;
        for mut map in self.object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if map.map_type() == MapType::StructOps {
                // an object's ".struct_ops" or ".struct_ops.link" is its author's choice; here the kernel decides
                let link = libbpf_rs::libbpf_sys::BPF_F_LINK;
                let flags = if links { map.map_flags() | link } else { map.map_flags() & !link };
                map.set_map_flags(flags).tried(|| "cannot prepare the struct_ops map".to_owned())?;
            }
            use_shared(&mut map)?;
            // An object that does not describe itself may use the name for a map of its own.
            if name == pins::STATS
                && self.description.summary.is_some()
                && map.value_size() as usize == size_of::<AlgoStats>()
            {
                keeps_stats = true;
                // One map for all versions of a name: connections of a version that is gone count on in it.
                if stats_pin.exists() {
                    map.reuse_pinned_map(&stats_pin).tried(|| format!("cannot use {}", stats_pin.display()))?;
                }
            }
        }
        self.clear_missing_operations()?;
        self.need_operations()?;
        let (result, log) = libbpf_log::capture(|| self.object.load());
        let object = result.map_err(|e| load_error(&self.cc_name, &self.origin, &e, &log))?;
        Ok(Loaded { object, ops_map: self.table.map, cc_name: self.cc_name, keeps_stats })
    }

    /// The kernel refuses a congestion control without these, and does not say why.
    fn need_operations(&mut self) -> Result<()> {
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

    /// Clears the operations that the running kernel's tcp_congestion_ops does not have; libbpf then leaves their
    /// programs out, and would refuse the whole table otherwise.
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

/// An object in the kernel, its congestion control not yet registered.
#[derive(Debug)]
pub struct Loaded {
    /// The object.
    pub object: Object,
    /// Name of the struct_ops map.
    pub ops_map: String,
    /// Name it will be registered under.
    pub cc_name: String,
    /// Whether its map `stats` has the layout of [`AlgoStats`].
    pub keeps_stats: bool,
}

impl Loaded {
    /// The struct_ops map.
    pub fn ops(&mut self) -> Result<libbpf_rs::MapMut<'_>> {
        let name = &self.ops_map;
        self.object
            .maps_mut()
            .find(|m| m.map_type() == MapType::StructOps && m.name().to_str() == Some(name))
            .ok_or_else(|| Error::failed("the loaded object has no struct_ops map"))
    }
}
