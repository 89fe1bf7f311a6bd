//! What the running kernel offers, read once from its BTF: parsing that takes as long as a swap.

use super::btf::{member_names, member_offset};
use hotcc_host::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use std::sync::OnceLock;

/// Facts that loading depends on.
#[derive(Debug)]
pub struct Kernel {
    /// Members of its tcp_congestion_ops.
    pub operations: Vec<String>,
    /// BTF id of what a struct_ops map holds that is a congestion control.
    pub table_type: Option<u32>,
    /// Offset of the congestion control's name in it.
    pub table_name_offset: usize,
    /// Whether struct_ops can be updated in place (links, since 6.4).
    pub links: bool,
}

static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();

/// The facts; fails where struct_ops for TCP cannot work at all.
pub fn kernel() -> Result<&'static Kernel> {
    let found = KERNEL.get_or_init(|| {
        let btf = Btf::from_vmlinux().ok()?;
        let ops = btf.type_by_name::<Struct<'_>>("tcp_congestion_ops");
        let table = btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops");
        let data = table.as_ref().and_then(|t| member_offset(t, "data"));
        let name = ops.as_ref().and_then(|ops| member_offset(ops, "name"));
        Some(Kernel {
            table_type: data.and(name).and(table).map(|t| t.type_id().into()),
            table_name_offset: data.unwrap_or(0) + name.unwrap_or(0),
            operations: ops.map_or_else(Vec::new, |ops| member_names(&ops)),
            links: btf.type_by_name::<Struct<'_>>("bpf_struct_ops_link").is_some(),
        })
    });
    match found {
        Some(kernel) if !kernel.operations.is_empty() => Ok(kernel),
        Some(_) => Err(Error::kernel_lacks(
            "this kernel's BTF has no tcp_congestion_ops: it lacks TCP or struct_ops; boot a kernel from 5.6 on",
        )),
        None => Err(Error::kernel_lacks(
            "this kernel has no BTF (/sys/kernel/btf/vmlinux); boot a kernel with CONFIG_DEBUG_INFO_BTF (most distributions' kernels since 5.10)",
        )),
    }
}

/// Whether swaps are in place and atomic here.
pub fn has_links() -> bool {
    // the variable is for tests of the other way on kernels that have them
    std::env::var_os("HOTCC_NO_LINKS").is_none() && kernel().is_ok_and(|k| k.links)
}
