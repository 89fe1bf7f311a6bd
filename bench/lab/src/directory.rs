//! Prepares a result directory for its runs: keeps results that the same inputs would produce again, and moves others
//! to another directory.

use crate::changes::changes;
use crate::results::{Manifest, RunId, RunSummary, sha256};
use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directory for runs that are not complete yet.
pub(super) const UNFINISHED: &str = ".unfinished";

/// The file that describes the setup of the results; [`prepare`] creates it.
const MANIFEST: &str = "manifest.json";
/// The next version of the manifest, until it is complete and replaces the old version.
const NEXT_MANIFEST: &str = "manifest.json.part";
/// The copy of the scenario.
const SCENARIO: &str = "scenario.toml";

/// A result directory to which only this process writes.
#[derive(Debug)]
pub(super) struct ResultDirectory<'a> {
    directory: &'a Path,
    manifest: Mutex<Manifest>,
    /// A message for the user, if results of another setup were moved.
    pub moved: Option<String>,
    /// The lock on the directory. The kernel releases it when the process ends for any reason.
    _lock: Flock<File>,
}

impl ResultDirectory<'_> {
    /// Returns whether this summary is the result that the manifest records for the run.
    pub(super) fn has_result(&self, run: &RunId, summary: &[u8]) -> bool {
        self.manifest().results.get(&run.summary()).is_some_and(|recorded| *recorded == sha256(summary))
    }

    /// Adds the hash of a run's summary to the manifest. Call it before the summary is moved to its final place, so
    /// that the manifest has the hash of each complete run.
    pub(super) fn record_result(&self, run: &RunId, summary: &[u8]) -> Result<()> {
        let mut manifest = self.manifest();
        manifest.results.insert(run.summary(), sha256(summary));
        write_manifest(self.directory, &manifest)
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prepares OUT/NAME/KERNEL for runs with this manifest, and locks it. If it has results of another setup, or of one of
/// these runs with other inputs (`is_current` says that), moves all its results to OUT/NAME.N/KERNEL, with the lowest N
/// that is free.
pub(super) fn prepare<'a>(
    directory: &'a Path,
    manifest: &Manifest,
    scenario: &str,
    is_current: &dyn Fn(&RunId, &RunSummary) -> Result<bool>,
) -> Result<ResultDirectory<'a>> {
    let mut held = lock(directory)?;
    let path = directory.join(MANIFEST);
    let old = match fs::read(&path) {
        Ok(text) => Some(serde_json::from_slice::<Manifest>(&text).with_context(|| {
            let path = path.display();
            format!("cannot read {path}: another version of the lab wrote it; remove it or use another --out")
        })?),
        Err(_) => None,
    };
    // a start that was cut short leaves these
    let is_ours = |entry: fs::DirEntry| entry.file_name() == SCENARIO || entry.file_name() == NEXT_MANIFEST;
    let mut entries = directory.read_dir().into_iter().flatten().flatten();
    if old.is_none() && !path.exists() && entries.any(|entry| !is_ours(entry)) {
        bail!(
            "cannot write results to {}: it contains other files and no lab results; use another --out",
            directory.display()
        );
    }
    remove(&directory.join(UNFINISHED))?;
    let mut manifest = manifest.clone();
    let mut moved = None;
    match old {
        // also results of other seeds and cases: a short run must not delete the results of hours
        Some(old) if is_same_setup(&old, &manifest) && are_current(directory, &old, &manifest, is_current)? => {
            manifest.results = old.results;
        }
        Some(old) if has_results(directory) => {
            let aside = move_aside(directory)?;
            held = lock(directory)?;
            let mut changed: Vec<String> = changes(&old, &manifest).into_iter().map(|change| change.what).collect();
            if changed.is_empty() {
                changed.push("scenario of earlier runs".to_owned());
            }
            let (changed, directory, aside) = (changed.join(", "), directory.display(), aside.display());
            moved =
                Some(format!("{directory} had results of another setup (changed: {changed}); moved them to {aside}"));
        }
        _ => {}
    }
    write(&directory.join(SCENARIO), scenario.as_bytes())?;
    write_manifest(directory, &manifest)?;
    Ok(ResultDirectory { directory, manifest: Mutex::new(manifest), moved, _lock: held })
}

/// Returns whether two manifests differ only in the scenario's name, and in what the inputs of each run have, too:
/// another text of the scenario may be the same for a run.
fn is_same_setup(old: &Manifest, new: &Manifest) -> bool {
    let of_each_run = Manifest {
        scenario: new.scenario.clone(),
        scenario_sha256: new.scenario_sha256.clone(),
        files: new.files.clone(),
        runs: new.runs.clone(),
        results: new.results.clone(),
        ..old.clone()
    };
    of_each_run == *new
}

