//! The state of the canary in the kernel, and how commands change it.
//!
//! A canary runs while its two rules apply, the map says that it runs, and it has not expired. A promotion first changes
//! the map, so that the canary's rule takes all connections until it expires, and then replaces both rules. In every
//! other state of the map, the two rules give all connections what they had before: so a command that is killed
//! between two changes leaves the connections with the former congestion control, at the latest after the expiry.

use super::plan::{Plan, percent};
use super::run::EXPIRY;
use crate::failpoint;
use crate::policy::canary::{self, Pair};
use crate::policy::layout::{CanaryEntry, CohortsEntry, canary_state, cohort};
use crate::registry::{begin, need_bpffs};
use crate::sysctl;
use bytemuck::Zeroable;
use hotcc_abi::clock::monotonic_ns;
use hotcc_host::cstr::padded;
use hotcc_host::error::{Error, Result, need_root};
use serde::Serialize;
use std::time::Duration;

/// How a canary stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There was none since the machine started.
    None,
    /// `hotcc canary start` runs.
    Running,
    /// `hotcc canary start` was killed: new connections get the former congestion control, but both rules remain.
    Expired,
    /// The new congestion control serves all connections.
    Promoted,
    /// A guard was broken.
    RolledBack,
    /// The canary ended without a decision.
    Aborted,
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Running, Self::Expired, Self::Promoted, Self::RolledBack, Self::Aborted];

    /// Returns the name in metrics and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Running => "running",
            Self::Expired => "expired",
            Self::Promoted => "promoted",
            Self::RolledBack => "rolled_back",
            Self::Aborted => "aborted",
        }
    }
}

/// Ended connections of each cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cohorts {
    /// Under the new congestion control.
    pub canary: u64,
    /// Under the former one.
    pub control: u64,
}

/// The latest canary. Schema of `hotcc canary status --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// State.
    pub state: State,
    /// The former congestion control; empty if there was no canary.
    pub from: String,
    /// The new congestion control; empty if there was no canary.
    pub to: String,
    /// Conditions of its rules, while they apply.
    pub conditions: toml::Table,
    /// Number of the step, from 1.
    pub step: u32,
    /// Number of steps.
    pub steps: u32,
    /// Share of the new connections that get the new congestion control, per cent.
    pub share_percent: f64,
    /// Time until new connections get the former congestion control, unless `hotcc canary start` postpones it, seconds.
    pub expires_in_s: Option<f64>,
    /// Connections that ended while the canary ran.
    pub connections: Cohorts,
    /// Of these, those that were not compared, because `hotcc canary start` was too slow.
    pub dropped_records: u64,
}

/// How a command ended the canary. Schema of `hotcc canary promote --json` and `hotcc canary abort --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// `promoted` or `aborted`.
    pub state: State,
    /// State before: `running` or `expired`.
    pub was: State,
    /// The former congestion control.
    pub from: String,
    /// The new congestion control.
    pub to: String,
    /// The `[[policy]]` table that keeps the new congestion control; empty if the canary was not promoted.
    pub policy: String,
}

/// Reads the state of the latest canary.
pub fn status() -> Result<Status> {
    need_root("hotcc canary status")?;
    need_bpffs()?;
    read_status()
}

