//! The list of public traces: the address of each, and how to recognise it.

use super::find::TRACES;
use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use hotcc_channel_model::trace::Trace;
use hotcc_host::error::Error;
use hotcc_host::nearest::expected;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// The list that this program contains.
const BUILT_IN: &str = include_str!("public.toml");

/// Public traces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The traces, in the order of the list.
    #[serde(rename = "trace")]
    pub traces: Vec<Listed>,
    /// Traces that are files of an archive. They are not fetched.
    #[serde(default)]
    pub archived: Vec<Archived>,
}

/// A public trace.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Name of the trace and of its file.
    pub name: String,
    /// Address from which it is fetched.
    pub address: String,
    /// Licence, as an SPDX identifier.
    pub licence: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
    /// Format, as named in `docs/reference/traces.md`.
    pub format: String,
    /// Description in one line.
    pub summary: String,
}

impl Listed {
    /// Checks whether a file is this trace.
    ///
    /// # Errors
    /// States what differs: the size or the checksum.
    pub fn verify(&self, bytes: &[u8]) -> Result<()> {
        ensure!(bytes.len() as u64 == self.bytes, "it has {} bytes, expected {}", bytes.len(), self.bytes);
        verify_sum("its SHA-256", bytes, &self.sha256)
    }
}

/// A public trace that is a file of an archive.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Archived {
    /// Name of the trace and of its file.
    pub name: String,
    /// Address of the archive.
    pub address: String,
    /// Licence, as an SPDX identifier.
    pub licence: String,
    /// What makes the archive the file of this name, as an instruction.
    pub conversion: String,
    /// SHA-256 of [`Trace::to_csv`], in hexadecimal digits. Copies may differ in columns that are not read, for example
    /// in positions.
    pub sha256: String,
    /// Format, as named in `docs/reference/traces.md`.
    pub format: String,
    /// Description in one line.
    pub summary: String,
}

impl Archived {
    /// States how to get the file, as an instruction.
    #[must_use]
    pub fn advice(&self) -> String {
        format!("download {}, {}, and name its directory with --traces or {TRACES}", self.address, self.conversion)
    }

    /// Checks whether a file has the samples of this trace. `path` is only used in errors.
    ///
    /// # Errors
    /// The file is not a trace, or has other samples.
    pub fn verify(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        verify_sum("the SHA-256 of its samples", Trace::parse(path, bytes)?.to_csv(), &self.sha256)
    }
}

fn verify_sum(what: &str, content: impl AsRef<[u8]>, expected: &str) -> Result<()> {
    let sha256 = HEXLOWER.encode(&Sha256::digest(content));
    ensure!(sha256.eq_ignore_ascii_case(expected), "{what} is {sha256}, expected {expected}");
    Ok(())
}

/// A public trace of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A trace that can be fetched.
    Listed(&'a Listed),
    /// A trace in an archive.
    Archived(&'a Archived),
}

impl<'a> Entry<'a> {
    /// Returns the name of the trace and of its file.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            Self::Listed(trace) => &trace.name,
            Self::Archived(trace) => &trace.name,
        }
    }

    /// States how to get the file, as an instruction.
    #[must_use]
    pub fn advice(self) -> String {
        match self {
            Self::Listed(trace) => format!("run `hotcc-bench traces fetch {}`", trace.name),
            Self::Archived(trace) => trace.advice(),
        }
    }

    /// Checks whether a file is this trace. `path` is only used in errors.
    ///
    /// # Errors
    /// States what differs.
    pub fn verify(self, path: &Path, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Listed(trace) => trace.verify(bytes),
            Self::Archived(trace) => trace.verify(path, bytes),
        }
    }
}

impl List {
    /// Returns the list that this program contains.
    ///
    /// # Errors
    /// Never with the list of a release; a test checks this.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN).context("cannot use the list of traces")
    }

    /// Reads a list from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a list.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("cannot use the list {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text).map_err(|e| anyhow::Error::msg(e.message().trim().to_owned()))?;
        let listed = list.traces.iter().map(|trace| [&trace.name, &trace.address, &trace.sha256]);
        let archived = list.archived.iter().map(|trace| [&trace.name, &trace.address, &trace.sha256]);
        for [name, address, sha256] in listed.chain(archived) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            // The name becomes the name of a file in the cache, so it must not lead out of the cache.
            if name.starts_with('.') || name.is_empty() || !name.chars().all(plain) {
                bail!("invalid name `{name}`: expected letters, digits, `.`, `_` and `-`");
            }
            if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                bail!("invalid sha256 of {name}: expected 64 hexadecimal digits");
            }
            if !["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
                bail!("invalid address of {name}: expected http:// or https://");
            }
        }
        Ok(list)
    }

    /// Returns the traces of both kinds.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.traces.iter().map(Entry::Listed).chain(self.archived.iter().map(Entry::Archived))
    }

    /// Returns the trace of either kind with this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<Entry<'_>> {
        self.entries().find(|trace| trace.name() == name)
    }

    /// Returns the trace with this name that can be fetched.
    ///
    /// # Errors
    /// If the list does not have it, or it is in an archive.
    pub fn get(&self, name: &str) -> Result<&Listed> {
        match self.entry(name) {
            Some(Entry::Listed(trace)) => Ok(trace),
            Some(Entry::Archived(trace)) => {
                Err(Error::usage(format!("{name} is in an archive: {}", trace.advice())).into())
            }
            None => {
                let names = self.traces.iter().map(|trace| trace.name.as_str());
                Err(Error::usage(format!("unknown trace `{name}`: {}", expected(name, names))).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_built_in_list_is_complete() {
        let list = List::built_in().unwrap();
        let names: BTreeSet<&str> = list.entries().map(Entry::name).collect();
        assert_eq!(names.len(), list.entries().count(), "a name is there twice");
        for trace in &list.traces {
            assert!(trace.address.starts_with("https://") && trace.bytes > 0, "{}", trace.name);
            assert!(!trace.licence.is_empty() && !trace.summary.contains('\n'), "{}", trace.name);
        }
    }

    #[test]
    fn an_invalid_list_is_rejected() {
        let right = "[[trace]]\nname = 'a'\naddress = 'http://x/a'\nlicence = 'MIT'\nbytes = 1\nformat = 'mahimahi'\n\
                     summary = 's'\nsha256 = '0000000000000000000000000000000000000000000000000000000000000000'\n";
        assert_eq!(List::parse(right).unwrap().traces.len(), 1);
        for (from, to, says) in [
            ("'a'", "'../a'", "invalid name `../a`"),
            ("'a'", "'.a'", "invalid name `.a`"),
            ("'0000", "'00zz", "invalid sha256 of a"),
            ("'http:", "'file:", "invalid address of a"),
            ("bytes = 1", "byte = 1", "unknown field `byte`"),
        ] {
            let told = List::parse(&right.replace(from, to)).unwrap_err().to_string();
            assert!(told.starts_with(says), "{told}");
        }
        let told = List::parse(right).unwrap().get("b").unwrap_err().to_string();
        assert_eq!(told, "unknown trace `b`: expected a");
    }
}
