//! Object files of versions that may have to be loaded again. They are read before the lock is taken, because their
//! file system may block a read for any time.

use super::version::Version;
use crate::object::Source;
use hotcc_abi::version::Meta;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result};
use std::collections::HashMap;

/// The object files of versions, by the ids of their struct_ops maps. If a file could not be read, [`Files::take`]
/// returns the error.
pub(crate) struct Files(HashMap<u32, Result<Source>>);

impl Files {
    /// Reads the object files of `versions`. Call it without holding the lock.
    pub(crate) fn read(versions: impl IntoIterator<Item = Version>) -> Self {
        let source_of = |version: &Version| Source::find(&object_of(&version.meta()?));
        Self(versions.into_iter().map(|version| (version.map_id, source_of(&version))).collect())
    }

    /// Returns the file of a version of `name`. Fails if the file has changed since it was loaded, or if the version
    /// did not exist yet when the files were read.
    pub(crate) fn take(&mut self, name: &str, version: &Version) -> Result<Source> {
        let unread = || {
            let text = format!("{name} was loaded or swapped by another process in the meantime");
            Err(Error::failed(format!("{text}; see: hotcc status")))
        };
        let source = self.0.remove(&version.map_id).unwrap_or_else(unread)?;
        let meta = version.meta()?;
        if source.sha256() != meta.sha256 {
            return Err(Error::failed(format!("{} has changed since it was loaded", text(&meta.object))));
        }
        Ok(source)
    }
}

/// Returns the built-in algorithm or the path that a version was loaded from.
pub(crate) fn object_of(meta: &Meta) -> String {
    let origin = text(&meta.object);
    origin.strip_prefix("builtin:").map_or(origin.clone(), str::to_owned)
}
