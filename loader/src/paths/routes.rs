//! The kernel's routes: the way to each destination, and the destinations whose way changed.

use super::netlink::dump_routes;
use hotcc_abi::path::{ENTRIES, PathKey};
use hotcc_host::error::Result;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHop, RouteNextHopFlags, RouteType, RouteVia,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// Through an interface, to a gateway or directly to the destination.
    Through {
        /// The gateway; `None` if the destination is on the link.
        gateway: Option<IpAddr>,
        /// Index of the interface.
        interface: Option<u32>,
    },
    /// The kernel's nexthop object with this id (only if `net.ipv4.nexthop_compat_mode` is 0; changes of the object
    /// itself are then not detected).
    Object(u32),
    /// Nowhere: a route of this kind, e.g. `blackhole`.
    NoRoute(&'static str),
}

/// Conditions on packets that a route has besides its destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Selector {
    tos: u8,
    source: Option<PathKey>,
}

/// The way to a destination: the next hops; several if the kernel spreads flows over them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way(BTreeMap<Selector, BTreeSet<Hop>>);

/// A route as the kernel reports it.
#[derive(Clone, Debug, PartialEq)]
struct Route {
    table: u32,
    destination: PathKey,
    selector: Selector,
    priority: u32,
    hops: BTreeSet<Hop>,
}

type Table = HashMap<PathKey, Way>;

/// The routes of a network namespace: for each destination in each table, only the preferred ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    tables: BTreeMap<u32, Table>,
}

/// A destination whose way changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The destination.
    pub destination: PathKey,
    /// Table of the route.
    pub table: u32,
    /// The way before the change; `None` if the table had none.
    pub before: Option<Way>,
    /// The way after the change; `None` if the table has none.
    pub after: Option<Way>,
}

impl Routes {
    /// Reads the routes of the calling thread's network namespace.
    pub fn read() -> Result<Self> {
        Ok(Self::of(dump_routes()?.iter().filter_map(route)))
    }

    fn of(routes: impl Iterator<Item = Route>) -> Self {
        let mut sorted: Vec<Route> = routes.collect();
        sorted.sort_by_key(|route| route.priority); // preferred routes first
        let mut preferred = HashMap::new();
        let mut tables: BTreeMap<u32, Table> = BTreeMap::new();
        for Route { table, destination, selector, priority, hops } in sorted {
            // the kernel may report each hop of an IPv6 route in a message of its own
            if *preferred.entry((table, destination, selector)).or_insert(priority) == priority {
                let Way(ways) = tables.entry(table).or_default().entry(destination).or_default();
                ways.entry(selector).or_default().extend(hops);
            }
        }
        Self { tables }
    }

    /// Returns the number of destinations with a route, over all tables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tables.values().map(Table::len).sum()
    }

    /// Returns a table's way to a destination, by longest prefix match.
    fn way(&self, table: u32, destination: PathKey) -> Option<&Way> {
        let table = self.tables.get(&table)?;
        let shortest = destination.family().prefix_len;
        (shortest..=destination.prefix_len).rev().find_map(|len| table.get(&destination.truncated(len)))
    }

    /// Returns the destinations whose way differs from `before`: destinations that have or had a route of their own,
    /// and those in `known` whose way changed with the route that covers them.
    #[must_use]
    pub fn changes(&self, before: &Self, known: &BTreeSet<PathKey>) -> Vec<Change> {
        let none = Table::new();
        let tables: BTreeSet<u32> = self.tables.keys().chain(before.tables.keys()).copied().collect();
        let mut changes = Vec::new();
        for table in tables {
            let (now, then) = [self, before].map(|r| r.tables.get(&table).unwrap_or(&none)).into();
            if now == then {
                continue;
            }
            let mut candidates = known.clone();
            candidates.extend(now.iter().filter(|(key, way)| then.get(key) != Some(way)).map(|(key, _)| *key));
            candidates.extend(then.keys().filter(|key| !now.contains_key(key)));
            for destination in candidates {
                let [before, after] = [before, self].map(|routes| routes.way(table, destination));
                if before != after {
                    let [before, after] = [before, after].map(Option::<&Way>::cloned);
                    changes.push(Change { destination, table, before, after });
                }
            }
        }
        changes
    }

    /// Returns the destinations within `changed` that have a route of their own and the same way as `before`, in every
    /// table, as packets may use any. At most as many as the path map holds.
    #[must_use]
    pub fn unchanged_within(&self, before: &Self, changed: &BTreeSet<PathKey>) -> BTreeSet<PathKey> {
        let tables: BTreeSet<u32> = self.tables.keys().chain(before.tables.keys()).copied().collect();
        let is_within =
            |key: &PathKey| (key.family().prefix_len..key.prefix_len).any(|len| changed.contains(&key.truncated(len)));
        let is_same = |key: &PathKey| tables.iter().all(|&table| self.way(table, *key) == before.way(table, *key));
        let own = self.tables.values().flat_map(Table::keys).copied();
        own.filter(|key| !changed.contains(key) && is_within(key) && is_same(key)).take(ENTRIES as usize).collect()
    }
}

