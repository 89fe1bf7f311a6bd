//! Links on a kernel without the fq queueing discipline. A thread in the namespace of the cables takes every frame from
//! one end of a cable, asks the model when the frame leaves, and sends it to the other end at that time.

use super::frame::{OFFLOAD_BYTES, Shape, mark_ce, shape};
use super::net::CableDevice;
use super::packet_socket::{PacketSocket, Ready};
use anyhow::{Context, Result, bail};
use bytemuck::Zeroable;
use hotcc_abi::clock::monotonic_ns;
use hotcc_lab_proto::cell::Cell;
use hotcc_lab_proto::link_model::{Fate, LinkModel, Offer, Packet};
use hotcc_lab_proto::plan::Plan;
use hotcc_lab_proto::queue::{Header, flow_key};
use hotcc_lab_proto::records::{LOST, POLICED, PacketRecord, QUEUE_DROP, SENT};
use hotcc_lab_proto::run_record::LinkEnd;
use nix::libc;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Size of the largest bundle of packets, including the headers before it.
const MAX_PACKET_BYTES: usize = OFFLOAD_BYTES + 14 + (1 << 16);
/// Maximum number of frames to take from one cable before the others are polled.
const BATCH: usize = 64;
/// Maximum time until the thread notices that it must stop.
const NOTICE_NS: u64 = 50_000_000;
/// A packet is late if it leaves later than this after its time; a run with a higher share of late packets is invalid.
const LATE_NS: u64 = 1_000_000;
const LATE_SHARE: f64 = 0.02;

/// The results of all links.
#[derive(Clone, Debug, Default)]
pub(super) struct Emulated {
    /// One entry per link, in the plan's order.
    pub links: Vec<LinkEnd>,
    /// Packets of the links that keep records.
    pub records: Vec<PacketRecord>,
    /// Number of records that were not kept because there was no room for them.
    pub missing: u64,
    /// Reasons why the run must not be used.
    pub faults: Vec<String>,
}

/// The thread that emulates the links, and its results once it has stopped.
#[derive(Debug)]
pub(super) struct Emulator {
    stop: Arc<AtomicBool>,
    zero_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<Emulated>>>,
    done: Emulated,
}

impl Emulator {
    /// Starts the thread. The calling thread must be in the namespace of the cables.
    pub fn start(plan: &Plan, devices: &[[CableDevice; 2]]) -> Result<Self> {
        let (stop, zero_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(u64::MAX)));
        let mut ends = Vec::new();
        for cable in devices {
            for (own, other) in [(0, 1), (1, 0)] {
                ends.push(End { socket: PacketSocket::open(cable[own].ifindex)?, link: cable[other].link });
            }
        }
        let work = Work {
            ends,
            links: plan.links.iter().map(LinkModel::new).collect(),
            cells: Cell::of_plan(plan),
            cell_of: plan.cell_of_links(),
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

    /// Sets time zero, by CLOCK_MONOTONIC.
    pub fn set_zero(&self, zero_ns: u64) {
        self.zero_ns.store(zero_ns, Ordering::SeqCst);
    }

    /// Stops the thread and keeps its results.
    pub fn stop(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            self.done = thread.join().unwrap_or_else(|_| bail!("the thread of the links panicked"))?;
        }
        Ok(())
    }

    /// Returns the results; they are empty until the thread is stopped.
    pub fn done(&self) -> &Emulated {
        &self.done
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.stop(); // a caller that needs the result has called `stop` before
    }
}

/// One end of a cable. The index of the other end differs in the lowest bit.
struct End {
    socket: PacketSocket,
    /// Index of the link of the packets that come in here.
    link: usize,
}

/// A frame that has arrived.
struct Frame {
    data: Vec<u8>,
    shape: Shape,
    link: usize,
    /// Index of the end through which it leaves.
    end: usize,
    /// Time of arrival since the start.
    since_ns: u64,
    /// Index of its record, if it has one.
    record: Option<usize>,
}

/// A frame that waits in a cell.
struct InCell {
    frame: Frame,
    packet: Packet,
    queue_bytes: u32,
}

