//! A result directory before its runs: results of the same manifest stay, those of another are moved out of the way.

use crate::changes::changes;
use crate::results::Manifest;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a run is made until it is whole.
pub(super) const UNFINISHED: &str = ".unfinished";

/// Makes OUT/NAME/KERNEL ready for runs of this manifest. Where it has results of another, they go to OUT/NAME.N/KERNEL,
/// with the first N that is free, and what is returned says so.
pub(super) fn prepare(directory: &Path, manifest: &Manifest, scenario: &str) -> Result<Option<String>> {
    let path = directory.join("manifest.json");
    let old = match fs::read(&path) {
        Ok(text) => Some(serde_json::from_slice::<Manifest>(&text).with_context(|| {
            let path = path.display();
            format!("cannot read {path}: another version of the lab wrote it; remove it or use another --out")
        })?),
        Err(_) => None,
    };
    if old.is_none() && !path.exists() && directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "cannot write results to {}: it contains other files and no lab results; use another --out",
            directory.display()
        );
    }
    remove(&directory.join(UNFINISHED))?;
    // other seeds and cases of the same are kept: a quick look must not cost what took hours
    let of_the_same = |old: &Manifest| *manifest == Manifest { runs: manifest.runs.clone(), ..old.clone() };
    let moved = match old.filter(|old| !of_the_same(old)) {
        Some(old) if has_results(directory) => {
            let aside = move_aside(directory)?;
            let changed: Vec<String> = changes(&old, manifest).into_iter().map(|change| change.what).collect();
            let (changed, directory, aside) = (changed.join(", "), directory.display(), aside.display());
            Some(format!("{directory} had results of another setup (changed: {changed}); moved them to {aside}"))
        }
        _ => None,
    };
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    write(&directory.join("scenario.toml"), scenario.as_bytes())?;
    write(&path, &serde_json::to_vec_pretty(manifest)?)?;
    Ok(moved)
}

/// Whether any run in it is whole.
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
    use crate::results::RunId;
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
        }
    }

    /// As a run that is whole leaves it.
    fn finish(directory: &Path, run: &RunId) {
        fs::create_dir_all(directory.join(run.path())).unwrap();
        fs::write(directory.join(run.path()).join("summary.json"), "{}").unwrap();
    }

    #[test]
    fn results_of_another_manifest_are_moved_aside_and_it_is_said() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).join("6.12");
        let (directory, first) = (at("small"), manifest("a", &[1]));
        assert_eq!(prepare(&directory, &first, "first").unwrap(), None);
        // nothing is whole yet: nothing is worth keeping
        let second = manifest("b", &[1]);
        assert_eq!(prepare(&directory, &second, "second").unwrap(), None);
        finish(&directory, &second.runs[0]);

        let mut third = manifest("b", &[1]);
        third.objects.insert("dtcp".to_owned(), "d".to_owned());
        let said = prepare(&directory, &third, "third").unwrap().unwrap();
        assert!(said.contains("(changed: object dtcp)") && said.ends_with("small.1/6.12"), "{said}");
        assert!(at("small.1").join("all/seed-1/summary.json").exists());
        assert_eq!(fs::read_to_string(at("small.1").join("scenario.toml")).unwrap(), "second");
        assert!(!directory.join("all").exists());
        assert_eq!(fs::read_to_string(directory.join("scenario.toml")).unwrap(), "third");

        finish(&directory, &third.runs[0]);
        let said = prepare(&directory, &first, "first").unwrap().unwrap();
        assert!(said.contains("(changed: scenario's SHA-256, object dtcp)"), "{said}");
        assert!(said.ends_with("small.2/6.12"), "{said}");
    }

    #[test]
    fn other_seeds_of_the_same_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        let all = manifest("a", &[1, 2]);
        prepare(&directory, &all, "text").unwrap();
        finish(&directory, &all.runs[1]);
        assert_eq!(prepare(&directory, &manifest("a", &[1]), "text").unwrap(), None);
        assert!(directory.join("all/seed-2/summary.json").exists());
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("small/6.12");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("diary"), "").unwrap();
        let error = prepare(&directory, &manifest("a", &[1]), "text").unwrap_err().to_string();
        assert!(error.contains("no lab results"), "{error}");
        assert!(directory.join("diary").exists());
    }
}
