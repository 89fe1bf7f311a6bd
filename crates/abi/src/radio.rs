//! The radio signal: what a feeder knows of a link, in the maps where an algorithm finds it.
//!
//! There are two maps. `radio_index` (LPM trie) maps a peer's address to a slot number; if several subscribers share
//! one address, the key includes the port. `radio_slots` (array, memory-mappable) holds one 64-byte line per link; line
//! 0 is a [`Header`]. Decisions rest on two aligned `u64`, the SINR ([`PackedSinr`]) and the [`Capacity`], each with
//! its own time. One store writes a word and one load reads it, so a word is never torn, and a killed writer leaves
//! none half-written. A line may have either word, or both. `cell` changes when the serving cell changes. The other
//! fields of a line are informational.

use bytemuck::{Pod, Zeroable};
use std::net::IpAddr;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// `Header::magic`: "HCCR".
pub const MAGIC: u32 = 0x5243_4348;
/// Version of everything in this module. 2: `Slot::capacity` is a [`Capacity`], and there is `Slot::cell`. A reader or
/// writer that meets another version refuses the map, and an algorithm reads nothing from it.
pub const VERSION: u32 = 2;
/// Number of lines in `radio_slots`, including the header.
pub const SLOTS: u32 = 65_536;
/// Capacity of `radio_index`.
pub const INDEX_ENTRIES: u32 = 65_536;
/// Prefix length of a full key: 128 address bits and 16 port bits.
pub const FULL_PREFIX_LEN: u32 = 144;
/// Maximum age of a reading if its source sets none.
pub const DEFAULT_MAX_AGE_MS: u32 = 500;
/// Readers ignore any reading older than this, whatever its slot asks for.
pub const MAX_AGE_LIMIT_MS: u32 = 30_000;
/// Writers and readers clamp SINR readings to this range.
pub const SINR_RANGE_DB: std::ops::RangeInclusive<f64> = -20.0..=50.0;
/// "Not known" in [`Slot::rsrp_q8_dbm`] and [`Slot::rsrq_q8_db`].
pub const UNKNOWN_Q8: i32 = i32::MIN;
/// "Not known" in [`Slot::cqi`] and [`Slot::mcs`].
pub const UNKNOWN_U8: u8 = u8::MAX;

/// Key of `radio_index`: prefix over `address ++ port`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct IndexKey {
    /// Significant bits of `addr ++ port`, at most [`FULL_PREFIX_LEN`].
    pub prefix_len: u32,
    /// IPv6 address, or IPv4 mapped into `::ffff:0:0/96`, in network order.
    pub addr: [u8; 16],
    /// Port of the subscriber's side, in network order.
    pub port: [u8; 2],
    /// Zero.
    pub pad: [u8; 2],
}

impl IndexKey {
    /// Whether this prefix contains every address and port of `other`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.prefix_len <= other.prefix_len && Self::masked(other.addr, other.port, self.prefix_len) == *self
    }

    /// Returns the key for `addr/len` with any port, where `len` counts bits of the address in its own family. Returns
    /// `None` if `len` is too long for the family.
    #[must_use]
    pub fn prefix(addr: IpAddr, len: u8) -> Option<Self> {
        let (octets, bits, offset) = match addr {
            IpAddr::V4(a) => (a.to_ipv6_mapped().octets(), 32, 96),
            IpAddr::V6(a) => (a.octets(), 128, 0),
        };
        (len <= bits).then(|| Self::masked(octets, [0; 2], offset + u32::from(len)))
    }

    /// Returns the key for a block of ports behind one shared address: the first `port_len` bits of `port` count (16:
    /// one port). Returns `None` if `port_len` is more than 16.
    #[must_use]
    pub fn port_block(addr: IpAddr, port: u16, port_len: u8) -> Option<Self> {
        let octets = match addr {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        (port_len <= 16).then(|| Self::masked(octets, port.to_be_bytes(), 128 + u32::from(port_len)))
    }

    /// Clears the bits beyond the prefix, so that equal prefixes are equal keys.
    fn masked(addr: [u8; 16], port: [u8; 2], prefix_len: u32) -> Self {
        let mut bytes = [0u8; 18];
        bytes[..16].copy_from_slice(&addr);
        bytes[16..].copy_from_slice(&port);
        for (i, b) in bytes.iter_mut().enumerate() {
            let kept = (prefix_len as usize).saturating_sub(i * 8).min(8);
            *b &= ((0xff00u16 >> kept) & 0xff) as u8;
        }
        let mut key = Self { prefix_len, addr: [0; 16], port: [0; 2], pad: [0; 2] };
        key.addr.copy_from_slice(&bytes[..16]);
        key.port.copy_from_slice(&bytes[16..]);
        key
    }
}

