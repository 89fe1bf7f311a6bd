//! The owner of a link: the process that feeds it. The start time distinguishes it from later processes with the same
//! id.

use hotcc_abi::radio::Slot;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

/// The process that a slot names. Process ids and start times are interpreted in this process's namespaces: a process
/// in another pid or time namespace appears to have ended, or is taken for the process that has its id here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// As in [`Slot::owner_start`]: 0 if not known.
    start: u32,
}

impl Owner {
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self { pid, start: Process::look_up(pid).map_or(0, |found| found.start) }
    }

    pub(crate) fn of(slot: &Slot) -> Self {
        Self { pid: slot.owner_pid.load(Relaxed), start: slot.owner_start.load(Relaxed) }
    }

    pub(crate) fn claim(self, slot: &Slot) {
        slot.owner_start.store(self.start, Relaxed);
        slot.owner_pid.store(self.pid, Relaxed);
    }

    /// Clears the owner, so that the slot can be taken even if another process gets the same id.
    pub(crate) fn clear(slot: &Slot) {
        slot.owner_pid.store(0, Relaxed);
        slot.owner_start.store(0, Relaxed);
    }

    /// Returns whether the process runs, as far as this process can see. Ids of 0 and below denote process groups. The
    /// id comes from shared memory, so such values are rejected before they reach `kill`.
    pub(crate) fn is_alive(self) -> bool {
        let Ok(pid @ 1..) = i32::try_from(self.pid) else { return false };
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            return false;
        }
        // If a start time is not known (no procfs, or one that hides other users' processes), the id alone decides.
        Process::look_up(self.pid)
            .is_none_or(|found| !found.has_ended && (self.start == 0 || found.start == self.start))
    }
}

/// The data of a process in `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// As in [`Slot::owner_start`], never 0.
    start: u32,
    /// Whether it has ended, but its parent has not waited for it yet: it keeps its id, but feeds nothing.
    has_ended: bool,
}

impl Process {
    fn look_up(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses state and start time, which are fields 3 and 22. Field 2 is the program's name, which may contain any
    /// characters, including parentheses.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|&b| b == b')')?;
        let mut after_name = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
        let has_ended = matches!(after_name.next()?, "Z" | "X");
        let ticks: u64 = after_name.nth(18)?.parse().ok()?;
        Some(Self { start: (ticks as u32).max(1), has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn state_and_start_are_parsed_after_any_program_name() {
        let parse = |name: &str, state: &str, start: &str| {
            let stat = format!("7 ({name}) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {start} 3 4\n");
            Process::parse(stat.as_bytes()).map(|found| (found.start, found.has_ended))
        };
        assert_eq!(parse("feeder", "S", "12345"), Some((12_345, false)));
        assert_eq!(parse("a) Z 1 (b c", "S", "12345"), Some((12_345, false)));
        assert_eq!(parse("old", "R", "4294967303"), Some((7, false)));
        assert_eq!(parse("init", "S", "0"), Some((1, false))); // 0 means not known
        assert_eq!(parse("zombie", "Z", "5"), Some((5, true)));
        assert_eq!(parse("dead", "X", "5"), Some((5, true)));
        assert_eq!(parse("odd", "S", "x"), None);
        assert_eq!(Process::parse(b"7 (cut) S 1 7"), None);
        assert_eq!(Process::parse(b""), None);
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let start = Process::look_up(child.id()).unwrap().start;
        let [known, unknown] = [start, 0].map(|start| Owner { pid: child.id(), start });
        assert!(known.is_alive() && unknown.is_alive());
        child.kill().unwrap();
        let started = Instant::now();
        while known.is_alive() {
            assert!(started.elapsed() < Duration::from_secs(5), "a zombie counts as alive");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!unknown.is_alive());
        assert!(kill(Pid::from_raw(child.id() as i32), None).is_ok(), "its id still exists");
        child.wait().unwrap();
    }

    #[test]
    fn an_owner_is_identified_by_id_and_start_time() {
        let current = Owner::current();
        assert!(current.start != 0 && current.is_alive());
        assert!(!Owner { start: current.start.wrapping_add(1).max(1), ..current }.is_alive());
        assert!(Owner { start: 0, ..current }.is_alive());
        for pid in [0, u32::MAX, i32::MAX as u32] {
            assert!(!Owner { pid, start: 0 }.is_alive());
        }
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!Owner { pid: child.id(), start: current.start.wrapping_add(1 << 31) | 1 }.is_alive());
    }
}
