//! Links whose readings a test makes.

use hotcc_abi::{clock, pins, radio};
use hotcc_radio_map::{LinkOptions, LinkWriter, RadioMap, Reading};
use std::path::Path;

/// Links in the real radio map, which are removed when the value is dropped.
pub struct Fed {
    map: RadioMap,
    writers: Vec<LinkWriter>,
}

impl Fed {
    pub fn new(prefix: &str, max_age_ms: u32) -> Self {
        Self::several([prefix], max_age_ms)
    }

    pub fn several(prefixes: impl IntoIterator<Item = impl AsRef<str>>, max_age_ms: u32) -> Self {
        let map = RadioMap::open_or_create(Path::new(pins::ROOT)).unwrap();
        let options = LinkOptions { source: radio::SOURCE_TRACE, max_age_ms, period_ms: 100, take_over: true };
        let mut fed = Self { map, writers: Vec::new() };
        for prefix in prefixes {
            let (addr, len) = prefix.as_ref().split_once('/').unwrap();
            let key = radio::IndexKey::prefix(addr.parse().unwrap(), len.parse().unwrap()).unwrap();
            fed.writers.push(fed.map.take_link(key, &options).unwrap());
        }
        fed
    }

    pub fn publish(&self, sinr_db: f64, average_db: f64, age_ms: u32) {
        let (sinr_db, average_db) = (Some(sinr_db), Some(average_db));
        self.publish_reading(&Reading { sinr_db, average_db, ..Reading::default() }, age_ms);
    }

    pub fn publish_reading(&self, reading: &Reading, age_ms: u32) {
        for writer in &self.writers {
            writer.publish(reading, clock::monotonic_ms32().wrapping_sub(age_ms)).unwrap();
        }
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        for writer in &self.writers {
            let _ = self.map.remove_link(writer.key(), true);
        }
    }
}
