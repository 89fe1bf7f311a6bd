//! Free ports, for servers whose port a test chooses.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const FIRST: u32 = 10_000;

/// Returns a port of 127.0.0.1 that is free at the moment, for UDP and for TCP. No port is returned twice by a process.
///
/// It lies below the range from which the kernel takes the ports of outgoing connections. Inside that range, a client that
/// tries to reach a server before it listens can get the server's port as its own, and connects to itself. The server
/// then cannot listen there for a minute.
///
/// # Errors
/// All are taken, or outgoing connections use all ports.
pub fn free() -> Result<u16> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let outgoing = first_outgoing()?;
    ensure!(outgoing > FIRST, "outgoing connections use ports from {outgoing} on");
    let number = outgoing - FIRST;
    let start = process::id().wrapping_mul(101); // processes at the same time are to try others
    while TRIED.load(Relaxed) < number {
        let offset = start.wrapping_add(TRIED.fetch_add(1, Relaxed)) % number;
        let port = u16::try_from(FIRST + offset)?;
        let address = (Ipv4Addr::LOCALHOST, port);
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no port from {FIRST} to {outgoing} is free")
}

/// Returns the first port of the range for outgoing connections.
fn first_outgoing() -> Result<u32> {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    let range = fs::read_to_string(RANGE).context(RANGE)?;
    range.split_whitespace().next().context(RANGE)?.parse().context(RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_free_port_is_free_for_udp_and_tcp() {
        let ports: Vec<_> = (0..100).map(|_| free().unwrap()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "{ports:?}");
        let _bound: Vec<_> = (ports.iter())
            .map(|&port| (Ipv4Addr::LOCALHOST, port))
            .map(|address| (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap()))
            .collect();
        let others: Vec<_> = (0..100).map(|_| free().unwrap()).filter(|port| ports.contains(port)).collect();
        assert!(others.is_empty(), "given twice: {others:?}");
    }

    #[test]
    fn no_outgoing_connection_is_given_a_free_port() {
        let outgoing = first_outgoing().unwrap();
        let taken: Vec<_> = (0..100).map(|_| free().unwrap()).filter(|&port| u32::from(port) >= outgoing).collect();
        assert!(taken.is_empty(), "from {outgoing} on: {taken:?}");
    }
}
