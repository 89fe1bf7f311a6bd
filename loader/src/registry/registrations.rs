//! Congestion controls that BPF has registered, whoever loaded them: read from the kernel's struct_ops maps and links.

use crate::object::kernel;
use hotcc_host::cstr::text;
use hotcc_host::error::Result;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

/// `bpf_struct_ops_state`: the map itself is the registration. One behind a link never has it.
const STATE_INUSE: u32 = 1;

/// A congestion control that is BPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// Id of the struct_ops map that serves.
    pub map_id: u32,
}

/// All there are.
pub fn registrations() -> Result<Vec<Registration>> {
    let kernel = kernel::kernel()?;
    let behind_link =
        |info: LinkTypeInfo| if let LinkTypeInfo::StructOps(ops) = info { Some(ops.map_id) } else { None };
    let linked: Vec<u32> = LinkInfoIter::default().filter_map(|link| behind_link(link.info)).collect();
    let tables = MapInfoIter::default()
        .filter(|map| map.ty == MapType::StructOps && Some(map.btf_vmlinux_value_type_id) == kernel.table_type);
    Ok(tables
        .filter_map(|table| {
            // gone meanwhile is not there
            let value = MapHandle::from_map_id(table.id).ok()?.lookup(&[0; 4], MapFlags::empty()).ok()??;
            let name = text(value.get(kernel.table_name_offset..)?.get(..16)?);
            (linked.contains(&table.id) || is_in_use(&value)).then_some(Registration { name, map_id: table.id })
        })
        .collect())
}

/// Whether a struct_ops map of this value is itself a registration. The value begins with a reference count and the
/// state, a u32 each.
#[must_use]
pub fn is_in_use(value: &[u8]) -> bool {
    value.get(4..8) == Some(&STATE_INUSE.to_le_bytes())
}
