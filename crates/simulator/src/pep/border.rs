//! The border of a PEP: which segments it saw, and when it reports them (bpf/progs/pep_border.bpf.c, and the agent's
//! pep-agent/src/border/report_sender.rs).

use super::seen::Seen;
use crate::packet::{Data, Report};
use std::collections::{BTreeMap, VecDeque};

/// The agent's defaults, `--segments` and `--delay-us`.
const SEGMENTS: u32 = 16;
const DELAY_US: u32 = 250;
/// The agent switches to polling after this many consecutive batches, and back after as many empty polls.
const IN_A_ROW: u32 = 4;
/// Maximum time for which the agent leaves the ring alone.
const MAX_GATHER_NS: u64 = 400_000;

/// A flow (`struct flow`).
#[derive(Debug, Default)]
struct Watched {
    seen: Seen,
    segments: u32,
    unreported: u32,
    /// Time of the last segment.
    seen_ns: Option<u64>,
    /// Time of the first segment that was neither reported nor queued alone.
    since_ns: Option<u64>,
}

impl Watched {
    /// `take_report`.
    fn take_report(&mut self, flow: u16) -> Report {
        let mut report = Report {
            flow,
            in_order: self.seen.in_order,
            range_count: self.seen.ranges.len() as u8,
            segments: self.segments,
            seen_ns: self.seen_ns.unwrap_or_default(),
            ..Report::default()
        };
        for (to, from) in report.ranges.iter_mut().zip(&self.seen.ranges) {
            *to = *from;
        }
        self.unreported = 0;
        self.since_ns = None;
        report
    }
}

/// A flow that waits for its report (`struct waiting`); for a segment that comes alone, the report.
#[derive(Debug)]
struct Waiting {
    flow: u16,
    since_ns: u64,
    alone: Option<Report>,
}

/// The agent, while it runs.
#[derive(Debug, Default)]
struct Agent {
    polls: bool,
    in_a_row: u32,
    /// End of its sleep; `None` while it waits for a report.
    sleeps_until_ns: Option<u64>,
}

/// The border.
#[derive(Debug)]
pub(super) struct Border {
    report_segments: u32,
    delay_ns: u64,
    gather_ns: u64,
    flows: BTreeMap<u16, Watched>,
    waiting: VecDeque<Waiting>,
    /// When the timer fires, if it runs.
    timer_ns: Option<u64>,
    is_polling: bool,
    ring: Vec<Report>,
    agent: Option<Agent>,
    /// Number of the agent's starts: each run has its own epoch.
    runs: u32,
}

impl Border {
    /// Starts the border with these options, or the agent's defaults.
    pub fn start(segments: Option<u32>, delay_us: Option<u32>) -> Self {
        let delay_ns = u64::from(delay_us.unwrap_or(DELAY_US)) * 1000;
        Self {
            report_segments: segments.unwrap_or(SEGMENTS),
            delay_ns,
            gather_ns: (delay_ns * 3 / 2).min(MAX_GATHER_NS),
            flows: BTreeMap::new(),
            waiting: VecDeque::new(),
            timer_ns: None,
            is_polling: false,
            ring: Vec::new(),
            agent: Some(Agent::default()),
            runs: 1,
        }
    }

    /// Starts the agent again, or kills it. The BPF programs stay attached, and the flows are kept; what the programs
    /// report meanwhile is too old when the agent starts again.
    pub fn set_running(&mut self, runs: bool) {
        self.agent = runs.then(Agent::default);
        self.runs += u32::from(runs);
        (self.is_polling, self.timer_ns) = (false, None);
        self.ring.clear();
    }

    /// Returns the number of the agent's run; `None` if it does not run.
    pub fn run(&self) -> Option<u32> {
        self.agent.is_some().then_some(self.runs)
    }

    /// The server's SYN passes.
    pub fn begin(&mut self, now_ns: u64, flow: u16) {
        self.flows.insert(flow, Watched { seen_ns: Some(now_ns), ..Watched::default() });
    }

    /// The client's SYN passes: "another flow begins".
    pub fn end(&mut self, flow: u16) {
        self.flows.remove(&flow);
    }

    /// The client's ACK passes (`watch_acks`).
    pub fn acknowledged(&mut self, flow: u16, ack: u64) {
        if let Some(watched) = self.flows.get_mut(&flow) {
            watched.seen.acknowledged(ack);
        }
    }

