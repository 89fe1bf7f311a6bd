//! Value maps: pinned arrays with one entry.

use hotcc_host::error::{Result, Tried};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use std::path::Path;

const KEY: [u8; 4] = [0; 4];

/// Creates and pins a one-entry array.
pub fn create_value_map(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
        ..Default::default()
    };
    let tried = || format!("cannot create {}", path.display());
    let mut map = MapHandle::create(MapType::Array, Some(name), 4, value.len() as u32, 1, &options).tried(tried)?;
    map.update(&KEY, value, MapFlags::ANY).tried(tried)?;
    map.pin(path).tried(tried)
}

/// Returns the value of a pinned one-entry array, or `None` if there is no such pin.
pub(super) fn read_value_map(path: &Path) -> Result<Option<Vec<u8>>> {
    if !path.exists() {
        return Ok(None);
    }
    let map = MapHandle::from_pinned_path(path);
    map.and_then(|m| m.lookup(&KEY, MapFlags::empty())).tried(|| format!("cannot read {}", path.display()))
}

/// Writes a pinned one-entry array, and creates it if necessary.
pub(super) fn write_value_map(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    if !path.exists() {
        return create_value_map(path, name, value);
    }
    let map = MapHandle::from_pinned_path(path);
    map.and_then(|m| m.update(&KEY, value, MapFlags::ANY)).tried(|| format!("cannot write {}", path.display()))
}
