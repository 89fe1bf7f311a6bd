//! The judge: collects connections of both cohorts, and compares them whenever asked.

use crate::ratio::{Bounds, Estimate, of_means, of_percentiles};
use crate::tally::{SAME_BELOW, Tally};
use crate::{Cohort, Connection, Guard, Limit, Metric};
use serde::Serialize;
use std::fmt::Write;

/// The probability with which a canary that is exactly at its limits is rolled back, or promoted, at any look in any
/// step; it is split evenly over guards and steps. A canary that equals its control is rolled back far less often.
pub const ALPHA: f64 = 0.05;

/// Compares the cohorts of one step at a time.
#[derive(Clone, Debug)]
pub struct Judge {
    guards: Vec<(Guard, Pair<Tally>)>,
    connections: Pair<u64>,
    min_connections: u64,
    /// Of one guard in one step.
    alpha: f64,
}

/// What there is of each cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Pair<T> {
    canary: T,
    control: T,
}

impl<T> Pair<T> {
    fn of(&mut self, cohort: Cohort) -> &mut T {
        match cohort {
            Cohort::Control => &mut self.control,
            Cohort::Canary => &mut self.canary,
        }
    }
}

impl Judge {
    /// Creates a judge. It decides nothing before `min_connections` have been added to each cohort, in each step. `steps`
    /// is the number of steps that have a control: a share of 100 % is none. Both count as 1 if they are 0.
    #[must_use]
    pub fn new(guards: Vec<Guard>, min_connections: u64, steps: u32) -> Self {
        let comparisons = guards.len().max(1) as f64 * f64::from(steps.max(1));
        let empty = |guard: Guard| {
            let tally = Tally::new(guard.metric);
            (guard, Pair { canary: tally.clone(), control: tally })
        };
        Self {
            guards: guards.into_iter().map(empty).collect(),
            connections: Pair::default(),
            min_connections: min_connections.max(1),
            alpha: ALPHA / comparisons,
        }
    }

    /// Adds a connection that began in the current step and has ended.
    pub fn add(&mut self, cohort: Cohort, connection: &Connection) {
        self.add_times(cohort, connection, 1);
    }

    /// Adds `times` connections that all did the same.
    pub fn add_times(&mut self, cohort: Cohort, connection: &Connection, times: u64) {
        *self.connections.of(cohort) += times;
        for (_, tallies) in &mut self.guards {
            tallies.of(cohort).add(connection, times);
        }
    }

    /// Starts the next step without any connections.
    ///
    /// Earlier connections are dropped. Their cohorts had other shares: if traffic differs between steps, as night from
    /// day, more of the control would be from the one and more of the canary from the other.
    pub fn next_step(&mut self) {
        self.connections = Pair::default();
        for (guard, tallies) in &mut self.guards {
            let tally = Tally::new(guard.metric);
            *tallies = Pair { canary: tally.clone(), control: tally };
        }
    }

    /// Compares the cohorts of the current step. May be called at any time, and as often as needed.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let findings: Vec<_> = self.guards.iter().map(|(guard, tallies)| self.finding(guard, tallies)).collect();
        let is = |judgement| move |finding: &Finding| finding.judgement == judgement;
        if findings.iter().any(is(Judgement::Broken)) {
            Verdict::Fail(findings)
        } else if self.suffices(self.connections) && findings.iter().all(is(Judgement::Holds)) {
            Verdict::Pass(findings)
        } else {
            Verdict::Continue(findings)
        }
    }

    fn suffices(&self, connections: Pair<u64>) -> bool {
        connections.canary.min(connections.control) >= self.min_connections
    }

    fn finding(&self, guard: &Guard, tallies: &Pair<Tally>) -> Finding {
        let connections = Pair { canary: tallies.canary.count(), control: tallies.control.count() };
        let canary = tallies.canary.estimate(&tallies.control, self.alpha);
        let control = tallies.control.estimate(&tallies.canary, self.alpha);
        let mut finding = Finding {
            guard: *guard,
            metric: guard.metric,
            canary_connections: connections.canary,
            control_connections: connections.control,
            min_connections: self.min_connections,
            canary: canary.map(|e| e.value),
            control: control.map(|e| e.value),
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            judgement: Judgement::Undecided,
        };
        if let (Some(canary), Some(control)) = (canary, control) {
            let is_mean = matches!(guard.metric, Metric::RetransmitRatio | Metric::TimeoutRatio);
            let bounds = if is_mean { of_means(&canary, &control) } else { of_percentiles(&canary, &control) };
            finding.ratio = (control.value > 0.0).then(|| canary.value / control.value);
            finding.ratio_low = Some(bounds.low);
            finding.ratio_high = bounds.high;
            if self.suffices(connections) {
                let floor = if is_mean { SAME_BELOW } else { 0.0 };
                finding.judgement = judge(guard, &bounds, &canary, &control, floor);
            }
        }
        finding
    }
}

