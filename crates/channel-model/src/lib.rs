//! What a radio link is over time, and what a feeder gets to see of it.
//!
//! A [`RadioSpec`] describes a radio (a recorded trace, given steps, or a user who walks through a street). It and a
//! seed make a [`Radio`]: the true series that drive the lab's link. [`Radio::readings`] makes of them what a feeder
//! publishes: late, noisy, now and then. `docs/reference/radio.md` has every model with its keys, formulas and sources.
//! [`trace`] reads, replays and generates recordings.
//!
//! All of it is a pure function of its arguments and of the trace file: no clock, no thread, no logarithm of the
//! platform's C library (whose last bit differs between machines), and one random stream per purpose.

mod check;
mod error;
mod fading;
mod geometry;
mod radio;
mod random;
pub mod ranges;
mod rate;
mod readings;
mod realise;
mod series;
mod spec;
pub mod trace;
mod umi;

pub use error::RadioError;
pub use radio::{Edge, Radio, SINR_DB, STEP};
pub use rate::{RateSpec, Table};
pub use readings::{FeederSpec, ReadingAt};
pub use realise::LONGEST;
pub use spec::{
    AtEnd, ConstantSpec, Fading, LineOfSight, Obstacle, RadioSpec, Shadowing, Shape, Station, StepsSpec, TraceSpec,
    UmiSpec, User, Waypoint,
};

#[cfg(test)]
mod tests;
