//! Declared state: a file states what hotcc should have loaded and which defaults network namespaces should have.
//! Commands compare the file with the kernel, and make the kernel follow it.
//!
//! - `document`: the file as TOML
//! - `wanted`: the entries of the file, validated
//! - `rules`: the policy rules of the file, validated
//! - `plan`: the steps from what runs to what is declared
//! - `steps`: carries out the steps, and undoes them if one fails
//! - `save`: writes a file that declares what runs
//!
//! All state is in the kernel: each command compares the file with the kernel, and nothing else is stored.

mod document;
mod plan;
mod rules;
mod save;
mod steps;
mod wanted;

pub use plan::{Action, Step, Subject};
pub use save::{Saved, save};

use crate::canary;
use crate::policy::layout::Moved;
use crate::policy::{self, Explained, FlowQuery};
use crate::registry::{Algo, begin, need_bpffs};
use hotcc_host::error::{Result, need_root};
use hotcc_host::lock::Lock;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The default path of the file.
pub const FILE: &str = "/etc/hotcc/hotcc.toml";

/// How the kernel differs from a file. Schema of `hotcc diff --json` and `hotcc apply --json`.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The file.
    pub file: PathBuf,
    /// Steps that make the kernel follow the file, in this order; empty if the kernel already follows it.
    pub steps: Vec<Step>,
    /// Whether the steps were carried out.
    pub applied: bool,
    /// Declarations that have no effect, and errors that failed no step.
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

/// Makes the kernel follow a file. If a step fails, the steps before it are undone.
pub fn apply(file: &Path) -> Result<Difference> {
    apply_live(file, false).map(|(difference, _)| difference)
}

/// Like [`apply`]; if `live` is set, also gives open sockets the congestion controls of their rules, and returns counts
/// of the outcomes.
pub fn apply_live(file: &Path, live: bool) -> Result<(Difference, Option<Moved>)> {
    need_root("hotcc apply")?;
    need_bpffs()?;
    // a canary that starts after this finds its rules replaced, and ends
    canary::refuse_while_running("change the rules")?;
    let mut declared = wanted::read(file)?;
    let mut warnings = std::mem::take(&mut declared.warnings);
    let (steps, more, _lock) = follow("hotcc apply", declared)?;
    warnings.extend(more);
    let moved = live.then(|| policy::move_open(false)).transpose();
    let moved = moved.unwrap_or_else(|error| {
        warnings.push(format!("open sockets were not moved: {error:#}"));
        None
    });
    Ok((Difference { file: file.to_owned(), steps, applied: true, warnings }, moved))
}

/// Returns the rule of a file that would apply to a flow; changes nothing.
pub fn explain(file: &Path, query: &FlowQuery) -> Result<Explained> {
    need_root("hotcc policy test")?;
    need_bpffs()?;
    policy::explain_by(&wanted::read(file)?.policy, query)
}

/// Makes the kernel follow what is declared. All files are read before the lock is taken, because a slow file system
/// can delay reads without limit. The lock is returned with the results, so that the caller can do further work under
/// it.
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
    /// Steps that were done, in this order.
    pub steps: Vec<Step>,
    /// Algorithms that a running `hotcc run` loaded and keeps.
    pub in_use: Vec<String>,
    /// Errors that failed no step.
    pub warnings: Vec<String>,
}

/// Unloads everything that no `hotcc run` uses: makes the kernel follow a file that declares nothing.
pub fn unload_all() -> Result<Emptied> {
    let (steps, warnings, _lock) = follow("hotcc unload", wanted::Declared::default())?;
    let in_use = serving().map_err(|error| error.during("all steps were done, but what is left cannot be read"))?;
    Ok(Emptied { steps, in_use, warnings })
}

/// Returns the names of the algorithms that serve.
fn serving() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for algo in Algo::all()? {
        if algo.current()?.is_some() {
            names.push(algo.name);
        }
    }
    Ok(names)
}
