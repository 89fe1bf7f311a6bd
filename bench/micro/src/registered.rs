//! A congestion control that is registered in the kernel only while a measure runs.

use anyhow::{Context, Result};
use hotcc::object::{Loaded, Source};
use hotcc_abi::pins;
use libbpf_rs::Link;

/// Registers an embedded object as `name`, so that it is beside the one that may be loaded already. It stays registered
/// while both values live.
pub fn register(object: &str, name: &str) -> Result<(Loaded, Link)> {
    let embedded = hotcc_bpf::TEST_OBJECTS.iter().chain(hotcc_bpf::ALGOS).find(|o| o.name == object);
    let mut opened =
        Source::builtin(embedded.with_context(|| format!("this build has no embedded object `{object}`"))?).open()?;
    opened.rename(name)?;
    std::fs::create_dir_all(pins::SIGNAL).with_context(|| format!("cannot create {}", pins::SIGNAL))?;
    let mut loaded = opened.load(hotcc::object::kernel::has_links())?;
    let link = loaded.ops()?.attach_struct_ops().with_context(|| format!("cannot register {name}"))?;
    Ok((loaded, link))
}
