//! Congestion controls that `hotcc run` loads; they are unloaded when the last run that uses them ends.
//!
//! A congestion control that was loaded for runs has a directory `run` beside its pins, and every run that uses it
//! holds a shared lock on that directory. The kernel releases the lock however a run ends, so there is no use count
//! that could be wrong. A congestion control that a killed run left stays registered until the next `run`, `load` or
//! `unload` of its name.

use crate::object::Source;
use crate::ops::load::{Request, load_for_runs};
use crate::ops::unload::unload_locked;
use crate::registry::runs::{hold, in_use, is_for_runs};
use crate::registry::{self, Algo, Version};
use crate::sysctl;
use crate::tunables::present::{self, Changed};
use crate::tunables::values;
use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result};
use hotcc_host::nearest;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

/// The congestion control that a run should use.
#[derive(Clone, Debug)]
pub struct Choice {
    /// A registered or built-in name, or a path.
    pub cc: String,
    /// `default` or `paper`; `None`: the current values if it is already loaded, else `default`.
    pub profile: Option<String>,
    /// `tunable=value` assignments, applied after the profile.
    pub set: Vec<String>,
}

/// Reads the object file, if a path was chosen.
pub(super) fn read(choice: &Choice) -> Result<Option<Source>> {
    Source::is_path(&choice.cc).then(|| Source::find(&choice.cc)).transpose()
}

/// The use of a congestion control by one run.
#[derive(Debug)]
pub(crate) struct RunGuard {
    /// Name of the congestion control.
    pub(crate) name: String,
    /// Lock on the mark; `None` if runs do not unload it: it is the kernel's own, or was not loaded for runs.
    hold: Option<Flock<File>>,
    /// Warnings from loading it.
    pub(crate) warnings: Vec<String>,
}

impl RunGuard {
    /// Takes the chosen congestion control, and loads it if necessary. Call it with the lock held; `file` is the result
    /// of [`read`].
    pub(crate) fn take(choice: &Choice, file: Option<Source>) -> Result<Self> {
        let cc = &choice.cc;
        let name = match &file {
            Some(file) => file.open()?.cc_name,
            None => cc.clone(),
        };
        let algo = Algo::with_name(&name)?;
        let request = Request {
            object: cc.clone(),
            cc_name: None,
            profile: choice.profile.clone().unwrap_or_else(|| "default".to_owned()),
            set: choice.set.clone(),
        };
        if bpffs::is_at(Path::new(pins::ROOT)) {
            registry::need_bpffs()?;
        }
        let values_matter = choice.profile.is_some() || !choice.set.is_empty();
        let load = |file: Option<Source>| load_for_runs(&request, file.map_or_else(|| Source::find(cc), Ok)?);
        let mut warnings = Vec::new();
        let has_object = file.is_some() || hotcc_bpf::algo(&name).is_some();
        match algo.current()? {
            // without an object, what a killed run left cannot be loaded again, and is used as it is
            Some(serving) if !is_for_runs(&algo) || in_use(&algo)? || !has_object => {
                same_file(&name, &serving, file.as_ref())?;
                if values_matter {
                    same_values(&algo, &serving, choice)?;
                }
            }
            // left by a killed run: load it again, because its tunables may have been changed meanwhile
            Some(_) => warnings = load(file)?,
            None if file.is_none() && sysctl::is_registered(&name)? => {
                if values_matter {
                    registry::need_bpffs()?; // if bpffs is hidden, hotcc cannot know whether it loaded the algorithm
                    return Err(Error::failed(format!(
                        "`{name}` is registered, but not by hotcc, so --profile and --set cannot tune it; omit them"
                    )));
                }
            }
            None if !has_object => {
                return Err(unknown(&name)?);
            }
            None => warnings = load(file)?,
        }
        let hold = is_for_runs(&algo).then(|| hold(&algo, FlockArg::LockSharedNonblock)).transpose()?.flatten();
        Ok(Self { name, hold, warnings })
    }

    /// Returns whether it was loaded for runs only.
    pub(crate) fn is_for_runs(&self) -> bool {
        self.hold.is_some()
    }

    /// Unloads the congestion control if it was loaded for runs and no other run uses it.
    fn end(&self) -> Result<()> {
        let Some(hold) = &self.hold else { return Ok(()) };
        let _lock = registry::lock()?;
        let algo = Algo::named(&self.name);
        // another process may have unloaded it, and loaded another under the same name
        let inode = |m: std::io::Result<std::fs::Metadata>| m.ok().map(|m| m.st_ino());
        let ours = inode(hold.metadata()) == inode(std::fs::metadata(algo.runs_path()));
        if ours && hold.relock(FlockArg::LockExclusiveNonblock).is_ok() {
            for warning in unload_locked(&self.name, None)?.warnings {
                tracing::warn!("{} was unloaded after the run: {warning}", self.name);
            }
        }
        Ok(())
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("cannot unload {} after the run: {error:#}", self.name);
        }
    }
}

/// Returns the error for a name that is neither registered nor built in.
fn unknown(name: &str) -> Result<Error> {
    let registered = sysctl::available()?;
    let mut known: Vec<&str> = registered.iter().map(String::as_str).collect();
    known.extend(hotcc_bpf::ALGOS.iter().map(|o| o.name).filter(|name| !registered.iter().any(|r| r == name)));
    Ok(Error::failed(format!(
        "no congestion control `{name}` is registered or built in{}",
        nearest::hint(name, &known)
    )))
}

fn same_file(name: &str, serving: &Version, file: Option<&Source>) -> Result<()> {
    match file {
        Some(file) if !file.is_of(&serving.meta()?) => Err(Error::failed(format!(
            "`{name}` is already loaded from another object than {}; to use the loaded one: --cc {name}",
            file.origin
        ))),
        _ => Ok(()),
    }
}

/// Fails if the serving version has other values than were asked for. Without a profile, only assignments were.
fn same_values(algo: &Algo, serving: &Version, choice: &Choice) -> Result<()> {
    let name = &algo.name;
    let present = serving.settings()?;
    let mut wanted = present.clone();
    let tunables = serving.description()?.tunables;
    let mut asked = match &choice.profile {
        Some(profile) => values::profile(&tunables, profile)?,
        None => Vec::new(),
    };
    for text in &choice.set {
        asked.push(values::parse(&tunables, text)?);
    }
    for asked in asked {
        wanted.iter_mut().filter(|w| w.tunable.name == asked.tunable.name).for_each(|w| w.value = asked.value);
    }
    let differing = present::changed(&present, &wanted);
    if differing.is_empty() {
        return Ok(());
    }
    let text = |Changed { name, old, new }: &Changed| format!("{name} is {old}, not {new}");
    let differing = differing.iter().map(text).collect::<Vec<_>>().join("; ");
    let by = if is_for_runs(algo) { " by another `hotcc run`" } else { "" };
    Err(Error::failed(format!(
        "`{name}` is already loaded{by} with other values: {differing}. Omit --profile and --set to use the loaded \
         values, or change those: hotcc set {name} …"
    )))
}
