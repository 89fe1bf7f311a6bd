//! A link whose readings a test makes.

use hotcc_abi::{clock, pins, radio};
use hotcc_radio_map::{LinkOptions, LinkWriter, RadioMap, Reading};
use std::path::Path;

/// A link in the real radio map, which is removed when the value is dropped.
pub struct Fed {
    map: RadioMap,
    writer: LinkWriter,
}

impl Fed {
    pub fn new(prefix: &str, max_age_ms: u32) -> Self {
        let mut map = RadioMap::open_or_create(Path::new(pins::ROOT)).unwrap();
        let (addr, len) = prefix.split_once('/').unwrap();
        let key = radio::IndexKey::prefix(addr.parse().unwrap(), len.parse().unwrap()).unwrap();
        let options = LinkOptions { source: radio::SOURCE_TRACE, max_age_ms, period_ms: 100, take_over: true };
        let writer = map.take_link(key, &options).unwrap();
        Self { map, writer }
    }

    pub fn publish(&self, sinr_db: f64, average_db: f64, age_ms: u32) {
        let (sinr_db, average_db) = (Some(sinr_db), Some(average_db));
        self.publish_reading(&Reading { sinr_db, average_db, ..Reading::default() }, age_ms);
    }

    pub fn publish_reading(&self, reading: &Reading, age_ms: u32) {
        self.writer.publish(reading, clock::monotonic_ms32().wrapping_sub(age_ms)).unwrap();
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let _ = self.map.remove_link(self.writer.key(), true);
    }
}
