//! Prints the results of commands; one file for each subject.
#![deny(clippy::print_stdout, reason = "`say!` prints no control characters of what it quotes")]

pub mod advise;
pub mod canary;
pub mod declared;
pub mod doctor;
pub mod flows;
pub mod list;
pub mod paths;
pub mod policy;
pub mod print;
pub mod rx;
pub mod status;
pub mod switched;
pub mod tunables;
