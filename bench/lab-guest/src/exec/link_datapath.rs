//! The links of a run: either BPF programs on the cables, for which the kernel's fq queueing discipline holds packets
//! until they are due, or the emulator.

use super::emulator::Emulator;
use super::net::CableDevice;
use super::probes::{Mapped, RECORDS_MADE, TIME_ZERO, open};
use crate::stage::Stage;
use anyhow::{Context, Result};
use hotcc_lab_proto::link_model::{at_start, phases, service_steps};
use hotcc_lab_proto::plan::{Plan, PlannedLink};
use hotcc_lab_proto::records::{LinkState, PacketRecord, Phase, ServiceStep};
use hotcc_lab_proto::run_record::LinkEnd;
use libbpf_rs::{MapCore, MapFlags, Object, TC_EGRESS, TC_INGRESS, TcHookBuilder};
use std::os::fd::AsFd;

/// The part that holds packets until they are due.
#[derive(Debug)]
pub(super) enum LinkDatapath {
    /// The kernel holds them.
    Kernel(Programs),
    /// A thread of this process holds them.
    Emulated(Emulator),
}

/// BPF programs on both ends of every cable.
#[derive(Debug)]
pub(super) struct Programs {
    data: Mapped<u64>,
    links: Mapped<LinkState>,
    packets: Mapped<PacketRecord>,
    /// Keeps programs and maps alive.
    object: Object,
}

impl LinkDatapath {
    /// Starts the links. The calling thread must be in the namespace of the cables.
    pub fn start(plan: &Plan, devices: &[[CableDevice; 2]], stage: Stage) -> Result<Self> {
        if stage.emulates(plan) {
            return Ok(Self::Emulated(Emulator::start(plan, devices)?));
        }
        let programs = Programs::load(plan)?;
        attach(&programs.object, devices)?;
        Ok(Self::Kernel(programs))
    }

    /// Sets time zero, by CLOCK_MONOTONIC.
    pub fn set_zero(&self, zero_ns: u64) {
        match self {
            Self::Kernel(programs) => programs.data.set(TIME_ZERO, zero_ns),
            Self::Emulated(emulator) => emulator.set_zero(zero_ns),
        }
    }

    /// Stops the emulator. No record is written after this.
    pub fn stop(&mut self) -> Result<()> {
        match self {
            Self::Kernel(_) => Ok(()), // the cables and their programs are removed with their namespace
            Self::Emulated(emulator) => emulator.stop(),
        }
    }

    /// Returns the counts of each link.
    pub fn ends(&self, plan: &Plan) -> Vec<LinkEnd> {
        match self {
            Self::Kernel(p) => (0..plan.links.len()).map(|at| LinkEnd::from(&p.links.get(at))).collect(),
            Self::Emulated(emulator) => emulator.done().links.clone(),
        }
    }

    /// Returns the number of packet records, and the number that were not kept because there was no room.
    pub fn counts(&self) -> (u64, u64) {
        match self {
            Self::Kernel(p) => {
                let (made, room) = (p.data.get(RECORDS_MADE), p.packets.entries as u64);
                (made.min(room), made.saturating_sub(room))
            }
            Self::Emulated(emulator) => (emulator.done().records.len() as u64, emulator.done().missing),
        }
    }

    /// Returns the reasons why the run must not be used.
    pub fn faults(&self) -> &[String] {
        match self {
            Self::Kernel(_) => &[],
            Self::Emulated(emulator) => &emulator.done().faults,
        }
    }

    /// Returns the first `count` packet records, as bytes.
    pub fn records(&self, count: u64) -> &[u8] {
        match self {
            Self::Kernel(p) => p.packets.bytes(count as usize),
            Self::Emulated(emulator) => bytemuck::cast_slice(&emulator.done().records),
        }
    }
}

