//! The radio map and the command on the running kernel, in a pin directory of their own. Needs root.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod command;
mod group;
mod interrupted;
mod map;
mod quota;
mod sandbox;