/// Returns whether each complete run that is planned again has the same inputs as then.
fn are_current(
    directory: &Path,
    old: &Manifest,
    new: &Manifest,
    is_current: &dyn Fn(&RunId, &RunSummary) -> Result<bool>,
) -> Result<bool> {
    for run in &new.runs {
        let Ok(text) = fs::read(directory.join(run.summary())) else { continue };
        // a summary that was changed is not a result, and its run is repeated
        let is_result = old.results.get(&run.summary()).is_some_and(|recorded| *recorded == sha256(&text));
        if is_result && !is_current(run, &serde_json::from_slice(&text)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the directory if necessary, and takes the lock on it.
fn lock(directory: &Path) -> Result<Flock<File>> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let in_use = || {
        let directory = directory.display();
        anyhow!(
            "cannot write results to {directory}: another `hotcc-bench lab` is using it; wait, or use another --out"
        )
    };
    let tried = || format!("cannot lock {}", directory.display());
    let held = match Flock::lock(File::open(directory).with_context(tried)?, FlockArg::LockExclusiveNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => return Err(in_use()),
        held => held.map_err(|(_, why)| why).with_context(tried)?,
    };
    // between opening and locking, another process may have moved the directory and created a new one
    let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let named = fs::metadata(directory).with_context(tried)?;
    if number(held.metadata().with_context(tried)?) == number(named) { Ok(held) } else { Err(in_use()) }
}

/// Replaces the manifest atomically: if the process is killed, either the old or the new one remains.
fn write_manifest(directory: &Path, manifest: &Manifest) -> Result<()> {
    let (next, path) = (directory.join(NEXT_MANIFEST), directory.join(MANIFEST));
    write(&next, &serde_json::to_vec_pretty(manifest)?)?;
    fs::rename(&next, &path).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns whether the directory has a complete run.
fn has_results(directory: &Path) -> bool {
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below(directory).any(|case| below(&case).any(|run| run.join("summary.json").exists()))
}

fn move_aside(directory: &Path) -> Result<PathBuf> {
    let place = directory.parent().and_then(|scenario| Some((scenario, scenario.file_name()?, directory.file_name()?)));
    let Some((scenario, name, kernel)) = place else {
        bail!("cannot write results to {}: it has results of another setup; use another --out", directory.display());
    };
    let mut number = 1;
    loop {
        let mut numbered = OsString::from(name);
        numbered.push(format!(".{number}"));
        let parent = scenario.with_file_name(numbered);
        let aside = parent.join(kernel);
        if !aside.exists() {
            fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
            fs::rename(directory, &aside)
                .with_context(|| format!("cannot move {} to {}", directory.display(), aside.display()))?;
            return Ok(aside);
        }
        number += 1;
    }
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;
    use std::collections::BTreeMap;

    fn manifest(scenario_sha256: &str, seeds: &[u64]) -> Manifest {
        let run = |seed: &u64| RunId { case: BTreeMap::new(), seed: *seed };
        Manifest {
            scenario: "small".to_owned(),
            scenario_sha256: scenario_sha256.to_owned(),
            files: BTreeMap::new(),
            backend: "vm".to_owned(),
            kernel: "6.12".to_owned(),
            kernel_sha256: String::new(),
            qemu: String::new(),
            cpu: String::new(),
            objects: BTreeMap::from([("dtcp".to_owned(), "c".to_owned())]),
            runs: seeds.iter().map(run).collect(),
            results: BTreeMap::new(),
        }
    }

    /// Prepares for runs whose inputs are still the same.
    fn prepare<'a>(directory: &'a Path, manifest: &Manifest, scenario: &str) -> Result<ResultDirectory<'a>> {
        super::prepare(directory, manifest, scenario, &|_, _| Ok(true))
    }

    fn summary(run: &RunId) -> Vec<u8> {
        let summary = RunSummary { run: run.clone(), duration_s: 1.0, jain: 1.0, ..RunSummary::default() };
        serde_json::to_vec(&summary).unwrap()
    }

    /// Creates the files of a complete run.
    fn finish(directory: &Path, run: &RunId) {
        fs::create_dir_all(directory.join(run.path())).unwrap();
        fs::write(directory.join(run.path()).join("summary.json"), summary(run)).unwrap();
    }

    #[test]
    fn results_of_another_setup_are_moved_aside_and_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).join("6.12");
        let (directory, first) = (at("small"), manifest("a", &[1]));
        let moved = |manifest: &Manifest, scenario| prepare(&directory, manifest, scenario).unwrap().moved;
        assert_eq!(moved(&first, "first"), None);
        // no run is complete yet, so there are no results to keep
        let second = manifest("b", &[1]);
        assert_eq!(moved(&second, "second"), None);
        finish(&directory, &second.runs[0]);

        let mut third = manifest("b", &[1]);
        third.objects.insert("dtcp".to_owned(), "d".to_owned());
        let said = moved(&third, "third").unwrap();
        assert!(said.contains("(changed: object dtcp)") && said.ends_with("small.1/6.12"), "{said}");
        assert!(at("small.1").join("all/seed-1/summary.json").exists());
        assert_eq!(fs::read_to_string(at("small.1").join("scenario.toml")).unwrap(), "second");
        assert!(!directory.join("all").exists());
        assert_eq!(fs::read_to_string(directory.join("scenario.toml")).unwrap(), "third");

        finish(&directory, &third.runs[0]);
        let said = moved(&first, "first").unwrap();
        assert!(said.contains("(changed: scenario's SHA-256, object dtcp)"), "{said}");
        assert!(said.ends_with("small.2/6.12"), "{said}");
    }

    #[test]
    fn results_of_other_seeds_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let all = manifest("a", &[1, 2]);
        let first = prepare(&directory, &all, "text").unwrap();
        first.record_result(&all.runs[1], &summary(&all.runs[1])).unwrap();
        finish(&directory, &all.runs[1]);
        drop(first);
        let prepared = prepare(&directory, &manifest("a", &[1]), "text").unwrap();
        assert_eq!(prepared.moved, None);
        let [first, second] = [0, 1].map(|run| prepared.has_result(&all.runs[run], &summary(&all.runs[run])));
        assert!(second && !first);
        assert!(directory.join("all/seed-2/summary.json").exists());
    }

    #[test]
    fn another_text_of_the_scenario_keeps_results_unless_a_run_has_other_inputs() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let first = manifest("a", &[1, 2]);
        let prepared = prepare(&directory, &first, "first").unwrap();
        for run in &first.runs {
            prepared.record_result(run, &summary(run)).unwrap();
            finish(&directory, run);
        }
        drop(prepared);
        let moved = |text: &str, seeds: &[u64], current: bool| {
            super::prepare(&directory, &manifest(text, seeds), text, &|_, _| Ok(current)).unwrap().moved
        };
        assert_eq!(moved("b", &[1], true), None, "the same inputs");
        assert_eq!(moved("c", &[3], false), None, "no run that is planned again");
        assert!(directory.join("all/seed-2/summary.json").exists());
        let said = moved("c", &[2], false).unwrap();
        assert!(said.contains("(changed: scenario of earlier runs); moved them to"), "{said}");
        assert!(!directory.join("all").exists());
    }

    #[test]
    fn a_directory_is_locked_also_after_its_results_were_moved() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let old = manifest("a", &[1]);
        let first = prepare(&directory, &old, "first").unwrap();
        finish(&directory, &old.runs[0]);
        let other = Manifest { kernel: "6.1".to_owned(), ..old };
        let refused = || prepare(&directory, &other, "second").unwrap_err().to_string();
        let error = refused();
        assert!(error.contains("small/6.12: another `hotcc-bench lab` is using it"), "{error}");
        assert_eq!(fs::read_to_string(directory.join("scenario.toml")).unwrap(), "first");
        drop(first);
        let second = prepare(&directory, &other, "second").unwrap();
        assert!(second.moved.is_some());
        assert_eq!(refused(), error);
    }

    #[test]
    fn a_start_that_was_cut_short_can_be_repeated() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(SCENARIO), "").unwrap();
        fs::write(directory.join(NEXT_MANIFEST), "{").unwrap();
        assert_eq!(prepare(&directory, &manifest("a", &[1]), "text").unwrap().moved, None);
    }

    #[test]
    fn unrelated_files_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("diary"), "").unwrap();
        let error = prepare(&directory, &manifest("a", &[1]), "text").unwrap_err().to_string();
        assert!(error.contains("no lab results"), "{error}");
        assert!(directory.join("diary").exists());
    }

    #[test]
    fn another_name_of_the_scenario_keeps_results() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let first = manifest("a", &[1]);
        let prepared = prepare(&directory, &first, "first").unwrap();
        prepared.record_result(&first.runs[0], &summary(&first.runs[0])).unwrap();
        finish(&directory, &first.runs[0]);
        drop(prepared);
        let renamed = Manifest { scenario: "large".to_owned(), ..manifest("b", &[1]) };
        let prepared = prepare(&directory, &renamed, "second").unwrap();
        assert_eq!(prepared.moved, None);
        assert!(prepared.has_result(&first.runs[0], &summary(&first.runs[0])));
    }

    #[test]
    fn results_can_be_read_while_runs_end() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let all = manifest("a", &(1..=300).collect::<Vec<u64>>());
        let prepared = prepare(&directory, &all, "text").unwrap();
        fs::create_dir_all(directory.join("all")).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for run in &all.runs {
                    prepared.record_result(run, &summary(run)).unwrap();
                    finish(&directory.join(UNFINISHED), run);
                    fs::rename(directory.join(UNFINISHED).join(run.path()), directory.join(run.path())).unwrap();
                }
            });
            while !writer.is_finished() {
                Results::read(&directory).unwrap();
            }
        });
        assert_eq!(Results::read(&directory).unwrap().runs.len(), 300);
    }
}
