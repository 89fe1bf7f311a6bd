//! A socket whose lock a process has, for as long as a test wants: a sender waits for the page that it is to send, which comes
//! when the test says so (userfaultfd).

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
/// Of a message.
const UFFD_MESSAGE_BYTES: usize = 32;

/// Until it is dropped.
pub struct Held {
    page: *mut libc::c_void,
    faults: Option<File>,
    sender: Option<JoinHandle<()>>,
}

impl Held {
    /// Of a socket that has room for more; what is sent, once this is dropped, is a byte.
    pub fn new(socket: &TcpStream) -> Self {
        // SAFETY: takes no pointers; the descriptor, if it is one, is nobody else's.
        let mut faults = unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
            assert!(fd >= 0, "{}", Error::last_os_error());
            File::from_raw_fd(fd as i32)
        };
        let (kind, protection) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, where there is none.
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
        // it waits, so it has the lock
        assert_eq!(faults.read(&mut [0; UFFD_MESSAGE_BYTES]).unwrap(), UFFD_MESSAGE_BYTES);
        Self { page, faults: Some(faults), sender: Some(sender) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.faults.take()); // without it, the page is one as any other
        let _ = self.sender.take().map(JoinHandle::join);
        // SAFETY: nobody uses the page any more.
        unsafe { libc::munmap(self.page, PAGE_BYTES) };
    }
}

fn control<const WORDS: usize>(faults: &File, request: libc::c_ulong, argument: &mut [u64; WORDS]) {
    // SAFETY: the kernel reads and writes as many words as the request says, which are those of `argument`.
    let result = unsafe { libc::ioctl(faults.as_raw_fd(), request, argument.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", Error::last_os_error());
}
