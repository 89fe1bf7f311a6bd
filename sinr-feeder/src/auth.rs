//! Who sent a datagram, and whether it came before: keys, their codes, and the window of counters.

use crate::link;
use hmac::{Hmac, Mac};
use hotcc_abi::radio::IndexKey;
use sha2::Sha256;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Length of a code: HMAC-SHA-256, cut to 128 bits.
pub const MAC_BYTES: usize = 16;
/// A key's length.
pub const KEY_BYTES: usize = 32;
/// How much later than its successors a datagram may come: counters.
pub const WINDOW: u64 = 1024;

/// A key that both sides have.
#[derive(Clone)]
pub struct Key {
    /// Its number, which datagrams name.
    pub id: u8,
    keyed: Hmac<Sha256>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key {{ id: {} }}", self.id)
    }
}

impl Key {
    /// A key with its number.
    #[must_use]
    #[allow(clippy::missing_panics_doc, clippy::expect_used, reason = "HMAC takes keys of any length")]
    pub fn new(id: u8, secret: &[u8; KEY_BYTES]) -> Self {
        Self { id, keyed: Hmac::new_from_slice(secret).expect("HMAC takes keys of any length") }
    }

    /// The code of a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let whole = self.keyed.clone().chain_update(message).finalize().into_bytes();
        std::array::from_fn(|i| whole[i])
    }

    /// Whether `mac` is the code of a message; compares in constant time.
    #[must_use]
    pub fn verify(&self, message: &[u8], mac: &[u8; MAC_BYTES]) -> bool {
        self.keyed.clone().chain_update(message).verify_truncated_left(mac).is_ok()
    }
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others than its owner may read it.
    #[error("{} can be read by others: chmod 600 it", .0.display())]
    Exposed(PathBuf),
    /// A line that is not understood.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// No key in it.
    #[error("{} has no key", .0.display())]
    Empty(PathBuf),
}

/// The keys of a file, each with the link that its holder may write, where it names one. Its lines are
/// `ID KEY [LINK]`, the key as 64 hexadecimal digits.
#[derive(Clone, Debug)]
pub struct Keys(Vec<(Key, Option<IndexKey>)>);

impl Keys {
    /// Reads a file that nobody but its owner can read.
    ///
    /// # Errors
    /// Others can read it, or it cannot be read; a line that is not understood; no key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |error| KeyError::Unreadable { path: path.to_owned(), error };
        if fs::metadata(path).map_err(unreadable)?.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed(path.to_owned()));
        }
        Self::parse(&fs::read_to_string(path).map_err(unreadable)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, KeyError> {
        let mut keys: Vec<(Key, Option<IndexKey>)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |reason| KeyError::Line { path: path.to_owned(), line: number, reason };
            let (key, link) = parse_line(line).map_err(wrong)?;
            if keys.iter().any(|(other, l)| other.id == key.id && *l == link) {
                return Err(wrong("this number is taken by another key".to_owned()));
            }
            keys.push((key, link));
        }
        if keys.is_empty() { Err(KeyError::Empty(path.to_owned())) } else { Ok(Self(keys)) }
    }

    /// The key that signs: the first.
    #[must_use]
    pub fn signing(&self) -> Option<&Key> {
        self.0.first().map(|(key, _)| key)
    }

    /// The keys of that number, and the link that each may write.
    pub fn numbered(&self, id: u8) -> impl Iterator<Item = (&Key, Option<IndexKey>)> {
        self.0.iter().filter(move |(key, _)| key.id == id).map(|(key, link)| (key, *link))
    }

    /// The number of a key that names no link.
    #[must_use]
    pub fn without_prefix(&self) -> Option<u8> {
        self.0.iter().find(|(_, link)| link.is_none()).map(|(key, _)| key.id)
    }
}

