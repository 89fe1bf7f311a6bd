//! The format of datagrams between border and server, version 1, as documented in docs/reference/pep-wire.md. This
//! module does no I/O.
//!
//! A decoded datagram is only known to be well-formed. [`crate::auth`] has the keys to verify that it is authentic; the
//! server's sessions check that it is not a replay.

use crate::report::{FlowKey, FlowReport, RANGES, SeqRange};
use hotcc_keys::{Key, MAC_BYTES};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// UDP port of servers.
pub const PORT: u16 = 4713;
/// Maximum UDP payload: fits into the smallest IPv6 packet that every path carries.
pub const MAX_DATAGRAM_BYTES: usize = 1200;
/// Version of the format.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 2] = *b"PA";
const HEADER_BYTES: usize = 32;
const TIME_AT: usize = 24;
const PROBE_BYTES: usize = HEADER_BYTES + 8 + MAC_BYTES;
/// Family, ranges, two ports, in-order sequence number, segments, age.
const FLOW_FIXED_BYTES: usize = 2 + 4 + 12;
const RANGE_BYTES: usize = 8;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Border to server: reports of flows.
    Report,
    /// Server to border: a request for an answer.
    Probe,
    /// Border to server: the answer to a probe.
    Echo,
}

impl Kind {
    const ALL: [(u8, Self); 3] = [(1, Self::Report), (2, Self::Probe), (3, Self::Echo)];

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or(0, |(number, _)| *number)
    }
}

/// The header of every datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the datagram is for.
    pub kind: Kind,
    /// Number of the key that signed it.
    pub key_id: u8,
    /// Identifies one run of a border's agent; drawn at random when the agent starts.
    pub epoch: u64,
    /// Increases with each of the border's datagrams in an epoch; 0 in a probe.
    pub counter: u64,
    /// The sender's CLOCK_MONOTONIC at sending, microseconds.
    pub time_us: u64,
}

/// Why a datagram is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Shorter than its fields say, or than any valid datagram.
    #[error("truncated")]
    Truncated,
    /// Longer than its fields say, or than any valid datagram.
    #[error("oversized")]
    Oversized,
    /// Not of this protocol.
    #[error("not a PEP datagram")]
    NotOurs,
    /// Another version.
    #[error("another version")]
    Version,
    /// A field has an invalid value.
    #[error("malformed")]
    Malformed,
}

/// A parsed datagram, not yet authenticated.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its header.
    pub header: Header,
    signed: &'a [u8],
    mac: &'a [u8],
    flows: u8,
}

impl<'a> Datagram<'a> {
    /// Parses a datagram. Its flows are parsed only by [`Self::reports`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > MAX_DATAGRAM_BYTES {
            return Err(WireError::Oversized);
        }
        if bytes.get(..2).ok_or(WireError::Truncated)? != MAGIC {
            return Err(WireError::NotOurs);
        }
        if *bytes.get(2).ok_or(WireError::Truncated)? != VERSION {
            return Err(WireError::Version);
        }
        if bytes.len() < HEADER_BYTES + MAC_BYTES {
            return Err(WireError::Truncated);
        }
        let (signed, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
        let mut reader = Reader(&signed[3..]);
        let (number, key_id, flows, reserved) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u16()?);
        let kind = Kind::ALL.iter().find(|(n, _)| *n == number).ok_or(WireError::Malformed)?.1;
        let header = Header { kind, key_id, epoch: reader.u64()?, counter: reader.u64()?, time_us: reader.u64()? };
        if reserved != 0 || (kind == Kind::Report) == (flows == 0) {
            return Err(WireError::Malformed);
        }
        match (kind, bytes.len()) {
            (Kind::Probe | Kind::Echo, ..PROBE_BYTES) => return Err(WireError::Truncated),
            (Kind::Probe | Kind::Echo, length) if length > PROBE_BYTES => return Err(WireError::Oversized),
            _ => {}
        }
        Ok(Self { header, signed, mac, flows })
    }

    /// Whether its code was made with `key`.
    #[must_use]
    pub fn is_signed_by(&self, key: &Key) -> bool {
        key.verify(self.signed, self.mac)
    }

    /// Returns the number that a probe carries and its echo repeats.
    pub fn nonce(&self) -> Result<u64, WireError> {
        Reader(&self.signed[HEADER_BYTES..]).u64()
    }

    /// Parses the reports. If one is malformed, all are rejected.
    pub fn reports(&self) -> Result<Vec<FlowReport>, WireError> {
        let mut reader = Reader(&self.signed[HEADER_BYTES..]);
        let reports = (0..self.flows).map(|_| report(&mut reader, self.header.time_us)).collect::<Result<_, _>>()?;
        if reader.0.is_empty() { Ok(reports) } else { Err(WireError::Oversized) }
    }
}

