//! Holds a socket's lock for as long as a test wants: a thread sends a byte from a page that is missing (userfaultfd),
//! and waits for the page with the lock held.

use nix::libc;
use std::fs::File;
use std::io::{Error, Read};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd};
use std::thread::JoinHandle;

const PAGE_BYTES: usize = 4096;
const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// Size of a message.
const UFFD_MESSAGE_BYTES: usize = 32;

/// Holds the lock until it is dropped.
pub struct Held {
    page: *mut libc::c_void,
    faults: Option<File>,
    sender: Option<JoinHandle<()>>,
}

impl Held {
    /// Holds the lock of a socket that has room for more data. Once this is dropped, the thread sends one byte.
    pub fn new(socket: &TcpStream) -> Self {
        // SAFETY: the call takes no pointers; the descriptor, if valid, has no other owner.
        let mut faults = unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
            assert!(fd >= 0, "{}", Error::last_os_error());
            File::from_raw_fd(fd as i32)
        };
        let (kind, protection) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the kernel places the new mapping where no other is.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, kind, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED, "{}", Error::last_os_error());
        control(&faults, UFFDIO_API, &mut [UFFD_API, 0, 0]);
        let range = [page as u64, PAGE_BYTES as u64, UFFDIO_REGISTER_MODE_MISSING, 0];
        control(&faults, UFFDIO_REGISTER, &mut { range });
        let (socket, from) = (socket.try_clone().unwrap(), page as usize);
        let sender = std::thread::spawn(move || {
            // SAFETY: the kernel reads a byte of a page that is mapped until this thread has ended.
            let sent = unsafe { libc::send(socket.as_raw_fd(), from as *const libc::c_void, 1, libc::MSG_NOSIGNAL) };
            assert_eq!(sent, 1, "{}", Error::last_os_error());
        });
        // the thread has faulted on the page, so it holds the lock
        assert_eq!(faults.read(&mut [0; UFFD_MESSAGE_BYTES]).unwrap(), UFFD_MESSAGE_BYTES);
        Self { page, faults: Some(faults), sender: Some(sender) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.faults.take()); // without the descriptor, the page is an ordinary one
        let _ = self.sender.take().map(JoinHandle::join);
        // SAFETY: the thread that used the page has ended.
        unsafe { libc::munmap(self.page, PAGE_BYTES) };
    }
}

fn control<const WORDS: usize>(faults: &File, request: libc::c_ulong, argument: &mut [u64; WORDS]) {
    // SAFETY: the kernel reads and writes only the words of `argument`, whose number the request encodes.
    let result = unsafe { libc::ioctl(faults.as_raw_fd(), request, argument.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", Error::last_os_error());
}
