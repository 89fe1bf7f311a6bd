//! The keys that borders and servers share: which one signs for a server, and how they are replaced.

use hotcc_host::error::chain;
use hotcc_keys::{Fingerprint, Key, KeyError, Scope};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// The servers that a key is for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Servers(IpAddr, u8);

impl Scope for Servers {
    fn parse(word: &str) -> Result<Self, String> {
        prefix(word).ok_or_else(|| format!("invalid prefix `{word}`: expected the addresses of the servers that the key is for, e.g. `192.0.2.0/24`"))
    }
}

/// A key and the servers that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    /// The key.
    pub key: &'a Key,
    servers: Option<&'a Servers>,
}

impl Signer<'_> {
    /// Whether the key is for this server.
    #[must_use]
    pub fn is_for(&self, server: IpAddr) -> bool {
        self.servers.is_none_or(|servers| servers.contain(server.to_canonical()))
    }
}

/// The keys of a file with lines `ID KEY [PREFIX]`, where the prefix limits the servers that the key is for. Of the
/// keys for a server, the first one signs, and all of them verify.
#[derive(Clone, Debug)]
pub struct Keys(hotcc_keys::Keys<Servers>);

impl Keys {
    /// Reads a key file, which only its owner may be able to read.
    ///
    /// # Errors
    /// Those of [`hotcc_keys::Keys::read`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        hotcc_keys::Keys::read(path).map(Self)
    }

    /// Returns the key that signs reports to a server.
    #[must_use]
    pub fn signing(&self, server: IpAddr) -> Option<&Key> {
        let mut all = self.0.iter().map(|(key, servers)| Signer { key, servers });
        all.find(|signer| signer.is_for(server)).map(|signer| signer.key)
    }

    /// Returns the keys with this number.
    pub fn numbered(&self, id: u8) -> impl Iterator<Item = Signer<'_>> {
        self.0.numbered(id).map(|(key, servers)| Signer { key, servers })
    }

    /// Returns the key with this fingerprint.
    #[must_use]
    pub fn named(&self, fingerprint: &Fingerprint) -> Option<&Key> {
        self.0.iter().map(|(key, _)| key).find(|key| key.fingerprint == *fingerprint)
    }
}

/// The current keys, shared by all parts of an agent.
#[derive(Clone, Debug)]
pub struct LiveKeys(Arc<RwLock<Arc<Keys>>>);

impl LiveKeys {
    /// Holds `keys` until they are replaced.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(keys))))
    }

    /// Returns the current keys.
    #[must_use]
    pub fn get(&self) -> Arc<Keys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again. If that fails, logs the error and keeps the old keys.
    pub fn reload(&self, path: &Path) {
        match Keys::read(path) {
            Ok(keys) => {
                self.replace(keys);
                tracing::info!("now using the keys of {}", path.display());
            }
            Err(error) => tracing::error!("keeping the old keys: {}", chain(&error)),
        }
    }

    /// Replaces the keys.
    pub fn replace(&self, keys: Keys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }
}

fn prefix(word: &str) -> Option<Servers> {
    let (address, length) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let length = length.map_or(Some(longest), |l| l.parse().ok())?;
    (length <= longest).then_some(Servers(address, length))
}

impl Servers {
    fn contain(self, server: IpAddr) -> bool {
        let bits = |address| match address {
            IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, true),
            IpAddr::V6(v6) => (u128::from(v6), false),
        };
        let ((network, network_is_v4), (server, server_is_v4)) = (bits(self.0), bits(server));
        network_is_v4 == server_is_v4 && (self.1 == 0 || (network ^ server) >> (128 - u32::from(self.1)) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Keys, KeyError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Keys::read(file.path())
    }

    #[test]
    fn each_server_has_its_keys() {
        let (a, b) = ("0a".repeat(32), "0B".repeat(32));
        let keys = parse(&format!("7 {a}\n8 {b} 203.0.113.0/24\n9 {b} 203.0.113.0/24\n")).unwrap();
        let signing = |server: &str| keys.signing(server.parse().unwrap()).map(|k| k.id);
        assert_eq!((signing("198.51.100.1"), signing("2001:db8::1")), (Some(7), Some(7)));
        let keys = parse(&format!("8 {b} 203.0.113.0/24\n9 {b} 2001:db8::/32")).unwrap();
        let signing = |server: &str| keys.signing(server.parse().unwrap()).map(|k| k.id);
        assert_eq!((signing("203.0.113.9"), signing("::ffff:203.0.113.9")), (Some(8), Some(8)));
        assert_eq!((signing("2001:db8:1::1"), signing("203.0.114.9")), (Some(9), None));
        assert_eq!((keys.numbered(8).count(), keys.numbered(7).count()), (1, 0));
        let is_for = |id, server: &str| keys.numbered(id).any(|signer| signer.is_for(server.parse().unwrap()));
        assert!(is_for(8, "203.0.113.9") && is_for(8, "::ffff:203.0.113.9") && is_for(9, "2001:db8::1"));
        assert!(!is_for(8, "203.0.114.9") && !is_for(8, "2001:db8::1") && !is_for(9, "203.0.113.9"));
        let wrong = parse(&format!("1 {a} 10.0.0.0/33")).unwrap_err().to_string();
        assert!(wrong.contains(":1: invalid prefix `10.0.0.0/33`"), "{wrong}");
    }
}
