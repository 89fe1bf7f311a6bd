//! The kernel's run-time statistics of BPF programs. They are read by id: other programs of the machine may have the
//! same names.

use libbpf_rs::query::ProgInfoIter;
use std::collections::BTreeSet;

/// Returns the number of calls and the nanoseconds of programs by id.
pub fn run_times_of<const N: usize>(ids: [u32; N]) -> [(f64, f64); N] {
    let mut times = [(0.0, 0.0); N];
    for program in ProgInfoIter::default() {
        if let Some(place) = ids.iter().position(|id| program.id == *id) {
            times[place] = (program.run_cnt as f64, program.run_time_ns as f64);
        }
    }
    times
}

/// Returns the ids of the programs that are loaded now.
pub fn loaded() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

/// Returns the id of a program with this name that is not among the ids in `before`, if there is one.
pub fn loaded_since(before: &BTreeSet<u32>, name: &str) -> Option<u32> {
    ProgInfoIter::default().find(|program| program.name == name && !before.contains(&program.id)).map(|p| p.id)
}
