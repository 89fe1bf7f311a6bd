//! What crosses the border of the lab's virtual machine: jobs and plans go in, messages and records come out. The model of a
//! link and of a cell is here as well, because the guest, the simulator and the analysis share it.

pub mod cell;
pub mod cost;
pub mod job;
pub mod link_model;
pub mod plan;
pub mod records;
pub mod run_record;
