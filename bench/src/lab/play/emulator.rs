//! Links on a kernel without the fq queueing discipline: a thread in the namespace of the wires takes every frame from
//! one end of a wire, asks the model when it leaves, and sends it to the other end then.

use super::LinkEnd;
use super::frame::{OFFLOAD_BYTES, mark_ce, shape};
use super::net::WireDevice;
use super::tap::{Tap, wait};
use crate::lab::link_model::{Fate, LinkModel};
use crate::lab::plan::Plan;
use crate::lab::records::{LOST, PacketRecord, QUEUE_DROP, SENT};
use anyhow::{Context, Result, bail};
use hotcc_abi::clock::monotonic_ns;
use nix::libc;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// The largest bundle of packets, and what precedes it.
const LARGEST_BYTES: usize = OFFLOAD_BYTES + 14 + (1 << 16);
/// Frames that one wire may have taken before the others are looked at.
const BATCH: usize = 64;
/// How soon it notices that it is to stop.
const NOTICE_NS: u64 = 50_000_000;
/// What leaves later than this is late, and no more than this share may.
const LATE_NS: u64 = 1_000_000;
const LATE_SHARE: f64 = 0.02;

/// What became of everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Emulated {
    /// Each link, as planned.
    pub links: Vec<LinkEnd>,
    /// Packets of the links that keep records.
    pub records: Vec<PacketRecord>,
    /// Those that there was no room for.
    pub missing: u64,
    /// Why the run must not be used.
    pub faults: Vec<String>,
}

/// The thread.
#[derive(Debug)]
pub(super) struct Emulator {
    stop: Arc<AtomicBool>,
    zero_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<Emulated>>>,
    done: Emulated,
}

impl Emulator {
    /// Starts it; the calling thread is in the namespace of the wires.
    pub fn start(plan: &Plan, devices: &[[WireDevice; 2]]) -> Result<Self> {
        let (stop, zero_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
        let mut ends = Vec::new();
        for wire in devices {
            for (own, other) in [(0, 1), (1, 0)] {
                ends.push(End { tap: Tap::open(wire[own].ifindex)?, link: wire[other].link });
            }
        }
        let work = Work {
            ends,
            links: plan.links.iter().map(LinkModel::new).collect(),
            kept: plan.links.iter().map(|l| l.keeps_records()).collect(),
            room: plan.packet_records as usize,
            held: BinaryHeap::new(),
            order: 0,
            result: Emulated::default(),
            counts: Counts::default(),
            stop: Arc::clone(&stop),
            zero_ns: Arc::clone(&zero_ns),
        };
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || work.run())?;
        Ok(Self { stop, zero_ns, thread: Some(thread), done: Emulated::default() })
    }

    /// Time zero, CLOCK_MONOTONIC.
    pub fn set_zero(&self, zero_ns: u64) {
        self.zero_ns.store(zero_ns, Ordering::SeqCst);
    }

    /// Ends it.
    pub fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            self.done = thread.join().unwrap_or_else(|_| bail!("the thread of the links panicked"))?;
        }
        Ok(())
    }

    /// What became of everything, once it was stopped.
    pub fn done(&self) -> &Emulated {
        &self.done
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.stop(); // whoever wants to know called it before
    }
}

/// One end of a wire; the other end's place differs in the lowest bit.
struct End {
    tap: Tap,
    /// Link of what comes in here.
    link: usize,
}

/// When, in which order of arrival, through which end, what.
type Held = Reverse<(u64, u64, usize, Vec<u8>)>;

#[derive(Default)]
struct Counts {
    sent: u64,
    late: u64,
    latest_ns: u64,
    unsent: u64,
}

struct Work {
    ends: Vec<End>,
    links: Vec<LinkModel>,
    kept: Vec<bool>,
    room: usize,
    held: BinaryHeap<Held>,
    order: u64,
    result: Emulated,
    counts: Counts,
    stop: Arc<AtomicBool>,
    zero_ns: Arc<AtomicU64>,
}

