//! The pinned counters of commands.

use super::value_map::{read_value_map, write_value_map};
use hotcc_abi::pins;
use hotcc_abi::version::{Counters, META_VERSION};
use hotcc_host::bpffs;
use hotcc_host::error::Result;
use std::path::Path;

/// Returns the counts so far; zeros if no command has counted yet.
pub fn counters() -> Result<Counters> {
    let value = read_value_map(&Path::new(pins::ROOT).join("counters"))?;
    Ok(value.and_then(|v| bytemuck::try_pod_read_unaligned(&v).ok()).unwrap_or_default())
}

/// Updates the counters. Call it with the lock held. Failing to update the counters does not fail the command.
pub(crate) fn count(what: impl FnOnce(&mut Counters)) {
    let _ = try_count(what).inspect_err(|error| tracing::warn!("cannot update the command counters: {error:#}"));
}

fn try_count(what: impl FnOnce(&mut Counters)) -> Result<()> {
    let mut value = counters()?;
    value.version = u64::from(META_VERSION);
    what(&mut value);
    bpffs::make(Path::new(pins::ROOT))?;
    write_value_map(&Path::new(pins::ROOT).join("counters"), "hotcc_counters", bytemuck::bytes_of(&value))
}
