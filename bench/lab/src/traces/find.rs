//! Looks up the trace files that a scenario names.

use super::list::List;
use anyhow::{Context, Result, bail};
use hotcc_channel_model::RadioSpec;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names a directory of traces.
pub const TRACES: &str = "HOTCC_TRACES";

/// The directories in which trace files are looked up, in this order.
#[derive(Clone, Debug)]
pub struct TraceFiles {
    directories: Vec<PathBuf>,
}

impl TraceFiles {
    /// Looks up traces in `directory`, which is that of the scenario.
    #[must_use]
    pub fn beside(directory: &Path) -> Self {
        Self { directories: vec![directory.to_owned()] }
    }

    /// Adds `directories` after the present ones.
    #[must_use]
    pub fn then(mut self, directories: &[PathBuf]) -> Self {
        self.directories.extend_from_slice(directories);
        self
    }

    /// Returns the directory of the scenario.
    #[must_use]
    pub fn scenario_directory(&self) -> &Path {
        &self.directories[0]
    }

    /// Returns the path of a file in the first directory that has it.
    ///
    /// # Errors
    /// If no directory has the file.
    pub fn find(&self, file: &Path) -> Result<PathBuf> {
        // `join` would put `.` before a relative name, which messages do not need.
        let place = |directory: &PathBuf| match directory.as_os_str() {
            at if at.is_empty() || at == "." => file.to_owned(),
            _ => directory.join(file),
        };
        if let Some(found) = self.directories.iter().map(place).find(|path| path.exists()) {
            return Ok(found);
        }
        let looked: Vec<String> = self.directories.iter().map(|directory| shown(directory)).collect();
        let list = List::built_in()?;
        let advice = match file.to_str().and_then(|name| list.entry(name)) {
            Some(trace) => trace.advice(),
            None => format!("name its directory with --traces or {TRACES}"),
        };
        bail!("cannot find the trace {}: it is not in {}; {advice}", file.display(), looked.join(", "))
    }

    /// Checks that a file with the name of a listed trace is that trace. A file that is missing is not an error here.
    ///
    /// # Errors
    /// States what differs, and what to do.
    pub fn verify(&self, file: &Path) -> Result<()> {
        let list = List::built_in()?;
        let Some(trace) = file.to_str().and_then(|name| list.entry(name)) else { return Ok(()) };
        let Ok(path) = self.find(file) else { return Ok(()) };
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let advice = || format!("cannot use {}; rename it, or delete it and {}", path.display(), trace.advice());
        trace.verify(&path, &bytes).with_context(advice)
    }

    /// Returns a copy of a radio with the paths of its trace files resolved.
    pub(crate) fn found(&self, radio: &RadioSpec) -> Result<RadioSpec> {
        let mut radio = radio.clone();
        if let RadioSpec::Trace(trace) = &mut radio {
            trace.file = self.find(&trace.file)?;
            trace.rtt_file = trace.rtt_file.as_deref().map(|file| self.find(file)).transpose()?;
        }
        Ok(radio)
    }
}

fn shown(directory: &Path) -> String {
    if directory.as_os_str().is_empty() { "." } else { return directory.display().to_string() }.to_owned()
}

/// Returns the directory of fetched traces: `traces` in the cache.
///
/// # Errors
/// If the environment specifies no directory for a cache.
pub fn cache() -> Result<PathBuf> {
    Ok(hotcc_kernels::cache_directory().context("cannot locate the cache of traces")?.join("traces"))
}

/// Returns the directories in addition to that of the scenario: the cache, then `given`, or otherwise the one that
/// [`TRACES`] names.
#[must_use]
pub fn directories(given: Option<&Path>) -> Vec<PathBuf> {
    let variable = || env::var_os(TRACES).filter(|value| !value.is_empty()).map(PathBuf::from);
    cache().ok().into_iter().chain(given.map(Path::to_owned).or_else(variable)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_that_has_a_file_wins() {
        let scratch = tempfile::tempdir().unwrap();
        let [near, far] = ["near", "far"].map(|name| scratch.path().join(name));
        for directory in [&near, &far] {
            fs::create_dir(directory).unwrap();
        }
        let files = TraceFiles::beside(&near).then(std::slice::from_ref(&far));
        fs::write(far.join("a.csv"), "").unwrap();
        assert_eq!(files.find(Path::new("a.csv")).unwrap(), far.join("a.csv"));
        fs::write(near.join("a.csv"), "").unwrap();
        assert_eq!(files.find(Path::new("a.csv")).unwrap(), near.join("a.csv"));
        let message = files.find(Path::new("b.csv")).unwrap_err().to_string();
        let looked = format!("cannot find the trace b.csv: it is not in {}, {}; ", near.display(), far.display());
        assert_eq!(message, looked + "name its directory with --traces or HOTCC_TRACES");
        let listed = &List::built_in().unwrap().traces[0].name;
        let message = files.find(Path::new(listed)).unwrap_err().to_string();
        assert!(message.ends_with(&format!("; run `hotcc-bench traces fetch {listed}`")), "{message}");
        let archived = &List::built_in().unwrap().archived[0];
        let message = files.find(Path::new(&archived.name)).unwrap_err().to_string();
        assert!(message.ends_with(&format!("; {}", archived.advice())), "{message}");
    }
}
