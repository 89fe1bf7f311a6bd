//! A swap every 100 ms under 200 busy connections, which move to each new version: whether one is reset or stalls, and
//! whether memory grows. The same connections without swaps are the yardstick.

use super::load_guard::{LoadGuard, request};
use super::migrate::Harm;
use super::options::Options;
use super::process::resident_pages;
use super::report::{Bound, Finding, significant};
use super::wire::{OTHER_FILES, allow_files, open};
use anyhow::{Context, Result, ensure};
use hotcc::ops;
use hotcc_testbed::netlab::{Lab, Namespace, pause};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::process::setpriority_process;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Name of the measure for `--only`.
pub const NAME: &str = "busy-swaps";
const CC: &str = "b_busy";
const OBJECTS: [&str; 2] = ["westwoodp", "dtcp"];
const CONNECTIONS: usize = 200;
const PERIOD: Duration = Duration::from_millis(100);
const STALL_BOUND_MS: f64 = 200.0;
const GROWTH_BOUND: f64 = 1.1;
/// Swaps before the first look at the memory, so that caches are filled.
const WARM_UP: usize = 10;
/// Time that the kernel has to free what the last swaps replaced.
const SETTLING: Duration = Duration::from_secs(5);
/// Time without a change after which the kernel is assumed to have freed it.
const STILL: Duration = Duration::from_secs(1);
/// Socket buffers: always full at the sender, and of a known size.
const BUFFER: usize = 32 << 10;
/// Nice value of the thread that swaps: the connections keep all processors busy.
const SWAPPER_NICE: i32 = -20;
/// Pause of a thread that found nothing to do.
const REST: Duration = Duration::from_micros(200);

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let duration = Duration::from_secs(if options.quick { 3 } else { 60 });
    let lab = Lab::new("hotcc-microbench")?;
    let host = lab.namespace("host")?;
    allow_files(2 * CONNECTIONS as u64 + OTHER_FILES)?;
    let _loaded = LoadGuard::load(OBJECTS[0], CC)?;
    let undisturbed = traffic(&host, || pause(duration))?;
    let (mut swaps, mut resets) = (Swaps::default(), 0);
    let swapped = traffic(&host, || {
        setpriority_process(None, SWAPPER_NICE).context("cannot raise the priority of the thread that swaps")?;
        let before = Harm::of(&host)?;
        swaps.run_for(duration)?;
        resets = Harm::of(&host)?.resets - before.resets; // before they are closed with unread bytes, which resets them
        Ok(())
    })?;
    let (early, late) = swaps.memory.context("too few swaps to compare the memory")?;

    let subject = format!("{CONNECTIONS} busy connections, a swap every {} ms", PERIOD.as_millis());
    let stall =
        Finding::new(NAME, &subject, "longest stall, ms", Some(swapped.stall_ms), Bound::AtMost(STALL_BOUND_MS))
            .figure(format!("{} swaps in {} s, {} MB", swaps.done, duration.as_secs(), swapped.bytes >> 20))
            .figure(format!("without swaps {} ms, {} MB", significant(undisturbed.stall_ms), undisturbed.bytes >> 20));
    let harm = Finding::new(NAME, &subject, "connections reset", Some(resets as f64), Bound::AtMost(0.0));
    let more = late.objects.saturating_sub(early.objects);
    let objects = "BPF programs and maps beyond those after ten swaps";
    let objects = Finding::new(NAME, "memory after the last swap", objects, Some(more as f64), Bound::AtMost(0.0));
    let growth = late.resident_pages / early.resident_pages;
    let resident = "resident / that after ten swaps";
    let resident =
        Finding::new(NAME, "memory after the last swap", resident, Some(growth), Bound::AtMost(GROWTH_BOUND));
    Ok(vec![stall, harm, objects, resident])
}

/// What the swaps did to the memory.
#[derive(Default)]
struct Swaps {
    done: usize,
    memory: Option<(Memory, Memory)>,
}

