//! This crate's own shared objects, and functions of any.

use libloading::Library;
use std::io::Write;
use std::path::PathBuf;

/// Opens a private copy of one of this crate's objects: of the same file, the dynamic linker would return the library that
/// another test has loaded, with its tunables.
pub(crate) fn open(file: &str) -> Library {
    let path = PathBuf::from(env!("OUT_DIR")).join(file);
    let copied = std::fs::read(&path).and_then(|bytes| {
        let mut copy = tempfile::NamedTempFile::new()?;
        copy.write_all(&bytes)?;
        Ok(copy)
    });
    let copy = copied.unwrap_or_else(|e| panic!("cannot copy {}: {e}", path.display()));
    // SAFETY: the object is this crate's own build; it has no initialisers.
    unsafe { Library::new(copy.path()) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A function of an object. The caller's type must be the C function's.
pub(crate) fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: the callers, all in this crate, give the type that the C source has; they keep the library.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(found) => *found,
        Err(error) => panic!("{name}: {error}"),
    }
}