/// Writes the form that `--link` options take: `ADDR/LEN`, or `ADDR:PORT/LEN` (`[ADDR]:PORT/LEN`) for a block of ports.
impl std::fmt::Display for IndexKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v6 = std::net::Ipv6Addr::from(self.addr);
        let (addr, len) = match v6.to_ipv4_mapped() {
            Some(v4) if self.prefix_len >= 96 => (IpAddr::V4(v4), self.prefix_len.min(128) - 96),
            _ => (IpAddr::V6(v6), self.prefix_len.min(128)),
        };
        if self.prefix_len <= 128 {
            return write!(f, "{addr}/{len}");
        }
        let port = std::net::SocketAddr::new(addr, u16::from_be_bytes(self.port));
        write!(f, "{port}/{}", self.prefix_len - 128)
    }
}

/// The SINR word, packed into one `u64`: bits 0..16 SINR, 16..32 average SINR (both i16 in 1/256 dB), 32..64
/// monotonic milliseconds of the reading. 0 means that no reading was ever written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSinr {
    /// SINR of the reading, 1/256 dB.
    pub sinr_q8_db: i16,
    /// Running average of the link's SINR, 1/256 dB.
    pub average_q8_db: i16,
    /// When the reading was made, [`crate::clock::monotonic_ms32`].
    pub time_ms: u32,
}

impl PackedSinr {
    /// Returns the word for [`Slot::sinr`]. It is never 0: a reading that would pack to 0 is dated 1 ms later.
    #[must_use]
    pub fn pack(self) -> u64 {
        let word = u64::from(self.sinr_q8_db as u16)
            | u64::from(self.average_q8_db as u16) << 16
            | u64::from(self.time_ms) << 32;
        if word == 0 { 1 << 32 } else { word }
    }

    /// Unpacks a word. Returns `None` for 0: no reading was ever written.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        (word != 0).then_some(Self {
            sinr_q8_db: word as u16 as i16,
            average_q8_db: (word >> 16) as u16 as i16,
            time_ms: (word >> 32) as u32,
        })
    }

    /// Returns the age in milliseconds at `now_ms`. A reading from the future (by another clock) gets the greatest age,
    /// `u32::MAX`.
    #[must_use]
    pub fn age_ms(self, now_ms: u32) -> u32 {
        age_ms(self.time_ms, now_ms)
    }
}

/// Capacity of a link, packed into one `u64`: bits 0..31 kbit/s; bit 31 is set if the capacity was computed from the
/// SINR (or from a CQI or MCS, which follow the SINR); bits 32..64 monotonic milliseconds of the reading. A word whose
/// rate is 0 means that no capacity is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Capacity in kbit/s, 1 to [`Capacity::MAX_KBIT_PER_S`].
    pub kbit_per_s: u32,
    /// Whether the capacity was computed from the SINR, and so adds no information to it; otherwise the scheduler
    /// measured it.
    pub is_derived: bool,
    /// When the reading was made, [`crate::clock::monotonic_ms32`].
    pub time_ms: u32,
}

impl Capacity {
    /// Highest capacity that the word can hold.
    pub const MAX_KBIT_PER_S: u32 = DERIVED - 1;

    /// Converts a capacity in bit/s. Returns `None` if it is below half a kbit/s or NaN.
    #[must_use]
    pub fn new(bps: f64, is_derived: bool, time_ms: u32) -> Option<Self> {
        let kbit_per_s = (bps / 1e3).round().clamp(0.0, Self::MAX_KBIT_PER_S.into()) as u32;
        (kbit_per_s != 0).then_some(Self { kbit_per_s, is_derived, time_ms })
    }

    /// Returns the word for [`Slot::capacity`].
    #[must_use]
    pub fn pack(self) -> u64 {
        let derived = if self.is_derived { DERIVED } else { 0 };
        u64::from(self.kbit_per_s & Self::MAX_KBIT_PER_S | derived) | u64::from(self.time_ms) << 32
    }

    /// Unpacks a word. Returns `None` if no capacity is known.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        let kbit_per_s = word as u32 & Self::MAX_KBIT_PER_S;
        let found = Self { kbit_per_s, is_derived: word as u32 & DERIVED != 0, time_ms: (word >> 32) as u32 };
        (kbit_per_s != 0).then_some(found)
    }

    /// Returns the capacity in bit/s.
    #[must_use]
    pub fn bps(self) -> u64 {
        u64::from(self.kbit_per_s) * 1000
    }

    /// Returns the age in milliseconds at `now_ms`, as [`PackedSinr::age_ms`] does.
    #[must_use]
    pub fn age_ms(self, now_ms: u32) -> u32 {
        age_ms(self.time_ms, now_ms)
    }
}

