//! Tunables of a running algorithm: read back from the kernel, and set there.

use crate::registry::{self, Algo, Version};
use crate::sockets::count::{connections, count_sockets};
use crate::tunables::present::Value;
use crate::tunables::{Section, Setting, values};
use hotcc_host::error::{Error, Result, need_root};
use serde::Serialize;

/// Values of the serving version's tunables, read back from the kernel.
pub fn get(name: &str) -> Result<Vec<Value>> {
    need_root("hotcc get").map_err(|e| {
        e.and(&format!("`hotcc list {name}` shows the built-in algorithm's tunables and profiles without root"))
    })?;
    let (_, version) = Algo::serving(name)?;
    Ok(version.settings()?.into_iter().map(Value::from).collect())
}

/// What setting came to.
#[derive(Clone, Debug, Serialize)]
pub struct SetOutcome {
    /// Versions that were set: the serving one, and older ones that connections still run.
    pub versions: usize,
    /// Connections that run a version that could not be reached; `None` where sockets cannot be walked.
    pub connections_missed: Option<u64>,
    /// What the algorithm's author warns of in the values that were set.
    pub warnings: Vec<String>,
}

/// Sets tunables of every version of `name` that is still pinned. All are checked before the first is set.
pub fn set(name: &str, assignments: &[String]) -> Result<SetOutcome> {
    need_root("hotcc set")?;
    let _lock = registry::lock()?;
    set_locked(name, assignments)
}

/// As [`set`]. Call with the lock held.
pub(crate) fn set_locked(name: &str, assignments: &[String]) -> Result<SetOutcome> {
    let (algo, serving) = Algo::serving(name)?;
    algo.gc()?;
    let parse = |version: &Version| -> Result<Vec<Setting>> {
        let tunables = version.description()?.tunables;
        assignments.iter().map(|text| values::parse(&tunables, text)).collect()
    };
    let settings = parse(&serving)?;
    if let Some(fixed) = settings.iter().find(|s| s.tunable.section == Section::Rodata) {
        let tunable = &fixed.tunable.name;
        return Err(Error::usage(format!(
            "{tunable} is fixed while the algorithm is loaded; set it with: hotcc swap {name} OBJECT --set {tunable}=…"
        )));
    }
    serving.store(&settings)?;
    let mut reached = vec![serving.map_id];
    for older in algo.versions()?.into_iter().filter(|v| v.map_id != serving.map_id) {
        // another algorithm may have stood behind the name: then its tunables are others
        if let Ok(settings) = parse(&older)
            && older.store(&settings).is_ok()
        {
            reached.push(older.map_id);
        }
    }
    let connections_missed =
        connections(&count_sockets(), |g| g.cc == name && g.map_id != 0 && !reached.contains(&g.map_id));
    let warnings = settings.iter().filter_map(Setting::warning).collect();
    Ok(SetOutcome { versions: reached.len(), connections_missed, warnings })
}
