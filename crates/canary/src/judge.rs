//! The judge: collects connections of both cohorts, and compares them whenever asked.

use crate::connection::{Cohort, Connection};
use crate::guard::{Guard, Limit, Metric};
use crate::ratio::{Bounds, Estimate, of_means, of_percentiles};
use crate::tally::{SAME_BELOW, Tally};
use serde::Serialize;
use std::fmt::Write;

/// The probability of a mistake, over all looks, if a canary is exactly at its limits: that any guard in any step is
/// found broken, and that a step is passed. A canary that equals its control is rolled back far less often.
pub const ALPHA: f64 = 0.05;

/// Compares the cohorts of one step at a time.
#[derive(Clone, Debug)]
pub struct Judge {
    guards: Vec<(Guard, Pair<Tally>)>,
    connections: Pair<u64>,
    min_connections: u64,
    /// The probability that one guard is found broken by mistake, in one step.
    alpha_broken: f64,
}

/// What there is of each cohort.
#[derive(Clone, Copy, Debug, Default)]
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

fn empty(metric: Metric) -> Pair<Tally> {
    Pair { canary: Tally::new(metric), control: Tally::new(metric) }
}

impl Judge {
    /// Creates a judge. It decides nothing before `min_connections` have been added to each cohort, in each step.
    /// `steps` counts the steps with a control, so not the one at 100 %. If either number is 0, it counts as 1.
    ///
    /// A percentile's guard cannot hold before the percentile has bounds on both sides, which takes 33 connections at
    /// the median, 191 at the 95th percentile and 706 at the 99th.
    #[must_use]
    pub fn new(guards: Vec<Guard>, min_connections: u64, steps: u32) -> Self {
        let comparisons = guards.len().max(1) as f64 * f64::from(steps.max(1));
        Self {
            guards: guards.into_iter().map(|guard| (guard, empty(guard.metric))).collect(),
            connections: Pair::default(),
            min_connections: min_connections.max(1),
            alpha_broken: ALPHA / comparisons,
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
            *tallies = empty(guard.metric);
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
        let careful = Comparison::of(guard.metric, tallies, self.alpha_broken);
        let (comparison, judgement) = match careful {
            Some(careful) if self.suffices(connections) && careful.is_beyond(guard) => {
                (Some(careful), Judgement::Broken)
            }
            Some(_) if self.suffices(connections) => {
                // no split: all guards must hold, so passing by mistake needs a mistake at the one that is broken
                let within = Comparison::of(guard.metric, tallies, ALPHA).filter(|c| c.is_within(guard));
                within.map_or((careful, Judgement::Undecided), |within| (Some(within), Judgement::Holds))
            }
            _ => (careful, Judgement::Undecided),
        };
        let [canary, control] = [comparison.map(|c| c.canary.value), comparison.map(|c| c.control.value)];
        let divisor = control.filter(|control| *control > 0.0);
        Finding {
            guard: *guard,
            metric: guard.metric,
            canary_connections: connections.canary,
            control_connections: connections.control,
            min_connections: self.min_connections,
            canary,
            control,
            ratio: canary.zip(divisor).map(|(canary, control)| canary / control),
            ratio_low: comparison.map(|c| c.ratio.low),
            ratio_high: comparison.and_then(|c| c.ratio.high),
            judgement,
        }
    }
}

/// The values of both cohorts, and bounds for them and for their ratio.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    canary: Estimate,
    control: Estimate,
    ratio: Bounds,
}

impl Comparison {
    /// Returns `None` if one cohort has no value.
    fn of(metric: Metric, tallies: &Pair<Tally>, alpha: f64) -> Option<Self> {
        let canary = tallies.canary.estimate(&tallies.control, alpha)?;
        let control = tallies.control.estimate(&tallies.canary, alpha)?;
        let ratio = match metric {
            Metric::RetransmitRatio | Metric::TimeoutRatio => of_means(&canary, &control),
            Metric::Percentile { .. } => of_percentiles(&canary, &control),
        };
        Some(Self { canary, control, ratio })
    }

    /// Is the guard shown to hold? It also holds if the value that must be the smaller one is below `SAME_BELOW`.
    fn is_within(&self, guard: &Guard) -> bool {
        let is_below = |value: Option<f64>, factor| value.is_some_and(|value| value * factor <= SAME_BELOW);
        match guard.limit {
            Limit::AtMost => self.ratio.high.is_some_and(|r| r <= guard.factor) || is_below(self.canary.high, 1.0),
            Limit::AtLeast => self.ratio.low >= guard.factor || is_below(self.control.high, guard.factor),
        }
    }

    /// Is the guard shown to be broken? Then the value that must be the smaller one is above `SAME_BELOW`, too.
    fn is_beyond(&self, guard: &Guard) -> bool {
        let is_above = |value: Option<f64>, factor| value.is_some_and(|value| value * factor > SAME_BELOW);
        match guard.limit {
            Limit::AtMost => self.ratio.low > guard.factor && is_above(self.canary.low, 1.0),
            Limit::AtLeast => {
                self.ratio.high.is_some_and(|r| r < guard.factor) && is_above(self.control.low, guard.factor)
            }
        }
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
    /// The lower bound of the true ratio; `None` if a value is missing. The bounds' error probability is [`ALPHA`] if
    /// the guard holds; otherwise it is that of all guards and steps together.
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
