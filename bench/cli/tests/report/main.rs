//! The commands for reports and comparisons, on result directories that the tests write.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod command;
mod diff;
#[path = "../../../report/tests/report/fixture.rs"]
mod fixture;
