//! Recorded links: lists public traces, fetches and verifies them, and looks up those that a scenario names.

pub mod fetch;
mod find;
mod list;

pub use find::{TRACES, TraceFiles, cache, directories};
pub use list::{Archived, Entry, List, Listed};