/// Reads a route. Returns `None` for routes that no packet to another host takes, and for link-local ones.
fn route(message: &RouteMessage) -> Option<Route> {
    const ORDINARY: u32 = 254; // RT_TABLE_MAIN
    let header = &message.header;
    if header.flags.contains(RouteFlags::Cloned) {
        return None; // an exception that the kernel learnt for one host, not a route
    }
    let any = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let mut table = match u32::from(header.table) {
        0 => ORDINARY,
        number => number,
    };
    let (mut destination, mut source, mut priority) = (any, None, 0);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => destination = ip(address)?,
            RouteAttribute::Source(address) => source = Some(ip(address)?),
            RouteAttribute::Priority(number) => priority = *number,
            _ => {}
        }
    }
    let source = match source {
        Some(address) => Some(PathKey::prefix(address, header.source_prefix_length)?),
        None => None,
    };
    let hops = hops(message);
    let destination = PathKey::prefix(destination, header.destination_prefix_length)?;
    // each interface has its own neighbours within the same link-local prefix
    let link_local = PathKey { prefix_len: 10, addr: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).octets() };
    (!hops.is_empty() && !link_local.covers(destination)).then_some(Route {
        table,
        destination,
        selector: Selector { tos: header.tos, source },
        priority,
        hops,
    })
}

/// Returns the next hops of a route, without those over links that are down. Returns none for routes of other kinds,
/// such as to this host itself or to multicast groups.
fn hops(message: &RouteMessage) -> BTreeSet<Hop> {
    let no_route = match message.header.kind {
        RouteType::Unicast => None,
        RouteType::BlackHole => Some("blackhole"),
        RouteType::Unreachable => Some("unreachable"),
        RouteType::Prohibit => Some("prohibit"),
        RouteType::Throw => Some("throw"),
        _ => return BTreeSet::new(),
    };
    if let Some(kind) = no_route {
        return [Hop::NoRoute(kind)].into();
    }
    let several = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    if let Some(several) = several {
        let alive = |hop: &&RouteNextHop| !hop.flags.contains(RouteNextHopFlags::Dead);
        return several.iter().filter(alive).map(|h| through(&h.attributes, Some(h.interface_index))).collect();
    }
    if message.header.flags.contains(RouteFlags::Dead) {
        return BTreeSet::new();
    }
    [through(&message.attributes, None)].into()
}

