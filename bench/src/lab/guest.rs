//! What a guest is made of: our agent as its first process, commands, modules, and its job.

use crate::kernels::{Kernel, module_closure};
use crate::lab::image::{Image, is_executable};
use crate::lab::job::{JOB_PATH, Job, MODULES_PATH};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a guest has the PEP's agent.
pub const AGENT_PATH: &str = "/bin/pep-agent";

/// Fills the image. Modules that are built into the kernel are left out.
pub fn furnish(image: &mut Image, kernel: &Kernel, modules: &[&str], job: &Job) -> Result<()> {
    image.program("/init", &sibling("hotcc-guest")?)?;
    if matches!(job, Job::Matrix { .. }) {
        image.program("/bin/hotcc", &sibling("hotcc")?)?;
    }
    if matches!(job, Job::Scenario(plan) if plan.pep.is_some()) {
        image.program(AGENT_PATH, &sibling("pep-agent")?)?;
    }
    for name in ["ip", "tc"] {
        image.program(format!("/bin/{name}"), &system_program(name)?)?;
    }
    image.file(JOB_PATH, 0o644, serde_json::to_vec(job)?);
    for (order, path) in module_closure(kernel, modules)?.iter().enumerate() {
        let name = path.file_name().context("a module without a name")?.to_string_lossy();
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        image.file(Path::new(MODULES_PATH).join(format!("{order:03}-{name}")), 0o644, content);
    }
    Ok(())
}

/// A program built beside this one.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    // tests run from target/PROFILE/deps
    let found = own.ancestors().skip(1).take(2).map(|d| d.join(name)).find(|p| is_executable(p));
    found.with_context(|| format!("{name} is not beside {}; build it: just build", own.display()))
}

/// A program of this machine.
pub fn system_program(name: &str) -> Result<PathBuf> {
    let directories = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = directories.map(|d| Path::new(d).join(name)).into_iter().find(|p| is_executable(p));
    found.with_context(|| format!("{name} is not installed; ./setup.sh installs it"))
}
