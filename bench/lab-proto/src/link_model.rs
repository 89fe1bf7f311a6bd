//! One direction of a link in Rust. It computes exactly the same numbers as `bpf/lab/link.bpf.c`, for kernels that
//! cannot hold packets until they are due.
//!
//! First comes a policer; then a first-in-first-out queue, which is served at a rate that changes over time; then loss,
//! delay, jitter and reordering. The rate's future is known, so the complete fate of a packet is known when it arrives.
//! Sums wrap around exactly where they do in the BPF program.

use crate::plan::PlannedLink;
use crate::records::{LinkState, Phase, ServiceStep, of_2_32, survival};
use crate::splitmix;

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;
/// Millibits in a byte.
pub const MILLIBITS_PER_BYTE: u64 = 8000;
/// Tokens per byte: a token is one billionth of a bit.
const TOKENS_PER_BYTE: u64 = 8_000_000_000;

/// Purposes of random numbers: each has its own stream.
#[derive(Clone, Copy)]
enum Draw {
    Loss = 1,
    BitError,
    Jitter,
    Reorder,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet leaves the link.
    Leaves {
        /// Time since the start at which it leaves.
        at_ns: u64,
        /// Whether it found a queue so long that ECN-capable packets are marked.
        mark: bool,
    },
    /// The packet finds the queue full and is dropped.
    QueueDrop,
    /// The packet is lost after the queue.
    Lost,
    /// The policer drops the packet.
    Policed,
}

/// What happened to a packet in its queue in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The packet was served.
    Served {
        /// Whether the queue's discipline marked it.
        marked: bool,
    },
    /// The queue dropped the packet.
    Dropped,
}

/// What a packet finds in the queue, and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes in the queue when the packet arrives.
    pub queue_bytes: u32,
    /// Time that the packet waits for the packets ahead of it.
    pub wait_ns: u64,
    /// The packet's fate.
    pub fate: Fate,
}

/// A packet that has arrived at a link.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    number: u64,
    phase: usize,
    /// Length of the IP packet.
    pub bytes: u32,
    segments: u32,
}

/// One direction of a link, with its state.
#[derive(Clone, Debug)]
pub struct LinkModel {
    state: LinkState,
    steps: Vec<ServiceStep>,
    phases: Vec<Phase>,
}

/// Returns a link's rates in the form that the model and the kernel's program read.
#[must_use]
pub fn service_steps(link: &PlannedLink) -> Vec<ServiceStep> {
    let mut before = 0;
    let step = |rate_bps: u64| {
        let step = ServiceStep { before, rate_bps };
        // rate times time in ns over 10^6, in millibits
        before += rate_bps * link.step_ns / NS_PER_MS;
        step
    };
    link.rates_by_step().map(step).collect()
}

/// Returns what follows the queue, in the form that the model and the kernel's program read.
#[must_use]
pub fn phases(link: &PlannedLink) -> Vec<Phase> {
    let phase = |p: &crate::plan::PlannedPhase| Phase {
        from_ns: p.from_ns,
        delay_ns: p.delay_ns,
        jitter_ns: p.jitter_ns,
        hold_ns: p.hold_ns,
        loss: of_2_32(p.loss),
        reorder: of_2_32(p.reorder),
        survival: survival(p.bit_error),
        bit_errors: u32::from(p.bit_error > 0.0),
        pad: 0,
    };
    link.phases.iter().map(phase).collect()
}

/// Returns the state of a link at time 0: the queue is empty, and the policer's bucket is full.
#[must_use]
pub fn at_start(link: &PlannedLink) -> LinkState {
    let police_tokens = link.police.map_or(0, |police| police.burst_bytes * TOKENS_PER_BYTE);
    LinkState {
        seed: link.seed,
        step_ns: link.step_ns,
        queue_bytes: link.queue_bytes,
        mark_bytes: link.mark_bytes,
        keeps_records: u32::from(link.keeps_records()),
        police_bps: link.police.map_or(0, |police| police.rate_bps),
        police_tokens,
        tokens: police_tokens,
        ..LinkState::default()
    }
}

impl LinkModel {
    /// Creates a link in its state at time 0.
    #[must_use]
    pub fn new(link: &PlannedLink) -> Self {
        Self { state: at_start(link), steps: service_steps(link), phases: phases(link) }
    }

