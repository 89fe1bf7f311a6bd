//! Rates, queues and probabilities in a readable notation.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::fmt;

/// A rate, bit/s: `5Mbit/s`, `500 kbit/s`, or a number of bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(
    /// bit/s, up to 100 Gbit/s.
    pub u64,
);

/// Capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// `51200B`, `64kB`, `1MB`, or a number of bytes.
    Bytes(u64),
    /// `100packets` of the link's MTU.
    Packets(u64),
    /// `1.5BDP`: rate times the base round-trip time of the first flow that crosses the link.
    Bdp(f64),
}

/// A probability from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(
    /// 0..=1.
    pub f64,
);

pub(crate) const FASTEST_BPS: f64 = 1e11;
const MAX_QUEUE_BYTES: f64 = 1e10;

/// Splits a text into a number and the unit after it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number = text[..end].trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    Some((number, text[end..].trim()))
}

/// Either a number in the basic unit, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Plain {
    Number(f64),
    Text(String),
}

impl Rate {
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let factor = match unit.strip_suffix("/s")? {
            "bit" => 1.0,
            "kbit" => 1e3,
            "Mbit" => 1e6,
            "Gbit" => 1e9,
            _ => return None,
        };
        Self::new(number * factor)
    }

    fn new(bps: f64) -> Option<Self> {
        (1.0..=FASTEST_BPS).contains(&bps).then_some(Self(bps.round() as u64))
    }
}

impl Queue {
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        match unit {
            "B" => Self::bytes(number),
            "kB" => Self::bytes(number * 1e3),
            "MB" => Self::bytes(number * 1e6),
            "packets" if (1.0..=MAX_QUEUE_BYTES).contains(&number) => Some(Self::Packets(number as u64)),
            "BDP" if number > 0.0 && number <= 1e4 => Some(Self::Bdp(number)),
            _ => None,
        }
    }

    fn bytes(number: f64) -> Option<Self> {
        (1.0..=MAX_QUEUE_BYTES).contains(&number).then_some(Self::Bytes(number as u64))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (found, given) = match Plain::deserialize(deserializer)? {
            Plain::Number(number) => (Self::new(number), number.to_string()),
            Plain::Text(text) => (Self::parse(&text), text),
        };
        found.ok_or_else(|| {
            D::Error::custom(format!("invalid rate `{given}`: expected 1bit/s to 100Gbit/s, e.g. `5Mbit/s`"))
        })
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (found, given) = match Plain::deserialize(deserializer)? {
            Plain::Number(number) => (Self::bytes(number), number.to_string()),
            Plain::Text(text) => (Self::parse(&text), text),
        };
        let invalid = || {
            D::Error::custom(format!("invalid queue `{given}`: expected a size, e.g. `64kB`, `100packets` or `1.5BDP`"))
        };
        found.ok_or_else(invalid)
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&number) {
            return Ok(Self(number));
        }
        Err(D::Error::custom(format!("invalid probability `{number}`: expected 0 to 1")))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{bps}bit/s"),
            1_000..1_000_000 => write!(f, "{}kbit/s", bps / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{}Mbit/s", bps / 1e6),
            _ => write!(f, "{}Gbit/s", bps / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_queues_are_parsed() {
        assert_eq!(Rate::parse("5Mbit/s"), Some(Rate(5_000_000)));
        assert_eq!(Rate::parse("1.5 Gbit/s"), Some(Rate(1_500_000_000)));
        for invalid in ["5", "5Mbit", "5MB/s", "-1Mbit/s", "0bit/s", "101Gbit/s", "NaNbit/s", "Mbit/s"] {
            assert_eq!(Rate::parse(invalid), None, "{invalid}");
        }
        assert_eq!(Queue::parse("51200B"), Some(Queue::Bytes(51200)));
        assert_eq!(Queue::parse("64kB"), Some(Queue::Bytes(64_000)));
        assert_eq!(Queue::parse("100 packets"), Some(Queue::Packets(100)));
        assert_eq!(Queue::parse("1.5BDP"), Some(Queue::Bdp(1.5)));
        for invalid in ["0B", "64", "64KB", "0packets", "0BDP", "-1B"] {
            assert_eq!(Queue::parse(invalid), None, "{invalid}");
        }
        assert_eq!(Rate(2_500_000).to_string(), "2.5Mbit/s");
    }
}
