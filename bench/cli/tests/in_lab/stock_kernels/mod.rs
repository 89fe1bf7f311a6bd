//! The tests, by subject.

mod canaries;
mod cost;
mod doctor;
mod links;
mod matrix;
mod objects;
mod paths;
mod pep;
mod pep_on_kernels;
mod queues;
mod receivers;
mod recorded;
mod runs;
mod snapshots;
mod wifi;
