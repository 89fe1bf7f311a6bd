//! The queue of a link: a size, or a table that names a queueing discipline.

use super::field_error::{CheckResult, invalid};
use super::quantity::Queue;
use hotcc_lab_proto::queue::{Kind, Parameters};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use std::fmt;
use toml::Spanned;

/// Range of the times of a discipline.
const MIN_MS: f64 = 0.001;
const MAX_MS: f64 = 10_000.0;

/// A queue: its size, and how it chooses the packets to send, drop and mark.
#[derive(Clone, Debug, Default)]
pub struct LinkQueue {
    /// Capacity; `None` for the default.
    pub limit: Option<Queue>,
    /// The discipline; `None` for drop-tail.
    pub discipline: Option<Discipline>,
}

/// A discipline, with those of its parameters that the file sets.
#[derive(Clone, Debug)]
pub struct Discipline {
    /// Which one.
    pub kind: Kind,
    /// Delay that it aims at.
    pub target_ms: Option<f64>,
    /// CoDel's interval.
    pub interval_ms: Option<f64>,
    /// Whether CoDel marks ECN-capable packets.
    pub ecn: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Name {
    DropTail,
    Codel,
    FqCodel,
    Dualpi2,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    discipline: Name,
    limit: Option<Queue>,
    target_ms: Option<f64>,
    interval_ms: Option<f64>,
    ecn: Option<bool>,
}

impl LinkQueue {
    fn of_table(table: Table) -> Result<Self, String> {
        let Table { discipline, limit, target_ms, interval_ms, ecn } = table;
        let kind = match discipline {
            Name::DropTail => {
                let keys = [("target_ms", target_ms.is_some()), ("interval_ms", interval_ms.is_some())];
                return match keys.into_iter().chain([("ecn", ecn.is_some())]).find(|(_, is_set)| *is_set) {
                    Some((key, _)) => Err(format!("`{key}` does not apply to `drop_tail`")),
                    None => Ok(Self { limit, discipline: None }),
                };
            }
            Name::Codel => Kind::Codel,
            Name::FqCodel => Kind::FqCodel,
            Name::Dualpi2 => Kind::Dualpi2,
        };
        Ok(Self { limit, discipline: Some(Discipline { kind, target_ms, interval_ms, ecn }) })
    }
}

impl Discipline {
    /// Returns the limit of the queue by default, which is Linux's.
    #[must_use]
    pub fn default_limit(&self) -> Queue {
        Queue::Packets(match self.kind {
            Kind::Codel => 1000,
            Kind::FqCodel => 10_240,
            Kind::Dualpi2 => 10_000,
        })
    }

    /// Returns all parameters: those that the file does not set have Linux's values.
    #[must_use]
    pub fn parameters(&self, mtu_bytes: u32, seed: u64) -> Parameters {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        let default = Parameters::of_linux(self.kind, mtu_bytes, seed);
        Parameters {
            target_ns: self.target_ms.map_or(default.target_ns, ns),
            interval_ns: self.interval_ms.map_or(default.interval_ns, ns),
            ecn: self.ecn.unwrap_or(default.ecn),
            ..default
        }
    }
}

/// Checks the parameters of a queue's discipline.
pub(super) fn check_queue(queue: &Spanned<LinkQueue>) -> CheckResult {
    let Some(discipline) = &queue.get_ref().discipline else { return Ok(()) };
    if discipline.kind == Kind::Dualpi2 {
        if discipline.ecn.is_some() {
            return invalid(queue, "`ecn` does not apply to `dualpi2`: it always marks ECN-capable packets");
        }
        if discipline.interval_ms.is_some() {
            return invalid(queue, "`interval_ms` does not apply to `dualpi2`");
        }
    }
    for (time, key) in [(discipline.target_ms, "target_ms"), (discipline.interval_ms, "interval_ms")] {
        if let Some(ms) = time.filter(|ms| !(MIN_MS..=MAX_MS).contains(ms)) {
            return invalid(queue, format!("invalid {key} `{ms}`: expected {MIN_MS} to {MAX_MS}"));
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for LinkQueue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LinkQueueVisitor)
    }
}

struct LinkQueueVisitor;

impl LinkQueueVisitor {
    fn sized<'a, E: Error>(value: impl IntoDeserializer<'a, E>) -> Result<LinkQueue, E> {
        Ok(LinkQueue { limit: Some(Queue::deserialize(value.into_deserializer())?), discipline: None })
    }
}

impl<'de> Visitor<'de> for LinkQueueVisitor {
    type Value = LinkQueue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size, e.g. `64kB`, or a table, e.g. `{ discipline = \"codel\" }`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LinkQueue, E> {
        Self::sized(text)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<LinkQueue, E> {
        Self::sized(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<LinkQueue, E> {
        Self::sized(number)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LinkQueue, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        LinkQueue::of_table(table).map_err(A::Error::custom)
    }
}
