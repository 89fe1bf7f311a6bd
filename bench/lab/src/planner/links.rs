//! The links of a plan: rates over time from constants, radios, changes and handovers; delays and losses in phases.

use super::network::Network;
use crate::scenario::{Discipline, FASTEST_BPS, Place, Police, Queue, Scenario, Way};
use crate::traces::TraceFiles;
use anyhow::{Context, Result, anyhow, bail};
use hotcc_channel_model::{Radio, STEP};
use hotcc_lab_proto::plan::{PlannedLink, PlannedPhase, PlannedPolice};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Lengths of a step: `COARSE_NS` if the rate is constant, `FINE_NS` if a radio drives it or an event changes the link.
const COARSE_NS: u64 = 100_000_000;
const FINE_NS: u64 = 10_000_000;
/// Time for which rates continue after the end, so that packets that are queued at the end still have a time to leave.
pub(super) const AFTER_THE_END: Duration = Duration::from_secs(5);
/// How often the delay follows a radio's round-trip time. A link's program skips only a few phases per packet, so
/// shorter phases would leave a link with a stale delay after an idle time.
const RTT_STEP: Duration = Duration::from_millis(100);
/// Minimum size of a queue, which applies for example if the base RTT is 0.
const MIN_QUEUE_BYTES: u64 = 3000;
/// Maximum burst: its tokens still fit into 64 bits.
const MAX_BURST_BYTES: u64 = 1 << 30;

pub(super) struct LinkPlanner<'a> {
    pub scenario: &'a Scenario,
    pub network: &'a Network<'a>,
    pub seed: u64,
    pub traces: &'a TraceFiles,
    pub duration: Duration,
    /// The radios that drive links, by the link's index.
    pub radios: BTreeMap<usize, Radio>,
}

