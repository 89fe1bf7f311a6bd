//! The lab's BPF programs: links that queue, delay and lose, and what watches connections and the processor.

use super::net::WireDevice;
use super::{LinkEnd, Played};
use crate::lab::plan::{Plan, PlannedLink};
use crate::lab::records::{
    AckRecord, FlowWatch, IDLE_BIN_NS, LinkState, PacketRecord, Phase, ServiceStep, of_2_32, survival,
};
use anyhow::{Context, Result};
use bytemuck::Pod;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcHookBuilder};
use memmap2::{MmapOptions, MmapRaw};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};

/// An array map, mapped.
#[derive(Debug)]
struct Mapped<T> {
    map: MmapRaw,
    entries: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    const WORDS: () = assert!(size_of::<T>().is_multiple_of(8), "an array's elements are whole words");

    fn new(object: &Object, name: &str) -> Result<Self> {
        let () = Self::WORDS;
        let map = object
            .maps()
            .find(|m| m.name().to_string_lossy().ends_with(name))
            .with_context(|| format!("no map {name}"))?;
        // a section's map is one element, of as many T
        let length = map.info()?.info.max_entries as usize * map.value_size() as usize;
        let entries = length / size_of::<T>();
        let map = MmapOptions::new()
            .len(length)
            .map_raw(map.as_fd().as_raw_fd())
            .with_context(|| format!("cannot map {name}"))?;
        Ok(Self { map, entries, of: std::marker::PhantomData })
    }

    fn get(&self, at: usize) -> T {
        assert!(at < self.entries);
        // SAFETY: within the mapping, which is page aligned; T is plain data. Programs may write meanwhile: what is
        // read then is torn at worst, and callers read after the run.
        unsafe { self.map.as_ptr().cast::<T>().add(at).read_volatile() }
    }

    fn set(&self, at: usize, value: T) {
        assert!(at < self.entries);
        // SAFETY: as for `get`; the mapping is writable.
        unsafe { self.map.as_mut_ptr().cast::<T>().add(at).write_volatile(value) }
    }

    /// The first of them, as bytes.
    fn bytes(&self, count: usize) -> &[u8] {
        // SAFETY: within the mapping; plain data; nothing writes any more once programs are detached.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), count.min(self.entries) * size_of::<T>()) }
    }
}

/// First member of `.data` of both objects.
const ZERO: usize = 0;
/// Second.
const MADE: usize = 1;

/// Programs at work.
#[derive(Debug)]
pub(super) struct Instruments {
    link_data: Mapped<u64>,
    links: Mapped<LinkState>,
    packets: Mapped<PacketRecord>,
    watch_data: Mapped<u64>,
    flows: Mapped<FlowWatch>,
    acks: Mapped<AckRecord>,
    idle: Mapped<u64>,
    flow_count: usize,
    bins: usize,
    watching: std::cell::RefCell<Vec<Link>>,
    /// Keep programs and maps alive.
    _objects: [Object; 2],
}

fn open(name: &str, sizes: &[(&str, usize)]) -> Result<Object> {
    let object = hotcc_bpf::lab(name).with_context(|| format!("no object {name}"))?;
    let mut open = ObjectBuilder::default().open_memory(object.bytes)?;
    for mut map in open.maps_mut() {
        if let Some((_, entries)) = sizes.iter().find(|(n, _)| map.name() == *n) {
            map.set_max_entries(u32::try_from((*entries).max(1))?)?;
        }
    }
    open.load().with_context(|| format!("cannot load the lab's {name} programs"))
}

