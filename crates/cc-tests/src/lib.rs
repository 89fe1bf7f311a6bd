//! Independent reference models of hotcc's congestion controls, and what drives them beside the algorithms' host builds.
//!
//! [`models`] holds the papers' equations in f64; [`kernel`] plays the kernel's part around both; [`random`] makes up
//! connections to apply, [`steady`] those whose path changes slowly, and [`following`] those that follow a radio's signal.
//! [`examples`] are connections worked by hand. [`steps`] and [`units`] are the pure functions below. [`storage`] looks into
//! the running kernel's.
//!
//! This is a crate of test helpers: whatever goes wrong in loading panics.

pub mod examples;
pub mod following;
pub mod kernel;
mod library;
mod live;
pub mod models;
pub mod random;
pub mod reports;
pub mod rx;
pub mod signals;
pub mod steady;
pub mod steps;
pub mod storage;
pub mod units;
