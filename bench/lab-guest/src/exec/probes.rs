//! The lab's probes: the links, which record packets, and the BPF programs that watch connections and the processor.

use super::link_datapath::LinkDatapath;
use super::net::Net;
use crate::stage::Stage;
use anyhow::{Context, Result};
use bytemuck::Pod;
use hotcc::sys::tick_us;
use hotcc_lab_proto::plan::Plan;
use hotcc_lab_proto::records::{AckRecord, FlowWatch, IDLE_BIN_NS};
use hotcc_lab_proto::run_record::RunRecord;
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use memmap2::{MmapOptions, MmapRaw};
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};

/// A memory-mapped array map.
#[derive(Debug)]
pub(super) struct Mapped<T> {
    map: MmapRaw,
    pub entries: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    const WORDS: () = assert!(size_of::<T>().is_multiple_of(8), "an array's elements are whole words");

    pub fn new(object: &Object, name: &str) -> Result<Self> {
        let () = Self::WORDS;
        let map = object
            .maps()
            .find(|m| m.name().to_string_lossy().ends_with(name))
            .with_context(|| format!("no map {name}"))?;
        // a section's map has a single element, which holds this many T
        let length = map.info()?.info.max_entries as usize * map.value_size() as usize;
        let entries = length / size_of::<T>();
        let map = MmapOptions::new()
            .len(length)
            .map_raw(map.as_fd().as_raw_fd())
            .with_context(|| format!("cannot map {name}"))?;
        Ok(Self { map, entries, of: std::marker::PhantomData })
    }

    pub fn get(&self, at: usize) -> T {
        assert!(at < self.entries);
        // SAFETY: the access is within the mapping, which is page-aligned, and T is plain data. If a program writes
        // meanwhile, the value may be torn; callers read after the run.
        unsafe { self.map.as_ptr().cast::<T>().add(at).read_volatile() }
    }

    pub fn set(&self, at: usize, value: T) {
        assert!(at < self.entries);
        // SAFETY: as in `get`; the mapping is writable.
        unsafe { self.map.as_mut_ptr().cast::<T>().add(at).write_volatile(value) }
    }

    /// Returns the first `count` elements, as bytes.
    pub fn bytes(&self, count: usize) -> &[u8] {
        // SAFETY: the slice is within the mapping, and is plain data; nothing writes to it once the programs are
        // detached.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), count.min(self.entries) * size_of::<T>()) }
    }
}

/// Index of the first member of `.data` in both objects: time zero.
pub(super) const TIME_ZERO: usize = 0;
/// Index of the second member: the number of records.
pub(super) const RECORDS_MADE: usize = 1;
/// Index of a word that only `probes` has: interrupts in progress, whether the processor is idle, and `has_background`.
const PROCESSOR_STATE: usize = 3;
const HAS_BACKGROUND: u64 = 1 << 48;
/// Index of the length of a jiffy, which only `probes` has.
const TICK_US: usize = 4;
const CONNECTION_PROBES: [&str; 2] = ["probe_ack", "probe_retransmission"];
const BACKGROUND_PROBES: [&str; 4] = ["probe_switch", "probe_softirq_entry", "probe_softirq_exit", "probe_timer_exit"];

/// Programs of the timer's interrupt, and the tracepoints to attach them to on arm64, where the timer has none of its own:
/// those of all interrupts.
const ARM64_TRACEPOINTS: [(&str, &str); 2] =
    [("probe_timer_entry", "irq_handler_entry"), ("probe_timer_exit", "irq_handler_exit")];

/// The attached programs and their maps.
#[derive(Debug)]
pub(super) struct Probes {
    links: LinkDatapath,
    data: Mapped<u64>,
    flows: Mapped<FlowWatch>,
    acks: Mapped<AckRecord>,
    idle: Mapped<u64>,
    flow_count: usize,
    bins: usize,
    /// Whether the plan has events, which run in the background.
    has_background: bool,
    attached: Vec<Link>,
    /// Keeps programs and maps alive.
    _object: Object,
}

