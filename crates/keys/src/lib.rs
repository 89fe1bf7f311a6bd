//! Authentication and replay protection of datagrams: keys and key files, message codes, and the replay window of
//! counters.

pub mod secret_file;

use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, Mac};
use secret_file::SecretError;
use sha2::Sha256;
use std::path::{Path, PathBuf};

/// Length of a message code: HMAC-SHA-256, truncated to 128 bits.
pub const MAC_BYTES: usize = 16;
/// Length of a key.
pub const KEY_BYTES: usize = 32;
/// Size of the replay window: a counter that is this far behind the newest, or further, is rejected.
pub const WINDOW: u64 = 1024;

/// A key that sender and receiver share.
#[derive(Clone)]
pub struct Key {
    /// Number of the key, which datagrams contain.
    pub id: u8,
    /// Identifies the key without revealing it. The number does not identify it: keys for different things may share a
    /// number.
    pub fingerprint: Fingerprint,
    keyed: Hmac<Sha256>,
}

/// A value that identifies one key.
pub type Fingerprint = [u8; MAC_BYTES];

/// The fingerprint is the code of this text with the key's number appended. No datagram begins with this text.
const FINGERPRINT: &[u8] = b"hotcc key fingerprint";

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key {{ id: {} }}", self.id)
    }
}

impl Key {
    /// Creates a key with its number.
    #[must_use]
    #[allow(clippy::missing_panics_doc, clippy::expect_used, reason = "HMAC takes keys of any length")]
    pub fn new(id: u8, secret: &[u8; KEY_BYTES]) -> Self {
        let keyed = Hmac::new_from_slice(secret).expect("HMAC takes keys of any length");
        Self { id, fingerprint: code(&keyed, &[FINGERPRINT, &[id]].concat()), keyed }
    }

    /// Returns the code of a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        code(&self.keyed, message)
    }

    /// Returns whether the code of a message begins with `mac`; compares in constant time. The caller must ensure that
    /// `mac` is long enough.
    #[must_use]
    pub fn verify(&self, message: &[u8], mac: &[u8]) -> bool {
        self.keyed.clone().chain_update(message).verify_truncated_left(mac).is_ok()
    }
}

fn code(keyed: &Hmac<Sha256>, message: &[u8]) -> [u8; MAC_BYTES] {
    let whole = keyed.clone().chain_update(message).finalize().into_bytes();
    std::array::from_fn(|i| whole[i])
}

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read, or may not hold secrets.
    #[error(transparent)]
    File(#[from] SecretError),
    /// A line is invalid.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file has no key.
    #[error("cannot use {0}: it has no key; add a line `NUMBER KEY [SCOPE]`")]
    Empty(PathBuf),
}

/// The scope of a key, i.e. what it is for: the last word of its line.
pub trait Scope: Sized + PartialEq {
    /// Parses the word.
    ///
    /// # Errors
    /// Returns what is wrong with the word.
    fn parse(word: &str) -> Result<Self, String>;
}

/// The keys of a file, each with its scope, if its line has one. Lines are `NUMBER KEY [SCOPE]`; the key has 64
/// hexadecimal digits.
#[derive(Clone, Debug)]
pub struct Keys<S>(Vec<(Key, Option<S>)>);

impl<S: Scope> Keys<S> {
    /// Reads a key file. Only its owner may have access to it.
    ///
    /// # Errors
    /// As for [`secret_file::read`]; also fails if a line is invalid, or if there is no key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&secret_file::read(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, KeyError> {
        let mut keys: Vec<(Key, Option<S>)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let invalid = |reason| KeyError::Line { path: path.to_owned(), line: number, reason };
            let (key, scope) = parse_line(line).map_err(invalid)?;
            if keys.iter().any(|(other, s)| other.id == key.id && *s == scope) {
                return Err(invalid(format!("key number {} is already taken by another key", key.id)));
            }
            keys.push((key, scope));
        }
        if keys.is_empty() { Err(KeyError::Empty(path.to_owned())) } else { Ok(Self(keys)) }
    }

    /// Returns all keys, in the file's order, each with its scope; `None` means that the key is for everything.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, Option<&S>)> {
        self.0.iter().map(|(key, scope)| (key, scope.as_ref()))
    }

    /// Returns the keys with this number.
    pub fn numbered(&self, id: u8) -> impl Iterator<Item = (&Key, Option<&S>)> {
        self.iter().filter(move |(key, _)| key.id == id)
    }
}

fn parse_line<S: Scope>(line: &str) -> Result<(Key, Option<S>), String> {
    let mut words = line.split_whitespace();
    let id = words
        .next()
        .and_then(|w| w.parse().ok())
        .ok_or("invalid key number: expected NUMBER KEY [SCOPE], with a number from 0 to 255")?;
    let secret = words
        .next()
        .and_then(|word| HEXLOWER_PERMISSIVE.decode(word.as_bytes()).ok()?.try_into().ok())
        .ok_or("invalid key: expected 64 hexadecimal digits (`openssl rand -hex 32` generates some)")?;
    let scope = words.next().map(S::parse).transpose()?;
    if let Some(word) = words.next() {
        return Err(format!("unexpected `{word}`: expected NUMBER KEY [SCOPE]"));
    }
    Ok((Key::new(id, &secret), scope))
}

/// The replay window of one sender: each counter is accepted once, and no counter that is [`WINDOW`] or more behind the
/// newest.
#[derive(Clone, Debug)]
pub struct Window {
    newest: u64,
    seen: [u64; (WINDOW / 64) as usize],
}