fn parse_line(line: &str) -> Result<(Key, Option<IndexKey>), String> {
    let mut words = line.split_whitespace();
    let id = words.next().and_then(|w| w.parse().ok()).ok_or("a line begins with the key's number, 0 to 255")?;
    let secret = words.next().and_then(hex).ok_or("a key is 64 hexadecimal digits")?;
    let link = words.next().map(link::parse).transpose().map_err(|e| e.to_string())?;
    if words.next().is_some() {
        return Err("a line has a number, a key, and perhaps a link".to_owned());
    }
    Ok((Key::new(id, &secret), link))
}

fn hex(word: &str) -> Option<[u8; KEY_BYTES]> {
    let digits: Vec<u8> = word.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok()
}

/// Which counters of a session came already: each is taken once, and none that is [`WINDOW`] behind the newest.
#[derive(Clone, Debug)]
pub struct Window {
    newest: u64,
    seen: [u64; (WINDOW / 64) as usize],
}

impl Window {
    /// One that takes counters above `counter` only.
    #[must_use]
    pub fn after(counter: u64) -> Self {
        Self { newest: counter, seen: [u64::MAX; (WINDOW / 64) as usize] }
    }

    /// Whether it has not come yet. From now on it has.
    pub fn take(&mut self, counter: u64) -> bool {
        if counter > self.newest {
            for skipped in self.newest.saturating_add(1).max(counter.saturating_sub(WINDOW - 1))..counter {
                *self.word(skipped) &= !Self::bit(skipped);
            }
            self.newest = counter;
        } else if self.newest - counter >= WINDOW || *self.word(counter) & Self::bit(counter) != 0 {
            return false;
        }
        *self.word(counter) |= Self::bit(counter);
        true
    }

    fn word(&mut self, counter: u64) -> &mut u64 {
        &mut self.seen[(counter % WINDOW / 64) as usize]
    }

    fn bit(counter: u64) -> u64 {
        1 << (counter % 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn parse(text: &str) -> Result<Keys, KeyError> {
        Keys::parse(text, Path::new("keys"))
    }

    /// RFC 4231, test case 1, with its 20-byte key padded to ours: HMAC pads keys with zeros itself.
    #[test]
    fn the_code_is_hmac_sha_256() {
        let mut secret = [0; KEY_BYTES];
        secret[..20].fill(0x0b);
        let key = Key::new(1, &secret);
        let code = [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b];
        assert_eq!(key.sign(b"Hi There"), code);
        assert!(key.verify(b"Hi There", &code) && !key.verify(b"Hi there", &code));
        assert!(!format!("{key:?}").contains("11"), "a key is not printed");
    }

    #[test]
    fn key_files() {
        let (a, b) = ("0a".repeat(32), "0B".repeat(32));
        let keys = parse(&format!("# mine\n 7 {a} 10.0.0.7 # new\n\n8 {b} 192.0.2.1:4096/6\n9 {b}\n")).unwrap();
        assert_eq!((keys.signing().map(|k| k.id), keys.without_prefix()), (Some(7), Some(9)));
        let links: Vec<_> = keys.numbered(8).map(|(_, link)| link.unwrap().to_string()).collect();
        assert_eq!(links, ["192.0.2.1:4096/6"]);
        for (wrong, says) in [
            ("", "no key"),
            ("x aa", "number"),
            ("256 aa", "number"),
            ("1 aa", "64 hexadecimal"),
            (&format!("1 {}", "é".repeat(32)), "64 hexadecimal"),
            (&format!("1 {a} 10.0.0.0/33"), "keys:1: prefix length"),
            (&format!("1 {a} 10.0.0.0/8 more"), "perhaps"),
            (&format!("1 {a}\n1 {b}"), "keys:2: this number is taken"),
        ] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("1 {a}")).unwrap();
        assert!(Keys::read(file.path()).is_ok());
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keys::read(file.path()), Err(KeyError::Exposed(_))));
    }

    #[test]
    fn counters_are_taken_once() {
        let mut window = Window::after(10);
        assert!(!window.take(10) && window.take(12) && window.take(11) && !window.take(11) && !window.take(12));
        assert!(window.take(12 + WINDOW) && !window.take(12) && window.take(13) && !window.take(13));
        assert!(window.take(u64::MAX) && !window.take(u64::MAX) && window.take(u64::MAX - 1));
    }
}
