//! Moving 10,000 open connections to another congestion control and back, compared with a walk over the same sockets that
//! moves none; and whether the connections come to harm.
//!
//! The receiving ends are in a process of their own, which compares each byte with what was sent.

use super::load_guard::LoadGuard;
use super::options::Options;
use super::report::{Bound, Finding, significant};
use super::scrape::ourselves;
use super::wire::{OTHER_FILES, allow_files, open};
use anyhow::{Context, Result, bail, ensure};
use hotcc::ops::migrate::{Migrated, migrate};
use hotcc::policy::Chosen;
use hotcc_testbed::netlab::{Lab, Namespace, check, stem};
use hotcc_testbed::statistics::median;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Name of the measure for `--only`.
pub const NAME: &str = "migrate";
/// Argument with which this program runs [`receive`].
pub const RECEIVER: &str = "receiver";
const PREFIX: &str = "hotcc-microbench";
const BOUND: f64 = 2.0;
const CONNECTIONS: usize = 10_000;
/// The algorithms of the two sides; both know a bandwidth and a least RTT.
const SIDES: [(&str, &str); 2] = [("b_mig_a", "westwoodp"), ("b_mig_b", "dcmplus")];
/// Size of one write.
const BLOCK: usize = 100;
/// Migrations with traffic.
const LOADED: usize = 4;

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 4 } else { 20 };
    let _loaded =
        SIDES.iter().map(|(name, object)| LoadGuard::load(object, name)).collect::<Result<Vec<LoadGuard>>>()?;
    let lab = Lab::new(PREFIX)?;
    let (host, empty) = (lab.namespace("host")?, lab.namespace("empty")?);
    allow_files(CONNECTIONS as u64 + OTHER_FILES)?;
    let (mut receiver, address) = ourselves(|program| host.command(program), RECEIVER, &CONNECTIONS.to_string())?;
    let address: SocketAddrV4 = address.parse().with_context(|| format!("invalid address `{address}`"))?;
    eprintln!("  opening {CONNECTIONS} connections");
    let opened = host.enter(|| (0..CONNECTIONS).map(|id| Sender::open(id, address)).collect::<Result<Vec<_>>>())?;
    let mut senders = opened?;
    senders.iter_mut().try_for_each(Sender::send)?;
    let before = Harm::of(&host)?;
    let [netns, nothing] = [&host, &empty].map(|namespace| [stem(PREFIX) + namespace.name()]);
    let time = compare(rounds, &netns, &nothing)?;
    let writes = with_traffic(rounds, &netns, &mut senders)?;
    let after = Harm::of(&host)?;
    drop(senders); // the receiver sees the ends
    let differ = !receiver.wait(Duration::from_secs(60))?.success();
    let harm = after.retransmits - before.retransmits + after.resets - before.resets + u64::from(differ);
    let unharmed = Finding::new(
        NAME,
        "the same, that send meanwhile",
        "resets, retransmissions, and streams that are not as sent",
        Some(harm as f64),
        Bound::AtMost(0.0),
    );
    Ok(vec![time, unharmed.figure(format!("{writes} writes during {LOADED} migrations"))])
}

/// Returns how many times as long as the walk the move took; NaN if the walk was lost in noise.
fn ratio(moving_ms: f64, walk_ms: f64) -> f64 {
    if walk_ms > 0.0 { moving_ms / walk_ms } else { f64::NAN }
}

/// Measures migrations and walks in turns.
fn compare(rounds: usize, netns: &[String], nothing: &[String]) -> Result<Finding> {
    let (mut walks, mut moves, mut ratios, mut kept) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        check()?;
        let (rest, _) = timed(round, nothing, 0, true)?; // all of the call but the walk
        let (walk, _) = timed(round, netns, CONNECTIONS, true)?;
        let (moving, moved) = timed(round, netns, CONNECTIONS, false)?;
        let (walk, moving) = (walk - rest, moving - rest);
        eprintln!("  round {} of {rounds}: {walk:.1} and {moving:.1} ms", round + 1);
        kept = moved.sockets.learned.base_rtt;
        walks.push(walk);
        moves.push(moving);
        ratios.push(ratio(moving, walk));
    }
    let text = |values: &[f64]| median(values).map_or("-".to_owned(), significant);
    let finding = Finding::new(
        NAME,
        format!("{CONNECTIONS} connections"),
        "time / that of a walk that moves none",
        median(&ratios),
        Bound::AtMost(BOUND),
    );
    Ok(finding
        .figure(format!("median: moving {} ms, walk {} ms, of {rounds} rounds", text(&moves), text(&walks)))
        .figure(format!("{kept} kept their least RTT")))
}

