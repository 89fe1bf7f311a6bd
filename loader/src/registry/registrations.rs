//! All congestion controls that are BPF programs, whichever program loaded them: read from the kernel's struct_ops maps
//! and links.

use crate::object::kernel;
use hotcc_host::cstr::text;
use hotcc_host::error::Result;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

/// The `bpf_struct_ops_state` of a map that is itself a registration. A map behind a link never has this state.
const STATE_INUSE: u32 = 1;

/// A congestion control that is a BPF program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// Id of the struct_ops map that serves.
    pub map_id: u32,
}

/// Returns all of them.
pub fn registrations() -> Result<Vec<Registration>> {
    let kernel = kernel::kernel()?;
    let behind_link =
        |info: LinkTypeInfo| if let LinkTypeInfo::StructOps(ops) = info { Some(ops.map_id) } else { None };
    let linked: Vec<u32> = LinkInfoIter::default().filter_map(|link| behind_link(link.info)).collect();
    let tables = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && Some(map.btf_vmlinux_value_type_id) == kernel.table_type);
    Ok(tables
        .filter_map(|table| {
            // a map that was removed meanwhile is skipped
            let value = MapHandle::from_map_id(table.id).ok()?.lookup(&[0; 4], MapFlags::empty()).ok()??;
            let name = text(value.get(kernel.table_name_offset..)?.get(..16)?);
            (linked.contains(&table.id) || is_in_use(&value)).then_some(Registration { name, map_id: table.id })
        })
        .collect())
}

/// Returns whether a struct_ops map with this value is itself a registration. The value begins with a reference count
/// and the state, each a u32.
#[must_use]
pub fn is_in_use(value: &[u8]) -> bool {
    value.get(4..8) == Some(&STATE_INUSE.to_le_bytes())
}
