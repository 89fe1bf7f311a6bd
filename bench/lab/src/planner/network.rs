//! Hosts and links as a graph, with names, addresses and routes.

use crate::scenario::{Event, Host, Link, Scenario, Way, member_names};
use hotcc_lab_proto::plan::mac;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// A host of the scenario, or one of its members if it has a `count`.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub host: &'a Host,
    pub name: String,
}

/// A link between two nodes; its two directions are links 2N (to the second node) and 2N + 1 (to the first).
#[derive(Debug)]
pub(super) struct Cable<'a> {
    pub link: &'a Link,
    pub number: usize,
    /// Index among the members of the link, from 0.
    pub member: usize,
    /// The first and the second node.
    pub ends: [usize; 2],
}

impl Cable<'_> {
    /// Returns the name of the interface on the node at this side.
    pub fn device(&self, side: usize) -> String {
        format!("l{}{}", self.number, ["a", "b"][side])
    }

    /// Returns the direction that ends at this side.
    pub fn link_to(&self, side: usize) -> usize {
        2 * self.number + 1 - side
    }

    /// Returns the address of this side.
    pub fn address(&self, side: usize) -> Ipv4Addr {
        let [_, _, high, low] = ((self.number + 1) as u32).to_be_bytes();
        Ipv4Addr::new(10, high, low, side as u8 + 1)
    }
}

#[derive(Debug)]
pub(super) struct Network<'a> {
    pub nodes: Vec<Node<'a>>,
    pub cables: Vec<Cable<'a>>,
}

impl<'a> Network<'a> {
    pub fn of(scenario: &'a Scenario) -> Self {
        let mut nodes = Vec::new();
        for host in &scenario.host {
            let names = member_names(host.name.get_ref(), *host.count.get_ref() as usize);
            nodes.extend(names.map(|name| Node { host, name }));
        }
        let mut network = Self { nodes, cables: Vec::new() };
        for link in &scenario.link {
            let [a, b] = link.between.get_ref().each_ref().map(|name| network.members(name));
            for member in 0..a.len().max(b.len()) {
                let end = |of: &[usize]| of[member.min(of.len() - 1)];
                let number = network.cables.len();
                network.cables.push(Cable { link, number, member, ends: [end(&a), end(&b)] });
            }
        }
        network
    }

    /// Returns the nodes of a host. Never empty for a name that has been checked.
    pub fn members(&self, host: &str) -> Vec<usize> {
        let named = self.nodes.iter().enumerate().filter(|(_, n)| n.host.name.get_ref() == host);
        named.map(|(place, _)| place).collect()
    }

    /// Returns the properties of a direction of a cable, and its name.
    pub fn direction(&self, link: usize) -> (&Cable<'a>, Way, String) {
        let cable = &self.cables[link / 2];
        let (over, from, to) =
            if link.is_multiple_of(2) { (&cable.link.forward, 0, 1) } else { (&cable.link.reverse, 1, 0) };
        let [from, to] = [from, to].map(|side: usize| &self.nodes[cable.ends[side]].name);
        (cable, cable.link.both.with(over), format!("{}:{from}>{to}", cable.link.name.get_ref()))
    }

    pub fn radio_name(&self, link: usize) -> Option<&'a String> {
        let cable = &self.cables[link / 2];
        let over = if link.is_multiple_of(2) { &cable.link.forward } else { &cable.link.reverse };
        over.radio.as_ref().or(cable.link.both.radio.as_ref()).map(|r| r.get_ref())
    }

    /// Returns the times of a link's handovers.
    pub fn handovers_s(&self, scenario: &Scenario, link: usize) -> Vec<f64> {
        let name = self.cables[link / 2].link.name.get_ref();
        let of_link = |event: &&Event| event.handover.as_ref().is_some_and(|h| h.link.get_ref() == name);
        scenario.event.iter().filter(of_link).map(|event| *event.at_s.get_ref()).collect()
    }

    /// Returns the directions that end at a node.
    pub fn links_to(&self, node: usize) -> impl Iterator<Item = usize> {
        let side = move |c: &Cable<'_>| c.ends.iter().position(|e| *e == node).map(|side| c.link_to(side));
        self.cables.iter().filter_map(side)
    }

    /// Returns the address at the end of a direction.
    pub fn address_of_link_end(&self, link: usize) -> Ipv4Addr {
        self.cables[link / 2].address(1 - link % 2)
    }

    /// Returns the interfaces of a node.
    pub fn devices(&self, node: usize) -> impl Iterator<Item = String> {
        let sides = move |c: &Cable<'_>| (0..2).find(|side| c.ends[*side] == node).map(|side| c.device(side));
        self.cables.iter().filter_map(sides)
    }

    /// Returns the interface at the start of a direction.
    pub fn device_at_link_begin(&self, link: usize) -> String {
        self.cables[link / 2].device(link % 2)
    }

    /// Returns the directions of a path between two nodes: the path with the fewest cables, or the first such path in
    /// the file.
    pub fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let mut came_by = vec![None; self.nodes.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for cable in &self.cables {
                let Some(side) = cable.ends.iter().position(|e| *e == node) else { continue };
                let next = cable.ends[1 - side];
                if next != from && came_by[next].is_none() {
                    came_by[next] = Some((node, cable.link_to(1 - side)));
                    queue.push_back(next);
                }
            }
        }
        let mut way = Vec::new();
        let mut node = to;
        while let Some((before, link)) = came_by[node] {
            way.push(link);
            node = before;
        }
        way.reverse();
        way
    }

    /// Returns the address at the end of a path.
    pub fn address_at_end(&self, node: usize, way: &[usize]) -> Option<Ipv4Addr> {
        let last = *way.last()?;
        let cable = &self.cables[last / 2];
        cable.ends.contains(&node).then(|| self.address_of_link_end(last))
    }

    /// Returns lines for `ip -batch` that set up a node whose cables exist.
    pub fn setup(&self, node: usize) -> Vec<String> {
        let mut lines = vec!["link set dev lo up".to_owned()];
        for cable in &self.cables {
            for side in (0..2).filter(|side| cable.ends[*side] == node) {
                let device = cable.device(side);
                lines.push(format!("address add {}/24 dev {device}", cable.address(side)));
                lines.push(format!("link set dev {device} up"));
                lines.push(format!(
                    "neighbour add {} lladdr {} nud permanent dev {device}",
                    cable.address(1 - side),
                    mac(cable.number, 1 - side)
                ));
            }
        }
        for cable in self.cables.iter().filter(|c| !c.ends.contains(&node)) {
            // to the nearer of its two ends
            let ways = cable.ends.map(|end| self.way(node, end));
            let Some(way) = ways.iter().filter(|w| !w.is_empty()).min_by_key(|w| w.len()) else { continue };
            lines.push(format!("route add {} via {}", subnet(cable.address(0)), self.address_of_link_end(way[0])));
        }
        lines
    }

    /// Returns arguments for `ip` that route a node's packets to `to` over the neighbour `via`.
    pub fn reroute(&self, node: usize, to: usize, via: usize) -> Option<String> {
        let cable = self.cables.iter().find(|c| c.ends.contains(&node) && c.ends.contains(&via))?;
        let side = cable.ends.iter().position(|e| *e == via)?;
        let way = self.way(node, to);
        let subnet = subnet(self.address_at_end(to, &way)?);
        Some(format!("route replace {subnet} via {}", cable.address(side)))
    }
}

fn subnet(address: Ipv4Addr) -> String {
    let [a, b, c, _] = address.octets();
    format!("{a}.{b}.{c}.0/24")
}