impl Programs {
    fn load(plan: &Plan) -> Result<Self> {
        let steps = plan.links.iter().map(|l| l.rates.iter().map(|(n, _)| *n as usize).sum::<usize>()).sum();
        let phases = plan.links.iter().map(|l| l.phases.len()).sum();
        let sizes = [("steps", steps), ("phases", phases), ("packet_records", plan.packet_records as usize)];
        let object = open("link", &sizes)?;
        fill(&object, &plan.links)?;
        Ok(Self {
            data: Mapped::new(&object, ".data")?,
            links: Mapped::new(&object, "links")?,
            packets: Mapped::new(&object, "packet_records")?,
            object,
        })
    }
}

/// Writes the links of the plan to the maps of the programs.
fn fill(object: &Object, planned: &[PlannedLink]) -> Result<()> {
    let links: Mapped<LinkState> = Mapped::new(object, "links")?;
    let steps: Mapped<ServiceStep> = Mapped::new(object, "steps")?;
    let all_phases: Mapped<Phase> = Mapped::new(object, "phases")?;
    let (mut step, mut phase) = (0, 0);
    for (place, link) in planned.iter().enumerate() {
        let (first_step, first_phase) = (step, phase);
        for value in service_steps(link) {
            steps.set(step, value);
            step += 1;
        }
        for value in phases(link) {
            all_phases.set(phase, value);
            phase += 1;
        }
        links.set(
            place,
            LinkState {
                first_step: u32::try_from(first_step)?,
                steps: u32::try_from(step - first_step)?,
                first_phase: u32::try_from(first_phase)?,
                phases: u32::try_from(phase - first_phase)?,
                ..at_start(link)
            },
        );
    }
    Ok(())
}

