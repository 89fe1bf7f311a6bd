//! The memory-mapped `radio_slots` array: an update is a store, a look-up is a load, and neither needs a system call.

use hotcc_abi::radio::{Header, MAGIC, SLOTS, Slot, VERSION};
use memmap2::{MmapOptions, MmapRaw};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

/// A shared mapping of `radio_slots`.
#[derive(Debug)]
pub struct RadioSlots {
    map: MmapRaw,
}

const LENGTH: usize = SLOTS as usize * size_of::<Slot>();

impl RadioSlots {
    /// Maps the array for reading. Fails if another version of this project created it.
    pub fn read_only(fd: impl AsFd) -> io::Result<Self> {
        let map = MmapOptions::new().len(LENGTH).map_raw_read_only(fd.as_fd().as_raw_fd())?;
        Self { map }.check_version()
    }

    /// Maps the array for writing. Writes its header if the array is new; fails if another version of this project
    /// created it.
    pub fn writable(fd: impl AsFd) -> io::Result<Self> {
        let slots = Self { map: MmapOptions::new().len(LENGTH).map_raw(fd.as_fd().as_raw_fd())? };
        let header = slots.header();
        if header.magic.load(Ordering::Acquire) == 0 {
            header.version.store(VERSION, Ordering::Relaxed);
            header.magic.store(MAGIC, Ordering::Release);
        }
        slots.check_version()
    }

    fn check_version(self) -> io::Result<Self> {
        let (magic, version) =
            (self.header().magic.load(Ordering::Acquire), self.header().version.load(Ordering::Relaxed));
        if magic != 0 && (magic, version) != (MAGIC, VERSION) {
            let text = format!("the radio map has version {version}; this program uses version {VERSION}");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        Ok(self)
    }

    /// Returns the header, line 0.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping has LENGTH bytes, is page-aligned, and lives as long as `self`. Header consists of 64
        // bytes of atomics and unread padding, for which all bit patterns and concurrent changes are valid.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Returns line `index`, which is of a link; `None` for the header and beyond the end.
    #[must_use]
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        // SAFETY: as for `header`; the index is within the mapping.
        (1..SLOTS).contains(&index).then(|| unsafe { &*self.map.as_ptr().cast::<Slot>().add(index as usize) })
    }
}
