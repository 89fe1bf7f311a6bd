//! Commands that open a file, which the test holds until it has looked at the lock.

use hotcc_abi::pins;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Holds each opening of a file until it is allowed.
struct HeldFile(File);

impl HeldFile {
    fn new(path: &str) -> Self {
        let path = CString::new(path).unwrap();
        let flags = libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // SAFETY: it takes numbers only.
        let group = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        assert!(group >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor was just made and has no other owner.
        let group = unsafe { File::from_raw_fd(group) };
        let (add, opening) = (libc::FAN_MARK_ADD, libc::FAN_OPEN_PERM);
        // SAFETY: the group is open, and the path ends with a zero.
        let marked = unsafe { libc::fanotify_mark(group.as_raw_fd(), add, opening, libc::AT_FDCWD, path.as_ptr()) };
        assert_eq!(marked, 0, "{}", std::io::Error::last_os_error());
        Self(group)
    }

    /// Calls `held` while a process that opens the file waits, and then lets it go on; `false` if none does.
    fn opening(&mut self, held: impl FnOnce()) -> bool {
        let mut event = [0; 24]; // struct fanotify_event_metadata, whose `fd` is at 16
        match self.0.read(&mut event) {
            Ok(read) => assert_eq!(read, event.len()),
            Err(none) => {
                assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
                return false;
            }
        }
        // SAFETY: the kernel made the descriptor for this event, and nothing else owns it.
        let opened = unsafe { OwnedFd::from_raw_fd(i32::from_ne_bytes(event[16..20].try_into().unwrap())) };
        held();
        let response = [opened.as_raw_fd().to_ne_bytes(), libc::FAN_ALLOW.to_ne_bytes()].concat();
        self.0.write_all(&response).unwrap();
        true
    }
}

/// Runs a command that opens the file, and calls `held` at each opening, while the command waits.
pub fn held_at_openings(command: &mut Command, path: &str, mut held: impl FnMut()) -> Output {
    let mut file = HeldFile::new(path);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut opened = false;
    while child.try_wait().unwrap().is_none() {
        opened |= file.opening(&mut held);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(opened, "{command:?} did not open the file");
    child.wait_with_output().unwrap()
}

/// Runs a command that opens the file, but not while it holds the lock of commands that change something.
pub fn opens_without_the_lock(command: &mut Command, path: &str) -> Output {
    let mut openings_with_lock = 0;
    let output = held_at_openings(command, path, || {
        let lock = File::open(Path::new(pins::RUN).join("lock")).unwrap();
        openings_with_lock += u32::from(Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_err());
    });
    assert_eq!(openings_with_lock, 0, "{command:?} holds the lock while it opens the file");
    output
}
