//! Independent reference models of hotcc's congestion controls, and code that runs them side by side with the
//! algorithms' host builds.
//!
//! [`models`] holds the papers' equations in f64; [`kernel`] acts as the kernel around model and algorithm. [`random`]
//! generates connections to run, [`steady`] connections whose path changes slowly, and [`following`] connections that
//! follow a radio's signal. [`examples`] are connections worked by hand. [`steps`] and [`units`] call the algorithms'
//! pure functions. [`storage`] reads socket storage of the running kernel.
//!
//! This is a crate of test helpers: any failure to load panics.

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
