//! Debian's stock kernels for the lab: found by suite or series in the package index, verified, cached, ready to boot.
//!
//! The mirror, proxies and keys are those of this machine's apt (or `HOTCC_DEBIAN_MIRROR` names the mirror); nothing of
//! apt's own state is touched, nothing is installed, no root is needed.
//!
//! ```no_run
//! # fn main() -> hotcc_kernels::Result<()> {
//! use hotcc_kernels::Selector;
//! let selector: Selector = "6.12".parse()?;
//! let kernel = hotcc_kernels::ready(&selector, &mut |step| eprintln!("{step}"))?;
//! let modules = hotcc_kernels::module_closure(&kernel, &["veth", "sch_netem"])?;
//! println!("{} with {} module files", kernel.vmlinuz.display(), modules.len());
//! # Ok(()) }
//! ```

mod apt;
mod error;
mod mirror;
mod modules;
mod package;
mod program;
mod selector;
mod store;
mod unpack;
mod version;

pub use error::{Error, Result};
pub use mirror::Mirror;
pub use package::{Deb, Package};
pub use selector::{Flavour, Selector, Suite, Wanted, series};
pub use store::{Store, cache_directory};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A kernel in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What `uname -r` says on it.
    pub release: String,
    /// All that belongs to it.
    pub dir: PathBuf,
    /// The image to boot, as Debian ships it.
    pub vmlinuz: PathBuf,
    /// The options it was built with.
    pub config: PathBuf,
    /// Its modules, not compressed, with their `modules.dep` and `modules.builtin`.
    pub modules: PathBuf,
    /// Where it comes from.
    pub manifest: Manifest,
}

impl Kernel {
    fn new(dir: PathBuf, manifest: Manifest) -> Self {
        Self {
            release: manifest.package.release.clone(),
            vmlinuz: dir.join("vmlinuz"),
            config: dir.join("config"),
            modules: dir.join("modules"),
            dir,
            manifest,
        }
    }

    /// Compares the image with the checksum it had when it was unpacked.
    pub fn verify(&self) -> Result<()> {
        unpack::verify(&self.vmlinuz, &self.manifest.vmlinuz_sha256)
    }
}

/// `manifest.json` of a kernel: of what it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Layout of the directory.
    format: u32,
    /// Release, version, suite, and the package files with their checksums.
    #[serde(flatten)]
    pub package: Package,
    /// SHA-256 of the image, in hexadecimal digits.
    pub vmlinuz_sha256: String,
}

/// A kernel that can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As it was asked for.
    pub selector: Selector,
    /// What it is.
    pub package: Package,
    /// Its directory, if the cache has it.
    pub cached: Option<PathBuf>,
}

/// What a fetch is about to do; prints as a line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process uses the cache.
    Waiting,
    /// Asks for a package index.
    Index {
        /// Whose.
        suite: Suite,
    },
    /// Downloads; comes several times a second.
    Downloading {
        /// Which kernel.
        release: String,
        /// Bytes that are there.
        bytes: u64,
        /// Bytes of all its files.
        total: u64,
    },
    /// Unpacks; takes seconds.
    Unpacking {
        /// Which kernel.
        release: String,
    },
    /// A kernel of the cache serves, though the index might have a newer one.
    Fallback {
        /// Which kernel.
        release: String,
        /// What went wrong.
        why: String,
    },
    /// The list is that of the cache.
    Offline {
        /// What went wrong.
        why: String,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => write!(f, "waiting for another process that uses the kernel cache"),
            Self::Index { suite } => write!(f, "updating the package index of {suite}"),
            Self::Downloading { release, bytes, total } => {
                write!(f, "downloading {release}: {} of {}", Megabytes(*bytes), Megabytes(*total))
            }
            Self::Unpacking { release } => write!(f, "unpacking {release}"),
            Self::Fallback { release, why } => write!(f, "using {release} from the cache: {why}"),
            Self::Offline { why } => write!(f, "listing cached kernels only: {why}"),
        }
    }
}

/// Bytes, printed in units that people compare.
pub struct Megabytes(pub u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} MB", self.0 / 1_000_000, self.0 / 100_000 % 10)
    }
}

/// [`Store::list`] of this user's cache.
pub fn list(selectors: &[Selector], progress: &mut dyn FnMut(&Progress)) -> Result<Vec<Listed>> {
    Store::open()?.list(selectors, progress)
}

/// [`Store::fetch`] into this user's cache.
pub fn fetch(selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
    Store::open()?.fetch(selector, progress)
}

/// [`Store::cached`] of this user's cache.
#[must_use]
pub fn cached(selector: &Selector) -> Option<Kernel> {
    Store::open().ok()?.cached(selector)
}

/// The newest kernel in the cache that fits; only if there is none, the newest of the index.
pub fn ready(selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
    let store = Store::open()?;
    store.cached(selector).map_or_else(|| store.fetch(selector, progress), Ok)
}

/// The files to load, in this order, so that `modules` work on `kernel`. A module that is built in adds none; one that
/// the kernel does not have is [`Error::NoModule`].
pub fn module_closure(kernel: &Kernel, modules: &[&str]) -> Result<Vec<PathBuf>> {
    let files = modules::Modules::read(&kernel.modules)?.closure(&kernel.release, modules)?;
    Ok(files.into_iter().map(|file| kernel.modules.join(file)).collect())
}
