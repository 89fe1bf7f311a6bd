//! How results are printed, one file for each subject.

pub mod doctor;
pub mod flows;
pub mod list;
pub mod paths;
mod print;
pub mod rx;
pub mod status;
pub mod switched;
pub mod tunables;
