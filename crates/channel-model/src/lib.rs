//! The state of a radio link over time, and the readings of it that a feeder gets.
//!
//! A [`RadioSpec`] describes a radio (a recorded trace, given steps, or a user who walks through a street). From it and
//! a seed, [`RadioSpec::realise`] makes a [`Radio`]: the true series that drive the lab's link. [`Radio::readings`]
//! returns what a feeder publishes of them: periodic readings that are delayed and noisy. `docs/reference/radio.md` has
//! every model with its keys, formulas and sources. [`trace`] reads, replays and generates recordings.
//!
//! All of it is a pure function of its arguments and of the trace file. It uses no clock, no thread, and no logarithm
//! of the platform's C library (whose last bit differs between machines), and each purpose has its own random stream.

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
