//! CPU time per ACK of crest with 10,000 connections to as many receivers, relative to crest without its map of groups.

use super::awake::Awake;
use super::crowd::{CONNECTIONS, Crowd};
use super::options::Options;
use super::registered::{cong_control, register};
use super::report::{Finding, significant};
use super::run_time::run_times_of;
use super::wire::{RECEIVER, Wire, open};
use anyhow::{Context, Result, ensure};
use hotcc::object::Loaded;
use hotcc_testbed::netlab::pause;
use hotcc_testbed::statistics::median;
use libbpf_rs::{Link, MapCore};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{SndBufForce, TcpCongestion};
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// Name of the measure for `--only`.
pub const NAME: &str = "many-groups";
const BOUND: f64 = 1.1;
/// The algorithms, by object, and the names that they get.
const KINDS: [(&str, &str); 2] = [("crest_apart", "b_apart"), ("crest", "b_groups")];
/// Writes to all connections take less time than this link needs for them: they wait in its queue for seconds.
const RATE: &str = "300mbit";
const QUEUE: &str = "256mb";
/// The receivers' addresses are this one and those after it.
const RECEIVERS: Ipv4Addr = Ipv4Addr::new(10, 248, 0, 0);
/// What a connection sends in a turn: 16 segments.
const BYTES: usize = 16 * 1448;
/// Size of each buffer. It holds all that a connection sends in two turns, because the receiver reads nothing.
const BUFFER_BYTES: usize = 1 << 18;
/// A turn has ended when no ACK has come for this long.
const SILENCE: Duration = Duration::from_millis(300);

struct Kind {
    cc: OsString,
    program: u32,
    loaded: Loaded,
    _link: Link,
}

impl Kind {
    fn load((object, name): (&str, &str)) -> Result<Self> {
        let (loaded, link) = register(object, name)?;
        Ok(Self { cc: name.into(), program: cong_control(&loaded)?, loaded, _link: link })
    }

    /// Returns the number of records in the map of groups.
    fn groups(&self) -> usize {
        let map = self.loaded.object.maps().find(|map| map.name() == "crest_groups");
        map.map_or(0, |map| map.keys().count())
    }

    /// Sends on all connections. Returns the nanoseconds per ACK until all is acknowledged.
    fn turn(&self, senders: &mut [TcpStream]) -> Result<f64> {
        senders.iter().try_for_each(|sender| setsockopt(sender, TcpCongestion, &self.cc))?;
        let [before] = run_times_of([self.program]);
        senders.iter_mut().try_for_each(|sender| sender.write_all(&[0; BYTES]))?;
        let mut last = before;
        loop {
            pause(SILENCE)?;
            let [now] = run_times_of([self.program]);
            if now.0 > before.0 && now.0 == last.0 {
                break;
            }
            last = now;
        }
        let calls = last.0 - before.0;
        ensure!(calls > CONNECTIONS as f64, "only {calls} ACKs on {CONNECTIONS} connections");
        Ok((last.1 - before.1) / calls)
    }
}

/// Opens connections to as many addresses.
fn crowd(wire: &Wire) -> Result<Crowd> {
    Crowd::open(wire, BUFFER_BYTES, |number, port| {
        let sender = open("reno", SocketAddrV4::new((u32::from(RECEIVERS) + number as u32).into(), port))?;
        setsockopt(&sender, SndBufForce, &BUFFER_BYTES)?;
        Ok(sender)
    })
}

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 2 } else { 12 };
    let wire = Wire::new()?;
    wire.split()?;
    wire.sender.tc(&format!("qdisc replace dev receiver root tbf rate {RATE} burst 64kb limit {QUEUE}"))?;
    wire.sender.ip(&format!("route add {RECEIVERS}/16 via {RECEIVER}"))?;
    wire.receiver.ip(&format!("route add local {RECEIVERS}/16 dev lo"))?;
    let kinds = [Kind::load(KINDS[0])?, Kind::load(KINDS[1])?];
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let mut ns = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut crowd = crowd(&wire)?;
        for place in 0..2 {
            let kind = (place + round) % 2; // each comes first in turn
            ns[kind].push(kinds[kind].turn(&mut crowd.senders)?);
        }
        eprintln!("  round {} of {rounds}: {:.0} and {:.0} ns per ACK", round + 1, ns[1][round], ns[0][round]);
    }
    let groups = kinds[1].groups();
    // the last round of some may not have ended
    ensure!(groups >= CONNECTIONS * 9 / 10, "{CONNECTIONS} connections made only {groups} groups");
    let [apart, sharing] = &ns;
    let ratios: Vec<f64> = sharing.iter().zip(apart).map(|(sharing, apart)| sharing / apart).collect();
    let subject = format!("crest, {CONNECTIONS} receivers");
    let finding = Finding::of_ratios(NAME, subject, "with / without groups, 95 % high", "", &ratios, BOUND);
    let [apart, sharing] = [apart, sharing].map(|ns| median(ns).map_or("-".to_owned(), significant));
    Ok(vec![finding.figure(format!("{sharing} instead of {apart} ns per ACK, {groups} records at the end"))])
}
