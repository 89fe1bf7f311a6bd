//! Prepares an opened object before it is loaded: sets the values of its tunables, its parameters, and the maps that it
//! shares.

use crate::tunables::Setting;
use bytemuck::Pod;
use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::{OpenMapMut, OpenObject};

/// Writes settings into an object's initial values.
pub(crate) fn apply(object: &mut OpenObject, origin: &str, settings: &[Setting]) -> Result<()> {
    for Setting { tunable, value } in settings {
        let suffix = tunable.section.name();
        let map = object.maps_mut().find(|m| m.name().to_string_lossy().ends_with(suffix));
        let written = map.and_then(|mut m| m.initial_value_mut().and_then(|bytes| tunable.place.write(bytes, *value)));
        written.ok_or_else(|| {
            Error::failed(format!("cannot set tunable {} of {origin}: it is outside {suffix}", tunable.name))
        })?;
    }
    Ok(())
}

/// If algorithms share this map with agents, uses the pinned map; if none is pinned yet, has libbpf pin this one.
pub(crate) fn use_shared(map: &mut OpenMapMut<'_>) -> Result<()> {
    let name = map.name().to_string_lossy().into_owned();
    let Some(path) = pins::shared(&name) else { return Ok(()) };
    if let Some(directory) = path.parent() {
        bpffs::make(directory)?;
    }
    map.set_pin_path(path).tried(|| format!("cannot use the pinned map {name}"))
}

/// Writes an agent's parameters, its job, into its `.data` before it is loaded.
pub fn set_job<T: Pod>(open: &mut OpenObject, job: &T) -> Result<()> {
    let map = open.maps_mut().find(|m| m.name().to_string_lossy().ends_with(".data"));
    let written = map.and_then(|mut map| {
        let value = map.initial_value_mut()?;
        (value.len() == size_of::<T>()).then(|| value.copy_from_slice(bytemuck::bytes_of(job)))
    });
    written.ok_or_else(|| Error::failed("cannot set the agent's parameters: the agent has another layout"))
}
