//! The kernels in one suite's package index.
//!
//! A kernel is one package or several. Until 6.18, `linux-image-RELEASE` contains the whole kernel. Later it is empty
//! and depends on `linux-base-RELEASE` (configuration, list of built-in modules), `linux-binary-RELEASE` (vmlinuz) and
//! `linux-modules-RELEASE`. Indexes of backports keep packages of which the other parts have been removed; these are
//! not kernels.

use super::error::{Error, Result};
use super::selector::{Architecture, Suite, release_in};
use super::version;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::BufRead;

const IMAGE: &str = "linux-image-";
const BASE: &str = "linux-base-";
const PARTS: [&str; 4] = [IMAGE, BASE, "linux-binary-", "linux-modules-"];

/// A stock kernel as a suite offers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Output of `uname -r` on it, such as 6.12.107+deb13-cloud-amd64.
    pub release: String,
    /// Version of the packages, such as 6.12.107-1.
    pub version: String,
    /// Name of the suite.
    pub suite: String,
    /// The package files that it consists of.
    pub debs: Vec<Deb>,
}

impl Package {
    /// Returns the architecture, with which the release ends.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        Architecture::of(&self.release).unwrap_or_default()
    }

    /// Returns the number of bytes to download.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.debs.iter().map(|deb| deb.size).sum()
    }
}

/// One package file, as the signed index describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deb {
    /// Name of the package.
    pub package: String,
    /// Path on the mirror.
    pub path: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// The fields that are read from a paragraph of the index.
#[derive(Clone, Debug, Default)]
struct Paragraph {
    package: String,
    version: String,
    depends: String,
    path: String,
    sha256: String,
    size: String,
}

impl Paragraph {
    fn set(&mut self, line: &str) {
        let Some((field, value)) = line.split_once(": ") else { return };
        let place = match field {
            "Package" => &mut self.package,
            "Version" => &mut self.version,
            "Depends" => &mut self.depends,
            "Filename" => &mut self.path,
            "SHA256" => &mut self.sha256,
            "Size" => &mut self.size,
            _ => return,
        };
        value.trim().clone_into(place);
    }

    fn is_part(&self) -> bool {
        PARTS.iter().any(|prefix| release_in(&self.package, prefix).is_some())
    }

    fn deb(&self) -> Result<Deb> {
        let invalid = |field: &str| Error::Index(format!("invalid {field} of {} {}", self.package, self.version));
        let hexadecimal = self.sha256.len() == 64 && self.sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if !hexadecimal {
            return Err(invalid("SHA256"));
        }
        Ok(Deb {
            package: self.package.clone(),
            path: self.path.clone(),
            sha256: self.sha256.to_ascii_lowercase(),
            size: self.size.parse().map_err(|_| invalid("Size"))?,
        })
    }

    /// Returns the names of the other packages of this kernel: dependencies on the same version, named after the same
    /// release.
    fn parts(&self, release: &str) -> impl Iterator<Item = &str> {
        let version = format!("(= {})", self.version);
        self.depends.split(',').filter_map(move |dependency| {
            let (name, wanted) = dependency.trim().split_once(' ')?;
            let ours = PARTS.iter().any(|prefix| name.strip_prefix(prefix) == Some(release));
            (ours && wanted.trim() == version).then_some(name)
        })
    }
}

/// Returns the complete kernels of an index (the text of `Packages`), newest first.
pub(super) fn parse(index: impl BufRead, suite: Suite) -> Result<Vec<Package>> {
    let mut found: HashMap<(String, String), Paragraph> = HashMap::new();
    let mut paragraph = Paragraph::default();
    let mut keep = |paragraph: &mut Paragraph| {
        let paragraph = std::mem::take(paragraph);
        if paragraph.is_part() {
            found.insert((paragraph.package.clone(), paragraph.version.clone()), paragraph);
        }
    };
    for line in index.split(b'\n') {
        let line = line.map_err(|source| Error::Io { tried: "cannot read the package index".into(), source })?;
        match line.first() {
            None => keep(&mut paragraph),
            Some(b'P' | b'V' | b'D' | b'F' | b'S') => paragraph.set(&String::from_utf8_lossy(&line)),
            Some(_) => {}
        }
    }
    keep(&mut paragraph);

    let mut kernels = Vec::new();
    for image in found.values() {
        let Some(release) = release_in(&image.package, IMAGE) else { continue };
        if let Some(debs) = complete(image, release, &found) {
            let (release, version) = (release.to_owned(), image.version.clone());
            let debs = debs.into_iter().map(Paragraph::deb).collect::<Result<_>>()?;
            kernels.push(Package { release, version, suite: suite.name().into(), debs });
        }
    }
    kernels.sort_by(|a, b| version::compare(&b.version, &a.version).then_with(|| b.release.cmp(&a.release)));
    Ok(kernels)
}

