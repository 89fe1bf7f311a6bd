//! Tunables. All code about them belongs here; other modules only call it.
//!
//! - This file: what a tunable is, and where its value is stored. [`describe`](crate::object::describe::describe) reads
//!   tunables from the BTF of an object.
//! - [`values`]: parsing and formatting of values, profiles, and which value takes precedence.
//! - [`present`]: the values of a loaded version, read from its sections, compared, and stored in its map.
//!
//! The commands `hotcc get` and `hotcc set` are [`ops::tune`](crate::ops::tune).

pub mod present;
pub mod values;

use serde::Serialize;

/// The section that holds a tunable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// `.data`: can be set while the algorithm runs.
    Data,
    /// `.rodata`: fixed once the algorithm is loaded.
    Rodata,
}

impl Section {
    /// Returns the name of the ELF section.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => ".data",
            Self::Rodata => ".rodata",
        }
    }
}

/// A value that can be set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tunable {
    /// Name of the variable.
    pub name: String,
    /// Former name, if it was renamed.
    #[serde(skip)]
    pub former_name: Option<String>,
    /// Unit; empty for a plain number.
    pub unit: String,
    /// Least value.
    pub min: i128,
    /// Greatest value.
    pub max: i128,
    /// Value in the `default` profile, if the object declares one.
    pub default: Option<i128>,
    /// Value in the `paper` profile, if the object declares one.
    pub paper: Option<i128>,
    /// Names of the values 0, 1, ..., if it is a choice.
    pub choices: Vec<String>,
    /// What it does.
    pub help: String,
    /// The name of a value that causes a warning when it is set, and the text of the warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<(String, String)>,
    /// The section of its value; it determines whether the tunable can be set while the algorithm runs.
    pub section: Section,
    /// Place of its value in the section.
    #[serde(skip)]
    pub place: Place,
}

impl Tunable {
    /// Returns whether this tunable is `before` of an earlier object, under the same or a new name.
    pub(crate) fn is_successor_of(&self, before: &Self) -> bool {
        self.name == before.name || self.former_name.as_ref() == Some(&before.name)
    }

    pub(crate) fn contradiction(&self) -> Option<String> {
        let Self { name, min, max, .. } = self;
        let (lowest, highest) = self.place.range();
        if min > max || *min < lowest || *max > highest {
            return Some(format!(
                "tunable {name} has the range {min}..{max}, but its variable holds {lowest}..{highest}"
            ));
        }
        let profiles = [("default", self.default), ("paper", self.paper)];
        let (profile, value) =
            profiles.into_iter().find_map(|(p, v)| Some((p, v.filter(|v| !(min..=max).contains(&v))?)))?;
        Some(format!("tunable {name} has the {profile} value {value}, outside its range {min}..{max}"))
    }
}

/// The place of a scalar within a section or a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the first byte.
    pub offset: usize,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: usize,
    /// Whether it is signed (two's complement).
    pub signed: bool,
}

impl Place {
    /// Reads the scalar; returns `None` if `bytes` does not contain it.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Option<i128> {
        let mut word = [0u8; 8];
        word.get_mut(..self.size)?.copy_from_slice(bytes.get(self.offset..self.offset + self.size)?);
        let raw = u64::from_le_bytes(word);
        let unused = 64 - 8 * self.size as u32;
        Some(if self.signed { i128::from((raw as i64) << unused >> unused) } else { i128::from(raw) })
    }

    /// Writes the scalar; returns `None` if `bytes` does not contain it.
    pub fn write(self, bytes: &mut [u8], value: i128) -> Option<()> {
        let word = (value as u64).to_le_bytes();
        bytes.get_mut(self.offset..self.offset + self.size)?.copy_from_slice(word.get(..self.size)?);
        Some(())
    }

    pub(crate) fn range(self) -> (i128, i128) {
        let bits = 8 * self.size as u32;
        if self.signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }
}

/// A tunable and a value for it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The tunable.
    pub tunable: Tunable,
    /// The value; within the tunable's range.
    pub value: i128,
}

impl Setting {
    /// Returns the warning that the algorithm's author gives for this value, if any.
    pub(crate) fn warning(&self) -> Option<String> {
        let (value, why) = self.tunable.warning.as_ref()?;
        (*value == values::format_value(&self.tunable, self.value))
            .then(|| format!("{}={value}: {why}", self.tunable.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_sign_and_neighbours() {
        let place = Place { offset: 1, size: 2, signed: true };
        let mut bytes = [9u8; 4];
        place.write(&mut bytes, -2).unwrap();
        assert_eq!(bytes, [9, 0xfe, 0xff, 9]);
        assert_eq!(place.read(&bytes), Some(-2));
        assert_eq!(Place { signed: false, ..place }.read(&bytes), Some(0xfffe));
        assert_eq!(Place { offset: 3, ..place }.read(&bytes), None);
    }
}