/// Judges by the bounds of the ratio. If the value that must be the smaller one is below `floor`, the guard holds.
fn judge(guard: &Guard, bounds: &Bounds, canary: &Estimate, control: &Estimate, floor: f64) -> Judgement {
    let (within, beyond, (low, high)) = match guard.limit {
        Limit::AtMost => {
            (bounds.high.is_some_and(|high| high <= guard.factor), bounds.low > guard.factor, (canary.low, canary.high))
        }
        Limit::AtLeast => (
            bounds.low >= guard.factor,
            bounds.high.is_some_and(|high| high < guard.factor),
            (control.low.map(|v| v * guard.factor), control.high.map(|v| v * guard.factor)),
        ),
    };
    if within || high.is_some_and(|high| high <= floor) {
        Judgement::Holds
    } else if beyond && low.unwrap_or(0.0) >= floor {
        Judgement::Broken
    } else {
        Judgement::Undecided
    }
}

/// Whether a guard holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Shown to hold.
    Holds,
    /// Shown not to hold.
    Broken,
    /// Neither is shown yet.
    Undecided,
}

/// What one guard's comparison has found so far. All numbers are finite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The guard.
    pub guard: Guard,
    /// What it compares.
    pub metric: Metric,
    /// The canary's connections that have the figure.
    pub canary_connections: u64,
    /// The control's connections that have the figure.
    pub control_connections: u64,
    /// As many of each are needed before the judge decides.
    pub min_connections: u64,
    /// The canary's value, in the metric's unit; `None` if no connection had the figure.
    pub canary: Option<f64>,
    /// The control's value, in the metric's unit; `None` if no connection had the figure.
    pub control: Option<f64>,
    /// The canary's value over the control's; `None` if one is missing or the control's is 0.
    pub ratio: Option<f64>,
    /// The lower bound of the true ratio; `None` if a value is missing.
    pub ratio_low: Option<f64>,
    /// The upper bound of the true ratio; `None` if there is none yet.
    pub ratio_high: Option<f64>,
    /// Whether the guard holds.
    pub judgement: Judgement,
}

impl Finding {
    /// Returns the finding as a sentence.
    #[must_use]
    pub fn explain(&self) -> String {
        let state = match self.judgement {
            Judgement::Holds => "holds",
            Judgement::Broken => "is broken",
            Judgement::Undecided => "is undecided",
        };
        let mut text = format!("`{}` {state}", self.guard);
        let value = |value: Option<f64>| value.map_or_else(|| "no value".to_owned(), |v| self.value(v));
        let _ = write!(text, ": canary {}, control {}", value(self.canary), value(self.control));
        if let Some(ratio) = self.ratio {
            let _ = write!(text, ", ratio {ratio:.3}");
        }
        match (self.ratio_low, self.ratio_high) {
            (Some(low), Some(high)) => {
                let _ = write!(text, " (between {low:.3} and {high:.3})");
            }
            (Some(low), None) if low > 0.0 => {
                let _ = write!(text, " (at least {low:.3})");
            }
            _ => {}
        }
        let (canary, control) = (self.canary_connections, self.control_connections);
        let _ = write!(text, "; {canary} and {control} connections");
        if canary.min(control) < self.min_connections {
            let _ = write!(text, ", {} needed in each", self.min_connections);
        }
        text + "."
    }

    fn value(&self, value: f64) -> String {
        match self.metric.unit() {
            "" => format!("{:.3} %", value * 100.0),
            unit => format!("{value:.0} {unit}"),
        }
    }
}

/// What the comparison of a step has shown so far, with what each guard has found, in the order of the guards.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", content = "findings", rename_all = "lowercase")]
pub enum Verdict {
    /// More connections are needed.
    Continue(Vec<Finding>),
    /// Every guard is shown to hold: go on to the next step.
    Pass(Vec<Finding>),
    /// At least one guard is shown to be broken: roll back.
    Fail(Vec<Finding>),
}

impl Verdict {
    /// Returns what each guard has found, in the order of the guards.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Continue(findings) | Self::Pass(findings) | Self::Fail(findings) => findings,
        }
    }

    /// Returns one paragraph of plain text: the verdict, then each finding; broken guards come first.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = match self {
            Self::Continue(_) => "More connections are needed.",
            Self::Pass(_) => "Every guard holds.",
            Self::Fail(_) => "The canary is worse than its guards allow.",
        }
        .to_owned();
        let (broken, others): (Vec<_>, Vec<_>) = self.findings().iter().partition(|f| f.judgement == Judgement::Broken);
        for finding in broken.into_iter().chain(others) {
            text.push(' ');
            text.push_str(&finding.explain());
        }
        text
    }
}
