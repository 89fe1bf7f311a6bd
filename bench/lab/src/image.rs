//! The guest's file system: an initramfs with a few of this machine's programs and the libraries they need.

use crate::programs::libraries;
use anyhow::{Context, Result};
use cpio::newc::Builder;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;

/// An initramfs that is being built.
#[derive(Debug, Default)]
pub struct Image {
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
}

impl Image {
    /// Adds a file with this content.
    pub fn file(&mut self, path: impl Into<PathBuf>, mode: u32, content: Vec<u8>) {
        self.files.insert(path.into(), (mode, content));
    }

    /// Adds a program as `path`, and its shared libraries at the paths where it expects them.
    pub fn program(&mut self, path: impl Into<PathBuf>, source: &Path) -> Result<()> {
        for (expected, library) in libraries(source)? {
            let content = fs::read(&library).with_context(|| format!("cannot read {}", library.display()))?;
            self.file(expected, 0o755, content);
        }
        self.file(path, 0o755, stripped(source)?);
        Ok(())
    }

    /// Writes the archive (cpio, "newc"). The same content gives the same bytes.
    pub fn write(&self, out: &mut impl Write) -> Result<()> {
        let mut directories: Vec<&Path> = self.files.keys().flat_map(|p| p.ancestors().skip(1)).collect();
        directories.extend(["proc", "sys", "dev", "run", "tmp"].map(Path::new));
        directories.retain(|d| !d.as_os_str().is_empty() && *d != Path::new("/"));
        directories.sort_unstable();
        directories.dedup();
        let mut inode = 0;
        let mut entry = |path: &Path, mode: u32, content: &[u8], out: &mut dyn Write| -> Result<()> {
            inode += 1;
            let name = path.strip_prefix("/").unwrap_or(path).to_str().context("a path is not UTF-8")?;
            let builder = Builder::new(name).ino(inode).mode(mode).nlink(1);
            let mut writer = builder.write(out, u32::try_from(content.len())?);
            writer.write_all(content)?;
            writer.finish()?;
            Ok(())
        };
        for directory in directories {
            entry(directory, DIRECTORY, &[], out)?;
        }
        for (path, (mode, content)) in &self.files {
            entry(path, REGULAR | mode, content, out)?;
        }
        cpio::newc::trailer(out)?;
        Ok(())
    }
}

/// Returns a program without its debugging information, which may be most of the file and which the guest would unpack
/// at each boot. Returns the whole file if this machine has no `strip`.
fn stripped(program: &Path) -> Result<Vec<u8>> {
    let scratch = tempfile::NamedTempFile::new().context("cannot write a temporary file")?;
    let strip = Command::new("strip").args(["--strip-debug", "-o"]).args([scratch.path(), program]).output();
    let path = if strip.is_ok_and(|done| done.status.success()) { scratch.path() } else { program };
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
