//! Reads from rtnetlink what kind an interface is, and the BPF filters of its clsact queueing discipline.

use aya::programs::TcAttachType;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::netlink::{Dump, dump};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkLayerType, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcFilterBpfOption, TcHandle, TcMessage, TcOption};

/// The two hooks of clsact, as parents of filters.
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };
const EGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff3 };

/// A filter whose kind is `bpf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Filters with a lower value run first.
    pub priority: u16,
    /// Its number within that priority.
    pub handle: u32,
    /// The name that its creator gave it.
    pub name: String,
    /// Tag of its program, a digest of its instructions; `None` for a classic BPF program.
    pub tag: Option<u64>,
    /// Id of its program; `None` for a classic BPF program.
    pub program_id: Option<u32>,
}

/// Returns all BPF filters in that direction; none if the interface has no clsact.
///
/// # Errors
/// The kernel does not list them, the list changed during every attempt, or an entry cannot be parsed.
pub fn filters(ifindex: u32, direction: TcAttachType) -> Result<Vec<Filter>> {
    let mut request = TcMessage::with_index(ifindex.cast_signed());
    request.header.parent = if direction == TcAttachType::Egress { EGRESS } else { INGRESS };
    let all = dump(&RouteNetlinkMessage::GetTrafficFilter(request)).and_then(complete);
    let all = all.tried(|| format!("cannot read the filters of interface {ifindex}"))?;
    Ok(all.iter().filter_map(bpf_filter).collect())
}

/// Whether packets of the interface begin with an Ethernet header. If not, they begin with an IP header (tun, ppp).
///
/// # Errors
/// The kernel does not list the interface.
pub fn is_ethernet(ifindex: u32) -> Result<bool> {
    let tried = || format!("cannot read the type of interface {ifindex}");
    let dump = dump(&RouteNetlinkMessage::GetLink(LinkMessage::default())).tried(tried)?;
    let mut links = dump.messages.iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) => Some(&link.header),
        _ => None,
    });
    if let Some(header) = links.find(|header| header.index == ifindex) {
        return Ok(header.link_layer_type == LinkLayerType::Ether);
    }
    complete(dump).tried(tried)?; // it may be one of the missing entries
    Err(Error::failed(format!("interface {ifindex} no longer exists")))
}

/// Returns the messages of a complete list. A list that may be incomplete is an error: the missing entry could be the
/// one that matters.
fn complete(dump: Dump) -> Result<Vec<RouteNetlinkMessage>> {
    if dump.is_interrupted {
        return Err(Error::failed("the list changed during every attempt to read it").and("try again"));
    }
    match dump.unreadable {
        0 => Ok(dump.messages),
        count => Err(Error::failed(format!("cannot parse {count} entries of the list"))),
    }
}

/// Returns `None` for filters of other kinds, and for the entry of a priority itself, which the kernel lists as a
/// filter without options.
fn bpf_filter(message: &RouteNetlinkMessage) -> Option<Filter> {
    let RouteNetlinkMessage::NewTrafficFilter(message) = message else { return None };
    let handle = u32::from(message.header.handle.major) << 16 | u32::from(message.header.handle.minor);
    let mut filter = Filter { priority: (message.header.info >> 16) as u16, handle, ..Filter::default() };
    let mut is_bpf = false;
    for attribute in &message.attributes {
        let TcAttribute::Options(options) = attribute else { continue };
        for option in options {
            let TcOption::Bpf(option) = option else { continue };
            is_bpf = true;
            match option {
                TcFilterBpfOption::ProgName(name) => filter.name.clone_from(name),
                TcFilterBpfOption::ProgTag(tag) => filter.tag = Some(u64::from_be_bytes(*tag)),
                TcFilterBpfOption::ProgId(id) => filter.program_id = Some(*id),
                _ => {}
            }
        }
    }
    is_bpf.then_some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_may_lack_something_is_an_error() {
        let messages = || vec![RouteNetlinkMessage::NewTrafficFilter(TcMessage::with_index(1))];
        let whole = Dump { messages: messages(), ..Dump::default() };
        assert_eq!(complete(whole).unwrap(), messages());
        let interrupted = Dump { messages: messages(), is_interrupted: true, ..Dump::default() };
        assert!(complete(interrupted).unwrap_err().to_string().contains("changed"));
        let garbled = Dump { messages: messages(), unreadable: 2, ..Dump::default() };
        assert!(complete(garbled).unwrap_err().to_string().contains("cannot parse 2"));
    }
}
