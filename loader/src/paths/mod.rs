//! Path changes: the maps through which flows are notified ([`maps`]), the kernel's routes ([`routes`]), and the watch
//! that writes route changes to the maps ([`watch`]).

pub mod maps;
mod netlink;
pub mod routes;
pub mod watch;