impl Swaps {
    fn run_for(&mut self, duration: Duration) -> Result<()> {
        let mut begun = Instant::now();
        let mut early = None;
        while begun.elapsed() < duration {
            ops::swap(CC, &request(OBJECTS[(self.done + 1) % 2], CC), true)?;
            self.done += 1;
            if self.done == WARM_UP {
                let swapped = Instant::now();
                early = Some(Memory::settled(usize::MAX)?);
                begun += swapped.elapsed(); // no swap was due meanwhile
            }
            let due = begun + PERIOD * self.done as u32;
            pause(due.saturating_duration_since(Instant::now()))?;
        }
        if let Some(early) = early {
            self.memory = Some((early, Memory::settled(early.objects)?));
        }
        Ok(())
    }
}

/// Memory that swaps use: in the kernel, and in this process.
#[derive(Clone, Copy)]
struct Memory {
    /// BPF programs and maps on this machine.
    objects: usize,
    resident_pages: f64,
}

impl Memory {
    /// Waits for the kernel to free what was replaced: until at most so many objects are left and their number stays
    /// the same, but not longer than [`SETTLING`].
    fn settled(at_most: usize) -> Result<Self> {
        let count = || ProgInfoIter::default().count() + MapInfoIter::default().count();
        let begun = Instant::now();
        let (mut objects, mut since) = (count(), begun);
        while (objects > at_most || since.elapsed() < STILL) && begun.elapsed() < SETTLING {
            pause(PERIOD)?;
            let now = count();
            if now != objects {
                (objects, since) = (now, Instant::now());
            }
        }
        Ok(Self { objects, resident_pages: resident_pages("self")? })
    }
}

/// What the connections did.
struct Traffic {
    /// Longest time in which a connection received nothing.
    stall_ms: f64,
    bytes: usize,
}

/// Opens the connections, keeps all of them busy while `work` runs in a thread of its own, and closes them.
fn traffic(host: &Namespace, work: impl FnOnce() -> Result<()> + Send) -> Result<Traffic> {
    let (mut senders, mut receivers) = host.enter(connections)??;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&mut senders, &stop));
        let receiving = scope.spawn(|| receive(&mut receivers, &stop));
        let worked = scope.spawn(work).join().map_err(|_| anyhow::anyhow!("the measure panicked")).flatten();
        stop.store(true, Relaxed);
        let sent = sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
        let received = receiving.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        worked.and(sent).and(received)
    })
}

/// Opens the connections, and returns their two ends.
fn connections() -> Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    setsockopt(&listener, sockopt::RcvBuf, &BUFFER)?; // accepted sockets inherit it
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr()?.port());
    let mut ends = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let sender = open(CC, to)?;
        setsockopt(&sender, sockopt::SndBuf, &BUFFER)?;
        let (receiver, _) = listener.accept()?;
        for end in [&sender, &receiver] {
            end.set_nonblocking(true)?;
        }
        ends.0.push(sender);
        ends.1.push(receiver);
    }
    Ok(ends)
}

/// Keeps the buffers of all connections full.
fn send(senders: &mut [TcpStream], stop: &AtomicBool) -> Result<()> {
    let block = vec![7; BUFFER];
    while !stop.load(Relaxed) {
        let mut full = true;
        for sender in senders.iter_mut() {
            match sender.write(&block) {
                Ok(_) => full = false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("a connection broke"),
            }
        }
        if full {
            std::thread::sleep(REST);
        }
    }
    Ok(())
}

/// Reads from all connections in turn.
fn receive(receivers: &mut [TcpStream], stop: &AtomicBool) -> Result<Traffic> {
    let mut block = vec![0; BUFFER];
    let mut last = vec![Instant::now(); receivers.len()];
    let (mut stall, mut bytes) = (Duration::ZERO, 0);
    while !stop.load(Relaxed) {
        let mut idle = true;
        for (receiver, last) in receivers.iter_mut().zip(&mut last) {
            match receiver.read(&mut block) {
                Ok(read) => {
                    ensure!(read > 0, "a connection ended");
                    stall = stall.max(last.elapsed());
                    *last = Instant::now();
                    (bytes, idle) = (bytes + read, false);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("a connection broke"),
            }
        }
        if idle {
            std::thread::sleep(REST);
        }
    }
    stall = last.iter().map(Instant::elapsed).fold(stall, Duration::max); // stalls that have not ended
    Ok(Traffic { stall_ms: stall.as_secs_f64() * 1e3, bytes })
}
