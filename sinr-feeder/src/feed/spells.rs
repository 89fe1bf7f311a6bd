//! Errors that repeat: each kind is logged once per spell.

use hotcc_radio_map::MapError;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

/// A spell ends after this long without an error of its kind.
const QUIET_NS: u64 = 10_000_000_000;

/// For each kind of error, when it last occurred, in monotonic ns.
#[derive(Debug, Default)]
pub(super) struct Spells(HashMap<Discriminant<MapError>, u64>);

impl Spells {
    /// Notes an error. Returns whether it is the first one of a spell.
    pub(super) fn begins(&mut self, error: &MapError, now_ns: u64) -> bool {
        let last_ns = self.0.insert(discriminant(error), now_ns);
        last_ns.is_none_or(|last_ns| now_ns.saturating_sub(last_ns) > QUIET_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_lasts_until_its_kind_of_error_is_absent_for_long() {
        let mut spells = Spells::default();
        let mut begins = |error, seconds: u64| spells.begins(&error, seconds * 1_000_000_000);
        assert!(begins(MapError::IndexFull, 100));
        assert!((101..130).all(|second| !begins(MapError::IndexFull, second)));
        assert!(begins(MapError::NoFreeSlot, 130), "another kind");
        assert!(!begins(MapError::IndexFull, 139));
        assert!(begins(MapError::IndexFull, 150));
    }
}
