//! What host and guest of the lab's virtual machine exchange: jobs and plans go in, messages and records come out. The
//! models of a link and of a cell are here as well, because the guest, the simulator and the analysis share them.

pub mod cell;
pub mod cost;
pub mod job;
pub mod link_model;
pub mod plan;
pub mod qdisc;
pub mod queue;
pub mod records;
pub mod run_record;
pub mod splitmix;
