//! The kernel's run-time statistics of BPF programs.

use libbpf_rs::query::{ProgInfoIter, ProgramInfo};

/// Returns the number of calls and the nanoseconds of programs by name, summed over programs with the same name.
pub fn run_times<const N: usize>(names: [&str; N]) -> [(f64, f64); N] {
    sums(|program| names.iter().position(|name| program.name.to_string_lossy() == *name))
}

/// Returns the same of programs by id. Other programs of the machine may have the same names.
pub fn run_times_of<const N: usize>(ids: [u32; N]) -> [(f64, f64); N] {
    sums(|program| ids.iter().position(|id| program.id == *id))
}

fn sums<const N: usize>(place: impl Fn(&ProgramInfo) -> Option<usize>) -> [(f64, f64); N] {
    let mut times = [(0.0, 0.0); N];
    for program in ProgInfoIter::default() {
        if let Some(place) = place(&program) {
            times[place].0 += program.run_cnt as f64;
            times[place].1 += program.run_time_ns as f64;
        }
    }
    times
}
