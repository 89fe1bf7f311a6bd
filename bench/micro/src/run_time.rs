//! What the kernel's statistics say of BPF programs.

use libbpf_rs::query::ProgInfoIter;

/// Calls and nanoseconds of programs, by their names; of several with one name the sums.
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
