//! `radio_index`: maps addresses and ports to slots.

use crate::error::MapError;
use aya::maps::lpm_trie::Key;
use aya::maps::{LpmTrie, Map, MapData};
use hotcc_abi::radio::IndexKey;

/// The opened index.
#[derive(Debug)]
pub(crate) struct Index(LpmTrie<MapData, [u8; 20], u32>);

impl Index {
    pub(crate) fn new(map: MapData) -> Result<Self, MapError> {
        LpmTrie::try_from(Map::LpmTrie(map)).map(Self).map_err(|e| MapError::Version(e.to_string()))
    }

    /// Returns every link and its slot. If a feeder deletes a link during the walk, the kernel starts over.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<(IndexKey, u32), MapError>> {
        let entries = self.0.iter().map(|entry| entry.map(|(key, slot)| (abi_key(&key), slot)));
        entries.map(|entry| entry.map_err(|e| MapError::system("read the radio index", e)))
    }

    /// Returns the slot of the longest prefix that covers all of `key`.
    pub(crate) fn longest_match(&self, key: IndexKey) -> Result<Option<u32>, MapError> {
        match self.0.get(&kernel_key(key), 0) {
            Ok(slot) => Ok(Some(slot)),
            Err(aya::maps::MapError::KeyNotFound) => Ok(None),
            Err(e) => Err(MapError::system("read the radio index", e)),
        }
    }

    pub(crate) fn insert(&mut self, key: IndexKey, slot: u32) -> Result<(), MapError> {
        self.0.insert(&kernel_key(key), slot, 0).map_err(MapError::inserting)
    }

    pub(crate) fn remove(&mut self, key: IndexKey) -> Result<(), MapError> {
        self.0.remove(&kernel_key(key)).map_err(|e| MapError::system("write the radio index", e))
    }
}

fn kernel_key(key: IndexKey) -> Key<[u8; 20]> {
    let mut data = [0; 20];
    data.copy_from_slice(&bytemuck::bytes_of(&key)[4..]);
    Key::new(key.prefix_len, data)
}

fn abi_key(key: &Key<[u8; 20]>) -> IndexKey {
    let data = key.data();
    let mut abi = IndexKey { prefix_len: key.prefix_len(), addr: [0; 16], port: [0; 2], pad: [0; 2] };
    abi.addr.copy_from_slice(&data[..16]);
    abi.port.copy_from_slice(&data[16..18]);
    abi
}
