//! What rtnetlink tells of interfaces: their kind, and the BPF filters of their clsact queueing discipline.

use crate::error::{Error, Result, Tried};
use aya::programs::TcAttachType;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkLayerType, LinkMessage};
use netlink_packet_route::tc::{TcAttribute, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

const HEADER: usize = 16;
/// The two hooks of clsact, as parents of filters.
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };
const EGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff3 };

/// A filter whose kind is `bpf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Lower comes first.
    pub priority: u16,
    /// Its number at that priority.
    pub handle: u32,
    /// What its maker called it.
    pub name: String,
    /// Tag of its program: a digest of its instructions. Classic ones have none.
    pub tag: Option<u64>,
    /// Id of its program, if it is no classic one.
    pub program_id: Option<u32>,
}

/// All of them; none where the interface has no clsact.
///
/// # Errors
/// The kernel does not tell.
pub fn filters(ifindex: u32, direction: TcAttachType) -> Result<Vec<Filter>> {
    let mut request = TcMessage::with_index(ifindex.cast_signed());
    request.header.parent = if direction == TcAttachType::Egress { EGRESS } else { INGRESS };
    let all = dump(RouteNetlinkMessage::GetTrafficFilter(request))?;
    Ok(all.iter().filter_map(bpf_filter).collect())
}

/// Whether packets there begin with an Ethernet header. Where not, they begin with IP (tun, ppp).
///
/// # Errors
/// The kernel does not tell.
pub fn is_ethernet(ifindex: u32) -> Result<bool> {
    let all = dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
    let link = all.iter().find_map(|message| match message {
        RouteNetlinkMessage::NewLink(link) if link.header.index == ifindex => Some(&link.header),
        _ => None,
    });
    link.map(|header| header.link_layer_type == LinkLayerType::Ether)
        .ok_or_else(|| Error::Failed(format!("the kernel has no interface {ifindex} any more")))
}

fn dump(request: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>> {
    let tried = || "cannot read what is on the interfaces (rtnetlink)".to_owned();
    let mut socket = Socket::new(NETLINK_ROUTE).tried(tried)?;
    socket.bind_auto().tried(tried)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).tried(tried)?;
    let mut found = Vec::new();
    loop {
        let (buffer, _) = socket.recv_from_full().tried(tried)?;
        let mut rest = &buffer[..];
        while rest.len() >= HEADER {
            let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            if length < HEADER || length > rest.len() {
                return Err(Error::Failed(format!("{}: a message cut short", tried())));
            }
            let message = NetlinkMessage::deserialize(&rest[..length]).tried(tried)?;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(found),
                NetlinkPayload::Error(error) => return Err(error.to_io()).tried(tried),
                NetlinkPayload::InnerMessage(message) => found.push(message),
                _ => {}
            }
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// `None` for the filter's priority itself, which is told as a filter without options, and for other kinds.
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
