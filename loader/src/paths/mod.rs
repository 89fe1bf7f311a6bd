//! Path changes: the maps that tell flows of them ([`maps`]), the kernel's routes ([`routes`]), and the watch that carries
//! changes from there to here ([`watch`]).

pub mod maps;
mod netlink;
pub mod routes;
pub mod watch;
