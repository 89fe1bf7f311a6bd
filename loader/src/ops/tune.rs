//! Reads and sets the tunables of a running algorithm in the kernel.

use crate::canary;
use crate::registry::{self, Algo, Version};
use crate::sockets::count::{connections, count_sockets};
use crate::tunables::present::Value;
use crate::tunables::{Section, Setting, values};
use hotcc_host::error::{Error, Result, need_root};
use serde::Serialize;

/// Returns the values of the serving version's tunables, read from the kernel.
pub fn get(name: &str) -> Result<Vec<Value>> {
    need_root("hotcc get").map_err(|e| {
        e.and(&format!("`hotcc list {name}` shows the built-in algorithm's tunables and profiles without root"))
    })?;
    let (_, version) = Algo::serving(name)?;
    Ok(version.settings()?.into_iter().map(Value::from).collect())
}

/// The result of setting tunables.
#[derive(Clone, Debug, Serialize)]
pub struct SetOutcome {
    /// Number of versions that were set: the serving one, and older ones that are still pinned.
    pub versions: usize,
    /// Connections that run a version that could not be set; `None` if sockets cannot be counted.
    pub connections_missed: Option<u64>,
    /// Warnings of the algorithm's author about the values that were set.
    pub warnings: Vec<String>,
}

/// Sets tunables of every version of `name` that is still pinned. All values are checked before the first is set.
pub fn set(name: &str, assignments: &[String]) -> Result<SetOutcome> {
    need_root("hotcc set")?;
    let _lock = registry::lock()?;
    canary::refuse_while_comparing(name, "set the tunables of")?;
    set_locked(name, assignments)
}

/// Like [`set`]. Call it with the lock held.
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
        // an older version may be another algorithm, with other tunables
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
