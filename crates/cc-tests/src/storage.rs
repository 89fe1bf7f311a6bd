//! Reads socket storage of the running kernel.
#![allow(clippy::unwrap_used, reason = "a test helper fails its test by panicking")]

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Iter, MapCore as _, MapHandle, ObjectBuilder};
use std::io::Read as _;

/// Returns the newest map of that name.
#[must_use]
pub fn newest(name: &str) -> MapHandle {
    let id = MapInfoIter::default().filter(|map| map.name == name).map(|map| map.id).max().unwrap();
    MapHandle::from_map_id(id).unwrap()
}

/// Returns the number of sockets that have an entry in the map.
#[must_use]
pub fn sockets_in(map: &MapHandle) -> usize {
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|object| object.name == "storage_count").unwrap();
    let mut open = ObjectBuilder::default().open_memory(object.bytes).unwrap();
    // the map's number is the first field of the program's data
    let id = map.info().unwrap().info.id.to_ne_bytes();
    open.maps_mut().next().unwrap().initial_value_mut().unwrap()[..id.len()].copy_from_slice(&id);
    let loaded = open.load().unwrap();
    let link = loaded.progs_mut().next().unwrap().attach().unwrap();
    let mut count = [0; size_of::<u32>()];
    Iter::new(&link).and_then(|mut iter| Ok(iter.read_exact(&mut count)?)).unwrap();
    u32::from_ne_bytes(count).try_into().unwrap()
}
