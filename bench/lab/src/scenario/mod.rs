//! Scenarios: hosts, links, radio, flows and events of a run, as described in a TOML file
//! (`docs/reference/scenarios.md`).
//!
//! Swept values are put into the text before it is parsed, so every error message has a line number of the file.

mod check;
mod congestion;
mod field_error;
mod file;
mod pep;
mod place;
mod quantity;
mod queue;
mod sweep;

pub use file::{
    Change, Event, Feeder, Flow, Handover, Host, Kind, Link, Police, Publish, Route, Rx, Scenario, ScenarioError, Swap,
    Tune, Variant, Way,
};
pub use pep::Pep;
pub use place::Place;
pub(crate) use quantity::FASTEST_BPS;
pub use quantity::{Probability, Queue, Rate};
pub use queue::{Discipline, LinkQueue};
pub use sweep::{Case, Source};

/// Returns the names of the members of a host, or of the flows of a table: NAME of one, NAME-1, NAME-2, ... of several.
pub(crate) fn member_names(base: &str, count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| if count == 1 { base.to_owned() } else { format!("{base}-{number}") })
}