    /// Offers the link a packet of `bytes` of IP, or a bundle of several packets, and returns its fate. `now_ns` must
    /// never decrease from call to call.
    pub fn offer(&mut self, now_ns: u64, bytes: u32, segments: u32) -> Offer {
        let packet = self.arrive(now_ns, bytes, segments);
        let mut offer = Offer { queue_bytes: 0, wait_ns: 0, fate: Fate::QueueDrop };
        let mut leaves_ns = now_ns;
        if self.polices(&packet, now_ns) {
            return Offer { fate: Fate::Policed, ..offer };
        }
        if !self.steps.is_empty() {
            let Some(at_ns) = self.enqueue(&mut offer, now_ns, bytes) else {
                self.refuse(&packet);
                return offer;
            };
            leaves_ns = at_ns;
        }
        offer.fate = self.leave(&packet, offer.queue_bytes, leaves_ns);
        offer
    }

    /// Counts a packet that arrives, without queueing it. The cell decides later what happens to it in the queue.
    pub fn arrive(&mut self, now_ns: u64, bytes: u32, segments: u32) -> Packet {
        let number = self.state.arrived;
        self.state.arrived += 1;
        Packet { number, phase: self.phase_at(now_ns), bytes, segments }
    }

    /// Returns whether the policer drops the packet.
    pub fn polices(&mut self, packet: &Packet, now_ns: u64) -> bool {
        let link = &mut self.state;
        if link.police_bps == 0 {
            return false;
        }
        let now_ns = now_ns.max(link.tokens_ns); // another processor may have read a later time but arrived first
        let passed_ns = now_ns - link.tokens_ns;
        let is_full = passed_ns > (link.police_tokens - link.tokens) / link.police_bps;
        link.tokens = if is_full { link.police_tokens } else { link.tokens + passed_ns * link.police_bps };
        link.tokens_ns = now_ns;
        let Some(left) = link.tokens.checked_sub(u64::from(packet.bytes) * TOKENS_PER_BYTE) else {
            link.police_drops += u64::from(packet.segments);
            return true;
        };
        link.tokens = left;
        false
    }

    /// Counts a packet that the queue drops.
    fn refuse(&mut self, packet: &Packet) {
        self.state.queue_drops += u64::from(packet.segments);
    }

    /// Returns the fate of a packet that has left its queue in a cell.
    pub fn end(&mut self, packet: &Packet, queue_bytes: u32, at_ns: u64, end: End) -> Fate {
        let End::Served { marked } = end else {
            self.refuse(packet);
            return Fate::QueueDrop;
        };
        match self.leave(packet, queue_bytes, at_ns) {
            Fate::Leaves { at_ns, mark } => Fate::Leaves { at_ns, mark: mark || marked },
            fate => fate,
        }
    }

    /// Returns the fate of a packet that has been served. The packet found `queue_bytes` bytes ahead of it when it
    /// arrived.
    fn leave(&mut self, packet: &Packet, queue_bytes: u32, mut leaves_ns: u64) -> Fate {
        let phase = &self.phases[packet.phase];
        // a lost packet was sent nevertheless: it took its time on the link
        let drawn = |purpose| draw(self.state.seed, packet.number, purpose);
        if drawn(Draw::Loss) < phase.loss
            || (phase.bit_errors > 0 && drawn(Draw::BitError) >= survives(&phase.survival, packet.bytes))
        {
            self.state.losses += u64::from(packet.segments);
            return Fate::Lost;
        }
        leaves_ns = leaves_ns.wrapping_add(phase.delay_ns);
        if phase.jitter_ns > 0 {
            leaves_ns += phase.jitter_ns.wrapping_mul(drawn(Draw::Jitter).into()) >> 32;
        }
        if phase.reorder > 0 && drawn(Draw::Reorder) < phase.reorder {
            leaves_ns += phase.hold_ns;
        } else {
            leaves_ns = leaves_ns.max(self.state.release_ns);
            self.state.release_ns = leaves_ns;
        }
        self.state.packets += u64::from(packet.segments);
        self.state.bytes += u64::from(packet.bytes);
        let mark = self.state.mark_bytes > 0 && u64::from(queue_bytes) > self.state.mark_bytes;
        Fate::Leaves { at_ns: leaves_ns, mark }
    }

    /// Returns the rate at `now_ns`, and the time until which this rate lasts; `None` if it lasts for ever.
    pub fn rate_at(&self, now_ns: u64) -> (u64, Option<u64>) {
        let step = (now_ns / self.state.step_ns) as usize;
        let until_ns = (step + 1 < self.steps.len()).then(|| (step as u64 + 1) * self.state.step_ns);
        (self.steps[step.min(self.steps.len() - 1)].rate_bps, until_ns)
    }

