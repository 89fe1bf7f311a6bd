//! The mapped `radio_slots` array: an update is a store, a look is a load, neither is a system call.

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
    /// Maps the array for reading. Stops where it was made by another version of this project.
    pub fn read_only(fd: impl AsFd) -> io::Result<Self> {
        let map = MmapOptions::new().len(LENGTH).map_raw_read_only(fd.as_fd().as_raw_fd())?;
        Self { map }.check_version()
    }

    /// Maps the array for writing, and writes its header where it is new.
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

    /// Line 0.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is LENGTH bytes, page aligned, and lives as long as `self`; Header is 64 bytes of
        // atomics and unread padding, for which any bit pattern and concurrent change are fine.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Line `index` of a link; `None` for the header and beyond the end.
    #[must_use]
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        // SAFETY: as for `header`; the index is within the mapping.
        (1..SLOTS).contains(&index).then(|| unsafe { &*self.map.as_ptr().cast::<Slot>().add(index as usize) })
    }
}