    /// A data segment of the server passes (`note`, `watch_segment`).
    pub fn data(&mut self, now_ns: u64, flow: u16, data: &Data) {
        let (limit, delay_ns) = (self.report_segments, self.delay_ns);
        let watched =
            self.flows.entry(flow).or_insert_with(|| Watched { seen: Seen::from(data.seq), ..Watched::default() });
        let changed_gaps = watched.seen.segment(data.seq, data.seq + u64::from(data.len));
        let was_silent = watched.seen_ns.is_none_or(|seen_ns| now_ns - seen_ns >= delay_ns);
        let is_alone =
            watched.since_ns.is_none() && watched.seen.ranges.is_empty() && data.segments < limit && was_silent;
        watched.seen_ns = Some(now_ns);
        watched.segments = watched.segments.wrapping_add(data.segments);
        watched.unreported = data.segments + if is_alone { 0 } else { watched.unreported };
        let mut waits = None;
        if is_alone {
            let (in_order, segments) = (watched.seen.in_order, watched.segments);
            let alone = Report { flow, in_order, segments, seen_ns: now_ns, ..Report::default() };
            waits = Some(Waiting { flow, since_ns: now_ns, alone: Some(alone) });
        } else if watched.since_ns.is_none() {
            watched.since_ns = Some(now_ns);
            waits = Some(Waiting { flow, since_ns: now_ns, alone: None });
        }
        let is_overdue = watched.since_ns.is_some_and(|since_ns| now_ns - since_ns >= delay_ns);
        if changed_gaps || watched.unreported >= limit || is_overdue {
            let report = watched.take_report(flow);
            self.tell(report);
        } else if let Some(waits) = waits {
            self.waiting.push_back(waits);
            self.rearm(now_ns);
        }
    }

    /// Returns when the timer or the agent is due.
    pub fn next_ns(&self) -> Option<u64> {
        let agent_ns = self.agent.as_ref().and_then(|agent| agent.sleeps_until_ns);
        self.timer_ns.into_iter().chain(agent_ns).min()
    }

    /// Lets the timer and the agent do what is due. Returns the reports to send: of each flow, the newest.
    pub fn wake(&mut self, now_ns: u64) -> Vec<Report> {
        if self.timer_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.fire(now_ns);
        }
        let Some(mut agent) = self.agent.take() else { return Vec::new() };
        let mut newest = Vec::new();
        if agent.sleeps_until_ns.map_or(!self.ring.is_empty(), |until_ns| until_ns <= now_ns) {
            newest = self.read(now_ns, &mut agent);
        }
        self.agent = Some(agent);
        newest
    }

    /// The body of the agent's loop, without its wait for reports.
    fn read(&mut self, now_ns: u64, agent: &mut Agent) -> Vec<Report> {
        if agent.polls {
            self.is_polling = true; // `border_poll`
            self.sweep(now_ns);
        }
        let mut newest = BTreeMap::new();
        for report in self.ring.drain(..) {
            let kept = newest.entry(report.flow).or_insert(report);
            if report.seen_ns / 1000 >= kept.seen_ns / 1000 {
                *kept = report;
            }
        }
        let found = !newest.is_empty();
        agent.in_a_row = if found == agent.polls { 0 } else { agent.in_a_row + 1 };
        if agent.in_a_row == IN_A_ROW {
            (agent.polls, agent.in_a_row) = (!agent.polls, 0);
            if !agent.polls {
                self.is_polling = false; // `border_end_poll`
                if !self.waiting.is_empty() {
                    self.rearm(now_ns);
                }
            }
        }
        agent.sleeps_until_ns = (found || agent.polls).then_some(now_ns + self.gather_ns);
        newest.into_values().collect()
    }

    fn tell(&mut self, report: Report) {
        if self.agent.is_some() {
            self.ring.push(Report { run: self.runs, ..report });
        }
    }

    /// `rearm`.
    fn rearm(&mut self, now_ns: u64) {
        if !self.is_polling && self.timer_ns.is_none() {
            self.timer_ns = Some(now_ns + self.delay_ns);
        }
    }

    /// `sweep_waiting`.
    fn fire(&mut self, now_ns: u64) {
        self.timer_ns = None;
        if !self.is_polling {
            self.sweep(now_ns);
            self.timer_ns = self.waiting.front().map(|first| (first.since_ns + self.delay_ns).max(now_ns + 1));
        }
    }

    /// `sweep`: reports are up to a quarter of the delay early, so that one sweep takes several.
    fn sweep(&mut self, now_ns: u64) {
        let early_ns = self.delay_ns - self.delay_ns / 4;
        while let Some(waits) = self.waiting.pop_front_if(|waits| waits.since_ns + early_ns <= now_ns) {
            if let Some(alone) = waits.alone {
                self.tell(alone);
            } else if let Some(watched) = self.flows.get_mut(&waits.flow)
                && watched.since_ns == Some(waits.since_ns)
            {
                let report = watched.take_report(waits.flow);
                self.tell(report);
            }
        }
    }
}

#[cfg(test)]
#[path = "border_tests.rs"]
mod tests;
