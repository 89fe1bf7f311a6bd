//! Finds the tables of operations (tcp_congestion_ops) in an object, by its BTF.

use super::btf::member_offset;
use libbpf_rs::btf::types::{Composite, DataSec, Ptr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType};

/// A table of operations in an object.
#[derive(Debug)]
pub(super) struct OpsTable {
    /// Name of the variable, which is also the name of its struct_ops map.
    pub(super) map: String,
    /// Offset of the member `name`.
    pub(super) name_offset: usize,
    /// Name and offset of each member that is a pointer.
    pub(super) operations: Vec<(String, usize)>,
}

pub(super) fn ops_tables(btf: &Btf<'_>) -> Vec<OpsTable> {
    let mut found = Vec::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        if !matches!(section.name().and_then(|n| n.to_str()), Some(".struct_ops" | ".struct_ops.link")) {
            continue;
        }
        for info in section.iter() {
            found.extend(btf.type_by_id::<Var<'_>>(info.ty).and_then(|var| ops_table(btf, &var)));
        }
    }
    found
}

fn ops_table(btf: &Btf<'_>, var: &Var<'_>) -> Option<OpsTable> {
    let ty = BtfType::skip_mods_and_typedefs(&var.next_type()?);
    // "___something" is a flavour of the same kernel type
    if ty.name()?.to_str()?.split("___").next() != Some("tcp_congestion_ops") {
        return None;
    }
    let table = Composite::try_from(ty).ok().and_then(|c| Struct::try_from(c).ok())?;
    let pointers = table.iter().filter(|m| btf.type_by_id::<Ptr<'_>>(m.ty).is_some());
    let operations = pointers.filter_map(|m| {
        let name = m.name?.to_str()?;
        Some((name.to_owned(), member_offset(&table, name)?))
    });
    Some(OpsTable {
        map: var.name()?.to_str()?.to_owned(),
        name_offset: member_offset(&table, "name")?,
        operations: operations.collect(),
    })
}