/// Reads the state of the latest canary, for callers that have the privileges.
pub(crate) fn read_status() -> Result<Status> {
    let ((entry, rules), now) = (canary::named_state()?, monotonic_ns());
    let rule = rules.iter().find(|(rule, _)| canary::is_of(rule, cohort::CANARY));
    let CohortsEntry { ended, dropped } = canary::cohorts()?;
    let in_effect = [canary_state::RUNNING, canary_state::PROMOTED].contains(&entry.state);
    let runs = in_effect && now < entry.expires_ns;
    let state = match (entry.state, rule) {
        (_, Some((rule, _))) if runs && entry.rules[cohort::CANARY] == rule.id => State::Running,
        (_, Some(_)) => State::Expired,
        (canary_state::PROMOTED, None) => State::Promoted,
        (canary_state::ROLLED_BACK, None) => State::RolledBack,
        (canary_state::ABORTED, None) => State::Aborted,
        // `hotcc apply` has replaced the rules of an expired canary
        _ => State::None,
    };
    let [from, to] = canary::names(&entry);
    let mut conditions = toml::Table::new();
    if let Some((_, text_of)) = rule {
        conditions = text_of.keys()?;
        conditions.remove("congestion_control");
    }
    Ok(Status {
        state,
        from,
        to,
        conditions,
        step: entry.step,
        steps: entry.steps,
        share_percent: match state {
            State::Running => percent(entry.share.into()),
            State::Promoted if rules.iter().any(|(rule, _)| rule.cc_name == entry.to) => 100.0,
            _ => 0.0,
        },
        expires_in_s: (state == State::Running).then(|| entry.expires_ns.saturating_sub(now) as f64 / 1e9),
        connections: Cohorts { canary: ended[cohort::CANARY], control: ended[cohort::CONTROL] },
        dropped_records: dropped,
    })
}

/// Returns how many connections of the latest canary ended while the ring of records was full.
pub(super) fn dropped_records() -> Result<u64> {
    Ok(canary::cohorts()?.dropped)
}

/// Fails if a canary runs.
pub(crate) fn refuse_while_running(tried: &str) -> Result<()> {
    let status = read_status()?;
    if status.state != State::Running {
        return Ok(());
    }
    let Status { from, to, .. } = status;
    Err(Error::failed(format!("cannot {tried}: a canary from {from} to {to} runs"))
        .and("end it first: hotcc canary promote, or hotcc canary abort"))
}

/// Fails if a canary that runs compares this congestion control: it would judge two versions as one.
pub(crate) fn refuse_while_comparing(name: &str, tried: &str) -> Result<()> {
    let Status { state, from, to, .. } = read_status()?;
    if state != State::Running || (from != name && to != name) {
        return Ok(());
    }
    Err(Error::failed(format!("cannot {tried} {name}: a canary from {from} to {to} compares it"))
        .and("end it first: hotcc canary promote, or hotcc canary abort"))
}

/// A canary that this process runs.
#[derive(Debug)]
pub(super) struct Running {
    entry: CanaryEntry,
    expiry: Duration,
}

impl Running {
    /// Makes the rules apply, with the share of the first step.
    pub(super) fn begin(plan: &Plan, pair: Pair, expiry: Duration) -> Result<Self> {
        let _lock = begin("hotcc canary start")?;
        refuse_while_running("start a canary")?;
        let entry = CanaryEntry {
            rules: pair.ids(),
            state: canary_state::RUNNING,
            steps: plan.shares.len() as u32,
            from: padded(&plan.from),
            to: padded(&plan.to),
            ..Zeroable::zeroed()
        };
        // until the map names these rules, the canary's gets no connection
        let replaced = pair.install()?;
        failpoint::kill("canary-installed");
        let mut running = Self { entry, expiry };
        let begun = canary::reset_cohorts().and_then(|()| running.write(1, plan.shares.first().copied().unwrap_or(0)));
        if let Err(error) = begun {
            replaced.put_back()?;
            return Err(error);
        }
        failpoint::kill("canary-started");
        Ok(running)
    }

    pub(super) fn rules(&self) -> [u64; 2] {
        self.entry.rules
    }

    /// Returns whether another command has ended the canary, or is about to.
    pub(super) fn is_over(&self) -> Result<bool> {
        let now = canary::state()?;
        Ok(now.rules != self.entry.rules || now.state != canary_state::RUNNING)
    }

    pub(super) fn expires_ns(&self) -> u64 {
        self.entry.expires_ns
    }

    fn write(&mut self, step: u32, share: u32) -> Result<()> {
        let expires_ns = monotonic_ns() + self.expiry.as_nanos() as u64;
        let entry = CanaryEntry { step, share, expires_ns, ..self.entry };
        canary::set_state(&entry)?;
        self.entry = entry;
        Ok(())
    }