    /// Counts a packet that was marked.
    pub fn marked(&mut self, segments: u32) {
        self.state.ce_marks += u64::from(segments);
    }

    /// Returns the link's state and counts.
    #[must_use]
    pub fn state(&self) -> &LinkState {
        &self.state
    }

    /// Queues a packet, and returns the time at which it leaves the queue; `None` if there is no room.
    fn enqueue(&mut self, offer: &mut Offer, now_ns: u64, bytes: u32) -> Option<u64> {
        let done = self.served_by(now_ns);
        let start = done.max(self.state.position);
        offer.queue_bytes = ((start - done) / MILLIBITS_PER_BYTE) as u32;
        offer.wait_ns = self.state.free_ns.saturating_sub(now_ns);
        if u64::from(offer.queue_bytes) + u64::from(bytes) > self.state.queue_bytes {
            return None;
        }
        let position = start + u64::from(bytes) * MILLIBITS_PER_BYTE;
        let at = self.step_of(position - 1); // - 1: a packet that ends with a step leaves in it, not after a pause
        let step = self.steps[at];
        if step.rate_bps == 0 {
            return None; // the rate never comes back
        }
        self.state.position = position;
        self.state.hint = at as u32;
        let in_step = (position.wrapping_sub(step.before)).wrapping_mul(NS_PER_MS).wrapping_add(step.rate_bps - 1);
        self.state.free_ns = (at as u64 * self.state.step_ns).wrapping_add(in_step / step.rate_bps);
        let service_ns = u64::from(bytes) * 8_000_000_000 / step.rate_bps;
        offer.wait_ns = (self.state.free_ns - now_ns).saturating_sub(service_ns); // a pause is part of the wait
        Some(self.state.free_ns)
    }

    /// Returns the millibits that the link has served until `now_ns`.
    fn served_by(&self, now_ns: u64) -> u64 {
        let at = (now_ns / self.state.step_ns).min(self.steps.len() as u64 - 1);
        let step = self.steps[at as usize];
        let ns = now_ns - at * self.state.step_ns;
        step.before.wrapping_add(step.rate_bps.wrapping_mul(ns) / NS_PER_MS)
    }

    /// Returns the last step that begins at or before `position`. Positions never decrease.
    fn step_of(&self, position: u64) -> usize {
        let from = self.state.hint as usize;
        from + self.steps[from + 1..].partition_point(|s| s.before <= position)
    }

    /// Returns the index of the phase at `now_ns`. Time never decreases.
    fn phase_at(&mut self, now_ns: u64) -> usize {
        let from = self.state.phase as usize;
        self.state.phase = (from + self.phases[from + 1..].partition_point(|p| p.from_ns <= now_ns)) as u32;
        self.state.phase as usize
    }
}

/// Returns 32 uniformly distributed bits for a packet and a purpose.
fn draw(seed: u64, packet: u64, purpose: Draw) -> u32 {
    let number = packet.wrapping_mul(8).wrapping_add(purpose as u64);
    (splitmix::mixed(seed.wrapping_add(number.wrapping_mul(splitmix::STEP))) >> 32) as u32
}

