//! How the border's reports travel: in UDP datagrams, or within their flows.

mod inband;
mod udp;

pub use inband::{Inband, inband};
pub use udp::{Udp, udp};
