//! Who feeds a link: a process, told from later ones of the same number by when it was started.

use hotcc_abi::radio::Slot;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

/// The process a slot names. Numbers and start times are this process's view: one in another pid or time namespace
/// reads as gone, or as whoever has its number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// As in [`Slot::owner_start`]: 0 where not known.
    start: u32,
}

impl Owner {
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        Self { pid, start: start_of(pid).unwrap_or(0) }
    }

    pub(super) fn of(line: &Slot) -> Self {
        Self { pid: line.owner_pid.load(Relaxed), start: line.owner_start.load(Relaxed) }
    }

    pub(super) fn claim(self, line: &Slot) {
        line.owner_start.store(self.start, Relaxed);
        line.owner_pid.store(self.pid, Relaxed);
    }

    /// Without an owner a slot can be taken whatever becomes of the process id.
    pub(super) fn clear(line: &Slot) {
        line.owner_pid.store(0, Relaxed);
        line.owner_start.store(0, Relaxed);
    }

    /// Process ids 0 and below name groups, and come from shared memory here: they must not reach `kill`.
    pub(super) fn is_alive(self) -> bool {
        let Ok(pid @ 1..) = i32::try_from(self.pid) else { return false };
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            return false;
        }
        // Where either is not known (no procfs, or one that hides other users' processes) the number has to do.
        self.start == 0 || start_of(self.pid).is_none_or(|start| start == self.start)
    }
}

fn start_of(pid: u32) -> Option<u32> {
    start_in(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`. The second is the program's name, which may hold anything, also parentheses.
fn start_in(stat: &[u8]) -> Option<u32> {
    let name_end = stat.iter().rposition(|&b| b == b')')?;
    let after_name = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let ticks: u64 = after_name.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some((ticks as u32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn start_is_found_behind_any_name() {
        let stat = |name: &str, start: &str| {
            format!("7 ({name}) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {start} 3 4\n").into_bytes()
        };
        assert_eq!(start_in(&stat("feeder", "12345")), Some(12_345));
        assert_eq!(start_in(&stat("a) S 1 (b c", "12345")), Some(12_345));
        assert_eq!(start_in(&stat("old", "4294967303")), Some(7));
        assert_eq!(start_in(&stat("init", "0")), Some(1)); // 0 stands for not known
        assert_eq!(start_in(&stat("odd", "x")), None);
        assert_eq!(start_in(b"7 (cut) S 1 7"), None);
        assert_eq!(start_in(b""), None);
    }

    #[test]
    fn the_number_alone_is_not_the_process() {
        let this = Owner::this();
        assert!(this.start != 0 && this.is_alive());
        assert!(!Owner { start: this.start.wrapping_add(1).max(1), ..this }.is_alive());
        assert!(Owner { start: 0, ..this }.is_alive());
        for pid in [0, u32::MAX, i32::MAX as u32] {
            assert!(!Owner { pid, start: 0 }.is_alive());
        }
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!Owner { pid: child.id(), start: this.start.wrapping_add(1 << 31) | 1 }.is_alive());
    }
}
