//! What crosses the border of the lab's virtual machine: jobs and plans go in, messages and records come out.

pub mod cost;
pub mod job;
pub mod plan;
pub mod played;
pub mod records;
