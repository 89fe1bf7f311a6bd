//! How the border's reports travel: beside the flows as UDP, or within them.

mod inband;
mod udp;

pub use inband::{Inband, inband};
pub use udp::{Udp, udp};