/// Returns a seed for one purpose, so that the draws for one purpose do not affect those for another.
pub(super) fn stream_seed(seed: u64, purpose: &str) -> u64 {
    let digest = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(purpose).finalize();
    digest.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

impl LinkPlanner<'_> {
    /// Plans all links. `first_crossing` returns the path of the first flow that crosses a link.
    pub fn plan(&mut self, first_crossing: &dyn Fn(usize) -> Option<Vec<usize>>) -> Result<Vec<PlannedLink>> {
        let mut links = Vec::new();
        for link in 0..2 * self.network.cables.len() {
            links.push(self.plan_one(link)?);
        }
        for (place, link) in links.iter_mut().enumerate() {
            // A radio drives one direction, but its round-trip time applies to both.
            let rtt = |place| self.radios.get(&place).and_then(|radio| radio.base_rtt_ms.as_deref());
            if let Some(rtt_ms) = rtt(place).or_else(|| rtt(place ^ 1)) {
                link.phases = with_rtt(&link.phases, rtt_ms);
            }
        }
        for link in 0..links.len() {
            let (cable, way, name) = self.network.direction(link);
            let mtu = u64::from(*cable.link.mtu.get_ref());
            links[link].police = way.police.as_ref().map(|police| planned_police(police.get_ref(), mtu));
            if links[link].rates.is_empty() {
                continue;
            }
            let bdp_bytes = || -> Result<f64> {
                let forward = first_crossing(link).or_else(|| first_crossing(link ^ 1));
                let forward = forward.with_context(|| {
                    format!("cannot size the queue of {name} in BDPs: no flow crosses it; use bytes or packets")
                })?;
                let delays = forward.iter().map(|l| links[*l].phases[0].delay_ns + links[*l ^ 1].phases[0].delay_ns);
                let rate_bps = mean_rate_bps(&links[link], self.duration);
                Ok(rate_bps * delays.sum::<u64>() as f64 / 1e9 / 8.0)
            };
            let bytes = |queue: Queue| -> Result<u64> {
                Ok(match queue {
                    Queue::Bytes(bytes) => bytes,
                    Queue::Packets(packets) => packets * mtu,
                    Queue::Bdp(times) => (times * bdp_bytes()?) as u64,
                })
            };
            let queue = way.queue.as_ref().map(|queue| queue.get_ref().clone()).unwrap_or_default();
            let by_default = queue.discipline.as_ref().map_or(Queue::Bdp(1.0), Discipline::default_limit);
            let room = queue.limit.unwrap_or(by_default);
            let (queue_bytes, mark_bytes) =
                (bytes(room)?.max(MIN_QUEUE_BYTES), way.mark_above.as_ref().map_or(Ok(0), |q| bytes(*q.get_ref()))?);
            links[link].queue_bytes = queue_bytes;
            links[link].mark_bytes = mark_bytes;
            let seed = stream_seed(self.seed, &format!("queue {name}"));
            links[link].discipline = queue.discipline.map(|discipline| discipline.parameters(mtu as u32, seed));
        }
        Ok(links)
    }

    fn plan_one(&mut self, link: usize) -> Result<PlannedLink> {
        let (cable, mut way, name) = self.network.direction(link);
        let changes = self.changes(cable.link.name.get_ref(), link.is_multiple_of(2));
        let moves = way.radio.is_some() || !changes.is_empty();
        let step_ns = if moves { FINE_NS } else { COARSE_NS };
        let length = self.duration + AFTER_THE_END;
        let steps = (length.as_nanos() as u64).div_ceil(step_ns) as usize;
        let mut phases = vec![phase(&way, 0)];
        let (mut rates, mut radio) = self.rates(&way, cable.member, steps, length)?;
        let mut gaps = Vec::new();
        for change in changes {
            let at_step = (ns(change.at_s * 1e3) / step_ns) as usize;
            let gap_steps = ns(change.gap_ms).div_ceil(step_ns) as usize;
            let before = way.clone();
            way = way.with(&change.way);
            if way.radio.is_some() || way.rate != before.rate {
                let (later, later_radio) = self.rates(&way, cable.member, steps, length)?;
                radio = match (radio, later_radio) {
                    (Some(first), Some(then)) => Some(spliced(first, &then, at_step)),
                    // Before the event there is no radio, and so no round-trip time of a radio.
                    (None, Some(mut then)) => {
                        then.base_rtt_ms.iter_mut().flatten().take(at_step).for_each(|ms| *ms = 0.0);
                        Some(then)
                    }
                    (first, None) => first,
                };
                match (rates.is_empty(), later.is_empty()) {
                    (false, false) => rates.truncate(at_step.min(steps)),
                    (true, true) => {}
                    _ => bail!("{name}: an event cannot add a rate to a link without one"),
                }
                rates.extend(later.iter().skip(rates.len()));
            }
            gaps.push(at_step.min(steps)..(at_step + gap_steps).min(steps));
            phases.push(phase(&way, ns(change.at_s * 1e3)));
        }
        // applied last, so that other changes do not end a handover's gap
        for gap in gaps {
            rates.get_mut(gap).unwrap_or_default().fill(0);
        }
        // packets that wait at the end need a rate to wait for, or they would be dropped
        if rates.last() == Some(&0) {
            rates.push(rates.iter().rfind(|rate| **rate > 0).copied().unwrap_or(1));
        }
        self.radios.extend(radio.map(|radio| (link, radio)));
        let seed = stream_seed(self.seed, &format!("link {name}"));
        let cell = way.cell.as_ref().and_then(|cell| self.scenario.cells().keys().position(|c| *c == cell.get_ref()));
        Ok(PlannedLink {
            name,
            seed,
            step_ns,
            rates: runs(&rates),
            queue_bytes: 0,
            mark_bytes: 0,
            discipline: None,
            police: None,
            phases,
            cell,
        })
    }

    /// Returns the rate of each step, which is empty if there is no limit, and the radio that determines it.
    fn rates(&self, way: &Way, member: usize, steps: usize, length: Duration) -> Result<(Vec<u64>, Option<Radio>)> {
        if let Some(name) = &way.radio {
            let spec = self.scenario.radio(name.get_ref()).context("no such radio")?;
            let seed = stream_seed(self.seed, &format!("radio {} {member}", name.get_ref()));
            let here = || Place::of(spec, format!("radio `{}`", name.get_ref()));
            let found = self.traces.found(spec.get_ref()).with_context(here)?;
            // The paths of the files are resolved, so the base directory has no effect.
            let radio = found.realise(Path::new(""), seed, length).with_context(here)?;
            let peak_bps = radio.capacity_bps.iter().copied().max().unwrap_or_default();
            if peak_bps as f64 > FASTEST_BPS {
                return Err(anyhow!("its capacity reaches {peak_bps} bit/s: expected at most 100 Gbit/s"))
                    .with_context(here);
            }
            return Ok((radio.capacity_bps.clone(), Some(radio)));
        }
        Ok((way.rate.as_ref().map_or_else(Vec::new, |rate| vec![rate.get_ref().0; steps]), None))
    }

    /// Returns the changes that events make to one direction of a link, in order.
    fn changes(&self, link: &str, is_forward: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for event in &self.scenario.event {
            let at_s = *event.at_s.get_ref();
            if let Some(change) = event.change.as_ref().filter(|c| c.link.get_ref() == link) {
                let over = if is_forward { &change.forward } else { &change.reverse };
                changes.push(Change { at_s, gap_ms: 0.0, way: change.both.with(over) });
            }
            if let Some(handover) = event.handover.as_ref().filter(|h| h.link.get_ref() == link) {
                let radio = is_forward.then(|| handover.radio.clone());
                let way = Way { radio, delay_ms: handover.delay_ms.clone(), ..Way::default() };
                changes.push(Change { at_s, gap_ms: if is_forward { handover.gap_ms } else { 0.0 }, way });
            }
        }
        changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        changes
    }
}

