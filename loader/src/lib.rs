//! Loads TCP congestion controls written in BPF, tunes and swaps them while traffic flows, and tells what they do.
//!
//! The kernel is the database: everything that matters is pinned in bpffs, every function here is stateless, and what
//! is reported was read back.

pub mod connections;
pub mod describe;
pub mod doctor;
pub mod error;
pub mod exporter;
pub mod flows;
pub mod install;
pub mod kernel;
mod killpoint;
mod lease;
mod libbpf_log;
pub mod manage;
pub mod metrics;
pub mod migrate;
pub mod netns;
pub mod object;
pub mod paths;
pub mod registrations;
pub mod registry;
pub mod run;
pub mod rx;
pub mod status;
pub mod sys;
pub mod sysctl;
pub mod tune;
pub mod values;
