//! Repeated runs: whether their files are the same, byte for byte, and what a document says about it.

use super::markdown::replaced;
use anyhow::{Context, Result, ensure};
use hotcc_lab::changes::changes;
use hotcc_lab::results::{Manifest, Results, RunId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Directory in OUT with the repeats of the results in OUT: OUT/repeated/NAME/KERNEL.
pub const DIRECTORY: &str = "repeated";
const BEGIN: &str = "<!-- repeated: ";
const END: &str = "<!-- end of repeated -->\n";
/// Prefix of the facts of a manifest that may differ: if another version of a program makes the same bytes, so much the
/// better.
const MAY_DIFFER: &str = "object ";

/// The comparison of a scenario's runs with their repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Repeated {
    /// Name of the scenario.
    pub scenario: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of them that were repeated.
    pub repeated: usize,
    /// Repeated runs with a file that differs.
    pub differing: Vec<RunId>,
    /// Kernel, or the simulator.
    pub kernel: String,
    /// SHA-256 of the kernel's packages and of QEMU, by name; empty without a virtual machine.
    pub environment: BTreeMap<String, String>,
}

impl Repeated {
    /// Returns the result as a sentence or two.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { scenario, runs, repeated, differing, kernel, environment } = self;
        let agree = match differing.len() {
            0 => "all of them agree to the byte".to_owned(),
            some => {
                let names: Vec<String> = differing.iter().map(|run| format!("`{}`", run.path().display())).collect();
                format!("{some} of them **differ**: {}", names.join(", "))
            }
        };
        let sums: Vec<String> = environment.iter().map(|(name, sum)| format!("{name} `{sum}`")).collect();
        let sums = if sums.is_empty() { String::new() } else { format!(" SHA-256: {}.", sums.join(", ")) };
        format!("`{scenario}` on {kernel}: {repeated} of {runs} runs, drawn at random, were repeated; {agree}.{sums}")
    }
}

/// Compares the runs in `again` with those in `first`, file by file.
///
/// # Errors
/// A file cannot be read, or the two are not of the same scenario, files, kernel or QEMU.
pub fn compare(first: &Path, again: &Path) -> Result<Repeated> {
    let [first, again] = [first, again].map(Results::read);
    let (first, again) = (first?, again?);
    let changed = changes(&first.manifest, &again.manifest);
    let changed: Vec<String> =
        changed.into_iter().map(|c| c.what).filter(|what| !what.starts_with(MAY_DIFFER)).collect();
    ensure!(
        changed.is_empty(),
        "cannot compare {} with {}: not the same {}",
        first.directory.display(),
        again.directory.display(),
        changed.join(", ")
    );
    let mut differing = Vec::new();
    for run in again.runs.iter().map(|run| &run.run) {
        if files(&first.directory.join(run.path()))? != files(&again.directory.join(run.path()))? {
            differing.push(run.clone());
        }
    }
    let Manifest { scenario, kernel, objects, .. } = again.manifest;
    let is_environment = |name: &str| name.starts_with("package ") || name.starts_with("qemu-");
    Ok(Repeated {
        scenario,
        runs: first.manifest.runs.len(),
        repeated: again.runs.len(),
        differing,
        kernel,
        environment: objects.into_iter().filter(|(name, _)| is_environment(name)).collect(),
    })
}

/// Reads a file of a run, without the hashes of the run's inputs that a summary has: another build may make the same
/// results.
pub(crate) fn read_without_inputs(path: &Path) -> std::io::Result<Vec<u8>> {
    let text = fs::read(path)?;
    if !path.ends_with("summary.json") {
        return Ok(text);
    }
    let Ok(mut summary) = serde_json::from_slice::<serde_json::Value>(&text) else { return Ok(text) };
    if let Some(fields) = summary.as_object_mut() {
        fields.remove("inputs");
    }
    Ok(serde_json::to_vec(&summary)?)
}

/// Returns the files of a run, by name.
fn files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let read = || {
        let file = |entry: fs::DirEntry| {
            Ok((entry.file_name().to_string_lossy().into_owned(), read_without_inputs(&entry.path())?))
        };
        fs::read_dir(directory)?.map(|entry| file(entry?)).collect::<std::io::Result<_>>()
    };
    read().with_context(|| format!("cannot read the run {}", directory.display()))
}

/// Replaces every part of a document between `<!-- repeated: SCENARIO... -->` and `<!-- end of repeated -->` by one
/// line for each of these scenarios and each kernel with repeats in `results`. Parts without repeats stay unchanged.
///
/// # Errors
/// A part has no end, or results cannot be read or compared.
pub fn refreshed(document: &str, results: &Path) -> Result<String> {
    replaced(document, BEGIN, END, |scenarios, old| {
        let mut lines = String::new();
        for scenario in scenarios.split_whitespace() {
            let again = results.join(DIRECTORY).join(scenario);
            let mut kernels: Vec<_> =
                fs::read_dir(&again).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
            kernels.sort();
            for kernel in kernels {
                // repeats of results that were replaced do not keep the rest of the document from being written
                let line = match compare(&results.join(scenario).join(&kernel), &again.join(&kernel)) {
                    Ok(compared) => compared.text(),
                    Err(_) => {
                        let kernel = kernel.to_string_lossy();
                        format!(
                            "`{scenario}` on {kernel}: its repeats are not of the present results; `hotcc-bench repeat` makes \
                             new ones"
                        )
                    }
                };
                lines.push_str(&format!("- {line}\n"));
            }
        }
        Ok(if lines.is_empty() { old.to_owned() } else { format!("\n{lines}\n") })
    })
}