const DERIVED: u32 = 1 << 31;

fn age_ms(time_ms: u32, now_ms: u32) -> u32 {
    let age = now_ms.wrapping_sub(time_ms);
    if age > i32::MAX as u32 { u32::MAX } else { age }
}

/// Converts dB to 1/256 dB, clamped to [`SINR_RANGE_DB`]. NaN becomes the lowest value.
#[must_use]
pub fn sinr_to_q8(db: f64) -> i16 {
    let db = if db.is_nan() { *SINR_RANGE_DB.start() } else { db };
    (db.clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end()) * 256.0).round() as i16
}

/// Converts 1/256 dB to dB.
#[must_use]
pub fn q8_to_db(q8: i32) -> f64 {
    f64::from(q8) / 256.0
}

/// Returns the age beyond which readers ignore a reading whose slot asks for `asked` ([`Slot::max_age_ms`]).
#[must_use]
pub fn effective_max_age_ms(asked: u32) -> u32 {
    match asked {
        0 => DEFAULT_MAX_AGE_MS,
        _ => asked.min(MAX_AGE_LIMIT_MS),
    }
}

/// Line 0 of `radio_slots`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`] once the map is set up, 0 before.
    pub magic: AtomicU32,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Changes whenever a prefix appears, disappears or changes its slot; readers then look up their slot again.
    pub generation: AtomicU32,
    /// Zero.
    pub reserved: [u32; 13],
}

/// One link's line in `radio_slots`. One feeder writes all its fields; any number of readers read them.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    /// A packed [`PackedSinr`], or 0.
    pub sinr: AtomicU64,
    /// Readings written since the slot was taken.
    pub updates: AtomicU64,
    /// A packed [`Capacity`], or 0.
    pub capacity: AtomicU64,
    /// Reference signal received power, 1/256 dBm, or [`UNKNOWN_Q8`].
    pub rsrp_q8_dbm: AtomicI32,
    /// Reference signal received quality, 1/256 dB, or [`UNKNOWN_Q8`].
    pub rsrq_q8_db: AtomicI32,
    /// Age beyond which readers ignore `sinr` or `capacity`; [`effective_max_age_ms`] applies the default and the
    /// limit.
    pub max_age_ms: AtomicU32,
    /// The source's usual time between readings; 0 if not known.
    pub period_ms: AtomicU32,
    /// When the slot was freed, monotonic milliseconds. The slot is not taken again until its maximum age has passed.
    pub freed_ms: AtomicU32,
    /// Process that took the slot; 0 if none.
    pub owner_pid: AtomicU32,
    /// [`STATE_FREE`] or [`STATE_TAKEN`].
    pub state: AtomicU16,
    /// Channel quality indicator 0..15, or [`UNKNOWN_U8`].
    pub cqi: AtomicU8,
    /// Modulation and coding scheme 0..31, or [`UNKNOWN_U8`].
    pub mcs: AtomicU8,
    /// Kind of source, one of the `SOURCE_*` values.
    pub source: AtomicU8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Generation of the serving cell: it changes with each change of cell. Readers only compare it.
    pub cell: AtomicU32,
    /// Start time of `owner_pid`, which tells it from a later process with the same number: the low 32 bits of its
    /// start time in clock ticks since boot; 0 if not known.
    pub owner_start: AtomicU32,
}

/// [`Slot::state`]: not in use.
pub const STATE_FREE: u16 = 0;
/// [`Slot::state`]: in the index.
pub const STATE_TAKEN: u16 = 1;
/// [`Slot::source`]: a replayed trace.
pub const SOURCE_TRACE: u8 = 1;
/// [`Slot::source`]: lines on standard input.
pub const SOURCE_STDIN: u8 = 2;
/// [`Slot::source`]: lines in datagrams.
pub const SOURCE_UDP: u8 = 3;
/// [`Slot::source`]: a modem, through ModemManager.
pub const SOURCE_MM: u8 = 4;
/// [`Slot::source`]: a wireless interface, through nl80211.
pub const SOURCE_WIFI: u8 = 5;
/// [`Slot::source`]: a modem's AT commands.
pub const SOURCE_AT: u8 = 6;
/// [`Slot::source`]: a srsRAN base station's view of the downlink.
pub const SOURCE_SRSRAN: u8 = 7;
/// [`Slot::source`]: a srsRAN base station's view of the **uplink**.
pub const SOURCE_SRSRAN_UPLINK: u8 = 8;
/// [`Slot::source`]: a computed radio.
pub const SOURCE_MODEL: u8 = 9;
/// [`Slot::source`]: another host's feeder, through NATS.
pub const SOURCE_NATS: u8 = 10;
/// [`Slot::source`]: another host's feeder, by authenticated datagrams.
pub const SOURCE_PEER: u8 = 11;

