//! Features of the running kernel, read from its BTF once per process, because parsing it takes as long as a swap.

use super::btf::{member_names, member_offset};
use hotcc_host::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use std::sync::OnceLock;

/// Facts about the kernel that loading depends on.
#[derive(Debug)]
pub struct Kernel {
    /// Members of the kernel's `tcp_congestion_ops`.
    pub operations: Vec<String>,
    /// BTF id of the value type of struct_ops maps that are congestion controls.
    pub table_type: Option<u32>,
    /// Offset of the congestion control's name in that type, in bytes.
    pub table_name_offset: usize,
    /// Whether struct_ops can be updated in place (links, since 6.4).
    pub links: bool,
    /// Whether connections count their retransmission timeouts (since 6.7).
    pub counts_timeouts: bool,
}

static KERNEL: OnceLock<Option<Kernel>> = OnceLock::new();

/// Returns the facts; fails if struct_ops for TCP cannot work on this kernel.
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
            counts_timeouts: btf
                .type_by_name::<Struct<'_>>("tcp_sock")
                .is_some_and(|socket| member_offset(&socket, "total_rto").is_some()),
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

/// Returns whether this kernel swaps in place, atomically.
pub fn has_links() -> bool {
    // tests set the variable to test the code path without links on kernels that have links
    std::env::var_os("HOTCC_NO_LINKS").is_none() && kernel().is_ok_and(|k| k.links)
}