fn report(reader: &mut Reader<'_>, time_us: u64) -> Result<FlowReport, WireError> {
    let (family, ranges) = (reader.u8()?, usize::from(reader.u8()?));
    if ranges > RANGES {
        return Err(WireError::Malformed);
    }
    let (server, client): (IpAddr, IpAddr) = match family {
        4 => (Ipv4Addr::from(reader.array::<4>()?).into(), Ipv4Addr::from(reader.array::<4>()?).into()),
        6 => (Ipv6Addr::from(reader.array::<16>()?).into(), Ipv6Addr::from(reader.array::<16>()?).into()),
        _ => return Err(WireError::Malformed),
    };
    // a mapped IPv4 address beside one of IPv6 is no flow, and the key's prefix would be compared in the wrong family
    if server.to_canonical().is_ipv4() != client.to_canonical().is_ipv4() {
        return Err(WireError::Malformed);
    }
    let key =
        FlowKey { server: SocketAddr::new(server, reader.u16()?), client: SocketAddr::new(client, reader.u16()?) };
    let (in_order, segments, age_us) = (reader.u32()?, reader.u32()?, u64::from(reader.u32()?));
    let ranges = (0..ranges).map(|_| range(reader, in_order)).collect::<Result<_, _>>()?;
    let seen_at_us = time_us.checked_sub(age_us).ok_or(WireError::Malformed)?;
    Ok(FlowReport { key, in_order, ranges, segments, seen_at_us })
}

/// Reads a range, which is encoded as offsets from the in-order sequence number.
fn range(reader: &mut Reader<'_>, in_order: u32) -> Result<SeqRange, WireError> {
    let (start, end) = (reader.u32()?, reader.u32()?);
    if start == 0 || end <= start {
        return Err(WireError::Malformed);
    }
    Ok(SeqRange { start: in_order.wrapping_add(start), end: in_order.wrapping_add(end) })
}

/// Reads numbers in network order from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }
    fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_be_bytes)
    }
    fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }
    fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }
}

/// Writes a datagram of reports, to which flows are added while they fit.
#[derive(Debug)]
pub struct ReportWriter {
    bytes: Vec<u8>,
    time_us: u64,
    flows: u8,
}

impl ReportWriter {
    /// Returns an empty datagram of the run `epoch`. Ages are relative to `time_us`.
    #[must_use]
    pub fn new(epoch: u64, time_us: u64) -> Self {
        let mut bytes = Vec::with_capacity(MAX_DATAGRAM_BYTES);
        // `finish` fills in key and counter
        put_header(&mut bytes, &Header { kind: Kind::Report, key_id: 0, epoch, counter: 0, time_us });
        Self { bytes, time_us, flows: 0 }
    }

    /// Returns the number of flows in it.
    #[must_use]
    pub fn flows(&self) -> u8 {
        self.flows
    }

    /// Adds a flow; returns `false` if it does not fit.
    ///
    /// The datagram is always valid: an observation in the future gets age 0, an age beyond 2^32 us (over an hour) is
    /// clamped, and invalid ranges, as well as valid ones after the first [`RANGES`], are left out.
    pub fn push(&mut self, report: &FlowReport) -> bool {
        let ranges = || report.ranges.iter().map(|r| offsets(*r, report.in_order)).filter(|(s, e)| 0 < *s && s < e);
        let count = ranges().take(RANGES).count();
        let addresses = if report.key.server.is_ipv4() && report.key.client.is_ipv4() { 8 } else { 32 };
        let length = FLOW_FIXED_BYTES + addresses + count * RANGE_BYTES;
        if self.bytes.len() + length + MAC_BYTES > MAX_DATAGRAM_BYTES || self.flows == u8::MAX {
            return false;
        }
        match (report.key.server.ip(), report.key.client.ip()) {
            (IpAddr::V4(server), IpAddr::V4(client)) => {
                self.bytes.extend([4, count as u8]);
                self.bytes.extend(server.octets());
                self.bytes.extend(client.octets());
            }
            (server, client) => {
                self.bytes.extend([6, count as u8]);
                self.bytes.extend(v6(server).octets());
                self.bytes.extend(v6(client).octets());
            }
        }
        self.bytes.extend(report.key.server.port().to_be_bytes());
        self.bytes.extend(report.key.client.port().to_be_bytes());
        let age_us = self.time_us.saturating_sub(report.seen_at_us).min(u32::MAX.into()) as u32;
        for word in [report.in_order, report.segments, age_us] {
            self.bytes.extend(word.to_be_bytes());
        }
        for (start, end) in ranges().take(RANGES) {
            self.bytes.extend(start.to_be_bytes());
            self.bytes.extend(end.to_be_bytes());
        }
        self.flows += 1;
        true
    }

    /// Signs and returns the datagram.
    #[must_use]
    pub fn finish(mut self, key: &Key, counter: u64) -> Vec<u8> {
        self.bytes[4] = key.id;
        self.bytes[5] = self.flows;
        self.bytes[TIME_AT - 8..TIME_AT].copy_from_slice(&counter.to_be_bytes());
        sign(self.bytes, key)
    }
}

fn offsets(range: SeqRange, in_order: u32) -> (u32, u32) {
    (range.start.wrapping_sub(in_order), range.end.wrapping_sub(in_order))
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Returns a probe or its echo, as `header` says.
#[must_use]
pub fn probe(header: &Header, nonce: u64, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PROBE_BYTES);
    put_header(&mut bytes, &Header { key_id: key.id, ..*header });
    bytes.extend(nonce.to_be_bytes());
    sign(bytes, key)
}

fn put_header(bytes: &mut Vec<u8>, header: &Header) {
    bytes.extend(MAGIC);
    bytes.extend([VERSION, header.kind.number(), header.key_id, 0, 0, 0]);
    for word in [header.epoch, header.counter, header.time_us] {
        bytes.extend(word.to_be_bytes());
    }
}

fn sign(mut bytes: Vec<u8>, key: &Key) -> Vec<u8> {
    let mac = key.sign(&bytes);
    bytes.extend(mac);
    bytes
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
