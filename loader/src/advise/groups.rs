//! Connections that go to the same place under the same congestion control, and what a window of looks at them shows.

use hotcc_abi::path::PathKey;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Length of the prefixes of one group: IPv4, IPv6.
const PREFIX_LENGTHS: (u8, u8) = (24, 48);

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Peers in a prefix.
    Prefix(PathKey),
    /// Peers of a link of the radio map: its slot, and its peers if the link is still there.
    Radio(u32, Option<String>),
}

impl Place {
    /// Returns the prefix that the address is in.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let length = if address.is_ipv4() { PREFIX_LENGTHS.0 } else { PREFIX_LENGTHS.1 };
        Self::Prefix(PathKey::prefix(address, length).unwrap_or(PathKey::address(address)))
    }

    /// Returns the link of the radio map in this slot, as the place of an address. `peers` are those of the link.
    ///
    /// In the radio map, `::/0` holds IPv4 addresses, too, but no rule for `::/0` matches them: they are a place of their
    /// own.
    #[must_use]
    pub fn of_link(slot: u32, peers: Option<&str>, address: IpAddr) -> Self {
        let is_v4 = address.to_canonical().is_ipv4();
        let of_family = |peers: &str| match peers.parse::<PathKey>() {
            Ok(key) if is_v4 && !key.is_v4() => PathKey::ALL_V4.to_string(),
            _ => peers.to_owned(),
        };
        Self::Radio(slot, peers.map(of_family))
    }
}

/// Connections of one group have the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Network namespace.
    pub netns: String,
    /// Where they go.
    pub place: Place,
    /// Congestion control.
    pub cc: String,
}

/// Identifies a connection.
pub type Ends = (String, SocketAddr, SocketAddr);

/// What a look at a connection shows. Counts and times are since its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Time of the look.
    pub at_ms: u64,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Segment size.
    pub mss: u32,
    /// Smoothed RTT.
    pub srtt_us: Option<u32>,
    /// Least RTT that the kernel remembers.
    pub min_rtt_us: Option<u32>,
    /// Whether packets are spaced.
    pub paced: bool,
    /// Whether the application limited the latest rate.
    pub app_limited: bool,
    /// Time with something to send or in flight.
    pub busy_ms: u64,
    /// Of it: limited by the receiver's window.
    pub receiver_limited_ms: u64,
    /// Of it: limited by the send buffer.
    pub buffer_limited_ms: u64,
    /// Whether the radio map has a fresh SINR.
    pub radio: bool,
    /// Whether a border PEP reports on it.
    pub pep: bool,
}

/// What the looks at a group show. Part of the schema of `hotcc advise --json`; fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Group {
    /// Network namespace.
    pub netns: String,
    /// Prefix of the peers, or the radio link to them.
    pub to: String,
    /// The prefix, as a rule would name it; `None` if the radio link is for part of an address's ports, or is gone.
    pub prefix: Option<String>,
    /// Congestion control.
    pub cc: String,
    /// Connections that were seen at least twice.
    pub connections: u64,
    /// Bytes acknowledged.
    pub bytes: u64,
    /// Rate at which the group's bytes were acknowledged.
    pub goodput_bps: u64,
    /// The same for one connection, over the time in which it was busy.
    pub busy_goodput_bps: u64,
    /// Retransmitted segments, over those acknowledged.
    pub retransmit_ratio: f64,
    /// Segment size of the connection with the most bytes.
    pub mss: u32,
    /// Median of the connections' least RTTs, by busy time, microseconds.
    pub least_rtt_us: Option<u32>,
    /// Median of the smoothed RTT, by busy time, microseconds.
    pub median_rtt_us: Option<u32>,
    /// Mean of smoothed RTT minus the connection's least RTT, by busy time, microseconds.
    pub queue_mean_us: u64,
    /// Its 95th percentile.
    pub queue_p95_us: u64,
    /// Share of the bytes that moved while the application had nothing more to send.
    pub application_limited: f64,
    /// Share of the bytes that moved while the receiver's window limited the sender.
    pub receiver_limited: f64,
    /// Share of the bytes that moved while the send buffer limited the sender.
    pub buffer_limited: f64,
    /// Whether most of the bytes were sent spaced.
    pub paced: bool,
    /// Whether the radio map had a fresh SINR for most of the bytes.
    pub radio: bool,
    /// Whether a border PEP reported on connections with most of the bytes.
    pub pep: bool,
}

/// One connection while it is in one group.
#[derive(Default)]
struct Seen {
    latest: Look,
    least_rtt_us: Option<u32>,
    /// Smoothed RTT, and the busy time for which it stands.
    rtts: Vec<(u32, u64)>,
    bytes: u64,
    retransmits: u64,
    segments: f64,
    busy_ms: u64,
    application: f64,
    receiver: f64,
    buffer: f64,
    paced: f64,
    radio: f64,
    pep: f64,
}

