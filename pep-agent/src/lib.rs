//! The agents of the ACKing border PEP. The border's agent reports to the sender of a flow which of the flow's segments
//! reached the border; the server's agent passes these reports to the sender's congestion control.

pub mod attach;
pub mod auth;
pub mod border;
pub mod daemon;
pub mod inband;
pub mod netlink;
mod object;
pub mod report;
pub mod server;
pub mod transport;
pub mod wire;
