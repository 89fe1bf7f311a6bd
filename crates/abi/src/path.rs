//! Path changes: whether the route to a destination has changed, as reported by the program that watches the routes.
//!
//! There are two maps. `path_gen` (LPM trie) maps a destination to the generation of its path; a destination without an
//! entry has generation 0. `path_clock` (array of one `u32`) is incremented after any change of `path_gen`, so that a
//! flow looks up its destination again only then. Generations are only compared for equality: a different one means
//! that the path has changed.

use bytemuck::{Pod, Zeroable};
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Capacity of `path_gen`.
pub const ENTRIES: u32 = 16_384;
/// Prefix length of one address.
pub const FULL_PREFIX_LEN: u32 = 128;
/// Bits of an IPv4-mapped address before the IPv4 address.
const MAPPED_LEN: u32 = 96;

/// Key of `path_gen`: a prefix of addresses, IPv4 mapped into `::ffff:0:0/96`, in network order.
///
/// Keys are ordered by address, then by length, so a prefix precedes the prefixes that it covers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct PathKey {
    /// Significant bits of `addr`, at most [`FULL_PREFIX_LEN`].
    pub prefix_len: u32,
    /// The address; the bits beyond the prefix are 0.
    pub addr: [u8; 16],
}

impl PathKey {
    /// All of IPv4.
    pub const ALL_V4: Self =
        Self { prefix_len: MAPPED_LEN, addr: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0] };
    /// All of IPv6. As a prefix of keys, it also contains the mapped IPv4 addresses.
    pub const ALL_V6: Self = Self { prefix_len: 0, addr: [0; 16] };

    /// Returns the key for `addr/len`, where `len` counts bits of the address in its own family, or `None` if `len` is
    /// too long for the family.
    #[must_use]
    pub fn prefix(addr: IpAddr, len: u8) -> Option<Self> {
        let (bits, offset) = if addr.is_ipv4() { (32, MAPPED_LEN) } else { (128, 0) };
        (len <= bits).then(|| Self::address(addr).truncated(offset + u32::from(len)))
    }

    /// Returns the key for one address.
    #[must_use]
    pub fn address(addr: IpAddr) -> Self {
        let octets = match addr {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        Self { prefix_len: FULL_PREFIX_LEN, addr: octets }
    }

    /// Returns the prefix of `prefix_len` bits that contains this one, or this one if it is no longer than that.
    #[must_use]
    pub fn truncated(self, prefix_len: u32) -> Self {
        if prefix_len >= self.prefix_len {
            return self;
        }
        let mask = u128::from_be_bytes(Self { prefix_len, ..self }.mask());
        Self { prefix_len, addr: (u128::from_be_bytes(self.addr) & mask).to_be_bytes() }
    }

    /// Returns the prefix's significant bits as ones.
    #[must_use]
    pub fn mask(self) -> [u8; 16] {
        (!u128::MAX.checked_shr(self.prefix_len).unwrap_or(0)).to_be_bytes()
    }

    /// Whether this is a prefix of IPv4 addresses.
    #[must_use]
    pub fn is_v4(self) -> bool {
        self.prefix_len >= MAPPED_LEN && self.truncated(MAPPED_LEN) == Self::ALL_V4
    }

    /// Returns the prefix of all addresses of the same family.
    #[must_use]
    pub fn family(self) -> Self {
        if self.is_v4() { Self::ALL_V4 } else { Self::ALL_V6 }
    }

    /// Whether `other` is in this prefix and of the same family: IPv6 prefixes do not cover IPv4 prefixes.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.is_v4() == other.is_v4()
            && self.prefix_len <= other.prefix_len
            && other.truncated(self.prefix_len).addr == self.addr
    }
}

impl Ord for PathKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.addr, self.prefix_len).cmp(&(other.addr, other.prefix_len))
    }
}

impl PartialOrd for PathKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes `ADDR/LEN`.
impl std::fmt::Display for PathKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v6 = Ipv6Addr::from(self.addr);
        match v6.to_ipv4_mapped() {
            Some(v4) if self.is_v4() => write!(f, "{v4}/{}", self.prefix_len - MAPPED_LEN),
            _ => write!(f, "{v6}/{}", self.prefix_len),
        }
    }
}

/// Parses `ADDR/LEN`, or `ADDR` for one address. The error says what is wrong.
impl FromStr for PathKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| format!("`{addr}` is no IP address"))?;
        let bits = if addr.is_ipv4() { 32 } else { 128 };
        let len: u8 = match len {
            None => bits,
            Some(len) => len.parse().map_err(|_| format!("`{len}` is no prefix length"))?,
        };
        let key = Self::prefix(addr, len);
        let key = key.ok_or_else(|| format!("a prefix of {addr} has at most {bits} bits, not {len}"))?;
        if key.addr != Self::address(addr).addr {
            return Err(format!("`{text}` has bits set beyond its prefix length: did you mean {key}?"));
        }
        Ok(key)
    }
}

const _: () = assert!(size_of::<PathKey>() == 20);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PathKey {
        text.parse().unwrap()
    }

    #[test]
    fn keys_parse_mask_and_print() {
        for (text, printed, len) in [
            ("10.0.0.0/8", "10.0.0.0/8", 104),
            ("10.1.2.3", "10.1.2.3/32", 128),
            ("0.0.0.0/0", "0.0.0.0/0", 96),
            ("2001:db8::/33", "2001:db8::/33", 33),
            ("::1", "::1/128", 128),
            ("::/0", "::/0", 0),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24", 120),
            ("::fffe:0:0/95", "::fffe:0:0/95", 95),
        ] {
            assert_eq!((&*key(text).to_string(), key(text).prefix_len), (printed, len), "{text}");
        }
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "nowhere", ""] {
            assert!(wrong.parse::<PathKey>().is_err(), "{wrong}");
        }
        let host_bits = "10.1.2.3/8".parse::<PathKey>().unwrap_err();
        assert_eq!(host_bits, "`10.1.2.3/8` has bits set beyond its prefix length: did you mean 10.0.0.0/8?");
    }

    #[test]
    fn families_do_not_cover_each_other() {
        assert_eq!((key("0.0.0.0/0"), key("::/0")), (PathKey::ALL_V4, PathKey::ALL_V6));
        assert!(key("10.0.0.0/8").covers(key("10.1.0.0/16")) && key("10.0.0.0/8").covers(key("10.0.0.0/8")));
        assert!(!key("10.1.0.0/16").covers(key("10.0.0.0/8")) && !key("10.0.0.0/8").covers(key("11.0.0.0/16")));
        assert!(key("::/0").covers(key("2001:db8::/32")) && !key("::/0").covers(key("10.0.0.0/8")));
        assert!(!key("0.0.0.0/0").covers(key("::/0")) && key("0.0.0.0/0").covers(key("192.0.2.1")));
        assert_eq!((key("192.0.2.1").family(), key("fe80::1").family()), (PathKey::ALL_V4, PathKey::ALL_V6));
    }

    #[test]
    fn what_covers_comes_first() {
        let mut keys = ["10.0.0.0/16", "0.0.0.0/0", "10.0.0.0/8", "::/0"].map(key);
        keys.sort_unstable();
        assert_eq!(keys, ["::/0", "0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/16"].map(key));
    }
}