/// Loads one of the lab's objects, with these numbers of entries in its maps.
pub(super) fn open(name: &str, sizes: &[(&str, usize)]) -> Result<Object> {
    let object = hotcc_bpf::lab(name).with_context(|| format!("no object {name}"))?;
    let mut open = ObjectBuilder::default().open_memory(object.bytes)?;
    for mut map in open.maps_mut() {
        if let Some((_, entries)) = sizes.iter().find(|(n, _)| map.name() == *n) {
            map.set_max_entries(u32::try_from((*entries).max(1))?)?;
        }
    }
    if cfg!(target_arch = "aarch64") {
        for mut program in open.progs_mut() {
            if let Some((_, tracepoint)) = ARM64_TRACEPOINTS.iter().find(|(n, _)| program.name() == *n) {
                program.set_attach_target(0, Some((*tracepoint).to_owned()))?;
            }
        }
    }
    open.load().with_context(|| format!("cannot load the lab's {name} programs"))
}

impl Probes {
    /// Loads and attaches the programs. The calling thread must be in the namespace of the cables.
    pub fn start(plan: &Plan, net: &Net, stage: Stage) -> Result<Self> {
        let links = LinkDatapath::start(plan, &net.cable_devices, stage)?;
        let object = open("probes", &[("ack_records", plan.ack_records as usize)])?;
        let flows: Mapped<FlowWatch> = Mapped::new(&object, "flows")?;
        for (place, flow) in plan.flows.iter().enumerate() {
            let (detail_offset, detail_size) = flow.watch.unwrap_or_default();
            let netns = net.hosts[flow.from].inode()?;
            flows.set(place, FlowWatch { detail_offset, detail_size, netns, ..FlowWatch::default() });
        }
        // outside the guest, other processes share the processors, so idle time says nothing about the run
        let has_background = !plan.events.is_empty();
        let among = |name: &OsStr, these: &[&str]| these.iter().any(|this| name == *this);
        let wanted = |name: &OsStr| match stage {
            Stage::Guest => has_background || !among(name, &BACKGROUND_PROBES),
            _ => among(name, &CONNECTION_PROBES),
        };
        let chosen = object.progs_mut().filter(|p| wanted(p.name()));
        let attached = chosen.map(|p| p.attach()).collect::<Result<Vec<_>, _>>()?;
        let data = Mapped::new(&object, ".data")?;
        data.set(TICK_US, tick_us()?.into());
        Ok(Self {
            links,
            data,
            flows,
            acks: Mapped::new(&object, "ack_records")?,
            idle: Mapped::new(&object, "idle_ns")?,
            flow_count: plan.flows.len(),
            bins: if stage == Stage::Guest { (plan.duration_ns / IDLE_BIN_NS) as usize } else { 0 },
            has_background,
            attached,
            _object: object,
        })
    }

    /// Sets time zero, by CLOCK_MONOTONIC.
    pub fn set_zero(&self, zero_ns: u64) {
        self.links.set_zero(zero_ns);
        // Programs are attached one by one, so they may have seen an interrupt begin but not end. It would seem to last
        // for ever. The guest has a single processor, which executes this code, so no interrupt is in progress.
        self.data.set(PROCESSOR_STATE, if self.has_background { HAS_BACKGROUND } else { 0 });
        self.data.set(TIME_ZERO, zero_ns);
    }

    /// Detaches the programs and stops the links. No record is written after this.
    pub fn stop(&mut self) -> Result<()> {
        self.attached.clear();
        self.links.stop()
    }

    /// Returns the number of timeouts of each flow.
    pub fn timeouts(&self) -> impl Iterator<Item = u16> {
        (0..self.flow_count).map(|at| self.flows.get(at).timeouts)
    }

    /// Returns the counts of links, the idle time, and the numbers of records.
    pub fn counts(&self, plan: &Plan) -> RunRecord {
        let (made, room) = (self.data.get(RECORDS_MADE), self.acks.entries as u64);
        let (packet_records, missing) = self.links.counts();
        RunRecord {
            links: self.links.ends(plan),
            idle_ns: (0..self.bins).map(|at| self.idle.get(at)).collect(),
            packet_records,
            ack_records: made.min(room),
            missing_records: missing + made.saturating_sub(room),
            faults: self.links.faults().to_vec(),
            ..RunRecord::default()
        }
    }

    /// Returns the number of ACKs that arrived. The ACK records also include retransmissions, which are not counted.
    pub fn acks(&self, counted: &RunRecord) -> u64 {
        let records = 0..usize::try_from(counted.ack_records).unwrap_or(usize::MAX).min(self.acks.entries);
        records.filter(|at| self.acks.get(*at).is_retransmission == 0).count() as u64
    }

    /// Writes the packet records, then the ACK records.
    pub fn write_records(&self, counted: &RunRecord, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(self.links.records(counted.packet_records))?;
        out.write_all(self.acks.bytes(counted.ack_records as usize))
    }
}