/// Returns a radio that is `first` up to a step, and `then` from this step on.
fn spliced(mut first: Radio, then: &Radio, at_step: usize) -> Radio {
    fn splice<T: Clone>(first: &mut Vec<T>, then: &[T], at: usize) {
        first.truncate(at);
        first.extend(then.iter().skip(first.len()).cloned());
    }
    match (&mut first.sinr_db, &then.sinr_db) {
        (Some(first), Some(then)) => splice(first, then, at_step),
        (first, _) => *first = None,
    }
    let rtt = |radio: &Radio| radio.base_rtt_ms.clone().unwrap_or_else(|| vec![0.0; radio.capacity_bps.len()]);
    if first.base_rtt_ms.is_some() || then.base_rtt_ms.is_some() {
        let mut base_rtt_ms = rtt(&first);
        splice(&mut base_rtt_ms, &rtt(then), at_step);
        first.base_rtt_ms = Some(base_rtt_ms);
    }
    splice(&mut first.capacity_bps, &then.capacity_bps, at_step);
    splice(&mut first.line_of_sight, &then.line_of_sight, at_step);
    splice(&mut first.distance_m, &then.distance_m, at_step);
    first
}

struct Change {
    at_s: f64,
    gap_ms: f64,
    way: Way,
}

fn phase(way: &Way, from_ns: u64) -> PlannedPhase {
    let time = |t: &Option<toml::Spanned<f64>>| t.as_ref().map_or(0, |ms| ns(*ms.get_ref()));
    let share = |p: &Option<toml::Spanned<crate::scenario::Probability>>| p.as_ref().map_or(0.0, |p| p.get_ref().0);
    PlannedPhase {
        from_ns,
        delay_ns: time(&way.delay_ms),
        jitter_ns: time(&way.jitter_ms),
        reorder: share(&way.reorder),
        hold_ns: time(&way.reorder_ms),
        loss: share(&way.loss),
        bit_error: share(&way.bit_error),
    }
}

fn planned_police(police: &Police, mtu: u64) -> PlannedPolice {
    let burst_bytes = match *police.burst.get_ref() {
        Queue::Bytes(bytes) => bytes,
        Queue::Packets(packets) => packets * mtu,
        Queue::Bdp(_) => 0, // rejected by the check of the scenario
    };
    // a bucket smaller than a packet would let no packet pass
    PlannedPolice { rate_bps: police.rate.get_ref().0, burst_bytes: burst_bytes.clamp(mtu, MAX_BURST_BYTES) }
}

/// Returns phases whose delays are increased by half of a changing round-trip time.
fn with_rtt(phases: &[PlannedPhase], rtt_ms: &[f32]) -> Vec<PlannedPhase> {
    let steps = (RTT_STEP.as_nanos() / STEP.as_nanos()) as usize;
    let mut starts: Vec<u64> = (0..rtt_ms.len()).step_by(steps).map(|step| step as u64 * FINE_NS).collect();
    starts.extend(phases.iter().map(|phase| phase.from_ns));
    starts.sort_unstable();
    starts.dedup();
    let mut with: Vec<PlannedPhase> = Vec::new();
    for from_ns in starts {
        let base = phases.iter().rfind(|phase| phase.from_ns <= from_ns).copied().unwrap_or_default();
        let step = (from_ns / FINE_NS) as usize / steps * steps;
        let rtt_ms = rtt_ms.get(step).or(rtt_ms.last()).copied().unwrap_or_default();
        let phase = PlannedPhase { from_ns, delay_ns: base.delay_ns + ns(f64::from(rtt_ms) / 2.0), ..base };
        if with.last().is_none_or(|last| PlannedPhase { from_ns, ..*last } != phase) {
            with.push(phase);
        }
    }
    with
}

/// Merges equal neighbours, and counts them.
fn runs(rates: &[u64]) -> Vec<(u32, u64)> {
    rates.chunk_by(|a, b| a == b).map(|run| (run.len() as u32, run[0])).collect()
}

/// Returns the mean rate over the run, without the time after its end.
pub(crate) fn mean_rate_bps(link: &PlannedLink, duration: Duration) -> f64 {
    let steps = (duration.as_nanos() as u64).div_ceil(link.step_ns).max(1) as usize;
    link.rates_by_step().take(steps).map(|rate| rate as f64).sum::<f64>() / steps as f64
}
