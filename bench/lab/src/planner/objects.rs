//! The object files of a case: opens them, reads their descriptions, and assigns their paths in the guest.

use crate::algorithms;
use crate::scenario::{Place, Scenario};
use anyhow::{Context, Result, anyhow};
use hotcc::object::describe::Description;
use hotcc_lab_proto::job::OBJECTS_PATH;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// An object file of the scenario, which a run needs in addition to its plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFile {
    /// Path on this machine.
    pub path: PathBuf,
    /// Path in the plan and in the guest. It does not depend on the scenario's directory, and so neither do results.
    pub in_guest: String,
}

/// Object files by the path that the scenario names, with their descriptions.
#[derive(Debug)]
pub(super) struct Objects(BTreeMap<String, (ObjectFile, Description)>);

impl Objects {
    /// Opens each object file, and checks that the flows' settings fit.
    pub fn open(scenario: &Scenario, directory: &Path) -> Result<Self> {
        let mut objects = BTreeMap::new();
        for named in scenario.object_files() {
            let path = directory.join(named.get_ref());
            let description = algorithms::description_of_file(&path).context(Place::of_object(named))?;
            let object = ObjectFile { path, in_guest: String::new() };
            objects.insert(named.get_ref().clone(), (object, description));
        }
        for (number, (named, (object, _))) in objects.iter_mut().enumerate() {
            // numbered, because a swap may replace a file by another one of the same name
            object.in_guest = format!("{OBJECTS_PATH}/{number}/{}.bpf.o", algorithms::object_name(named));
        }
        let objects = Self(objects);
        for flow in &scenario.flow {
            if let Some(cc) = &flow.cc {
                let profile = flow.profile.as_ref().map_or("default", |p| p.get_ref());
                objects.check_values(cc, profile, &flow.set)?;
            }
        }
        for tune in scenario.event.iter().filter_map(|event| event.tune.as_ref()) {
            objects.check_values(&tune.cc, "default", &tune.set)?;
        }
        Ok(objects)
    }

    /// Checks settings against an object file. Returns `Ok` if `cc` is not one of these files.
    fn check_values(&self, cc: &Spanned<String>, profile: &str, set: &BTreeMap<String, toml::Value>) -> Result<()> {
        let Some((_, description)) = self.0.get(cc.get_ref()) else { return Ok(()) };
        let checked = algorithms::check_values(description, profile, set);
        checked.map_err(|why| anyhow!(why)).context(Place::of_object(cc))
    }

    /// Returns the description of a congestion control that the lab loads; `None` for one of the kernel.
    pub fn description(&self, cc: &str) -> Result<Option<Description>> {
        if let Some((_, description)) = self.0.get(cc) {
            return Ok(Some(description.clone()));
        }
        Ok(if algorithms::is_ours(cc) { Some(algorithms::description(cc)?) } else { None })
    }

    /// Returns the argument of `hotcc load` in the guest: a built-in name, or the file's path there.
    pub fn to_load(&self, cc: &str) -> String {
        self.0.get(cc).map_or(cc, |(object, _)| &object.in_guest).to_owned()
    }

    pub fn files(self) -> Vec<ObjectFile> {
        self.0.into_values().map(|(object, _)| object).collect()
    }
}

impl Place {
    fn of_object(named: &Spanned<String>) -> Self {
        Self::of(named, format!("object file `{}`", named.get_ref()))
    }
}
