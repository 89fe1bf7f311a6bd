//! Judges two cohorts of TCP connections: new connections are split by hash, the *control* keeps its congestion
//! control, the *canary* gets another one.
//!
//! A [`Judge`] compares the cohorts by [`Guard`]s, such as `rtt_p95 <= 1.1 * control`. After every few connections, the
//! caller asks it for a [`Verdict`]: whether each guard is shown to hold, or one is shown to be broken, or more
//! connections are needed. The caller may ask as often as it likes: the intervals are confidence *sequences*, which
//! hold at all times at once. So "stop at the first decisive look" does not raise the rate of false alarms.
//!
//! # Statistics
//!
//! Each guard compares a canary's figure with a factor times the control's, by an interval for the ratio of the two.
//! The guard holds if the interval lies within its limit, and is broken if it lies beyond. In between, it is undecided.
//!
//! - Percentiles (`goodput_p50`): for each cohort, the number of connections below its true percentile is binomial,
//!   whatever the distribution. The Beta-mixture confidence sequence of that binomial gives one for the percentile,
//!   without approximation: Howard & Ramdas, "Sequential estimation of quantiles with applications to A/B testing and
//!   best-arm identification", Bernoulli 28(3), 2022. The two cohorts' sequences are combined on a log scale as in Zou
//!   & Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27(10), 2008: the
//!   squared distances add up. So the control's part is small if the control is large.
//! - Ratios (`retransmit_ratio`): the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas,
//!   "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024, for the
//!   mean over connections of `retransmits - factor * ratio of the control * segments` (Fieller's interval). The
//!   variance is that between connections, because losses within a connection come together.
//!
//! The error probability is [`ALPHA`]. To find a guard broken, it is split evenly over guards and steps: if a canary is
//! exactly at the limit of each guard, at most this share is rolled back by mistake. Of canaries that equal their
//! control, far fewer are. To find a guard holds, it is not split: all guards must hold, so a mistake needs one
//! particular guard to be misjudged (the intersection-union test: Berger, Technometrics 24(4), 1982).
//!
//! # Limits
//!
//! - Both cohorts may contain only connections that began in the current step. Otherwise the control alone has old,
//!   long connections, and the cohorts differ although their congestion controls do not.
//! - Connections are assumed independent. If one host's many connections share a bottleneck, intervals are too narrow.
//! - The cohorts must not differ by more than the congestion control. In particular, connections of the two cohorts
//!   share links: the judge cannot see that the canary is fast at the control's cost.
//! - A ratio is dominated by long connections. Its interval is approximate until some dozens of them have been added.
//! - Connections that do not end within the step are never added, so the judge does not see those that a canary stalls.
//! - Connections without a figure do not count for that figure's guards.

mod connection;
mod guard;
mod judge;
mod ratio;
mod sequence;
mod tally;

pub use connection::{Cohort, Connection};
pub use guard::{Figure, Guard, InvalidGuard, Limit, Metric, default_guards};
pub use judge::{ALPHA, Finding, Judge, Judgement, Verdict};
pub use tally::SAME_BELOW;
