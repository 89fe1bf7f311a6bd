//! Helpers to read BTF, whether it is of an object, a program or the kernel.

use hotcc_host::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::{AsRawLibbpf, OpenObject};

/// Returns the BTF that an object contains.
pub(crate) fn btf_of<'a>(object: &'a OpenObject, origin: &str) -> Result<Btf<'a>> {
    // SAFETY: the pointer is to libbpf's own object, which lives as long as `object`, from which the BTF borrows.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw).ok().flatten();
    btf.ok_or_else(|| Error::failed(format!("{origin} contains no BTF; compile it with -g")))
}

/// Returns the names of a struct's members.
#[must_use]
pub fn member_names(of: &Struct<'_>) -> Vec<String> {
    of.iter().filter_map(|m| m.name?.to_str().map(str::to_owned)).collect()
}

/// Returns the offset of a struct's member, in bytes, or `None` if there is no such member or if it is a bit field.
#[must_use]
pub fn member_offset(of: &Struct<'_>, name: &str) -> Option<usize> {
    let member = of.iter().find(|m| m.name.and_then(|n| n.to_str()) == Some(name))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}