impl Instruments {
    /// Loads and attaches; the calling thread is in the namespace of the wires.
    pub fn start(plan: &Plan, devices: &[[WireDevice; 2]]) -> Result<Self> {
        let steps = plan.links.iter().map(|l| l.rates.iter().map(|(n, _)| *n as usize).sum::<usize>()).sum();
        let phases = plan.links.iter().map(|l| l.phases.len()).sum();
        let sizes = [("steps", steps), ("phases", phases), ("packet_records", plan.packet_records as usize)];
        let link = open("link", &sizes)?;
        let watch = open("watch", &[("ack_records", plan.ack_records as usize)])?;
        fill(&link, &plan.links)?;
        attach_wires(&link, devices)?;
        let flows: Mapped<FlowWatch> = Mapped::new(&watch, "flows")?;
        for (place, flow) in plan.flows.iter().enumerate() {
            if let Some((detail_offset, detail_size)) = flow.watch {
                flows.set(place, FlowWatch { detail_offset, detail_size, ..FlowWatch::default() });
            }
        }
        let watching = watch.progs_mut().map(|p| p.attach()).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            link_data: Mapped::new(&link, ".data")?,
            links: Mapped::new(&link, "links")?,
            packets: Mapped::new(&link, "packet_records")?,
            watch_data: Mapped::new(&watch, ".data")?,
            flows,
            acks: Mapped::new(&watch, "ack_records")?,
            idle: Mapped::new(&watch, "idle_ns")?,
            flow_count: plan.flows.len(),
            bins: (plan.duration_ns / IDLE_BIN_NS) as usize,
            watching: watching.into(),
            _objects: [link, watch],
        })
    }

    /// Time zero, CLOCK_MONOTONIC.
    pub fn set_zero(&self, zero_ns: u64) {
        self.link_data.set(ZERO, zero_ns);
        self.watch_data.set(ZERO, zero_ns);
    }

    /// Nothing is written down from here on.
    pub fn stop(&self) {
        self.watching.borrow_mut().clear();
    }

    /// Timeouts of each flow.
    pub fn timeouts(&self) -> impl Iterator<Item = u16> {
        (0..self.flow_count).map(|at| self.flows.get(at).timeouts)
    }

    /// Links, idle time, and how many records there are.
    pub fn counts(&self, plan: &Plan) -> Played {
        let made = [self.link_data.get(MADE), self.watch_data.get(MADE)];
        let room = [self.packets.entries as u64, self.acks.entries as u64];
        Played {
            links: (0..plan.links.len()).map(|at| LinkEnd::from(&self.links.get(at))).collect(),
            idle_ns: (0..self.bins).map(|at| self.idle.get(at)).collect(),
            packet_records: made[0].min(room[0]),
            ack_records: made[1].min(room[1]),
            missing_records: made[0].saturating_sub(room[0]) + made[1].saturating_sub(room[1]),
            ..Played::default()
        }
    }

    /// ACKs that came; the records have retransmissions too.
    pub fn acks(&self, counted: &Played) -> u64 {
        let records = 0..usize::try_from(counted.ack_records).unwrap_or(usize::MAX).min(self.acks.entries);
        records.filter(|at| self.acks.get(*at).is_retransmission == 0).count() as u64
    }

    /// Packets, then ACKs.
    pub fn write_records(&self, counted: &Played, out: &mut dyn Write) -> std::io::Result<()> {
        out.write_all(self.packets.bytes(counted.packet_records as usize))?;
        out.write_all(self.acks.bytes(counted.ack_records as usize))
    }
}

/// What the links are.
fn fill(object: &Object, planned: &[PlannedLink]) -> Result<()> {
    let links: Mapped<LinkState> = Mapped::new(object, "links")?;
    let steps: Mapped<ServiceStep> = Mapped::new(object, "steps")?;
    let phases: Mapped<Phase> = Mapped::new(object, "phases")?;
    let (mut step, mut phase) = (0, 0);
    for (place, link) in planned.iter().enumerate() {
        let (first_step, first_phase) = (step, phase);
        let mut before = 0;
        for rate_bps in link.rates_by_step() {
            steps.set(step, ServiceStep { before, rate_bps });
            // as the program reckons: rate times time in ns over 10^6, in millibits
            before += rate_bps * link.step_ns / 1_000_000;
            step += 1;
        }
        for p in &link.phases {
            phases.set(
                phase,
                Phase {
                    from_ns: p.from_ns,
                    delay_ns: p.delay_ns,
                    jitter_ns: p.jitter_ns,
                    hold_ns: p.hold_ns,
                    loss: of_2_32(p.loss),
                    reorder: of_2_32(p.reorder),
                    survival: survival(p.bit_error),
                    bit_errors: u32::from(p.bit_error > 0.0),
                    pad: 0,
                },
            );
            phase += 1;
        }
        links.set(
            place,
            LinkState {
                seed: link.seed,
                step_ns: link.step_ns,
                queue_bytes: link.queue_bytes,
                mark_bytes: link.mark_bytes,
                first_step: u32::try_from(first_step)?,
                steps: u32::try_from(step - first_step)?,
                first_phase: u32::try_from(first_phase)?,
                phases: u32::try_from(phase - first_phase)?,
                keeps_records: u32::from(link.keeps_records()),
                ..LinkState::default()
            },
        );
    }
    Ok(())
}

fn attach_wires(object: &Object, devices: &[[WireDevice; 2]]) -> Result<()> {
    let program = |name: &str| object.progs().find(|p| p.name() == name).with_context(|| format!("no program {name}"));
    let (pass, transmit) = (program("pass")?, program("transmit")?);
    let ends = object.maps().find(|m| m.name() == "ends").context("no map ends")?;
    for wire in devices {
        for (device, other) in [(wire[0], wire[1]), (wire[1], wire[0])] {
            let end = [other.ifindex.cast_unsigned(), u32::try_from(device.link)?];
            ends.update(&device.ifindex.to_ne_bytes(), bytemuck::bytes_of(&end), MapFlags::ANY)?;
            for (program, side) in [(&pass, TC_INGRESS), (&transmit, TC_EGRESS)] {
                let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(device.ifindex).replace(true).hook(side);
                hook.create().context("cannot make a clsact queueing discipline")?;
                hook.attach().context("cannot attach to a wire")?;
            }
        }
    }
    Ok(())
}
