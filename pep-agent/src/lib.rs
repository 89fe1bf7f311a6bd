//! The agents of the ACKing border PEP: the border tells a flow's sender which of its segments reached it, the server
//! hands that to the sender's congestion control.

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