/// A frame to send: the time, its place in the order of arrival, the end's index, the data. The heap returns the
/// earliest first.
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
    cells: Vec<Cell<InCell>>,
    cell_of: Vec<Option<usize>>,
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
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        let mut ready = Ready::of(self.ends.iter().map(|end| &end.socket)).context("cannot wait for packets")?;
        while !self.stop.load(Ordering::SeqCst) {
            self.serve_all();
            self.release();
            let next_ns = self.next_ns().map_or(NOTICE_NS, |at_ns| at_ns.saturating_sub(monotonic_ns()));
            for place in ready.wait(next_ns.min(NOTICE_NS)).context("cannot wait for packets")? {
                for _ in 0..BATCH {
                    let taken = self.ends[place].socket.receive(&mut buffer).context("cannot receive a packet")?;
                    let Some(length) = taken else { break };
                    self.take(place, &buffer[..length]);
                }
            }
        }
        self.finish()
    }

    /// Sends the frames that are due.
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
            self.counts.unsent += u64::from(self.ends[end].socket.send(&data).is_err());
        }
    }

    /// Returns the next time at which a frame or a cell is due.
    fn next_ns(&mut self) -> Option<u64> {
        let zero_ns = self.zero_ns.load(Ordering::SeqCst);
        let in_cells = self.cells.iter_mut().filter_map(|cell| cell.next_ns(&self.links));
        let in_cells = in_cells.map(|since_ns| zero_ns + since_ns).min();
        let held = self.held.peek().map(|Reverse(held)| held.0);
        [in_cells, held].into_iter().flatten().min()
    }

    /// Serves the cells until the current time.
    fn serve_all(&mut self) {
        let since_ns = monotonic_ns().saturating_sub(self.zero_ns.load(Ordering::SeqCst));
        for cell in 0..self.cells.len() {
            self.serve(cell, since_ns);
        }
    }

    fn serve(&mut self, cell: usize, since_ns: u64) {
        for gone in self.cells[cell].serve(since_ns, &self.links) {
            let InCell { frame, packet, queue_bytes } = gone.item;
            let fate = self.links[frame.link].end(&packet, queue_bytes, gone.at_ns, gone.end);
            self.pass(frame, &Offer { queue_bytes, wait_ns: gone.wait_ns, fate });
        }
    }

    /// Takes a frame that has arrived at an end.
    fn take(&mut self, place: usize, data: &[u8]) {
        let (shape, link) = (shape(data), self.ends[place].link);
        // all frames before the start arrive at time 0
        let since_ns = monotonic_ns().saturating_sub(self.zero_ns.load(Ordering::SeqCst));
        let record = self.new_record(link);
        let frame = Frame { data: data.to_vec(), shape, link, end: place ^ 1, since_ns, record };
        match self.cell_of[link] {
            Some(cell) if since_ns > 0 => self.join(cell, frame),
            _ => {
                let offer = self.links[link].offer(since_ns, shape.bytes, shape.segments);
                self.pass(frame, &offer);
            }
        }
    }

    fn join(&mut self, cell: usize, frame: Frame) {
        let Frame { shape, link, since_ns, .. } = frame;
        self.serve(cell, since_ns);
        let packet = self.links[link].arrive(since_ns, shape.bytes, shape.segments);
        if self.links[link].polices(&packet, since_ns) {
            self.pass(frame, &Offer { queue_bytes: 0, wait_ns: 0, fate: Fate::Policed });
            return;
        }
        let queue_bytes = self.cells[cell].queue_bytes(link);
        let flow = flow_key(shape.flow, shape.towards_receiver);
        let header = Header { bytes: shape.bytes, ecn: shape.ecn, flow };
        self.cells[cell].join(link, since_ns, header, InCell { frame, packet, queue_bytes });
        self.serve(cell, since_ns);
    }

    /// Applies a frame's fate: marks and records the frame, and holds it until it leaves.
    fn pass(&mut self, mut frame: Frame, offer: &Offer) {
        let (fate, marked) = match offer.fate {
            Fate::QueueDrop => (QUEUE_DROP, false),
            Fate::Lost => (LOST, false),
            Fate::Policed => (POLICED, false),
            Fate::Leaves { mark, .. } => (SENT, mark && mark_ce(&mut frame.data)),
        };
        if marked {
            self.links[frame.link].marked(frame.shape.segments);
        }
        self.write(&frame, offer.queue_bytes, offer.wait_ns, fate, marked);
        if let Fate::Leaves { at_ns, .. } = offer.fate {
            let base_ns = self.zero_ns.load(Ordering::SeqCst).min(monotonic_ns());
            self.held.push(Reverse((base_ns + at_ns, self.order, frame.end, frame.data)));
            self.order += 1;
        }
    }

    fn write(&mut self, frame: &Frame, queue_bytes: u32, wait_ns: u64, fate: u8, marked: bool) {
        let Frame { shape, link, since_ns, .. } = *frame;
        let Some(record) = frame.record.and_then(|at| self.result.records.get_mut(at)) else { return };
        *record = PacketRecord::with(fate, marked, shape.towards_receiver);
        record.time_ns = since_ns;
        record.wait_ns = wait_ns;
        record.queue_bytes = queue_bytes;
        record.bytes = shape.bytes;
        record.flow = shape.flow;
        record.link = link as u16;
        record.segments = shape.segments as u16;
    }

    /// Reserves a record that is written later, if the link keeps records. Returns its index.
    fn new_record(&mut self, link: usize) -> Option<usize> {
        if !self.kept[link] {
            return None;
        }
        if self.result.records.len() >= self.room {
            self.result.missing += 1;
            return None;
        }
        self.result.records.push(PacketRecord::zeroed());
        Some(self.result.records.len() - 1)
    }

    fn finish(mut self) -> Result<Emulated> {
        let mut missed = 0;
        for end in &self.ends {
            missed += end.socket.missed().context("cannot read the number of missed packets")?;
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
        let end_ns = monotonic_ns().saturating_sub(self.zero_ns.load(Ordering::SeqCst));
        (0..self.cells.len()).for_each(|cell| self.serve(cell, 0)); // what has left its queue but was not taken yet
        for cell in std::mem::take(&mut self.cells) {
            for InCell { frame, queue_bytes, .. } in cell.into_waiting() {
                let wait_ns = end_ns - frame.since_ns;
                self.write(&frame, queue_bytes, wait_ns, SENT, false);
            }
        }
        self.result.links = self.links.iter().map(|link| LinkEnd::from(link.state())).collect();
        Ok(self.result)
    }
}

/// Raises this thread's priority above other threads and lets timers wake it on time, as far as the machine permits.
fn be_punctual() {
    // SAFETY: the arguments are plain numbers and a structure that outlives the call; both calls concern only this
    // thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let first = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const first);
    }
}
