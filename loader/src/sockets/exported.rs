//! The fields of an algorithm's per-flow state that are added up over the open connections.

use crate::object::describe::{Export, StateField};
use bytemuck::{Pod, Zeroable};
use std::collections::BTreeMap;

const FIELDS: usize = 8;
const COUNTS: usize = 32;

/// `struct exported_field` of `sock_count`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct ExportedField {
    /// Offset in the state.
    pub offset: u8,
    /// Size in bytes.
    pub size: u8,
    /// Place of the sum, or of the first count.
    pub first: u8,
    /// Number of counts; 0: a sum.
    pub counts: u8,
    /// Offset of what a forecast adds.
    pub reading: u8,
    /// Not 0: a sum of the rates that it forecasts, bytes/s.
    pub is_forecast: u8,
}

/// What the kernel reads of the state of each connection.
pub(super) type Places = [ExportedField; FIELDS];

/// The sums and counts that the kernel made.
pub(super) type Counted = [u64; COUNTS];

/// The exported fields of connections, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateCounts {
    /// Sums by field.
    pub sums: BTreeMap<String, f64>,
    /// Connections by field and name of its value.
    pub connections: BTreeMap<(String, String), u64>,
    /// Sum of the rates that the connections forecast, bytes/s; `None` if the algorithm forecasts none.
    pub forecast_bytes_per_s: Option<u64>,
}

impl StateCounts {
    /// Names what the kernel added up for the algorithm with this state.
    pub(super) fn read(state: &[StateField], counted: &Counted) -> Self {
        let mut read = Self::default();
        for (field, place) in exported(state) {
            let counts = &counted[usize::from(place.first)..];
            match &field.export {
                Some(Export::Sum(one)) => {
                    read.sums.insert(field.name.clone(), counts[0] as f64 / one);
                }
                Some(Export::Counts(names)) => read
                    .connections
                    .extend(names.iter().zip(counts).map(|(value, n)| ((field.name.clone(), value.clone()), *n))),
                Some(Export::Forecast(_)) => read.forecast_bytes_per_s = Some(counts[0]),
                None => {}
            }
        }
        read
    }

    /// Adds those of other connections.
    pub fn add(&mut self, other: &Self) {
        for (field, sum) in &other.sums {
            *self.sums.entry(field.clone()).or_default() += sum;
        }
        for (value, n) in &other.connections {
            *self.connections.entry(value.clone()).or_default() += n;
        }
        if let Some(rates) = other.forecast_bytes_per_s {
            *self.forecast_bytes_per_s.get_or_insert_default() += rates;
        }
    }
}

/// Returns the places of the exported fields.
pub(super) fn places(state: &[StateField]) -> Places {
    let mut places = Places::default();
    places.iter_mut().zip(exported(state)).for_each(|(place, (_, found))| *place = found);
    places
}

/// Returns the exported fields, as far as the kernel has room for them.
fn exported(state: &[StateField]) -> impl Iterator<Item = (&StateField, ExportedField)> {
    let place = |first: &mut usize, field: &'_ StateField| {
        let (counts, reading) = match &field.export {
            Some(Export::Counts(names)) => (names.len(), None),
            Some(Export::Sum(_)) => (0, None),
            Some(Export::Forecast(reading)) => (0, Some(named(state, reading)?)),
            None => return Some(None),
        };
        let place = ExportedField {
            offset: u8::try_from(field.place.offset).ok()?,
            size: field.place.size as u8,
            first: *first as u8,
            counts: u8::try_from(counts).ok()?,
            reading: u8::try_from(reading.map_or(0, |field| field.place.offset)).ok()?,
            is_forecast: reading.is_some().into(),
        };
        *first += counts.max(1);
        (*first <= COUNTS).then_some(Some(place))
    };
    state
        .iter()
        .scan(0, move |first, field| Some(place(first, field)?.map(|place| (field, place))))
        .flatten()
        .take(FIELDS)
}

fn named<'a>(state: &'a [StateField], name: &str) -> Option<&'a StateField> {
    state.iter().find(|field| field.name == name)
}

/// The value of a reading that there was none of (`NO_READING` of the algorithms).
const NO_READING: i128 = i16::MIN as i128;

/// Returns whether this value of a field stands for a reading that there was none of.
pub(super) fn is_no_reading(state: &[StateField], field: &StateField, value: i128) -> bool {
    value == NO_READING && forecasting(state).is_some_and(|(_, newest)| array(newest) == array(&field.name))
}

/// Returns the name of the array that an element belongs to.
fn array(element: &str) -> &str {
    element.split('[').next().unwrap_or_default()
}

/// Returns the rate that a connection forecasts, segments/s; `None` if it forecasts none.
pub(super) fn forecast(state: &[StateField], bytes: &[u8]) -> Option<f64> {
    let (field, newest) = forecasting(state)?;
    let level = field.place.read(bytes)?;
    let reading = named(state, newest)?.place.read(bytes)?;
    (level != 0 && reading != NO_READING).then(|| ((level + reading) as f64 / 1024.0).exp2() / 16.0)
}

/// Returns the field that forecasts a rate, and the name of the newest reading.
fn forecasting(state: &[StateField]) -> Option<(&StateField, &str)> {
    state.iter().find_map(|field| match &field.export {
        Some(Export::Forecast(newest)) => Some((field, newest.as_str())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Source;

    #[test]
    fn all_exported_fields_of_the_algorithms_have_room() {
        for object in hotcc_bpf::ALGOS {
            let state = Source::builtin(object).open().unwrap().description.state;
            let tagged = state.iter().filter(|field| field.export.is_some()).count();
            assert_eq!(exported(&state).count(), tagged, "{}", object.name);
        }
    }

    #[test]
    fn a_forecast_is_of_a_level_and_the_newest_reading() {
        let state = Source::builtin(hotcc_bpf::algo("crest").unwrap()).open().unwrap().description.state;
        let mut bytes = vec![0; 104];
        let set = |bytes: &mut [u8], name: &str, value: i16| {
            let place = named(&state, name).unwrap().place;
            assert_eq!(place.size, 2, "{name}");
            bytes[place.offset..][..2].copy_from_slice(&value.to_le_bytes());
        };
        set(&mut bytes, "signal.level", 14 * 1024);
        for (slice, reading) in [-2 * 1024, 0, 1, 2].into_iter().enumerate() {
            set(&mut bytes, &format!("signal.readings[{slice}]"), reading);
        }
        assert_eq!(forecast(&state, &bytes), Some(256.0), "2^12 sixteenths of a segment per second");
        set(&mut bytes, "signal.readings[0]", i16::MIN);
        assert_eq!(forecast(&state, &bytes), None);
        let is_none = |name: &str, value| is_no_reading(&state, named(&state, name).unwrap(), value);
        assert!(is_none("signal.readings[0]", NO_READING) && is_none("signal.readings[3]", NO_READING));
        assert!(!is_none("signal.readings[0]", -2048) && !is_none("signal.level", NO_READING));
    }
}
