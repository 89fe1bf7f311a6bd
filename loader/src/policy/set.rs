//! Sets of prefixes.

use hotcc_abi::path::PathKey;
use hotcc_host::error::{Error, Result, Tried};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Maximum number of prefixes in a set.
pub const MAX_PREFIXES: usize = 100_000;

/// A set of prefixes. The longest prefix that contains an address decides whether the address is in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(BTreeMap<PathKey, bool>);

impl Set {
    /// Reads a file with one prefix per line. `!` before a prefix excludes it from a larger one; `#` begins a comment.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).tried(|| format!("cannot read the prefixes in {}", file.display()))?;
        let mut set = Self::default();
        for (number, line) in text.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if !entry.is_empty() {
                set.add(entry).map_err(|e| e.during(&format!("{}:{}", file.display(), number + 1)))?;
            }
        }
        if set.0.is_empty() {
            return Err(Error::failed(format!("{} has no prefix", file.display())));
        }
        set.check().map_err(|e| e.during(&file.display().to_string()))?;
        Ok(set)
    }

    /// Fails if no address can be in the set.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.values().any(|is_in| *is_in) {
            return Ok(());
        }
        Err(Error::failed("all prefixes are taken out, of none: add the larger prefix, e.g. 0.0.0.0/0 or ::/0"))
    }

    pub(super) fn add(&mut self, entry: &str) -> Result<()> {
        let (text, is_in) = entry.strip_prefix('!').map_or((entry, true), |rest| (rest.trim(), false));
        let prefix: PathKey = text.parse().map_err(|why| Error::failed(format!("invalid prefix `{entry}`: {why}")))?;
        if self.0.insert(prefix, is_in).is_some_and(|before| before != is_in) {
            return Err(Error::failed(format!("{prefix} is both in the set and taken out of it")));
        }
        if self.0.len() > MAX_PREFIXES {
            return Err(Error::failed(format!("a set has at most {MAX_PREFIXES} prefixes")));
        }
        Ok(())
    }

    /// Adds a prefix as it is in the kernel.
    pub(super) fn put(&mut self, prefix: PathKey, is_in: bool) {
        self.0.insert(prefix, is_in);
    }

    /// Returns the prefix, if the set has only one.
    pub(super) fn single(&self) -> Option<PathKey> {
        let (prefix, is_in) = self.0.first_key_value()?;
        (self.0.len() == 1 && *is_in).then_some(*prefix)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PathKey, bool)> {
        self.0.iter().map(|(prefix, is_in)| (*prefix, *is_in))
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for (prefix, is_in) in self.iter() {
            digest.update(bytemuck::bytes_of(&prefix));
            digest.update([u8::from(is_in)]);
        }
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_what_is_wrong_is_said_with_its_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            fs::write(file.path(), text).unwrap();
            Set::read(file.path()).map_err(|e| format!("{e:#}").replace(&file.path().display().to_string(), "f"))
        };
        let set = read("# a comment\n10.0.0.0/8\n\n !10.1.0.0/16 # not these\n2001:db8::/32\n10.0.0.0/8\n").unwrap();
        assert_eq!((set.len(), set.single()), (3, None));
        assert_eq!(read("192.0.2.1").unwrap().single().unwrap().to_string(), "192.0.2.1/32");
        for (text, message) in [
            ("10.0.0.0/8\n10.0.0.0/33\n", "f:2: invalid prefix `10.0.0.0/33`: a prefix of 10.0.0.0 has at most 32"),
            ("nowhere", "f:1: invalid prefix `nowhere`"),
            ("10.0.0.0/8\n!10.0.0.0/8\n", "f:2: 10.0.0.0/8 is both in the set and taken out of it"),
            ("# nothing\n", "f has no prefix"),
            ("!10.0.0.0/8\n!10.1.0.0/16\n", "f: all prefixes are taken out, of none"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with(message), "{text} says: {said}");
        }
    }
}