impl Seen {
    fn add(&mut self, look: Look) {
        self.least_rtt_us = self.least_rtt_us.into_iter().chain(look.min_rtt_us).min();
        let before = std::mem::replace(&mut self.latest, look);
        let (Some(bytes), Some(elapsed)) =
            (look.acked_bytes.checked_sub(before.acked_bytes), look.at_ms.checked_sub(before.at_ms))
        else {
            return; // another connection has the same addresses now
        };
        // the kernel counts in ticks, so a difference may exceed the time that has elapsed
        let grown = |now: u64, before: u64| now.saturating_sub(before).min(elapsed);
        let busy = grown(look.busy_ms, before.busy_ms);
        let receiver = grown(look.receiver_limited_ms, before.receiver_limited_ms);
        let buffer = grown(look.buffer_limited_ms, before.buffer_limited_ms);
        let idle = elapsed - busy;
        let of_application = if look.app_limited { elapsed.saturating_sub(receiver + buffer) } else { idle };
        let share = |part: u64| if elapsed == 0 { 0.0 } else { bytes as f64 * part as f64 / elapsed as f64 };
        let if_so = |so: bool| if so { bytes as f64 } else { 0.0 };
        self.bytes += bytes;
        self.retransmits += u64::from(look.retransmits.saturating_sub(before.retransmits));
        self.segments += bytes as f64 / f64::from(look.mss.max(1));
        self.busy_ms += busy;
        self.application += share(of_application);
        self.receiver += share(receiver);
        self.buffer += share(buffer);
        self.paced += if_so(look.paced);
        self.radio += if_so(look.radio);
        self.pep += if_so(look.pep);
        self.rtts.extend(look.srtt_us.filter(|_| bytes > 0).map(|rtt| (rtt, busy)));
    }
}

/// Collects looks at connections.
#[derive(Default)]
pub struct Groups {
    seen: BTreeMap<Key, BTreeMap<Ends, Seen>>,
    began_ms: Option<u64>,
    ended_ms: u64,
}

impl Groups {
    /// Adds a look. The first one at a connection only begins its counts.
    pub fn add(&mut self, key: Key, ends: Ends, look: Look) {
        self.began_ms.get_or_insert(look.at_ms);
        self.ended_ms = look.at_ms;
        match self.seen.entry(key).or_default().entry(ends) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut().add(look),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Seen { latest: look, least_rtt_us: look.min_rtt_us, ..Seen::default() });
            }
        }
    }

    /// Returns the groups that moved any bytes, the largest first.
    #[must_use]
    pub fn finish(self) -> Vec<Group> {
        let elapsed_ms = self.ended_ms - self.began_ms.unwrap_or(self.ended_ms);
        let all = self.seen.into_iter();
        let mut groups: Vec<Group> = all
            .map(|(key, seen)| group(key, seen.into_values().collect(), elapsed_ms))
            .filter(|g| g.bytes > 0)
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.bytes)); // stable: equal ones stay in the order of their keys
        groups
    }
}

