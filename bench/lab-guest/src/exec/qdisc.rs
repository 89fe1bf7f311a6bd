//! Sends packets through a queueing discipline of the kernel behind a shaper, and through the lab's.

use super::frame::{OFFLOAD_BYTES, set_checksum, shape};
use super::packet_socket::PacketSocket;
use anyhow::{Context, Result, ensure};
use hotcc_abi::clock::monotonic_ns;
use hotcc_lab_proto::cell::Cell;
use hotcc_lab_proto::link_model::{End, LinkModel};
use hotcc_lab_proto::plan::{FIRST_FLOW_PORT, Plan, PlannedLink, PlannedPhase};
use hotcc_lab_proto::qdisc::{Arrival, Compared, Comparison, Counts};
use hotcc_lab_proto::queue::{Ecn, Header};
use nix::net::if_::if_nametoindex;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::process::Command;
use std::time::Duration;

const NEAR: &str = "q0";
const FAR: &str = "q1";
/// Place of a packet's number: the beginning of its payload.
const NUMBER: Range<usize> = OFFLOAD_BYTES + 42..OFFLOAD_BYTES + 46;
const SECOND_NS: u64 = 1_000_000_000;
/// Packets between two reports of progress: a guest that says nothing counts as hung.
const REPORTED: usize = 10_000;
/// Ethernet's type of IPv4.
const IPV4: [u8; 2] = [0x08, 0x00];

/// Executes a comparison, and reports its progress.
pub fn compare(comparison: &Comparison, report: impl FnMut(String) -> Result<()>) -> Result<Compared> {
    let (kernel, kernel_hash, came_ns) = by_the_kernel(comparison, report)?;
    let (ours, ns_per_packet) = by_the_lab(comparison, &came_ns);
    Ok(Compared { kernel, kernel_hash, ours, ns_per_packet })
}

/// Sends the packets. Returns also a hash over those that left the queue, and the times at which they were sent.
fn by_the_kernel(
    comparison: &Comparison,
    mut report: impl FnMut(String) -> Result<()>,
) -> Result<(Counts, u64, Vec<u64>)> {
    let Comparison { kernel, rate_bps, arrivals, .. } = comparison;
    let _ = command("ip", &format!("link del {NEAR}")); // that of the comparison before
    command("ip", &format!("link add {NEAR} type veth peer name {FAR}"))?;
    for device in [NEAR, FAR] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").unwrap_or(());
        command("ip", &format!("link set {device} up"))?;
    }
    command("tc", &format!("qdisc add dev {NEAR} root handle 1: tbf rate {rate_bps}bit burst 1600 limit 100000000"))?;
    command("tc", &format!("qdisc add dev {NEAR} parent 1:1 {kernel}"))?;
    let open = |name| PacketSocket::open(if_nametoindex(name)?.cast_signed());
    let (near, far) = (open(NEAR)?, open(FAR)?);
    let mut counts = Counts::default();
    let mut hash = DefaultHasher::new();
    let mut buffer = vec![0; 4096];
    let mut receive = |sent: usize| -> Result<()> {
        while let Some(length) = far.receive(&mut buffer).context("cannot receive")? {
            let is_marked = shape(&buffer[..length]).ecn == Ecn::Ce;
            counts.sent += 1;
            counts.marked += u64::from(is_marked);
            (sent, is_marked, &buffer[NUMBER]).hash(&mut hash);
        }
        Ok(())
    };
    let mut came_ns = Vec::with_capacity(arrivals.len());
    let zero_ns = monotonic_ns();
    for (sent, arrival) in arrivals.iter().enumerate() {
        if sent % REPORTED == 0 {
            report(format!("packet {sent} of {}", arrivals.len()))?;
        }
        let mut data = frame(arrival);
        data[NUMBER].copy_from_slice(&(sent as u32).to_be_bytes());
        let early_ns = (zero_ns + arrival.at_ns).saturating_sub(monotonic_ns());
        if early_ns > 0 {
            std::thread::sleep(Duration::from_nanos(early_ns));
        }
        came_ns.push(monotonic_ns() - zero_ns);
        let _ = near.send(&data); // fails if the discipline drops the packet at once
        receive(sent)?;
    }
    // until the queue is empty
    std::thread::sleep(Duration::from_secs(2));
    receive(arrivals.len())?;
    ensure!(far.missed()? == 0, "the receiver missed packets");
    counts.dropped = arrivals.len() as u64 - counts.sent;
    Ok((counts, hash.finish(), came_ns))
}

/// Sends the packets through the lab's queue at these times. Returns also the time that this takes per packet.
fn by_the_lab(comparison: &Comparison, came_ns: &[u64]) -> (Counts, f64) {
    let seconds = came_ns.last().map_or(0, |last_ns| last_ns / SECOND_NS) + 10;
    let link = PlannedLink {
        step_ns: SECOND_NS,
        rates: vec![(seconds as u32, comparison.rate_bps)],
        queue_bytes: comparison.limit_bytes,
        discipline: comparison.ours,
        cell: Some(0),
        phases: vec![PlannedPhase::default()],
        ..PlannedLink::default()
    };
    let models = [LinkModel::new(&link)];
    let mut cells = Cell::of_plan(&Plan { links: vec![link], ..Plan::default() });
    let mut counts = Counts::default();
    let started_ns = monotonic_ns();
    for cell in &mut cells {
        let mut until = |cell: &mut Cell<()>, now_ns| {
            for gone in cell.serve(now_ns, &models) {
                match gone.end {
                    End::Served { marked } => {
                        counts.sent += 1;
                        counts.marked += u64::from(marked);
                    }
                    End::Dropped => counts.dropped += 1,
                }
            }
        };
        for (arrival, at_ns) in comparison.arrivals.iter().zip(came_ns) {
            until(cell, *at_ns);
            let Arrival { bytes, ecn_bits, flow, .. } = *arrival;
            cell.join(0, *at_ns, Header { bytes, ecn: Ecn::of_bits(ecn_bits), flow: flow.into() }, ());
        }
        until(cell, (seconds - 1) * SECOND_NS);
    }
    (counts, (monotonic_ns() - started_ns) as f64 / came_ns.len() as f64)
}

/// Returns a UDP packet, after its offload header.
fn frame(arrival: &Arrival) -> Vec<u8> {
    let mut data = vec![0; OFFLOAD_BYTES + arrival.bytes as usize];
    let ethernet = &mut data[OFFLOAD_BYTES..];
    ethernet[..12].fill(2);
    ethernet[12..14].copy_from_slice(&IPV4);
    let packet = &mut ethernet[14..];
    let length = packet.len() as u16;
    packet[0] = 0x45;
    packet[1] = arrival.ecn_bits;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[8] = 64;
    packet[9] = 17;
    packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
    packet[20..22].copy_from_slice(&9u16.to_be_bytes());
    packet[22..24].copy_from_slice(&(FIRST_FLOW_PORT + arrival.flow).to_be_bytes());
    packet[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    set_checksum(&mut packet[..20]);
    data
}

fn command(program: &str, arguments: &str) -> Result<()> {
    let output = Command::new(program).args(arguments.split(' ')).output().with_context(|| format!("no {program}"))?;
    ensure!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