/// Migrates all connections from the side of this round to the other one, or counts them; there must be so many
/// `sockets`. Returns milliseconds.
fn timed(round: usize, netns: &[String], sockets: usize, dry_run: bool) -> Result<(f64, Migrated)> {
    let ((from, _), (to, _)) = (SIDES[round % 2], SIDES[(round + 1) % 2]);
    let started = Instant::now();
    let migrated = migrate(from, to, netns, &Chosen::default(), dry_run)?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    ensure!(migrated.sockets.moved == sockets as u64, "{} of {sockets} moved", migrated.sockets.moved);
    Ok((elapsed, migrated))
}

/// Migrates while another thread sends on all connections in turn. Returns the number of writes.
fn with_traffic(first_round: usize, netns: &[String], senders: &mut [Sender]) -> Result<usize> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut writes = 0;
            while !stop.load(Relaxed) {
                for sender in senders.iter_mut().take_while(|_| !stop.load(Relaxed)) {
                    sender.send()?;
                    writes += 1;
                }
            }
            Ok(writes)
        });
        let migrated =
            (first_round..first_round + LOADED).try_for_each(|round| timed(round, netns, CONNECTIONS, false).map(drop));
        stop.store(true, Relaxed);
        let writes = sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
        migrated.and(writes)
    })
}

/// The byte at a place of a connection's stream, after the connection's number.
fn byte_at(id: usize, place: usize) -> u8 {
    (id.wrapping_mul(31) + place.wrapping_mul(7) + place / 251) as u8
}

/// The sending end of a connection.
struct Sender {
    id: usize,
    stream: TcpStream,
    sent: usize,
}

impl Sender {
    fn open(id: usize, to: SocketAddrV4) -> Result<Self> {
        let mut stream = open(SIDES[0].0, to)?;
        stream.write_all(&(id as u32).to_ne_bytes())?;
        Ok(Self { id, stream, sent: 0 })
    }

    fn send(&mut self) -> Result<()> {
        let block: [u8; BLOCK] = std::array::from_fn(|n| byte_at(self.id, self.sent + n));
        self.stream.write_all(&block).with_context(|| format!("connection {} broke", self.id))?;
        self.sent += BLOCK;
        Ok(())
    }
}

/// What a network namespace counts of connections that come to harm.
pub(super) struct Harm {
    retransmits: u64,
    pub(super) resets: u64,
}

impl Harm {
    pub(super) fn of(host: &Namespace) -> Result<Self> {
        let text = host.enter(|| fs::read_to_string("/proc/thread-self/net/snmp"))??;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { bail!("no TCP counters") };
        let counter = |wanted: &str| {
            let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == wanted);
            found.and_then(|(_, value)| value.parse().ok()).with_context(|| format!("no counter {wanted}"))
        };
        Ok(Self { retransmits: counter("RetransSegs")?, resets: counter("EstabResets")? })
    }
}

/// Accepts the connections, and compares each byte of each with what was sent.
pub fn receive(connections: usize) -> Result<()> {
    allow_files(connections as u64 + OTHER_FILES)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?);
    let accepted = (0..connections).map(|_| Ok(listener.accept()?.0)).collect::<Result<Vec<TcpStream>>>()?;
    for mut stream in accepted {
        let mut id = [0; 4];
        stream.read_exact(&mut id)?;
        let id = u32::from_ne_bytes(id) as usize;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        ensure!(!bytes.is_empty() && bytes.len() % BLOCK == 0, "connection {id}: {} bytes", bytes.len());
        let wrong = bytes.iter().enumerate().find(|(place, byte)| **byte != byte_at(id, *place));
        ensure!(wrong.is_none(), "connection {id}: {wrong:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_lost_in_noise_gives_no_ratio() {
        assert_eq!(ratio(34.0, 17.0), 2.0);
        assert!(median(&[1.4, ratio(30.0, -0.5), 1.5]).is_none() && ratio(1.0, 0.0).is_nan());
    }
}
