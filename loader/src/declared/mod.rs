//! Declared state: a file says what hotcc has loaded and which defaults network namespaces have; commands compare it with
//! the kernel, and make the kernel follow it.
//!
//! - `document`: the file as TOML
//! - `wanted`: the file, checked, with what each entry means
//! - `rules`: the policy rules among them
//! - `plan`: the steps from what runs to what is declared
//! - `steps`: steps carried out, and undone
//! - `save`: the file for what runs
//!
//! The kernel stays the only state: the file is compared with it each time, and nothing else is kept.

mod document;
mod plan;
mod rules;
mod save;
mod steps;
mod wanted;

pub use plan::{Action, Step, Subject};
pub use save::{Saved, save};

use crate::policy::layout::Moved;
use crate::policy::{self, Explained, Question};
use crate::registry::{begin, need_bpffs};
use hotcc_host::error::{Result, need_root};
use hotcc_host::lock::Lock;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Where the file is if no other is named.
pub const FILE: &str = "/etc/hotcc/hotcc.toml";

/// How the kernel differs from a file. Schema of `hotcc diff --json` and `hotcc apply --json`.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The file.
    pub file: PathBuf,
    /// What makes the kernel follow the file, in this order; empty if it does already.
    pub steps: Vec<Step>,
    /// Whether the steps were carried out.
    pub applied: bool,
    /// What the file declares in vain, and what went wrong beside the steps.
    pub warnings: Vec<String>,
}

/// Compares the kernel with a file; changes nothing.
pub fn diff(file: &Path) -> Result<Difference> {
    need_root("hotcc diff")?;
    need_bpffs()?;
    let mut declared = wanted::read(file)?;
    let warnings = std::mem::take(&mut declared.warnings);
    let steps = plan::plan(declared)?;
    Ok(Difference { file: file.to_owned(), steps, applied: false, warnings })
}

/// Makes the kernel follow a file. If a step fails, those before it are undone.
pub fn apply(file: &Path) -> Result<Difference> {
    apply_live(file, false).map(|(difference, _)| difference)
}

/// As [`apply`]; with `live`, also gives open sockets the congestion controls of their rules. Returns what became of
/// them.
pub fn apply_live(file: &Path, live: bool) -> Result<(Difference, Option<Moved>)> {
    need_root("hotcc apply")?;
    let mut declared = wanted::read(file)?;
    let mut warnings = std::mem::take(&mut declared.warnings);
    let (steps, more, _lock) = follow("hotcc apply", declared)?;
    warnings.extend(more);
    let moved = if live { Some(policy::move_open(false)?) } else { None };
    Ok((Difference { file: file.to_owned(), steps, applied: true, warnings }, moved))
}

/// Which rule of a file a flow would get; changes nothing.
pub fn explain(file: &Path, question: &Question) -> Result<Explained> {
    need_root("hotcc policy test")?;
    need_bpffs()?;
    policy::explain_by(&wanted::read(file)?.policy, question)
}

/// Makes the kernel follow what is declared. All files are read before the lock is taken, since reading may take as long as
/// the files' system likes. The lock is returned with what was done, for what belongs to it.
fn follow(command: &str, declared: wanted::Declared) -> Result<(Vec<Step>, Vec<String>, Lock)> {
    need_root(command)?;
    need_bpffs()?;
    let files = steps::read_files(&declared)?;
    let lock = begin(command)?;
    let steps = plan::plan(declared)?;
    let warnings = steps::carry_out(&steps, files)?;
    Ok((steps, warnings, lock))
}

/// What [`unload_all`] did. Schema of `hotcc unload --all --json`.
#[derive(Debug, Serialize)]
pub struct Emptied {
    /// What was done, in this order.
    pub steps: Vec<Step>,
    /// What went wrong beside the steps.
    pub warnings: Vec<String>,
}

/// Makes the kernel follow a file that declares nothing.
pub fn unload_all() -> Result<Emptied> {
    let (steps, warnings, _lock) = follow("hotcc unload", wanted::Declared::default())?;
    Ok(Emptied { steps, warnings })
}
