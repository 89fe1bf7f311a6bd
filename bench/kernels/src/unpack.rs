//! Unpacks package files into the directory of a kernel: vmlinuz, config, and the lab's modules, ready to load.

use super::error::{Error, OnFile, Result};
use super::modules::{Modules, files_ending};
use super::package::{Deb, Package};
use super::program::Program;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of files in one call of a decompressor.
const BATCH: usize = 500;

/// Returns the SHA-256 of a file, in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).on_file("cannot read", path)?;
    io::copy(&mut file, &mut hash).on_file("cannot read", path)?;
    Ok(HEXLOWER.encode(&hash.finalize()))
}

/// Compares a file with its checksum.
pub(super) fn verify(path: &Path, expected: &str) -> Result<()> {
    let found = sha256(path)?;
    if found == expected {
        return Ok(());
    }
    Err(Error::Corrupt { what: path.display().to_string(), expected: expected.into(), found })
}

/// Returns the file of a package in `directory`, after verifying it against the index.
fn find(deb: &Deb, directory: &Path) -> Result<PathBuf> {
    let start = format!("{}_", deb.package);
    let files = files_ending(directory, ".deb")?;
    let named = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    let Some(path) = files.iter().find(named) else {
        return Err(Error::Program { program: "apt-get".into(), why: format!("it did not download {}", deb.package) });
    };
    verify(path, &deb.sha256)?;
    Ok(path.clone())
}

/// Makes a kernel in `target` from the package files in `debs`, which are removed; `scratch` is for temporary files.
/// Returns the checksum of its vmlinuz.
pub(super) fn unpack(package: &Package, debs: &Path, scratch: &Path, target: &Path) -> Result<String> {
    for deb in &package.debs {
        let file = find(deb, debs)?;
        Program::new("dpkg-deb", "dpkg").args(["--extract".as_ref(), file.as_path(), scratch]).run()?;
        fs::remove_file(&file).on_file("cannot remove", &file)?;
    }
    let release = &package.release;
    let modules = modules_of(scratch, release)?;
    fs::create_dir_all(target).on_file("cannot create", target)?;
    for name in ["vmlinuz", "config"] {
        let places = [scratch.join(format!("boot/{name}-{release}")), modules.join(name)];
        let place = places.iter().find(|place| place.is_file());
        let place = place.ok_or_else(|| missing(release, name))?;
        fs::rename(place, target.join(name)).on_file("cannot move", place)?;
    }
    decompress(&modules)?;
    keep(&modules, release, scratch, &target.join("modules"))?;
    sha256(&target.join("vmlinuz"))
}

fn missing(release: &str, what: &str) -> Error {
    Error::Program { program: "dpkg-deb".into(), why: format!("the packages of {release} contain no {what}") }
}

/// Returns the directory of the modules, after moving it to where every version of depmod looks for it.
fn modules_of(scratch: &Path, release: &str) -> Result<PathBuf> {
    let wanted = scratch.join("lib/modules").join(release);
    let merged = scratch.join("usr/lib/modules").join(release);
    if merged.is_dir() && !wanted.is_dir() {
        fs::create_dir_all(scratch.join("lib/modules")).on_file("cannot create", &wanted)?;
        fs::rename(&merged, &wanted).on_file("cannot move", &merged)?;
    }
    if !wanted.join("kernel").is_dir() {
        return Err(missing(release, "modules"));
    }
    let usr = scratch.join("usr");
    fs::remove_dir_all(&usr).or_else(ignore_missing).on_file("cannot remove", &usr)?;
    std::os::unix::fs::symlink(".", &usr).on_file("cannot create", &usr)?;
    Ok(wanted)
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn decompress(modules: &Path) -> Result<()> {
    let tools = [
        (".ko.xz", "xz", "xz-utils", &["--decompress"][..]),
        (".ko.zst", "zstd", "zstd", &["--decompress", "--rm", "--quiet"][..]),
        (".ko.gz", "gzip", "gzip", &["--decompress"][..]),
    ];
    for (end, tool, package, args) in tools {
        for batch in files_ending(modules, end)?.chunks(BATCH) {
            Program::new(tool, package).args(args).args(batch).run()?;
        }
    }
    Ok(())
}

/// Moves the modules that the lab uses to `target`.
fn keep(modules: &Path, release: &str, base: &Path, target: &Path) -> Result<()> {
    Program::new("depmod", "kmod").args(["--basedir".as_ref(), base.as_os_str()]).args([release]).run()?;
    let kept = Modules::read(modules)?.kept();
    for file in kept.files() {
        let (from, to) = (modules.join(file), target.join(file));
        let parent = to.parent().unwrap_or(target);
        fs::create_dir_all(parent).on_file("cannot create", parent)?;
        fs::rename(&from, &to).on_file("cannot move", &from)?;
    }
    let builtin = modules.join("modules.builtin");
    fs::rename(&builtin, target.join("modules.builtin")).on_file("cannot move", &builtin)?;
    let needs = target.join("modules.dep");
    fs::write(&needs, kept.text()).on_file("cannot write", &needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flipped_bit_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux-image-6.1.0-9-cloud-amd64_6.1.9-1_amd64.deb");
        fs::write(&path, b"package").unwrap();
        let deb = Deb {
            package: "linux-image-6.1.0-9-cloud-amd64".into(),
            path: String::new(),
            sha256: sha256(&path).unwrap(),
            size: 7,
        };
        assert_eq!(find(&deb, directory.path()).unwrap(), path);
        fs::write(&path, b"pacjage").unwrap();
        assert!(matches!(find(&deb, directory.path()), Err(Error::Corrupt { .. })));
        fs::remove_file(&path).unwrap();
        assert!(find(&deb, directory.path()).unwrap_err().to_string().contains("did not download"));
    }
}
