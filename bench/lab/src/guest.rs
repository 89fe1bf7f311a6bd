//! What a guest is made of: its agent as its first process, commands, modules, and its job.

use crate::image::Image;
use anyhow::{Context, Result};
use hotcc_kernels::{Kernel, module_closure};
use hotcc_lab_proto::job::{AGENT_PATH, JOB_PATH, Job, MODULES_PATH};
use hotcc_testbed::programs::{sibling, system_program};
use std::fs;
use std::path::Path;

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
        image.file(Path::new(MODULES_PATH).join(format!("{order:03}-{name}")), 0o644, unsigned(content));
    }
    Ok(())
}

/// A module without the signature at its end, which stock kernels do not ask for: to check one takes the guest longer than
/// everything else about a module.
fn unsigned(mut module: Vec<u8>) -> Vec<u8> {
    const MAGIC: &[u8] = b"~Module signature appended~\n";
    let Some((_, length)) = module.strip_suffix(MAGIC).and_then(<[u8]>::split_last_chunk::<4>) else { return module };
    // `struct module_signature`: eight bytes and the length of what is before them
    let signature = u32::from_be_bytes(*length) as usize + 12 + MAGIC.len();
    module.truncate(module.len().saturating_sub(signature));
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_goes_and_nothing_else() {
        let mut signed = b"the module".to_vec();
        signed.extend([7; 300]);
        signed.extend([0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 44]);
        signed.extend(b"~Module signature appended~\n");
        assert_eq!(unsigned(signed), b"the module");
        for without in [&b"the module"[..], b"", b"~Module signature appended~\n"] {
            assert_eq!(unsigned(without.to_vec()), without);
        }
    }
}
