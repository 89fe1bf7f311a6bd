//! Debian's stock kernels for the lab: found by suite or series in the package index, verified, cached, ready to boot.
//!
//! The mirror, proxies and keys are those of this machine's apt; `HOTCC_DEBIAN_MIRROR` overrides the mirror. Apt's own
//! state is not changed, nothing is installed, and no root is needed.
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
pub use selector::{Architecture, Flavour, Selector, Suite, Wanted, series};
pub use store::{Store, cache_directory};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// A kernel in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Output of `uname -r` on it.
    pub release: String,
    /// Directory with all its files.
    pub dir: PathBuf,
    /// The image to boot, as Debian ships it.
    pub vmlinuz: PathBuf,
    /// Build configuration.
    pub config: PathBuf,
    /// Uncompressed modules, with their `modules.dep` and `modules.builtin`.
    pub modules: PathBuf,
    /// Origin of the kernel.
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

    /// Returns the architecture of the machines that it runs on.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        self.manifest.package.architecture()
    }

    /// Compares the image with the checksum that it had when it was unpacked.
    pub fn verify(&self) -> Result<()> {
        unpack::verify(&self.vmlinuz, &self.manifest.vmlinuz_sha256)
    }
}

/// A kernel's `manifest.json`: the packages that it was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the directory's layout.
    format: u32,
    /// Release, version, suite, and the package files with their checksums.
    #[serde(flatten)]
    pub package: Package,
    /// SHA-256 of the image, in hexadecimal digits.
    pub vmlinuz_sha256: String,
}

/// An available kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Selector that found it.
    pub selector: Selector,
    /// Its packages.
    pub package: Package,
    /// Its directory, if it is in the cache.
    pub cached: Option<PathBuf>,
}

/// A step of a fetch; displayed as a line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Waiting for another process that uses the cache.
    Waiting,
    /// Requesting a package index.
    Index {
        /// Suite of the index.
        suite: Suite,
    },
    /// Downloading; reported several times a second.
    Downloading {
        /// Release of the kernel.
        release: String,
        /// Bytes downloaded so far.
        bytes: u64,
        /// Total size of all files, in bytes.
        total: u64,
    },
    /// Unpacking, which takes seconds.
    Unpacking {
        /// Release of the kernel.
        release: String,
    },
    /// A cached kernel is used, although the index might have a newer one.
    Fallback {
        /// Release of the kernel.
        release: String,
        /// The error.
        why: String,
    },
    /// Only cached kernels are listed.
    Offline {
        /// The error.
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

/// A number of bytes, displayed in MB.
pub struct Megabytes(pub u64);

impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} MB", self.0 / 1_000_000, self.0 / 100_000 % 10)
    }
}

/// Calls [`Store::list`] on this user's cache.
pub fn list(selectors: &[Selector], progress: &mut dyn FnMut(&Progress)) -> Result<Vec<Listed>> {
    Store::open()?.list(selectors, progress)
}

/// Calls [`Store::fetch`] on this user's cache.
pub fn fetch(selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
    Store::open()?.fetch(selector, progress)
}

/// Calls [`Store::cached`] on this user's cache.
#[must_use]
pub fn cached(selector: &Selector) -> Option<Kernel> {
    Store::open().ok()?.cached(selector)
}

/// Returns the newest matching kernel in the cache, or fetches the newest in the index if the cache has no match.
pub fn ready(selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
    let store = Store::open()?;
    store.cached(selector).map_or_else(|| store.fetch(selector, progress), Ok)
}

/// Returns the files to load, in this order, so that `modules` work on `kernel`. A built-in module needs no file; a
/// module that the kernel lacks is [`Error::NoModule`].
pub fn module_closure(kernel: &Kernel, modules: &[&str]) -> Result<Vec<PathBuf>> {
    let files = modules::Modules::read(&kernel.modules)?.closure(&kernel.release, modules)?;
    Ok(files.into_iter().map(|file| kernel.modules.join(file)).collect())
}