/// Returns the name of a [`Slot::source`], or "unknown" for a source of a later version.
#[must_use]
pub fn source_name(source: u8) -> &'static str {
    const NAMES: [&str; 12] =
        ["unknown", "trace", "stdin", "udp", "mm", "wifi", "at", "srsran", "srsran-uplink", "model", "nats", "peer"];
    NAMES.get(usize::from(source)).unwrap_or(&NAMES[0])
}

const _: () = assert!(size_of::<Slot>() == 64 && size_of::<Header>() == 64 && size_of::<IndexKey>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_survives_packing() {
        for (s, a, t) in [(0, 0, 1), (-5120, 12800, u32::MAX), (i16::MIN, i16::MAX, 7), (-1, -1, 0)] {
            let d = PackedSinr { sinr_q8_db: s, average_q8_db: a, time_ms: t };
            assert_eq!(PackedSinr::unpack(d.pack()), Some(d));
        }
        assert_eq!(PackedSinr::unpack(0), None);
        let zero = PackedSinr { sinr_q8_db: 0, average_q8_db: 0, time_ms: 0 };
        assert_eq!(PackedSinr::unpack(zero.pack()).map(|d| d.time_ms), Some(1));
    }

    #[test]
    fn capacity_survives_packing() {
        for (kbit_per_s, is_derived, time_ms) in
            [(1, false, 0), (Capacity::MAX_KBIT_PER_S, true, u32::MAX), (50_000, true, 7)]
        {
            let c = Capacity { kbit_per_s, is_derived, time_ms };
            assert_eq!(Capacity::unpack(c.pack()), Some(c));
        }
        for word in [0, 7 << 32, 1 << 31] {
            assert_eq!(Capacity::unpack(word), None, "no rate: {word:#x}");
        }
        let kbit_per_s = |bps| Capacity::new(bps, false, 0).map(|c| c.kbit_per_s);
        assert_eq!([5e7, 1e15].map(kbit_per_s), [Some(50_000), Some(Capacity::MAX_KBIT_PER_S)]);
        assert_eq!([0.0, 499.0, -1.0, f64::NAN].map(kbit_per_s), [None; 4]);
        let c = Capacity { kbit_per_s: 1, is_derived: false, time_ms: 11 };
        assert_eq!((c.bps(), c.age_ms(20), c.age_ms(10)), (1000, 9, u32::MAX));
    }

    #[test]
    fn age_wraps_and_refuses_the_future() {
        let d = |time_ms| PackedSinr { sinr_q8_db: 0, average_q8_db: 0, time_ms };
        assert_eq!(d(u32::MAX - 9).age_ms(10), 20);
        assert_eq!(d(11).age_ms(10), u32::MAX);
    }

    #[test]
    fn maximum_age_has_a_default_and_a_limit() {
        for (asked, applied) in [(0, 500), (1, 1), (30_000, 30_000), (30_001, 30_000), (u32::MAX, 30_000)] {
            assert_eq!(effective_max_age_ms(asked), applied);
        }
    }

    #[test]
    fn keys_mask_and_print() {
        let k = |a: &str, l| IndexKey::prefix(a.parse().unwrap(), l).unwrap();
        assert_eq!(k("10.1.2.3", 8), k("10.9.9.9", 8));
        assert_eq!(k("10.1.2.3", 8).to_string(), "10.0.0.0/8");
        assert_eq!(k("2001:db8::1", 128).to_string(), "2001:db8::1/128");
        assert_eq!(k("::", 0).to_string(), "::/0");
        assert_eq!(k("0.0.0.0", 0).prefix_len, 96);
        assert!(IndexKey::prefix("10.0.0.1".parse().unwrap(), 33).is_none());
        let b = IndexKey::port_block("192.0.2.1".parse().unwrap(), 0x1234, 6).unwrap();
        assert!(k("192.0.2.0", 24).contains(&b) && b.contains(&b) && !b.contains(&k("192.0.2.1", 32)));
        assert!(!k("192.0.3.0", 24).contains(&b) && k("::", 0).contains(&b));
        assert_eq!((b.prefix_len, b.port), (134, [0x10, 0]));
        assert_eq!(b.to_string(), "192.0.2.1:4096/6");
    }
}