/// Returns the probability, in units of 2^-32, that `bytes` arrive without a bit error: the product over the powers of
/// two that `bytes` is the sum of.
fn survives(powers: &[u32; 16], bytes: u32) -> u32 {
    let mut all = 0xffff_ffff_u64;
    for (power, survival) in powers.iter().enumerate() {
        if bytes & (1 << power) != 0 {
            all = (all * u64::from(*survival)) >> 32;
        }
    }
    all as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlannedPhase, PlannedPolice};

    fn link(phase: PlannedPhase) -> PlannedLink {
        PlannedLink {
            seed: 7,
            step_ns: 100_000_000,
            rates: vec![(1, 8_000_000), (1, 0), (8, 16_000_000)], // 1 byte/us, then a pause, then 2
            queue_bytes: 3000,
            phases: vec![phase],
            ..PlannedLink::default()
        }
    }

    fn leaves(offer: Offer) -> u64 {
        match offer.fate {
            Fate::Leaves { at_ns, .. } => at_ns,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn packets_wait_for_those_before_them_and_for_the_room_there_is() {
        let mut model = LinkModel::new(&link(PlannedPhase { delay_ns: 5_000_000, ..PlannedPhase::default() }));
        let first = model.offer(0, 1000, 1);
        assert_eq!((first.queue_bytes, first.wait_ns, leaves(first)), (0, 0, 6_000_000));
        let second = model.offer(500_000, 1000, 1);
        assert_eq!((second.queue_bytes, second.wait_ns, leaves(second)), (500, 500_000, 7_000_000));
        assert_eq!(leaves(model.offer(500_000, 1500, 1)), 8_500_000);
        let fourth = model.offer(500_000, 1, 1);
        assert_eq!((fourth.queue_bytes, fourth.fate), (3000, Fate::QueueDrop));
        assert_eq!((model.state().packets, model.state().bytes, model.state().queue_drops), (3, 3500, 1));
    }

    #[test]
    fn a_policer_lets_pass_what_its_bucket_has_and_queues_nothing() {
        let police = Some(PlannedPolice { rate_bps: 8_000_000, burst_bytes: 3000 }); // 1 byte/us
        let link = PlannedLink { rates: Vec::new(), police, ..link(PlannedPhase::default()) };
        let mut model = LinkModel::new(&link);
        let mut passes = |now_us: u64, bytes: u32| match model.offer(now_us * 1000, bytes, 1).fate {
            Fate::Leaves { at_ns, .. } => {
                assert_eq!(at_ns, now_us * 1000, "it waits for nothing");
                true
            }
            fate => {
                assert_eq!(fate, Fate::Policed);
                false
            }
        };
        // the whole bucket at once, then the tokens earned since; a dropped packet takes no tokens
        assert_eq!([passes(0, 1500), passes(0, 1500), passes(0, 1)], [true, true, false]);
        assert_eq!([passes(1499, 1500), passes(1500, 1500), passes(1500, 1)], [false, true, false]);
        // the bucket never holds more than its capacity
        assert_eq!([passes(900_000, 3001), passes(900_000, 3000), passes(900_000, 1)], [false, true, false]);
        // in the long run, packets pass at the policer's rate
        let passed = (0..10_000).filter(|n| passes(1_000_000 + n * 100, 1000)).count();
        assert!((1000..1004).contains(&passed), "{passed} of a thousand bytes in a second");
        assert_eq!(model.state().police_drops, 5 + 10_000 - passed as u64);
        assert_eq!(model.state().queue_drops, 0);
    }

    #[test]
    fn a_pause_holds_what_is_in_the_queue() {
        let mut model = LinkModel::new(&link(PlannedPhase::default()));
        // half of the packet leaves before the pause, the other half after it at twice the rate
        assert_eq!(leaves(model.offer(99_500_000, 1000, 1)), 200_250_000);
    }

    #[test]
    fn an_idle_link_has_the_delay_of_the_present() {
        let phases = (0..400).map(|n| PlannedPhase {
            from_ns: n * 100_000_000,
            delay_ns: n * 1_000_000,
            ..PlannedPhase::default()
        });
        let planned = PlannedLink { rates: Vec::new(), phases: phases.collect(), ..link(PlannedPhase::default()) };
        let mut model = LinkModel::new(&planned);
        assert_eq!(leaves(model.offer(30_000_000_000, 1500, 1)), 30_300_000_000);
        assert_eq!(leaves(model.offer(70_000_000_000, 1500, 1)), 70_399_000_000);
    }

    #[test]
    fn losses_and_reordering_come_at_their_rates() {
        let phase =
            PlannedPhase { loss: 0.1, reorder: 0.2, hold_ns: 1, jitter_ns: 1_000_000, ..PlannedPhase::default() };
        let mut model = LinkModel::new(&PlannedLink { rates: Vec::new(), ..link(phase) });
        let offers: Vec<Offer> = (0..10_000).map(|n| model.offer(n * 10_000_000, 1500, 1)).collect();
        let lost = offers.iter().filter(|o| o.fate == Fate::Lost).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert_eq!(model.state().losses as usize, lost);
        let mean_delay: u64 = offers
            .iter()
            .enumerate()
            .filter(|(_, o)| o.fate != Fate::Lost)
            .map(|(n, o)| leaves(*o) - n as u64 * 10_000_000)
            .sum();
        assert!((480_000..520_000).contains(&(mean_delay / (10_000 - lost as u64))), "{mean_delay}");
    }

    #[test]
    fn bits_that_go_wrong_lose_the_packets_that_have_them() {
        let mut model = LinkModel::new(&PlannedLink {
            rates: Vec::new(),
            ..link(PlannedPhase { bit_error: 1e-5, ..PlannedPhase::default() })
        });
        let lost = (0..10_000).filter(|n| model.offer(*n, 1500, 1).fate == Fate::Lost).count();
        // 1 - (1 - 1e-5)^12000
        assert!((1050..1210).contains(&lost), "{lost}");
    }
}
