//! Reads socket storage of the running kernel.
#![allow(clippy::unwrap_used, reason = "a test helper fails its test by panicking")]

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Iter, MapHandle, ObjectBuilder};
use std::io::Read as _;
use std::os::fd::AsFd as _;

/// Returns the newest map of that name.
#[must_use]
pub fn newest(name: &str) -> MapHandle {
    let id = MapInfoIter::default().filter(|map| map.name == name).map(|map| map.id).max().unwrap();
    MapHandle::from_map_id(id).unwrap()
}

/// Returns the number of sockets that have an entry in the map.
#[must_use]
pub fn sockets_in(map: &MapHandle) -> usize {
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|object| object.name == "storage_walk").unwrap();
    let open = ObjectBuilder::default().open_memory(object.bytes).unwrap();
    let loaded = open.load().unwrap();
    let program = loaded.progs_mut().next().unwrap();
    let link = program.attach_iter(map.as_fd()).unwrap();
    let mut one_each = Vec::new();
    Iter::new(&link).and_then(|mut iter| Ok(iter.read_to_end(&mut one_each)?)).unwrap();
    one_each.len()
}
