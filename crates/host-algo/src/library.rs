//! Loads shared objects that are embedded in a program, each as often as required.

use libloading::Library;
use std::io::{self, Write as _};

/// Loads a private copy of an object, which must be from this workspace's own build. For the same file, the dynamic
/// linker would return the library that is already loaded, with its tunables.
pub fn open_copy(bytes: &[u8]) -> io::Result<Library> {
    let copy = temporary(bytes)?;
    // SAFETY: such an object has no initialisers.
    unsafe { Library::new(copy.path()) }.map_err(io::Error::other)
}

pub(crate) fn temporary(bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Returns a function or variable of an object. The caller's type must match the C source, and the caller must keep the
/// library.
pub fn symbol<T: Copy>(library: &Library, name: &str) -> io::Result<T> {
    // SAFETY: the callers, all of this workspace, give the type that the C source has; they keep the library.
    unsafe { library.get::<T>(name.as_bytes()) }.map(|found| *found).map_err(io::Error::other)
}