impl Window {
    /// Creates a window that accepts only counters above `counter`.
    #[must_use]
    pub fn after(counter: u64) -> Self {
        Self { newest: counter, seen: [u64::MAX; (WINDOW / 64) as usize] }
    }

    /// Returns whether the counter would be accepted.
    #[must_use]
    pub fn is_new(&self, counter: u64) -> bool {
        let word = self.seen[(counter % WINDOW / 64) as usize];
        counter > self.newest || self.newest - counter < WINDOW && word & Self::bit(counter) == 0
    }

    /// Accepts the counter, so that it is not accepted again; returns `false` if it is a replay or too old.
    pub fn take(&mut self, counter: u64) -> bool {
        if !self.is_new(counter) {
            return false;
        }
        if counter > self.newest {
            for skipped in self.newest.saturating_add(1).max(counter.saturating_sub(WINDOW - 1))..counter {
                *self.word(skipped) &= !Self::bit(skipped);
            }
            self.newest = counter;
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
    use proptest::prelude::*;
    use std::collections::HashSet;
    use std::fs;

    /// Any word but `wrong`.
    #[derive(Debug, PartialEq)]
    struct Word(String);

    impl Scope for Word {
        fn parse(word: &str) -> Result<Self, String> {
            if word == "wrong" { Err("no such word".to_owned()) } else { Ok(Self(word.to_owned())) }
        }
    }

    fn parse(text: &str) -> Result<Keys<Word>, KeyError> {
        Keys::parse(text, Path::new("keys"))
    }

    /// RFC 4231, test case 1. Its 20-byte key is padded with zeros to our length, as HMAC itself pads keys.
    #[test]
    fn the_code_is_hmac_sha_256() {
        let mut secret = [0; KEY_BYTES];
        secret[..20].fill(0x0b);
        let key = Key::new(1, &secret);
        let code = [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b];
        assert_eq!(key.sign(b"Hi There"), code);
        assert!(key.verify(b"Hi There", &code) && key.verify(b"Hi There", &code[..10]));
        assert!(!key.verify(b"Hi there", &code));
        assert!(!format!("{key:?}").contains("11"), "a key is not printed");
    }

    #[test]
    fn a_fingerprint_is_of_one_key_alone() {
        let key = Key::new(1, &[7; KEY_BYTES]);
        assert_eq!(key.fingerprint, Key::new(1, &[7; KEY_BYTES]).fingerprint);
        assert_ne!(key.fingerprint, Key::new(1, &[8; KEY_BYTES]).fingerprint);
        assert_ne!(key.fingerprint, Key::new(2, &[7; KEY_BYTES]).fingerprint);
    }

    #[test]
    fn key_files() {
        let (a, b) = ("0a".repeat(32), "0B".repeat(32));
        let keys = parse(&format!("# mine\n 7 {a} # new\n\n8 {b} x\n9 {b} x\n7 {b} y\n")).unwrap();
        let all: Vec<_> = keys.iter().map(|(key, word)| (key.id, word.map_or("", |w| w.0.as_str()))).collect();
        assert_eq!(all, [(7, ""), (8, "x"), (9, "x"), (7, "y")]);
        assert_eq!((keys.numbered(7).count(), keys.numbered(9).count(), keys.numbered(1).count()), (2, 1, 0));
        let many: String = (0..=255).map(|id| format!("{id} {a} x\n")).collect();
        assert_eq!(parse(&many).unwrap().iter().count(), 256, "as many as there are numbers");
        for (invalid, says) in [
            ("", "no key"),
            ("x aa", "number"),
            ("256 aa", "number"),
            ("1 aa", "64 hexadecimal"),
            (&format!("1 {}", "é".repeat(32)), "64 hexadecimal"),
            (&format!("1 {a} wrong"), "keys:1: no such word"),
            (&format!("1 {a} x more"), "unexpected `more`"),
            (&format!("1 {a}\n1 {b}"), "keys:2: key number 1 is already taken"),
        ] {
            let error = parse(invalid).unwrap_err().to_string();
            assert!(error.contains(says), "{invalid}: {error}");
        }
    }

    #[test]
    fn a_key_file_is_a_secret() {
        use std::error::Error;
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("1 {}", "0a".repeat(32))).unwrap();
        assert!(Keys::<Word>::read(file.path()).is_ok());
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keys::<Word>::read(file.path()), Err(KeyError::File(SecretError::Exposed(_)))));
        let error = Keys::<Word>::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.source().is_some_and(|cause| cause.is::<std::io::Error>()), "{error:?}");
    }

    #[test]
    fn a_window_that_begins_late_takes_nothing_older() {
        let mut window = Window::after(5000);
        assert!(!window.take(5000) && !window.take(4999) && !window.take(1));
        assert!(window.take(5002) && window.take(5001) && !window.take(5001) && !window.take(5000));
        assert!(window.take(u64::MAX) && !window.take(u64::MAX) && window.take(u64::MAX - 1));
    }

    proptest! {
        /// Compares the window with a set of all accepted counters.
        #[test]
        fn each_counter_is_taken_once(
            start in 0u64..2000,
            steps in proptest::collection::vec(-1500i64..3000, 1..400),
        ) {
            let (mut window, mut newest, mut taken) = (Window::after(start), start, HashSet::new());
            for step in steps {
                let Some(counter) = newest.checked_add_signed(step) else { continue };
                let fresh = counter > start && newest.saturating_sub(counter) < WINDOW && !taken.contains(&counter);
                prop_assert_eq!(window.take(counter), fresh, "{} after {}", counter, newest);
                if fresh {
                    taken.insert(counter);
                    newest = newest.max(counter);
                }
            }
        }
    }
}