impl Work {
    fn run(mut self) -> Result<Emulated> {
        be_punctual();
        let mut buffer = vec![0; LARGEST_BYTES];
        let mut polls: Vec<libc::pollfd> = self.ends.iter().map(|end| end.tap.poll()).collect();
        while !self.stop.load(Ordering::SeqCst) {
            self.release();
            let next_ns = self.held.peek().map_or(NOTICE_NS, |Reverse(held)| held.0.saturating_sub(monotonic_ns()));
            wait(&mut polls, next_ns.min(NOTICE_NS)).context("cannot wait for packets")?;
            for (place, poll) in polls.iter_mut().enumerate().filter(|(_, poll)| poll.revents != 0) {
                poll.revents = 0;
                for _ in 0..BATCH {
                    let taken = self.ends[place].tap.receive(&mut buffer).context("cannot take a packet")?;
                    let Some(length) = taken else { break };
                    self.take(place, &mut buffer[..length]);
                }
            }
        }
        self.finish()
    }

    /// Sends what is due.
    fn release(&mut self) {
        while let Some(Reverse((at_ns, ..))) = self.held.peek() {
            let now_ns = monotonic_ns();
            if *at_ns > now_ns {
                return;
            }
            let Some(Reverse((at_ns, _, end, data))) = self.held.pop() else { return };
            let late_ns = now_ns - at_ns;
            self.counts.sent += 1;
            self.counts.late += u64::from(late_ns > LATE_NS);
            self.counts.latest_ns = self.counts.latest_ns.max(late_ns);
            self.counts.unsent += u64::from(self.ends[end].tap.send(&data).is_err());
        }
    }

    /// A frame has come in at an end.
    fn take(&mut self, place: usize, data: &mut [u8]) {
        let zero_ns = self.zero_ns.load(Ordering::SeqCst);
        let now_ns = monotonic_ns();
        let (shape, link) = (shape(data), self.ends[place].link);
        // before the start, all of it is at time 0
        let since_ns = now_ns.saturating_sub(zero_ns);
        let offer = self.links[link].offer(since_ns, shape.bytes, shape.segments);
        let (mut fate, mut marked) = (SENT, false);
        match offer.fate {
            Fate::QueueDrop => fate = QUEUE_DROP,
            Fate::Lost => fate = LOST,
            Fate::Leaves { at_ns, mark } => {
                marked = mark && mark_ce(data);
                if marked {
                    self.links[link].marked(shape.segments);
                }
                let base_ns = if zero_ns == u64::MAX { now_ns } else { zero_ns.min(now_ns) };
                self.held.push(Reverse((base_ns + at_ns, self.order, place ^ 1, data.to_vec())));
                self.order += 1;
            }
        }
        if !self.kept[link] {
            return;
        }
        if self.result.records.len() >= self.room {
            self.result.missing += 1;
            return;
        }
        let mut record = PacketRecord::with(fate, marked, shape.towards_receiver);
        record.time_ns = since_ns;
        record.wait_ns = offer.wait_ns;
        record.queue_bytes = offer.queue_bytes;
        record.bytes = shape.bytes;
        record.flow = shape.flow;
        record.link = link as u16;
        record.segments = shape.segments as u16;
        self.result.records.push(record);
    }

    fn finish(mut self) -> Result<Emulated> {
        let mut missed = 0;
        for end in &self.ends {
            missed += end.tap.missed().context("cannot tell how many packets were missed")?;
        }
        let Counts { sent, late, latest_ns, unsent } = self.counts;
        if missed > 0 || unsent > 0 {
            let faults = &mut self.result.faults;
            faults.push(format!("the links missed {missed} packets and could not send {unsent}"));
        }
        if late as f64 > sent as f64 * LATE_SHARE {
            let (percent, most_ms) = (late as f64 * 100.0 / sent as f64, latest_ns as f64 / 1e6);
            self.result.faults.push(format!(
                "{percent:.1} % of {sent} packets left over 1 ms late (at most {most_ms:.1} ms): the machine was too busy"
            ));
        }
        self.result.links = self.links.iter().map(|link| LinkEnd::from(link.state())).collect();
        Ok(self.result)
    }
}

/// Before everybody else, and woken to the point, as far as this machine lets us.
fn be_punctual() {
    // SAFETY: the parameters are plain numbers and a structure that lives through the call; both are about this thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let first = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const first);
    }
}
