//! The parts of a guest: its agent, which is the first process, commands, modules, and its job.

use crate::image::Image;
use crate::programs;
use crate::snapshots::Initramfs;
use crate::vm::{self, Clock, Machine};
use anyhow::{Context, Result};
use hotcc_kernels::{Architecture, Kernel, module_closure};
use hotcc_lab_proto::job::{AGENT_PATH, JOB_MODULES_PATH, JOB_PATH, Job, MODULES_PATH, Message};
use hotcc_lab_proto::plan::Plan;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Fills the image of a guest that finds its job when it boots. Modules that are built into the kernel are left out.
pub fn build_initramfs(image: &mut Image, kernel: &Kernel, modules: &[&str], job: &Job) -> Result<()> {
    let architecture = kernel.architecture();
    add_programs(image, architecture)?;
    if matches!(job, Job::Matrix { .. } | Job::Canaries { .. }) {
        image.program("/bin/hotcc", &programs::ours(architecture, "hotcc")?)?;
    }
    image.file(JOB_PATH, 0o644, serde_json::to_vec(job)?);
    add_modules(image, MODULES_PATH, &module_closure(kernel, modules)?)
}

/// What a guest needs that boots with its job.
pub(crate) struct Boot<'a> {
    /// Files of its job.
    pub(crate) image: Image,
    /// Its kernel.
    pub(crate) kernel: &'a Kernel,
    /// Modules; those that are built into the kernel are left out.
    pub(crate) modules: &'a [&'a str],
    /// Memory, in MiB.
    pub(crate) memory_mib: u32,
    /// Processor of this machine to stay on; `None` for any.
    pub(crate) cpu: Option<usize>,
}

impl Boot<'_> {
    /// Boots it in virtual time, and passes every message to `each`, as [`vm::run`] does.
    pub(crate) fn run(mut self, job: &Job, each: impl FnMut(&Message) -> Result<()>) -> Result<()> {
        let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
        build_initramfs(&mut self.image, self.kernel, self.modules, job)?;
        let initramfs = scratch.path().join("initramfs.cpio");
        self.image.write(&mut File::create(&initramfs)?)?;
        let machine = Machine {
            kernel: self.kernel.clone(),
            memory_mib: self.memory_mib,
            clock: Clock::Virtual,
            results: None,
            cpu: self.cpu,
            patience: vm::PATIENCE,
        };
        vm::run(&machine, &initramfs, scratch.path(), each)
    }
}

/// A guest that gets its job after its boot.
#[derive(Debug)]
pub struct Versatile {
    /// The initramfs that it boots from.
    pub initramfs: Arc<Initramfs>,
    /// The files that its job needs, and the job.
    pub job: Image,
}

impl Versatile {
    /// Creates a guest for this plan. `modules` are those of every scenario; `more` are the additional ones for this
    /// scenario.
    pub fn new(kernel: &Kernel, modules: &[&str], more: &[&str], plan: &Plan) -> Result<Self> {
        let initramfs = initramfs(kernel, modules, plan.pep.is_some())?;
        let present = module_closure(kernel, modules)?;
        let all = module_closure(kernel, more)?;
        let missing: Vec<PathBuf> = all.into_iter().filter(|module| !present.contains(module)).collect();
        let mut job = Image::default();
        job.file(JOB_PATH, 0o644, serde_json::to_vec(&Job::Scenario(Box::new(plan.clone())))?);
        add_modules(&mut job, JOB_MODULES_PATH, &missing)?;
        Ok(Self { initramfs, job })
    }
}

/// Returns the initramfs of every scenario, with or without the PEP's agent. This process keeps each one that it has
/// created: preparing the programs takes longer than resuming a snapshot.
fn initramfs(kernel: &Kernel, modules: &[&str], agent: bool) -> Result<Arc<Initramfs>> {
    type Made = BTreeMap<(PathBuf, Vec<String>, bool), Arc<Initramfs>>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let what = (kernel.dir.clone(), modules.iter().map(|name| (*name).to_owned()).collect(), agent);
    if let Some(initramfs) = made.get(&what) {
        return Ok(Arc::clone(initramfs));
    }
    let mut image = Image::default();
    add_programs(&mut image, kernel.architecture())?;
    if agent {
        image.program(AGENT_PATH, &programs::ours(kernel.architecture(), "pep-agent")?)?;
    }
    add_modules(&mut image, MODULES_PATH, &module_closure(kernel, modules)?)?;
    let initramfs = Arc::new(Initramfs::of(&image)?);
    made.insert(what, Arc::clone(&initramfs));
    Ok(initramfs)
}

/// Adds the programs of every guest.
fn add_programs(image: &mut Image, architecture: Architecture) -> Result<()> {
    image.program("/init", &programs::ours(architecture, "hotcc-guest")?)?;
    for name in ["ip", "tc"] {
        image.program(format!("/bin/{name}"), &programs::system(architecture, name)?)?;
    }
    Ok(())
}

/// Adds modules, in load order.
fn add_modules(image: &mut Image, directory: &str, paths: &[PathBuf]) -> Result<()> {
    for (order, path) in paths.iter().enumerate() {
        let name = path.file_name().context("a module without a name")?.to_string_lossy();
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        image.file(Path::new(directory).join(format!("{order:03}-{name}")), 0o644, unsigned(content));
    }
    Ok(())
}

/// Returns a module without the signature at its end, which stock kernels do not require: checking a signature takes
/// the guest longer than everything else about a module.
fn unsigned(mut module: Vec<u8>) -> Vec<u8> {
    const MAGIC: &[u8] = b"~Module signature appended~\n";
    let Some((_, length)) = module.strip_suffix(MAGIC).and_then(<[u8]>::split_last_chunk::<4>) else { return module };
    // `struct module_signature`: eight bytes, and the length of the preceding signature
    let signature = u32::from_be_bytes(*length) as usize + 12 + MAGIC.len();
    module.truncate(module.len().saturating_sub(signature));
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_signature_is_removed() {
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