fn through(attributes: &[RouteAttribute], mut interface: Option<u32>) -> Hop {
    let (mut gateway, mut object) = (None, None);
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet(address)) => gateway = Some((*address).into()),
            RouteAttribute::Via(RouteVia::Inet6(address)) => gateway = Some((*address).into()),
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::NhId(id) => object = Some(*id),
            _ => {}
        }
    }
    match (gateway, interface, object) {
        (None, None, Some(id)) => Hop::Object(id),
        _ => Hop::Through { gateway, interface },
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(id) => write!(f, "nhid {id}"),
            Self::NoRoute(kind) => f.write_str(kind),
            Self::Through { gateway, interface } => {
                let name = |index: u32| match nix::net::if_::if_indextoname(index) {
                    Ok(name) => name.to_string_lossy().into_owned(),
                    Err(_) => format!("#{index}"), // the interface was removed meanwhile
                };
                let gateway = gateway.map(|address| format!("via {address}"));
                let parts: Vec<String> =
                    gateway.into_iter().chain(interface.map(|i| format!("dev {}", name(i)))).collect();
                f.write_str(&parts.join(" "))
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(selector, hops): (&Selector, &BTreeSet<Hop>)| {
            let mut text = hops.iter().map(Hop::to_string).collect::<Vec<_>>().join(" and ");
            if selector.tos != 0 {
                text += &format!(" (tos {:#x})", selector.tos);
            }
            if let Some(source) = selector.source {
                text += &format!(" (from {source})");
            }
            text
        };
        f.write_str(&self.0.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> PathKey {
        text.parse().unwrap()
    }

    fn route(destination: &str, priority: u32, interfaces: &[u32]) -> Route {
        let hop = |&index: &u32| Hop::Through { gateway: None, interface: Some(index) };
        Route {
            table: 254,
            destination: key(destination),
            selector: Selector::default(),
            priority,
            hops: interfaces.iter().map(hop).collect(),
        }
    }

    /// Returns the destinations whose way changes between these routes; `known` are destinations that had changes
    /// before.
    fn changes<const A: usize, const B: usize>(before: [Route; A], after: [Route; B], known: &[&str]) -> Vec<String> {
        let [before, after] = [Routes::of(before.into_iter()), Routes::of(after.into_iter())];
        let known = known.iter().map(|text| key(text)).collect();
        after.changes(&before, &known).iter().map(|change| change.destination.to_string()).collect()
    }

    #[test]
    fn ways_with_the_same_hops_are_equal() {
        let net = "10.0.0.0/8";
        assert_eq!(changes([route(net, 0, &[1])], [route(net, 0, &[2])], &[]), [net]);
        assert_eq!(changes([route(net, 0, &[1])], [route(net, 0, &[1, 2])], &[]), [net]);
        assert!(changes([route(net, 0, &[1, 2])], [route(net, 0, &[2]), route(net, 0, &[1])], &[]).is_empty());
        assert!(changes([route(net, 0, &[1])], [route(net, 100, &[1])], &[]).is_empty());
        let blackhole = Route { hops: [Hop::NoRoute("blackhole")].into(), ..route(net, 0, &[]) };
        assert_eq!(changes([route(net, 0, &[1])], [blackhole], &[]), [net]);
    }

    #[test]
    fn only_the_preferred_route_counts() {
        let net = "2001:db8::/32";
        assert!(changes([route(net, 10, &[1])], [route(net, 10, &[1]), route(net, 20, &[2])], &[]).is_empty());
        assert_eq!(changes([route(net, 10, &[1]), route(net, 20, &[2])], [route(net, 20, &[2])], &[]), [net]);
        let marked = || Route { selector: Selector { tos: 8, source: None }, ..route(net, 5, &[3]) };
        assert_eq!(changes([route(net, 10, &[1])], [route(net, 10, &[1]), marked()], &[]), [net]);
    }

    #[test]
    fn adding_or_removing_a_route_changes_the_destinations_below_it() {
        let (all, net) = (|i| route("0.0.0.0/0", 0, &[i]), |i| route("10.0.0.0/8", 0, &[i]));
        assert!(changes([all(1)], [all(1), net(1)], &[]).is_empty(), "the same way as before");
        assert!(changes([all(1), net(1)], [all(1)], &[]).is_empty());
        assert_eq!(changes([all(1)], [all(1), net(2)], &[]), ["10.0.0.0/8"]);
        assert_eq!(changes([all(1), net(2)], [all(1)], &[]), ["10.0.0.0/8"]);
        assert_eq!(changes([net(2)], [], &[]), ["10.0.0.0/8"]);
    }

    #[test]
    fn known_prefixes_change_with_the_route_that_contains_them() {
        let (all, net) = (|i| route("0.0.0.0/0", 0, &[i]), |i| route("10.0.0.0/8", 0, &[i]));
        let known = ["10.1.0.0/16", "192.0.2.1/32", "2001:db8::/32"];
        assert_eq!(changes([all(1), net(3)], [all(2), net(3)], &known), ["0.0.0.0/0", "192.0.2.1/32"]);
        assert_eq!(changes([all(1), net(3)], [all(1), net(2)], &known), ["10.0.0.0/8", "10.1.0.0/16"]);
        let v6 = |i| route("::/0", 0, &[i]);
        assert_eq!(changes([v6(1)], [v6(2)], &known), ["::/0", "2001:db8::/32"]);
    }

    #[test]
    fn a_route_of_its_own_within_a_change_is_unchanged() {
        let (all, net) = (|i| route("0.0.0.0/0", 0, &[i]), |i| route("10.0.0.0/8", 0, &[i]));
        let changed = BTreeSet::from([key("0.0.0.0/0")]);
        let kept = |before: Vec<Route>, after: Vec<Route>| {
            let [before, after] = [before, after].map(|routes| Routes::of(routes.into_iter()));
            after.unchanged_within(&before, &changed)
        };
        assert_eq!(kept(vec![all(1), net(3)], vec![all(2), net(3)]), BTreeSet::from([key("10.0.0.0/8")]));
        assert!(kept(vec![all(1), net(3)], vec![all(2), net(4)]).is_empty(), "its way changed, too");
        let v6 = || route("2001:db8::/32", 0, &[3]);
        assert!(kept(vec![all(1), v6()], vec![all(2), v6()]).is_empty(), "not within the change");
        let other = |i| Route { table: 7, ..all(i) };
        let packets_may_use_table_7 = kept(vec![all(1), net(3), other(1)], vec![all(1), net(3), other(2)]);
        assert!(packets_may_use_table_7.is_empty());
    }

    #[test]
    fn tables_do_not_mix() {
        let other = |i| Route { table: 7, ..route("10.0.0.0/8", 0, &[i]) };
        let main = || route("10.0.0.0/8", 0, &[1]);
        assert_eq!(changes([main(), other(2)], [main(), other(3)], &[]), ["10.0.0.0/8"]);
        assert!(changes([main(), other(2)], [other(2), main()], &[]).is_empty());
        assert_eq!(changes([main(), other(1)], [main()], &[]), ["10.0.0.0/8"]);
    }
}
