//! The layout of an algorithm's per-flow state, from the type information of its BPF object.

use crate::library;
use libbpf_rs::btf::types::{Array, Composite, Int, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use std::collections::BTreeMap;
use std::io;

/// Place and size of a field of the private state, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub offset: usize,
    pub size: usize,
}

/// Reads the private state's layout from the BPF object's type information; the host's 64-bit layout is the same.
pub(crate) fn state_fields(name: &str) -> io::Result<BTreeMap<String, Field>> {
    let object = hotcc_bpf::algo(name).ok_or_else(|| io::Error::other(format!("no algorithm `{name}`")))?;
    let file = library::temporary(object.bytes)?;
    let btf = Btf::from_path(file.path()).map_err(io::Error::other)?;
    // by kind: the ops table has the same name
    let state = btf.type_by_kind::<Struct<'_>>().find(|s| s.name().is_some_and(|n| n == name));
    let state = state.ok_or_else(|| io::Error::other(format!("no struct {name} in the object")))?;
    let mut fields = BTreeMap::new();
    add_fields(&btf, Composite::from(state), "", 0, &mut fields);
    Ok(fields)
}

fn add_fields(btf: &Btf<'_>, of: Composite<'_>, prefix: &str, base: usize, into: &mut BTreeMap<String, Field>) {
    for member in of.iter() {
        let (Some(name), MemberAttr::Normal { offset }) = (member.name, member.attr) else { continue };
        let name = format!("{prefix}{}", name.to_string_lossy());
        let offset = base + offset as usize / 8;
        let Some(ty) = btf.type_by_id::<BtfType<'_>>(member.ty).map(|t| t.skip_mods_and_typedefs()) else { continue };
        if let Ok(int) = Int::try_from(ty) {
            into.insert(name, Field { offset, size: int.size() });
        } else if let Ok(array) = Array::try_from(ty)
            && let Ok(int) = Int::try_from(array.contained_type().skip_mods_and_typedefs())
        {
            let element =
                |k: usize| (format!("{name}[{k}]"), Field { offset: offset + k * int.size(), size: int.size() });
            into.extend((0..array.capacity()).map(element));
        } else if let Ok(nested) = Composite::try_from(ty) {
            add_fields(btf, nested, &format!("{name}."), offset, into);
        }
    }
}
