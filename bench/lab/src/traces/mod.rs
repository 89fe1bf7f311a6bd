//! Recorded links: the list of public traces, fetching and checking them, finding those that a scenario names.

pub mod fetch;
mod find;
mod list;

pub use find::{TRACES, TraceFiles, cache, directories};
pub use list::{List, Listed};
