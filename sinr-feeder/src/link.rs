//! Parses links: `ADDR[/LEN]`, or `ADDR:PORT[/LEN]` for a block of ports behind one shared address.

use hotcc_abi::radio::IndexKey;
use hotcc_keys::Scope;
use std::net::{IpAddr, Ipv6Addr};

/// What is wrong with a link's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Neither an IPv4 nor an IPv6 address.
    #[error("`{0}` is not an IP address: expected ADDR[/LEN], ADDR:PORT[/LEN] or [ADDR]:PORT[/LEN], e.g. 10.45.0.0/16")]
    Address(String),
    /// Not a decimal number in the range.
    #[error("invalid {what} `{text}`: expected a whole number from 0 to {limit}")]
    Number {
        /// Name of the number.
        what: &'static str,
        /// The text in its place.
        text: String,
        /// The largest valid number.
        limit: u16,
    },
    /// Bits are set beyond the prefix length.
    #[error("`{text}` has bits set beyond its prefix length: did you mean {meant}?")]
    HostBits {
        /// The text of the link.
        text: String,
        /// The same prefix without those bits.
        meant: IndexKey,
    },
}

/// The link that a key's holder may write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Granted(pub IndexKey);

impl Scope for Granted {
    fn parse(word: &str) -> Result<Self, String> {
        parse(word).map(Self).map_err(|e| e.to_string())
    }
}

/// Parses a link: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1:4096/6` (ports 4096 to 5119) or
/// `[2001:db8::1]:443` (one port).
///
/// # Errors
/// The text does not have exactly this form, or has bits set beyond the prefix length.
pub fn parse(text: &str) -> Result<IndexKey, LinkError> {
    let (name, length) = match text.split_once('/') {
        Some((name, length)) => (name, Some(length)),
        None => (text, None),
    };
    let (addr, port) = address_and_port(name)?;
    let (limit, what) = match (port, addr) {
        (Some(_), _) => (16, "port prefix length"),
        (None, IpAddr::V4(_)) => (32, "prefix length"),
        (None, IpAddr::V6(_)) => (128, "prefix length"),
    };
    let bits = match length {
        Some(length) => number(what, length, limit)?,
        None => limit,
    } as u8;
    let port = port.map(|port| number("port", port, u16::MAX)).transpose()?;
    let key = match port {
        Some(port) => IndexKey::port_block(addr, port, bits),
        None => IndexKey::prefix(addr, bits),
    }
    .ok_or_else(|| LinkError::Address(name.to_owned()))?;
    if key.addr != v6(addr).octets() || key.port != port.unwrap_or(0).to_be_bytes() {
        return Err(LinkError::HostBits { text: text.to_owned(), meant: key });
    }
    Ok(key)
}

fn v6(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}

fn address_and_port(name: &str) -> Result<(IpAddr, Option<&str>), LinkError> {
    let invalid = || LinkError::Address(name.to_owned());
    let (addr, port) = if let Some(rest) = name.strip_prefix('[') {
        let (addr, port) = rest.split_once("]:").ok_or_else(invalid)?;
        (IpAddr::V6(addr.parse().map_err(|_| invalid())?), Some(port))
    } else if let Ok(addr) = name.parse() {
        (addr, None)
    } else {
        let (addr, port) = name.split_once(':').ok_or_else(invalid)?;
        (IpAddr::V4(addr.parse().map_err(|_| invalid())?), Some(port))
    };
    Ok((addr, port))
}

/// Parses a number of digits only: `parse` alone would accept "+5".
fn number(what: &'static str, text: &str, limit: u16) -> Result<u16, LinkError> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let value = if digits { text.parse().ok() } else { None };
    value.filter(|v| *v <= limit).ok_or_else(|| LinkError::Number { what, text: text.to_owned(), limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(addr: &str, len: u8) -> IndexKey {
        IndexKey::prefix(addr.parse().unwrap(), len).unwrap()
    }

    fn block(addr: &str, port: u16, len: u8) -> IndexKey {
        IndexKey::port_block(addr.parse().unwrap(), port, len).unwrap()
    }

    #[test]
    fn every_form_is_understood() {
        for (text, key) in [
            ("192.0.2.7", prefix("192.0.2.7", 32)),
            ("192.0.2.0/24", prefix("192.0.2.0", 24)),
            ("0.0.0.0/0", prefix("0.0.0.0", 0)),
            ("2001:db8::1", prefix("2001:db8::1", 128)),
            ("2001:db8::/32", prefix("2001:db8::", 32)),
            ("::/0", prefix("::", 0)),
            ("192.0.2.1:4096/6", block("192.0.2.1", 4096, 6)),
            ("192.0.2.1:443", block("192.0.2.1", 443, 16)),
            ("[2001:db8::1]:4096/6", block("2001:db8::1", 4096, 6)),
        ] {
            assert_eq!(parse(text), Ok(key), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_given_back() {
        for text in ["10.0.0.0/8", "::/0", "2001:db8::/32", "192.0.2.1:4096/6", "[2001:db8::1]:443/16"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, says) in [
            ("", "`` is not an IP address"),
            ("ue1", "`ue1` is not an IP address"),
            ("192.0.2.300", "not an IP address"),
            ("192.0.2.1/33", "invalid prefix length `33`: expected a whole number from 0 to 32"),
            ("192.0.2.1/", "prefix length ``"),
            ("192.0.2.1/+8", "prefix length `+8`"),
            ("192.0.2.1/24/6", "prefix length `24/6`"),
            ("2001:db8::/129", "from 0 to 128"),
            ("[2001:db8::1]", "not an IP address"),
            ("[192.0.2.1]:80", "not an IP address"),
            ("fe80::1%eth0", "not an IP address"),
            ("192.0.2.1:65536/16", "port `65536`"),
            ("192.0.2.1:80/17", "port prefix length `17`"),
            ("192.0.2.1/24", "did you mean 192.0.2.0/24?"),
            ("192.0.2.1:5000/6", "did you mean 192.0.2.1:4096/6?"),
            ("2001:db8::1/64", "did you mean 2001:db8::/64?"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
