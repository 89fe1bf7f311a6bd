//! Reports of result directories that the tests write.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod board;
mod browser;
mod dossier;
mod figures;
mod fixture;
mod gates;
mod markup;
mod page;
mod repeated;
