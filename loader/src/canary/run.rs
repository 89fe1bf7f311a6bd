//! The canary from its start to its end.

use super::events::{Event, Log, Occasion};
use super::plan::{Plan, Request};
use super::records::{Record, Records};
use super::state::{Cohorts, Outcome, Running, State, dropped_records, policy_table};
use crate::failpoint;
use crate::registry::need_bpffs;
use hotcc_abi::clock::monotonic_ns;
use hotcc_canary::{Cohort, Judge, Verdict};
use hotcc_host::error::{Result, Tried, need_root};
use hotcc_host::service::Stop;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval};

/// Time after which the share expires, unless it is renewed.
pub const EXPIRY: Duration = Duration::from_secs(30);
/// Renewals in that time, so that one or two that fail do not matter.
const RENEWALS: u32 = 3;
/// Period at which the ring of records is read.
const POLL: Duration = Duration::from_millis(100);
/// Period of reports of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Options of `hotcc canary start`.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub request: Request,
    /// Time after which the share expires if this process is killed.
    pub expiry: Duration,
    /// The log.
    pub log: PathBuf,
}

/// Returns what a canary would do.
pub fn dry_run(request: &Request) -> Result<Plan> {
    need_root("hotcc canary start")?;
    need_bpffs()?;
    Plan::new(request).map(|(plan, _)| plan)
}

/// Runs a canary until it is promoted, rolled back or aborted. Calls `report` for each event, of which the last is
/// [`Occasion::End`]. Returns the final state.
///
/// # Errors
/// Fails if the canary cannot start, or if its rules cannot be removed; its share expires then.
pub fn start(options: &Options, report: impl FnMut(&Event)) -> Result<State> {
    need_root("hotcc canary start")?;
    need_bpffs()?;
    let (plan, pair) = Plan::new(&options.request)?;
    let log = Log::open(&options.log)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.tried(|| "cannot start a canary".to_owned())?.block_on(async {
        let mut stop = Stop::catch()?; // before anything changes
        let running = Running::begin(&plan, pair, options.expiry)?;
        let judge = Judge::new(options.request.guards.clone(), plan.min_connections, plan.shares.len() as u32);
        let mut canary = Canary {
            judge,
            step: 1,
            has_to_decide: false,
            began_ns: monotonic_ns(),
            seen: Cohorts::default(),
            dropped: 0,
            deadline: Instant::now() + options.request.limit,
            renewal: options.expiry / RENEWALS,
            plan,
            running,
            log,
            report,
        };
        canary.tell(Occasion::Start(canary.plan.clone()));
        canary.tell_step();
        let (outcome, reason) = match canary.watch(&mut stop).await {
            Ok(end) => end,
            Err(error) => (Some(Outcome::Abort), format!("{error:#}")),
        };
        canary.end(outcome, reason)
    })
}

struct Canary<F> {
    plan: Plan,
    running: Running,
    judge: Judge,
    /// From 1.
    step: u32,
    /// Whether to decide although no connection has ended since: the step has passed, but the next could not begin.
    has_to_decide: bool,
    began_ns: u64,
    /// Connections that began and ended in this step.
    seen: Cohorts,
    /// Connections that ended while the ring of records was full, in all steps.
    dropped: u64,
    deadline: Instant,
    renewal: Duration,
    log: Log,
    report: F,
}

/// How the canary ends, or `None` if another command has ended it; and why.
type End = (Option<Outcome>, String);

impl<F: FnMut(&Event)> Canary<F> {
    fn tell(&mut self, occasion: Occasion) {
        let event = Event::now(occasion);
        self.log.add(&event);
        (self.report)(&event);
    }

    fn tell_step(&mut self) {
        self.tell(Occasion::Step { step: self.step, share_percent: self.percent() });
    }

    fn percent(&self) -> f64 {
        self.plan.shares_percent.get(self.step as usize - 1).copied().unwrap_or(100.0)
    }