/// Returns all packages of the kernel, if the index has all of them.
fn complete<'a>(
    image: &'a Paragraph,
    release: &str,
    index: &'a HashMap<(String, String), Paragraph>,
) -> Option<Vec<&'a Paragraph>> {
    let part = |name: &str| index.get(&(name.to_owned(), image.version.clone()));
    // If the base is the only dependency, it has only documentation, so it may be missing.
    let whole = image.parts(release).all(|name| name.starts_with(BASE));
    let mut all = vec![image];
    for name in image.parts(release) {
        match part(name) {
            Some(part) => all.push(part),
            None if whole => {}
            None => return None,
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraph(package: &str, version: &str, depends: &str) -> String {
        let sum = "0A".repeat(32);
        format!(
            "Package: {package}\nVersion: {version}\nInstalled-Size: 9\nDepends: kmod, {depends}\n\
             Description: Linux\n Package: nothing\nFilename: pool/{package}.deb\nSize: 10\nSHA256: {sum}\n\n"
        )
    }

    fn releases(index: &str) -> Vec<String> {
        parse(index.as_bytes(), Suite::TrixieBackports).unwrap().into_iter().map(|package| package.release).collect()
    }

    #[test]
    fn finds_kernels_of_one_package() {
        let index = paragraph("linux-image-cloud-amd64", "6.1.176-1", "linux-image-6.1.0-50-cloud-amd64 (= 6.1.176-1)")
            + &paragraph("linux-image-6.1.0-9-cloud-amd64", "6.1.9-1", "linux-base (>= 4.3~)")
            + &paragraph("linux-image-6.1.0-50-cloud-amd64", "6.1.176-1", "linux-base (>= 4.3~)")
            + &paragraph("linux-image-6.1.0-50-cloud-amd64-dbg", "6.1.176-1", "x")
            + &paragraph("linux-image-6.18.5+deb13-amd64", "6.18.5-1", "linux-base-6.18.5+deb13-amd64 (= 6.18.5-1)");
        let expected = ["6.18.5+deb13-amd64", "6.1.0-50-cloud-amd64", "6.1.0-9-cloud-amd64"];
        assert_eq!(releases(&index), expected);
        let kernel = &parse(index.as_bytes(), Suite::Bookworm).unwrap()[1];
        let deb = Deb {
            package: "linux-image-6.1.0-50-cloud-amd64".into(),
            path: "pool/linux-image-6.1.0-50-cloud-amd64.deb".into(),
            sha256: "0a".repeat(32),
            size: 10,
        };
        assert_eq!((kernel.version.as_str(), kernel.suite.as_str()), ("6.1.176-1", "bookworm"));
        assert_eq!(kernel.debs, [deb]);
    }

    #[test]
    fn joins_kernels_of_several_packages() {
        let release = "7.3.4+deb13-cloud-amd64";
        let depends =
            ["base", "binary", "modules"].map(|part| format!("linux-{part}-{release} (= 7.3.4-1)")).join(", ");
        let parts =
            ["base", "binary", "modules"].map(|part| paragraph(&format!("linux-{part}-{release}"), "7.3.4-1", "x"));
        let image = paragraph(&format!("linux-image-{release}"), "7.3.4-1", &depends);
        let whole = format!("{image}{}", parts.concat());
        let kernels = parse(whole.trim_end().as_bytes(), Suite::Sid).unwrap();
        assert_eq!(kernels.len(), 1);
        assert_eq!((kernels[0].debs.len(), kernels[0].size()), (4, 40));
        for missing in 0..parts.len() {
            let rest: String =
                parts.iter().enumerate().filter(|(i, _)| *i != missing).map(|(_, p)| p.as_str()).collect();
            assert_eq!(releases(&format!("{image}{rest}")), [""; 0], "without part {missing}");
        }
        let other_version = format!("{image}{}", parts.concat().replace("7.3.4-1", "7.3.4-2"));
        assert_eq!(releases(&other_version), [""; 0]);
    }

    #[test]
    fn refuses_an_index_without_checksums() {
        let index = paragraph("linux-image-6.1.0-9-cloud-amd64", "6.1.9-1", "x").replace("0A0A", "../x");
        let error = parse(index.as_bytes(), Suite::Bookworm).unwrap_err();
        assert!(error.to_string().contains("SHA256 of linux-image-6.1.0-9-cloud-amd64"), "{error}");
        assert_eq!(releases("\n\n\u{fffd}\n: \nPackage:\n"), [""; 0]);
    }
}
