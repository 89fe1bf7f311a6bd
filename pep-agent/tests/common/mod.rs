//! Helpers for the tests of both commands: a unit's capabilities, and the series of a metrics page.

use caps::{CapSet, CapsHashSet};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command start with no more capabilities than its unit gives it.
pub fn bounded_as(unit: &str, command: &mut Command) {
    let left = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let left: CapsHashSet = left.split(' ').map(|name| name.parse().unwrap()).collect();
    let gone: Vec<_> = caps::all().difference(&left).copied().collect();
    let give_up = move || {
        let mut each = gone.iter().map(|capability| caps::drop(None, CapSet::Bounding, *capability));
        each.all(|dropped| dropped.is_ok()).then_some(()).ok_or_else(std::io::Error::last_os_error)
    };
    // SAFETY: between fork and exec the closure makes system calls, and allocates nothing unless one fails.
    unsafe { command.pre_exec(give_up) };
}

/// Returns one of a process's capability sets, named as in `/proc/PID/status`.
pub fn capabilities(pid: u32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t")).unwrap();
    u64::from_str_radix(value, 16).unwrap()
}

/// Returns the value of a series, with its labels written as on the page.
pub fn metric(page: &str, series: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {series} in\n{page}"))
}
