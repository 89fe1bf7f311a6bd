//! Scenarios: hosts, links, radio, flows and events of a run, as a TOML file says (`docs/reference/scenarios.md`).
//!
//! What is swept is put into the text before it is read, so every message has the line of the file.

mod check;
mod congestion;
mod file;
mod pep;
mod place;
mod quantity;
mod sweep;
mod wrong;

pub use file::{
    Change, Event, Feeder, Flow, Handover, Host, Kind, Link, Police, Publish, Route, Rx, Scenario, ScenarioError, Swap,
    Tune, Variant, Way,
};
pub use pep::Pep;
pub use place::Place;
pub use quantity::{Probability, Queue, Rate};
pub use sweep::{Case, Source};
