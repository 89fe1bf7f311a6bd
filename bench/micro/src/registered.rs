//! A congestion control that is registered in the kernel only while a measure runs.

use anyhow::{Context, Result};
use hotcc::object::{Loaded, Source};
use hotcc_abi::pins;
use libbpf_rs::{Link, Program};
use std::os::fd::AsFd;

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

/// Returns the id of an algorithm's `cong_control`.
pub fn cong_control(loaded: &Loaded) -> Result<u32> {
    let program = loaded.object.progs().find(|p| p.name().to_string_lossy().ends_with("cong_control"));
    Ok(Program::id_from_fd(program.context("the algorithm has no cong_control")?.as_fd())?)
}
