//! The kernel's run-time statistics of BPF programs.

use libbpf_rs::query::ProgInfoIter;

/// Returns the number of calls and the nanoseconds of programs by name, summed over programs with the same name.
pub fn run_times<const N: usize>(names: [&str; N]) -> [(f64, f64); N] {
    let mut times = [(0.0, 0.0); N];
    for program in ProgInfoIter::default() {
        if let Some(place) = names.iter().position(|name| program.name.to_string_lossy() == *name) {
            times[place].0 += program.run_cnt as f64;
            times[place].1 += program.run_time_ns as f64;
        }
    }
    times
}
