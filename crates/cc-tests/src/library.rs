//! Loads this crate's own shared objects, and looks up functions of any object.

use libloading::Library;

/// Loads a private copy of the object.
pub(crate) fn open(object: &[u8]) -> Library {
    hotcc_host_algo::library::open_copy(object).unwrap_or_else(|e| panic!("cannot load: {e}"))
}

/// Returns a function of an object. The caller's type must be the C function's.
pub(crate) fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    hotcc_host_algo::library::symbol(library, name).unwrap_or_else(|e| panic!("{name}: {e}"))
}
