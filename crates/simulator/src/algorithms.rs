//! The congestion controls that can be simulated, and their construction.

use crate::bbr::Bbr;
use crate::congestion::CongestionControl;
use crate::cubic::Cubic;
use crate::host::HostControl;
use crate::reno::Reno;
use anyhow::{Context, Result, bail};
use hotcc_host_algo::Group;
use hotcc_lab_proto::plan::Algorithm;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The kernel's congestion controls that this crate implements.
pub const OF_THE_KERNEL: [&str; 3] = ["bbr", "cubic", "reno"];

/// A function that returns the values of an algorithm's tunables for an object, a profile and assignments
/// `tunable=value`.
pub type Settings<'a> = dyn Fn(&str, &str, &[String]) -> Result<Vec<(String, u32)>> + 'a;

/// Checks whether the simulator has a congestion control, of the kernel or built into hotcc. Returns the reason if it
/// does not.
pub fn check(name: &str) -> Result<(), String> {
    if OF_THE_KERNEL.contains(&name) || HostControl::new(name, &[], &Group::default()).is_ok() {
        return Ok(());
    }
    Err(format!("the simulator has no `{name}`; of the kernel's it has {}", OF_THE_KERNEL.join(", ")))
}

/// The implementations behind the names of congestion controls.
pub(crate) struct Registry<'a> {
    /// Object and tunable values, by the name that flows use.
    loaded: BTreeMap<String, (String, Vec<(String, u32)>)>,
    settings: &'a Settings<'a>,
    /// State that the flows from one address to another share.
    groups: BTreeMap<(Ipv4Addr, Ipv4Addr), Group>,
}

impl<'a> Registry<'a> {
    /// Creates the registry with the algorithms that a plan loads.
    pub fn new(algorithms: &[Algorithm], settings: &'a Settings<'a>) -> Result<Self> {
        let mut loaded = BTreeMap::new();
        for Algorithm { object, cc, profile, set } in algorithms {
            loaded.insert(cc.clone(), (object.clone(), settings(object, profile, set)?));
        }
        Ok(Self { loaded, settings, groups: BTreeMap::new() })
    }

    /// Creates a congestion control for a connection between these addresses. `seed` determines its random choices.
    pub fn make(
        &mut self,
        name: &str,
        seed: u64,
        addresses: (Ipv4Addr, Ipv4Addr),
    ) -> Result<Box<dyn CongestionControl>> {
        if let Some((object, values)) = self.loaded.get(name) {
            let control = HostControl::new(object, values, self.groups.entry(addresses).or_default());
            return Ok(Box::new(control.with_context(|| format!("cannot simulate `{object}`"))?));
        }
        match name {
            "bbr" => Ok(Box::new(Bbr::new(seed))),
            "cubic" => Ok(Box::new(Cubic::new())),
            "reno" => Ok(Box::new(Reno)),
            _ => bail!("the simulator has no `{name}`; of the kernel's it has {}", OF_THE_KERNEL.join(", ")),
        }
    }

    /// Replaces the object behind a name. Values of the old object's tunables are kept if the new object accepts them.
    pub fn swap(&mut self, name: &str, object: &str) -> Result<()> {
        let carried: Vec<String> = match self.loaded.get(name) {
            Some((old, _)) if old == object => return Ok(()),
            Some((_, values)) => values.iter().map(|(tunable, value)| format!("{tunable}={value}")).collect(),
            None => Vec::new(),
        };
        let taken = carried.iter().filter(|one| (self.settings)(object, "default", std::slice::from_ref(one)).is_ok());
        let taken: Vec<String> = taken.cloned().collect();
        let values = (self.settings)(object, "default", &taken)?;
        self.loaded.insert(name.to_owned(), (object.to_owned(), values));
        Ok(())
    }

    /// Sets tunables behind a name, and returns their new values.
    pub fn tune(&mut self, name: &str, set: &[String]) -> Result<Vec<(String, u32)>> {
        let (object, values) = self.loaded.get_mut(name).with_context(|| format!("`{name}` is not loaded"))?;
        let changed = (self.settings)(object, "default", set)?;
        let named = |tunable: &str| set.iter().any(|one| one.split('=').next().is_some_and(|n| n.trim() == tunable));
        let changed: Vec<_> = changed.into_iter().filter(|(tunable, _)| named(tunable)).collect();
        values.retain(|(tunable, _)| !named(tunable));
        values.extend(changed.iter().cloned());
        Ok(changed)
    }
}