    async fn watch(&mut self, stop: &mut Stop) -> Result<End> {
        let mut records = Records::open(self.running.rules())?;
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut renewed, mut reported, mut dropped_reported) = (Instant::now(), Instant::now(), self.dropped);
        loop {
            tokio::select! {
                signal = stop.requested() => {
                    return Ok((Some(Outcome::Abort), format!("{signal} interrupted the canary at {}.", self.place())));
                }
                _ = poll.tick() => {}
            }
            let taken = records.take()?;
            let dropped = dropped_records()?; // after `take`, so that no record is missing that preceded these
            if monotonic_ns() >= self.running.expires_ns() {
                let why = "the share expired, because this process did not renew it in time";
                return Ok((Some(Outcome::Abort), format!("At {}, {why}.", self.place())));
            }
            if dropped != self.dropped {
                self.dropped = dropped;
                self.begin_again();
            } else if (self.add(&taken) || self.has_to_decide)
                && let Some(end) = self.decide()
            {
                return Ok(end);
            }
            if Instant::now() >= self.deadline {
                return Ok((Some(Outcome::Abort), self.too_late()));
            }
            if renewed.elapsed() >= self.renewal || self.running.is_over()? {
                renewed = Instant::now();
                if let Some(end) = self.renew()? {
                    return Ok(end);
                }
            }
            if reported.elapsed() >= PROGRESS {
                reported = Instant::now();
                if self.dropped != dropped_reported {
                    dropped_reported = self.dropped;
                    self.tell(Occasion::Dropped { step: self.step, dropped_records: self.dropped });
                }
                self.tell(Occasion::Progress { step: self.step, connections: self.seen });
            }
        }
    }

    /// Adds the connections that began in this step. Returns whether there are any.
    fn add(&mut self, records: &[Record]) -> bool {
        let mut is_new = false;
        for record in records.iter().filter(|record| record.began_ns >= self.began_ns) {
            match record.cohort {
                Cohort::Canary => self.seen.canary += 1,
                Cohort::Control => self.seen.control += 1,
            }
            self.judge.add(record.cohort, &record.connection);
            is_new = true;
        }
        is_new
    }

    /// Does what the judge decides, if it does. Returns the end of the canary, if it ends.
    fn decide(&mut self) -> Option<End> {
        self.has_to_decide = false;
        let verdict = self.judge.verdict();
        if matches!(verdict, Verdict::Continue(_)) {
            return None;
        }
        let next = self.plan.share_of(self.step + 1).filter(|_| matches!(verdict, Verdict::Pass(_)));
        if let Some(share) = next {
            failpoint::kill("canary-passed");
            match self.running.renew(self.step + 1, share) {
                Ok(None) => {}
                Ok(Some(state)) => return Some(self.ended_by_another(state)),
                // most likely another command holds the lock; the verdict will come again, and is told then
                Err(error) => {
                    tracing::warn!("cannot begin the next step yet: {error:#}");
                    self.has_to_decide = true;
                    return None;
                }
            }
        }
        self.tell(Occasion::Verdict { step: self.step, verdict: verdict.clone() });
        if next.is_some() {
            self.step += 1;
            self.begin_again();
            self.tell_step();
            return None;
        }
        Some(if matches!(verdict, Verdict::Fail(_)) {
            (Some(Outcome::RollBack), format!("At {}: {}", self.place(), verdict.explain()))
        } else {
            let held = "Every guard held in each step";
            (Some(Outcome::Promote), format!("{held}; at {}: {}", self.place(), verdict.explain()))
        })
    }

    /// Starts the comparison without any connections.
    ///
    /// Also if records were dropped. The kernel drops those of connections that end while the ring is full, whatever their
    /// cohort. But if one cohort's connections take longer, more of them may end then: the others are a biased sample.
    fn begin_again(&mut self) {
        self.seen = Cohorts::default();
        self.judge.next_step();
        self.began_ns = monotonic_ns();
    }

    /// Postpones the expiry. If another command holds the lock, the next renewal is early enough.
    fn renew(&mut self) -> Result<Option<End>> {
        let share = self.plan.share_of(self.step).unwrap_or_default();
        match self.running.renew(self.step, share) {
            Ok(state) => Ok(state.map(|state| self.ended_by_another(state))),
            Err(error) => {
                tracing::warn!("cannot renew the share: {error:#}");
                Ok(None)
            }
        }
    }

    fn ended_by_another(&self, state: State) -> End {
        let at = self.place();
        match state {
            State::Promoted => (None, format!("`hotcc canary promote` ended the canary at {at}.")),
            State::Expired => {
                let why = if monotonic_ns() >= self.running.expires_ns() {
                    "the share expired, because it was not renewed in time"
                } else {
                    "another command began to end the canary, and was killed"
                };
                (Some(Outcome::Abort), format!("At {at}, {why}."))
            }
            _ => (None, format!("Another command ended the canary at {at}.")),
        }
    }

    fn place(&self) -> String {
        format!("step {} of {} ({} %)", self.step, self.plan.shares.len(), self.percent())
    }

    fn too_late(&self) -> String {
        let Cohorts { canary, control } = self.seen;
        let (at, limit_s, needed) = (self.place(), self.plan.for_s, self.plan.min_connections);
        if canary.min(control) < needed {
            return format!(
                "Too few connections: at {at}, after {limit_s} s, {canary} of the canary and {control} of the control \
                 began and ended; {needed} of each are needed."
            );
        }
        format!("No decision at {at}, after {limit_s} s. {}", self.judge.verdict().explain())
    }

    fn end(&mut self, outcome: Option<Outcome>, reason: String) -> Result<State> {
        let Plan { from, to, .. } = self.plan.clone();
        let (outcome, reason, rule) = match outcome.map(|outcome| self.running.end(outcome)).transpose()? {
            Some(Ok(rule)) => (outcome, reason, rule),
            Some(Err(state)) => (None, self.ended_by_another(state).1, String::new()),
            None => (None, reason, String::new()),
        };
        let (state, effect) = match outcome {
            Some(Outcome::Promote) => (State::Promoted, format!("All new connections that match get {to}.")),
            Some(Outcome::RollBack) => (State::RolledBack, format!("New connections get {from} again.")),
            Some(Outcome::Abort) => (State::Aborted, format!("New connections get {from} again.")),
            None => (super::state::read_status()?.state, String::new()),
        };
        let dropped = match self.dropped {
            0 => String::new(),
            dropped => format!(" {dropped} connections were not compared, because this process was too slow."),
        };
        let reason = format!("{reason}{dropped} {effect}").trim_end().to_owned();
        let policy = policy_table(&rule);
        self.tell(Occasion::End { state, reason, dropped_records: self.dropped, policy });
        Ok(state)
    }
}