    /// Sets the step and its share, and postpones the expiry. Returns the state of the canary if it does not run any
    /// more; nothing changes then.
    pub(super) fn renew(&mut self, step: u32, share: u32) -> Result<Option<State>> {
        let _lock = begin("hotcc canary start")?;
        let now = canary::state()?;
        if now.rules != self.entry.rules {
            return Ok(Some(State::None));
        }
        let state = read_status()?.state;
        if state != State::Running {
            return Ok(Some(state));
        }
        self.write(step, share)?;
        failpoint::kill("canary-renewed");
        Ok(None)
    }

    /// Ends the canary, and returns the text of the rule that remains, if any. If another command has ended it, returns
    /// the state; nothing changes then.
    pub(super) fn end(&self, outcome: Outcome) -> Result<std::result::Result<String, State>> {
        let _lock = begin("hotcc canary start")?;
        if canary::state()?.rules != self.entry.rules {
            return Ok(Err(State::None));
        }
        match read_status()?.state {
            State::Running | State::Expired => conclude(outcome).map(Ok),
            ended => Ok(Err(ended)),
        }
    }
}

/// Returns the table of the configuration file for a rule; nothing for no rule.
pub(super) fn policy_table(rule: &str) -> String {
    if rule.is_empty() { String::new() } else { format!("[[policy]]\n{rule}") }
}

/// How a canary ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Promote,
    RollBack,
    Abort,
}

/// Ends the canary. Returns the text of the rule that remains, if any. Call it with the lock held.
fn conclude(outcome: Outcome) -> Result<String> {
    let (before, _) = canary::named_state()?;
    let [_, to] = canary::names(&before);
    if outcome == Outcome::Promote && !sysctl::is_registered(&to)? {
        return Err(Error::failed(format!("cannot promote {to}: it is not registered any more"))
            .and("end the canary: hotcc canary abort"));
    }
    let mut entry = before;
    (entry.state, entry.share) = match outcome {
        Outcome::Promote => (canary_state::PROMOTED, u32::MAX),
        Outcome::RollBack => (canary_state::ROLLED_BACK, 0),
        Outcome::Abort => (canary_state::ABORTED, 0),
    };
    // time for the kernel to load the rule that replaces both, while all new connections get the new congestion control
    entry.expires_ns = entry.expires_ns.max(monotonic_ns() + EXPIRY.as_nanos() as u64);
    // from now on, all new connections get the new congestion control, or the former one
    canary::set_state(&entry)?;
    failpoint::kill("canary-concluded");
    let rule = match outcome {
        // if the kernel refuses the rule, the canary goes on with its share
        Outcome::Promote => canary::promote().inspect_err(|_| drop(canary::set_state(&before)))?,
        Outcome::RollBack | Outcome::Abort => canary::withdraw().map(|()| String::new())?,
    };
    failpoint::kill("canary-ended");
    Ok(rule)
}

/// Gives all matching connections the new congestion control.
pub fn promote() -> Result<Ended> {
    let _lock = begin("hotcc canary promote")?;
    let Status { state: was, from, to, .. } = read_status()?;
    match was {
        State::Running => {
            let policy = policy_table(&conclude(Outcome::Promote)?);
            Ok(Ended { state: State::Promoted, was, from, to, policy })
        }
        State::Expired => Err(Error::failed("the canary has expired").and("end it: hotcc canary abort")),
        _ => Err(Error::failed("no canary runs")),
    }
}

/// Removes the canary's rules.
pub fn abort() -> Result<Ended> {
    let _lock = begin("hotcc canary abort")?;
    let Status { state: was, from, to, .. } = read_status()?;
    if ![State::Running, State::Expired].contains(&was) {
        return Err(Error::failed("no canary runs"));
    }
    conclude(Outcome::Abort)?;
    Ok(Ended { state: State::Aborted, was, from, to, policy: String::new() })
}
