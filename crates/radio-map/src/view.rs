//! Reading the radio map.

use crate::error::MapError;
use crate::index::Index;
use crate::link::{Link, Snapshot};
use crate::pinned;
use crate::slots::RadioSlots;
use hotcc_abi::radio::{INDEX_ENTRIES, IndexKey};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// The radio map, read-only.
#[derive(Debug)]
pub struct RadioView {
    pub(crate) index: Index,
    pub(crate) slots: Arc<RadioSlots>,
}

impl RadioView {
    /// Opens the maps below `pin_root` for reading.
    ///
    /// # Errors
    /// [`MapError::Absent`] if the maps do not exist yet; also fails if a permission is missing, or if the maps have
    /// another version.
    pub fn open(pin_root: &Path) -> Result<Self, MapError> {
        let (index, slots) = pinned::open(pin_root)?.ok_or(MapError::Absent)?;
        let slots = RadioSlots::read_only(slots.fd()).map_err(MapError::mapping)?;
        Ok(Self { index, slots: Arc::new(slots) })
    }

    /// Returns every link of the index, sorted by address and port, longer prefixes first.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, MapError> {
        let mut links = Vec::new();
        // The walk is bounded, because it may start over again and again while feeders change the index.
        let mut seen = HashSet::new();
        for entry in self.index.entries().take(INDEX_ENTRIES as usize) {
            let (key, slot) = entry?;
            if let Some(line) = self.slots.slot(slot)
                && seen.insert(key)
            {
                links.push(Link { key, slot, snapshot: Snapshot::of(line) });
            }
        }
        links.sort_by_key(|l| (l.key.addr, l.key.port, Reverse(l.key.prefix_len)));
        Ok(links)
    }

    /// Returns the slot that a flow to `peer` reads: that of the longest matching prefix.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn slot_of(&self, peer: SocketAddr) -> Result<Option<u32>, MapError> {
        let full = IndexKey::port_block(peer.ip(), peer.port(), 16);
        full.map_or(Ok(None), |key| self.index.longest_match(key))
    }

    /// Returns a copy of line `slot`.
    #[must_use]
    pub fn snapshot(&self, slot: u32) -> Option<Snapshot> {
        self.slots.slot(slot).map(Snapshot::of)
    }

    /// Returns a number that changes whenever a link is added, removed or moved to another slot.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.slots.header().generation.load(Acquire)
    }

    /// Returns the slot of exactly this link, which was `last` before; `None` if it is not in the index.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn slot_of_link(&self, link: IndexKey, last: Option<u32>) -> Result<Option<u32>, MapError> {
        let found = self.index.longest_match(link)?;
        if found.is_none() || found == last {
            return Ok(found);
        }
        for entry in self.index.entries().take(INDEX_ENTRIES as usize) {
            let (key, slot) = entry?;
            if key == link {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }
}

/// Returns every link of the radio map below `pin_root`, as [`RadioView::links`] does; none if the maps do not exist
/// yet.
///
/// # Errors
/// Fails if the maps cannot be opened, or have another version.
pub fn links(pin_root: &Path) -> Result<Vec<Link>, MapError> {
    match RadioView::open(pin_root) {
        Err(MapError::Absent) => Ok(Vec::new()),
        view => view?.links(),
    }
}
