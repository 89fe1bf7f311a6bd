//! How the border's reports travel: beside the flows as UDP, or within them.

mod inband;
mod udp;

pub use inband::{InFlow, InbandCounters, in_flow};
pub use udp::{Udp, UdpCounters, udp};
