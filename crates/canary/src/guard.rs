//! What a canary must keep to: limits relative to the control.

use crate::connection::Connection;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A figure of each connection, compared by its percentiles over a cohort.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Figure {
    /// Smoothed RTT at the end, in µs.
    Rtt,
    /// Minimum RTT, in µs.
    MinRtt,
    /// Goodput, in kbit/s.
    Goodput,
    /// Delivery rate, in kbit/s.
    Delivery,
    /// Duration, in ms.
    Duration,
}

impl Figure {
    const ALL: [Self; 5] = [Self::Rtt, Self::MinRtt, Self::Goodput, Self::Delivery, Self::Duration];

    fn name(self) -> &'static str {
        match self {
            Self::Rtt => "rtt",
            Self::MinRtt => "min_rtt",
            Self::Goodput => "goodput",
            Self::Delivery => "delivery",
            Self::Duration => "duration",
        }
    }

    /// Returns the figure of `connection`; `None` if the connection has none.
    #[must_use]
    pub fn of(self, connection: &Connection) -> Option<u64> {
        match self {
            Self::Rtt => connection.rtt_us.map(u64::from),
            Self::MinRtt => connection.min_rtt_us.map(u64::from),
            Self::Goodput => connection.goodput_kbps,
            Self::Delivery => connection.delivery_kbps,
            Self::Duration => Some(connection.duration_ms),
        }
    }
}

/// What a guard compares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Metric {
    /// Retransmissions over segments, of all connections together.
    RetransmitRatio,
    /// Retransmission timeouts per connection.
    TimeoutRatio,
    /// The value that `percent` of the connections do not exceed, 1 to 99.
    Percentile {
        /// The figure.
        figure: Figure,
        /// The percentage.
        percent: u8,
    },
}

impl Metric {
    /// Returns the unit of the metric's values; empty for a ratio.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::RetransmitRatio | Self::TimeoutRatio => "",
            Self::Percentile { figure: Figure::Rtt | Figure::MinRtt, .. } => "µs",
            Self::Percentile { figure: Figure::Goodput | Figure::Delivery, .. } => "kbit/s",
            Self::Percentile { figure: Figure::Duration, .. } => "ms",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetransmitRatio => f.write_str("retransmit_ratio"),
            Self::TimeoutRatio => f.write_str("timeout_ratio"),
            Self::Percentile { figure, percent } => write!(f, "{}_p{percent}", figure.name()),
        }
    }
}

impl FromStr for Metric {
    type Err = InvalidGuard;

    fn from_str(text: &str) -> Result<Self, InvalidGuard> {
        let unknown = || InvalidGuard::Metric(text.to_owned());
        match text {
            "retransmit_ratio" => return Ok(Self::RetransmitRatio),
            "timeout_ratio" => return Ok(Self::TimeoutRatio),
            _ => {}
        }
        let (name, percent) = text.rsplit_once("_p").ok_or_else(unknown)?;
        let figure = Figure::ALL.into_iter().find(|f| f.name() == name).ok_or_else(unknown)?;
        let digits = percent.bytes().all(|b| b.is_ascii_digit()) && !percent.starts_with('0');
        match percent.parse() {
            Ok(percent @ 1..=99) if digits => Ok(Self::Percentile { figure, percent }),
            _ => Err(unknown()),
        }
    }
}

/// On which side of its limit the canary must stay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
}

/// A limit for the canary, relative to the control: `rtt_p95 <= 1.1 * control`.
///
/// ```
/// let guard: hotcc_canary::Guard = "goodput_p50 >= 0.95 * control".parse()?;
/// assert_eq!(guard.to_string(), "goodput_p50 >= 0.95 * control");
/// # Ok::<(), hotcc_canary::InvalidGuard>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    /// What is compared.
    pub metric: Metric,
    /// The side of the limit.
    pub limit: Limit,
    /// The limit is this factor times the control's value; above 0.
    pub factor: f64,
}

/// Why a text is not a guard.
#[derive(Clone, Debug, Error, Eq, PartialEq)]
pub enum InvalidGuard {
    /// The text has another form.
    #[error(
        "invalid guard `{0}`: expected METRIC <= FACTOR * control or METRIC >= FACTOR * control, \
         e.g. `rtt_p95 <= 1.1 * control`"
    )]
    Form(String),
    /// The metric is unknown.
    #[error(
        "unknown metric `{0}`: expected retransmit_ratio, timeout_ratio, or rtt_pN, min_rtt_pN, goodput_pN, \
         delivery_pN or duration_pN, with a percentile N from 1 to 99"
    )]
    Metric(String),
    /// The factor is not a number above 0.
    #[error("invalid factor `{0}`: expected a number above 0, e.g. 1.1")]
    Factor(String),
}

impl FromStr for Guard {
    type Err = InvalidGuard;

    fn from_str(text: &str) -> Result<Self, InvalidGuard> {
        let form = || InvalidGuard::Form(text.to_owned());
        let (metric, limit, bound) = match (text.split_once("<="), text.split_once(">=")) {
            (Some((metric, bound)), None) => (metric, Limit::AtMost, bound),
            (None, Some((metric, bound))) => (metric, Limit::AtLeast, bound),
            _ => return Err(form()),
        };
        let (factor, reference) = bound.split_once('*').ok_or_else(form)?;
        if reference.trim() != "control" {
            return Err(form());
        }
        let metric = metric.trim().parse()?;
        let factor = factor.trim();
        match factor.parse() {
            Ok(number) if f64::is_normal(number) && number > 0.0 => Ok(Self { metric, limit, factor: number }),
            _ => Err(InvalidGuard::Factor(factor.to_owned())),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.limit {
            Limit::AtMost => "<=",
            Limit::AtLeast => ">=",
        };
        write!(f, "{} {limit} {} * control", self.metric, self.factor)
    }
}

impl Serialize for Guard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the guards of a canary that names none: at most a fifth more retransmissions, at most a tenth more RTT at
/// the 95th percentile, at most a twentieth less goodput at the median.
#[must_use]
pub fn default_guards() -> Vec<Guard> {
    let percentile = |figure, percent| Metric::Percentile { figure, percent };
    vec![
        Guard { metric: Metric::RetransmitRatio, limit: Limit::AtMost, factor: 1.2 },
        Guard { metric: percentile(Figure::Rtt, 95), limit: Limit::AtMost, factor: 1.1 },
        Guard { metric: percentile(Figure::Goodput, 50), limit: Limit::AtLeast, factor: 0.95 },
    ]
}