fn group(Key { netns, place, cc }: Key, mut seen: Vec<Seen>, elapsed_ms: u64) -> Group {
    seen.retain(|one| one.bytes > 0);
    let bytes: u64 = seen.iter().map(|one| one.bytes).sum();
    let busy_ms: u64 = seen.iter().map(|one| one.busy_ms).sum();
    let retransmits: u64 = seen.iter().map(|one| one.retransmits).sum();
    let segments: f64 = seen.iter().map(|one| one.segments).sum();
    let of_bytes = |part: fn(&Seen) -> f64| {
        if bytes == 0 { 0.0 } else { seen.iter().map(part).sum::<f64>() / bytes as f64 }
    };
    let bps = |ms: u64| (bytes * 8000).checked_div(ms).unwrap_or(0);
    let mut rtts: Vec<(u64, u64)> = Vec::new();
    let mut queues: Vec<(u64, u64)> = Vec::new();
    for one in &seen {
        rtts.extend(one.rtts.iter().map(|(rtt, weight)| (u64::from(*rtt), *weight)));
        let queue = |rtt: u32| u64::from(rtt.saturating_sub(one.least_rtt_us.unwrap_or(rtt)));
        queues.extend(one.rtts.iter().map(|(rtt, weight)| (queue(*rtt), *weight)));
    }
    // not the least of all: a queue is a connection's own, and peers of a link may be at any distance
    let mut leasts: Vec<(u64, u64)> =
        seen.iter().filter_map(|one| Some((u64::from(one.least_rtt_us?), one.busy_ms))).collect();
    let weight: u64 = queues.iter().map(|(_, weight)| weight).sum();
    let (prefix, to) = match place {
        Place::Prefix(key) => (Some(key.to_string()), key.to_string()),
        Place::Radio(slot, peers) => {
            let peers = peers.unwrap_or_else(|| format!("slot {slot}"));
            (peers.parse::<PathKey>().ok().map(|key| key.to_string()), format!("radio link {peers}"))
        }
    };
    Group {
        netns,
        to,
        prefix,
        cc,
        connections: seen.len() as u64,
        bytes,
        goodput_bps: bps(elapsed_ms),
        busy_goodput_bps: bps(busy_ms),
        retransmit_ratio: if segments > 0.0 { retransmits as f64 / segments } else { 0.0 },
        mss: seen.iter().max_by_key(|one| one.bytes).map_or(0, |one| one.latest.mss),
        least_rtt_us: quantile(&mut leasts, 0.5).and_then(|rtt| u32::try_from(rtt).ok()),
        median_rtt_us: quantile(&mut rtts, 0.5).and_then(|rtt| u32::try_from(rtt).ok()),
        queue_mean_us: queues.iter().map(|(q, w)| q * w).sum::<u64>().checked_div(weight).unwrap_or(0),
        queue_p95_us: quantile(&mut queues, 0.95).unwrap_or(0),
        application_limited: of_bytes(|one| one.application),
        receiver_limited: of_bytes(|one| one.receiver),
        buffer_limited: of_bytes(|one| one.buffer),
        paced: of_bytes(|one| one.paced) > 0.5,
        radio: of_bytes(|one| one.radio) > 0.5,
        pep: of_bytes(|one| one.pep) > 0.5,
    }
}