fn attach(object: &Object, devices: &[[CableDevice; 2]]) -> Result<()> {
    let program = |name: &str| object.progs().find(|p| p.name() == name).with_context(|| format!("no program {name}"));
    let (pass, transmit) = (program("pass")?, program("transmit")?);
    let ends = object.maps().find(|m| m.name() == "ends").context("no map ends")?;
    for cable in devices {
        for (device, other) in [(cable[0], cable[1]), (cable[1], cable[0])] {
            let end = [other.ifindex.cast_unsigned(), u32::try_from(device.link)?];
            ends.update(&device.ifindex.to_ne_bytes(), bytemuck::bytes_of(&end), MapFlags::ANY)?;
            for (program, side) in [(&pass, TC_INGRESS), (&transmit, TC_EGRESS)] {
                let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(device.ifindex).replace(true).hook(side);
                hook.create().context("cannot create a clsact qdisc")?;
                hook.attach().context("cannot attach to a cable")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::link_model::{Fate, LinkModel};
    use hotcc_lab_proto::plan::{PlannedPhase, PlannedPolice};
    use hotcc_lab_proto::records::{LOST, POLICED, QUEUE_DROP, SENT};
    use hotcc_testbed::kernel::is_root;
    use libbpf_rs::ProgramInput;

    const LOOPBACK: i32 = 1;
    const PACKETS: u64 = 4000;
    /// Size of `struct __sk_buff`; `TSTAMP` is the offset of its `tstamp`.
    const CONTEXT_BYTES: usize = 192;
    const TSTAMP: usize = 152;

    /// Returns a link with everything at once: rates that change and pause, loss, bit errors, jitter, reordering, a
    /// second phase, and for a while a new one every 20 us.
    fn busy_link(seed: u64) -> PlannedLink {
        let phase = PlannedPhase {
            delay_ns: 3_000_000,
            jitter_ns: 2_000_000,
            hold_ns: 7_000_000,
            reorder: 0.05,
            loss: 0.03,
            bit_error: 2e-6,
            ..PlannedPhase::default()
        };
        let later = PlannedPhase { from_ns: 900_000_000, delay_ns: 1_000_000, loss: 0.2, ..PlannedPhase::default() };
        let often = (0..2000).map(|n| PlannedPhase {
            from_ns: 1_100_000_000 + n * 20_000,
            delay_ns: 1_000_000 + n * 1000,
            ..PlannedPhase::default()
        });
        PlannedLink {
            name: "x:a>b".to_owned(),
            seed,
            step_ns: 10_000_000,
            rates: vec![(30, 20_000_000), (5, 0), (1, 3_333_333), (20, 7_654_321), (200, 33_000_001)],
            queue_bytes: 40_000,
            mark_bytes: 20_000,
            phases: [phase, later].into_iter().chain(often).collect(),
            ..PlannedLink::default()
        }
    }

    #[test]
    fn the_model_reckons_as_the_program_in_the_kernel_does() {
        const NAME: &str = "the_model_reckons_as_the_program_in_the_kernel_does";
        if !is_root(NAME) {
            return;
        }
        let police = Some(PlannedPolice { rate_bps: 15_000_001, burst_bytes: 4567 });
        for (seed, police) in [(1, None), (0xdead_beef_0000_0001, None), (7, police)] {
            let link = PlannedLink { police, ..busy_link(seed) };
            let plan = Plan { links: vec![link.clone()], packet_records: PACKETS as u32, ..Plan::default() };
            let programs = Programs::load(&plan).unwrap();
            let ends = programs.object.maps().find(|m| m.name() == "ends").unwrap();
            let end = [9u32, 0];
            ends.update(&LOOPBACK.to_ne_bytes(), bytemuck::bytes_of(&end), MapFlags::ANY).unwrap();
            let transmit = programs.object.progs_mut().find(|p| p.name() == "transmit").unwrap();
            let mut zero_ns = hotcc_abi::clock::monotonic_ns();
            let mut model = LinkModel::new(&link);
            let (mut lost, mut dropped, mut policed, mut sent) = (0, 0, 0, 0);
            for packet in 0..PACKETS {
                // each packet arrives later than the one before, by a third of a millisecond on average
                zero_ns -= packet * 7919 % 660_000;
                programs.data.set(TIME_ZERO, zero_ns);
                let length = 60 + (packet * 3571 % 1440) as usize;
                let (data, mut context) = (vec![0u8; length], vec![0u8; CONTEXT_BYTES]);
                let input =
                    ProgramInput { data_in: Some(&data), context_out: Some(&mut context), ..ProgramInput::default() };
                let verdict = transmit.test_run(input).unwrap().return_value;
                let record = programs.packets.get(packet as usize);
                let offer = model.offer(record.time_ns, record.bytes, 1);
                assert_eq!(record.bytes as usize, length - 14);
                assert_eq!((record.queue_bytes, record.wait_ns), (offer.queue_bytes, offer.wait_ns), "packet {packet}");
                match offer.fate {
                    Fate::Leaves { at_ns, .. } => {
                        let tstamp = u64::from_ne_bytes(context[TSTAMP..TSTAMP + 8].try_into().unwrap());
                        assert_eq!((record.fate(), verdict), (SENT, 0), "packet {packet}");
                        assert_eq!(tstamp, zero_ns + at_ns, "packet {packet}");
                        sent += 1;
                    }
                    Fate::Lost => {
                        assert_eq!((record.fate(), verdict), (LOST, 2), "packet {packet}");
                        lost += 1;
                    }
                    Fate::QueueDrop => {
                        assert_eq!((record.fate(), verdict), (QUEUE_DROP, 2), "packet {packet}");
                        dropped += 1;
                    }
                    Fate::Policed => {
                        assert_eq!((record.fate(), verdict), (POLICED, 2), "packet {packet}");
                        policed += 1;
                    }
                }
            }
            let counts = format!("{lost} lost, {dropped} dropped, {policed} policed, {sent} sent");
            assert!(lost > 100 && dropped > 100 && sent > 1000, "{counts}");
            assert_eq!(policed > 100, police.is_some(), "{counts}");
            let (theirs, ours) = (programs.links.get(0), model.state());
            assert_eq!(
                (theirs.position, theirs.free_ns, theirs.release_ns),
                (ours.position, ours.free_ns, ours.release_ns)
            );
            assert_eq!(LinkEnd::from(&theirs), LinkEnd::from(ours));
        }
    }
}