/// Returns the value below which this share of the weights is.
fn quantile(values: &mut [(u64, u64)], share: f64) -> Option<u64> {
    values.sort_unstable();
    let all: u64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0;
    let reached = |(_, weight): &&(u64, u64)| {
        below += weight;
        below as f64 >= share * all as f64
    };
    values.iter().find(reached).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cc: &str, peer: &str) -> Key {
        Key { netns: "here".to_owned(), place: Place::of(peer.parse().unwrap()), cc: cc.to_owned() }
    }

    fn ends(port: u16) -> Ends {
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        ("here".to_owned(), end(port), end(80))
    }

    fn look(at_ms: u64, acked_bytes: u64) -> Look {
        let (srtt_us, min_rtt_us) = (Some(30_000), Some(20_000));
        Look { at_ms, acked_bytes, mss: 1000, srtt_us, min_rtt_us, busy_ms: at_ms, ..Look::default() }
    }

    fn only(groups: Groups) -> Group {
        let mut all = groups.finish();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn places_are_prefixes_of_their_family() {
        for (address, prefix) in [
            ("203.0.113.7", "203.0.113.0/24"),
            ("::ffff:203.0.113.7", "203.0.113.0/24"),
            ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ] {
            assert_eq!(Place::of(address.parse().unwrap()), Place::Prefix(prefix.parse().unwrap()));
        }
    }

    #[test]
    fn what_happened_between_looks_is_counted() {
        let mut groups = Groups::default();
        let first = Look { retransmits: 7, ..look(1000, 5_000_000) };
        groups.add(key("cubic", "192.0.2.1"), ends(1), first);
        groups.add(key("cubic", "192.0.2.1"), ends(1), Look { retransmits: 17, ..look(2000, 6_000_000) });
        let last = Look { retransmits: 17, srtt_us: Some(90_000), paced: true, ..look(3000, 7_000_000) };
        groups.add(key("cubic", "192.0.2.1"), ends(1), last);
        let group = only(groups);
        assert_eq!((group.connections, group.bytes, group.goodput_bps), (1, 2_000_000, 8_000_000));
        assert_eq!((group.retransmit_ratio, group.mss), (0.005, 1000));
        assert_eq!((group.queue_mean_us, group.queue_p95_us), (40_000, 70_000));
        assert_eq!((group.least_rtt_us, group.median_rtt_us), (Some(20_000), Some(30_000)));
        assert_eq!((group.application_limited, group.paced, group.radio, group.pep), (0.0, false, false, false));
    }

    #[test]
    fn groups_are_apart_by_place_and_congestion_control() {
        let mut groups = Groups::default();
        let keys = [key("cubic", "192.0.2.1"), key("bbr", "192.0.2.9"), key("cubic", "198.51.100.1")];
        for (port, key) in (1..).zip(&keys) {
            groups.add(key.clone(), ends(port), look(0, 0));
            groups.add(key.clone(), ends(port), look(1000, 1000 * u64::from(port)));
        }
        groups.add(key("cubic", "192.0.2.1"), ends(9), look(1000, 1_000_000)); // seen only once
        let found: Vec<_> = groups.finish().into_iter().map(|g| (g.to, g.cc, g.connections, g.bytes)).collect();
        let expected = [("198.51.100.0/24", "cubic", 3), ("192.0.2.0/24", "bbr", 2), ("192.0.2.0/24", "cubic", 1)];
        assert_eq!(found, expected.map(|(to, cc, kb)| (to.to_owned(), cc.to_owned(), 1, 1000 * kb)));
    }

    #[test]
    fn limits_count_by_bytes_and_idle_time_is_the_applications() {
        let mut groups = Groups::default();
        let busy =
            |busy_ms, receiver_limited_ms, at_ms| Look { busy_ms, receiver_limited_ms, ..look(at_ms, at_ms * 100) };
        groups.add(key("cubic", "192.0.2.1"), ends(1), busy(0, 0, 0));
        groups.add(key("cubic", "192.0.2.1"), ends(1), busy(750, 250, 1000));
        let group = only(groups);
        assert_eq!((group.application_limited, group.receiver_limited), (0.25, 0.25));
        assert_eq!(group.busy_goodput_bps, 8 * 100_000 * 4 / 3);
    }

    #[test]
    fn an_address_that_is_used_again_counts_from_its_start() {
        let mut groups = Groups::default();
        for (at_ms, bytes) in [(0, 5000), (1000, 6000), (2000, 10), (3000, 1010)] {
            groups.add(key("cubic", "192.0.2.1"), ends(1), look(at_ms, bytes));
        }
        assert_eq!(only(groups).bytes, 2000);
    }

    #[test]
    fn a_radio_link_that_names_ports_has_no_prefix() {
        for (peers, prefix) in [("10.45.0.0/16", Some("10.45.0.0/16")), ("10.0.0.1:4096/4", None)] {
            let place = Place::Radio(3, Some(peers.to_owned()));
            let mut groups = Groups::default();
            let key = Key { place, ..key("cubic", "192.0.2.1") };
            groups.add(key.clone(), ends(1), look(0, 0));
            groups.add(key, ends(1), look(1000, 1000));
            let group = only(groups);
            assert_eq!((group.prefix.as_deref(), group.to), (prefix, format!("radio link {peers}")));
        }
    }

    /// A rule for `::/0` matches no IPv4 address, but the radio map's link does.
    #[test]
    fn ipv4_over_a_link_of_both_families_has_a_prefix_of_its_own() {
        let mut groups = Groups::default();
        for (port, peer) in [(1, "192.0.2.1"), (2, "2001:db8::1")] {
            let place = Place::of_link(3, Some("::/0"), peer.parse().unwrap());
            let key = Key { place, ..key("cubic", peer) };
            groups.add(key.clone(), ends(port), look(0, 0));
            groups.add(key, ends(port), look(1000, 1000 * u64::from(port)));
        }
        let found: Vec<_> = groups.finish().into_iter().map(|group| group.prefix.unwrap()).collect();
        assert_eq!(found, ["::/0", "0.0.0.0/0"], "the largest first");
        let of = |peers, address: &str| Place::of_link(3, Some(peers), address.parse().unwrap());
        assert_eq!(of("10.45.0.0/16", "10.45.0.1"), Place::Radio(3, Some("10.45.0.0/16".to_owned())));
        assert_eq!(of("192.0.2.1:4096/6", "192.0.2.1"), Place::Radio(3, Some("192.0.2.1:4096/6".to_owned())));
    }

    /// A radio link may have peers at any distance, this host itself included.
    #[test]
    fn a_short_path_among_others_makes_no_queue_of_theirs_long() {
        let mut groups = Groups::default();
        for (port, busy_ms, rtts, bytes) in [(1, 100, (60, 50), 100_000), (2, 1000, (85_000, 60_000), 1_000_000)] {
            let first = Look { srtt_us: Some(rtts.0), min_rtt_us: Some(rtts.1), ..look(0, 0) };
            groups.add(key("cubic", "192.0.2.1"), ends(port), first);
            let last = Look { at_ms: 1000, acked_bytes: bytes, busy_ms, ..first };
            groups.add(key("cubic", "192.0.2.1"), ends(port), last);
        }
        let group = only(groups);
        assert_eq!((group.least_rtt_us, group.queue_mean_us), (Some(60_000), 22_728));
        assert_eq!(crate::advise::rules::advise(&group, 0).try_cc, None);
    }
}
