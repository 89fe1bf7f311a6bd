//! The verdict on a figure, from its paired differences.

use super::super::estimate::Estimate;
use serde::Serialize;
use std::fmt;

/// The direction in which a figure improves.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// The figure is neither good nor bad in itself.
    Neither,
}

impl Better {
    /// Returns the direction of one of the lab's metrics.
    #[must_use]
    pub fn of(metric: &str) -> Self {
        match metric {
            "throughput_mbps" | "throughput_mbps_total" | "utilisation" | "jain" => Self::Higher,
            "mean_cwnd" | "watched_p99" => Self::Neither,
            // RTTs, timeouts, queueing delays, losses, marks, retransmissions, and times until something is reached
            _ => Self::Lower,
        }
    }
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "neither",
        })
    }
}

/// The verdict on B.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is worse than A.
    Worse,
    /// B is better than A.
    Better,
    /// B differs from A in a figure that is neither good nor bad.
    Differs,
    /// These runs do not allow a verdict.
    CannotTell,
    /// B equals A within the margin.
    Same,
}

impl Verdict {
    /// All verdicts, the worst first.
    pub const ALL: [Self; 5] = [Self::Worse, Self::Better, Self::Differs, Self::CannotTell, Self::Same];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Differs => "differs",
            Self::CannotTell => "cannot tell",
        })
    }
}

/// A figure of the same seeds in A and B.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// A's mean over the pairs in which both sides have the figure.
    pub a: Option<f64>,
    /// B's mean over these pairs.
    pub b: Option<f64>,
    /// B minus A, over these pairs.
    pub difference: Option<Estimate>,
    /// The verdict on that difference.
    pub verdict: Verdict,
    /// The reason, if the interval alone does not give it.
    pub note: Option<String>,
}

/// One seed's figure in A and in B; `None` if that run does not have it.
pub type Pair = (Option<f64>, Option<f64>);

/// Number of pairs that must go one way, and none the other, before chance is ruled out: a sign test at 5 % needs six.
const SIGNS: usize = 6;

/// Judges a figure. `margin` is a share of A's mean; `identical` states that the runs are the same, byte for byte, and
/// gives the verdict "same". Otherwise:
///
/// - The 95 % interval of the mean paired difference excludes 0: better or worse ("differs" if neither is defined).
/// - The interval lies within the margin on either side of 0: same.
/// - Otherwise, and with a single seed: cannot tell.
///
/// Returns `None` if no run has the figure.
#[must_use]
pub fn judge(metric: &str, pairs: &[Pair], margin: f64, identical: bool) -> Option<Comparison> {
    if pairs.iter().all(|(a, b)| a.is_none() && b.is_none()) {
        return None;
    }
    let both: Vec<(f64, f64)> = pairs.iter().filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| Estimate::of(&both.iter().map(of).collect::<Vec<_>>()).map(|e| e.mean);
    let difference = Estimate::of(&both.iter().map(|(a, b)| b - a).collect::<Vec<_>>());
    let lost = pairs.iter().filter(|(a, b)| a.is_some() && b.is_none()).count();
    let gained = pairs.iter().filter(|(a, b)| a.is_none() && b.is_some()).count();
    let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let comparison = |verdict, note: Option<String>| Some(Comparison { a, b, difference, verdict, note });
    if identical {
        return comparison(Verdict::Same, Some("identical".to_owned()));
    }
    if let Some((verdict, note)) = judge_absent(metric, pairs.len(), lost, gained) {
        return comparison(verdict, Some(note));
    }
    let absent = (lost + gained > 0)
        .then(|| format!("only one side has this figure in {} of {} pairs", lost + gained, pairs.len()));
    let (Some(difference), Some(a)) = (difference, a) else { return comparison(Verdict::CannotTell, absent) };
    let Some((low, high)) = difference.interval() else {
        return comparison(Verdict::CannotTell, absent.or_else(|| Some("one seed is not enough".to_owned())));
    };
    // a difference in the last bits of a sum is no change
    let noise = 1e-12 * a.abs();
    let verdict = if low > noise {
        directed(Better::of(metric), true)
    } else if high < -noise {
        directed(Better::of(metric), false)
    } else if low >= -(margin * a.abs()).max(noise) && high <= (margin * a.abs()).max(noise) {
        Verdict::Same
    } else {
        Verdict::CannotTell
    };
    comparison(verdict, absent)
}

fn directed(better: Better, rose: bool) -> Verdict {
    match better {
        Better::Neither => Verdict::Differs,
        Better::Higher if rose => Verdict::Better,
        Better::Lower if !rose => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// Judges a figure that is absent if its event never happened, such as the end of a transfer. Pairs that have it on
/// only one side must not be dropped silently: the remaining pairs are a biased selection.
fn judge_absent(metric: &str, pairs: usize, lost: usize, gained: usize) -> Option<(Verdict, String)> {
    if lost + gained == 0 || !["completion_s", "convergence_s", "recovery_s"].contains(&metric) {
        return None;
    }
    let only = |name, count| format!("only {name} reached it: {count} of {pairs} pairs");
    let note = match (lost, gained) {
        (_, 0) => only("A", lost),
        (0, _) => only("B", gained),
        _ => format!("{}; {}", only("A", lost), only("B", gained)),
    };
    // a transfer that does not end is not a matter of chance
    let needed = if metric == "completion_s" { 1 } else { SIGNS };
    let verdict = match (lost, gained) {
        _ if pairs < 2 => Verdict::CannotTell,
        (_, 0) if lost >= needed => Verdict::Worse,
        (0, _) if gained >= needed => Verdict::Better,
        _ => Verdict::CannotTell,
    };
    Some((verdict, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(metric: &str, pairs: &[(f64, f64)]) -> Verdict {
        let pairs: Vec<Pair> = pairs.iter().map(|(a, b)| (Some(*a), Some(*b))).collect();
        judge(metric, &pairs, 0.02, false).unwrap().verdict
    }

    #[test]
    fn the_rule() {
        // differences 1, 2, 3: mean 2, error 1/sqrt 3, t(2) = 4.303: [-0.484, 4.484]
        assert_eq!(verdict("throughput_mbps", &[(10.0, 11.0), (10.0, 12.0), (10.0, 13.0)]), Verdict::CannotTell);
        // differences 2, 2.5, 3: mean 2.5, half 1.242
        let up = [(10.0, 12.0), (10.0, 12.5), (10.0, 13.0)];
        assert_eq!(verdict("throughput_mbps", &up), Verdict::Better);
        assert_eq!(verdict("rtt_mean_ms", &up), Verdict::Worse);
        assert_eq!(verdict("mean_cwnd", &up), Verdict::Differs);
        let down = up.map(|(a, b)| (b, a));
        assert_eq!(verdict("throughput_mbps", &down), Verdict::Worse);
        assert_eq!(verdict("rtt_mean_ms", &down), Verdict::Better);
        // differences -0.01, 0, 0.01: half 0.0248, margin 0.2
        assert_eq!(verdict("jain", &[(10.0, 9.99), (10.0, 10.0), (10.0, 10.01)]), Verdict::Same);
        // a difference beyond chance is worse, however small
        assert_eq!(verdict("jain", &[(10.0, 9.99), (10.0, 9.99), (10.0, 9.99)]), Verdict::Worse);
    }

    #[test]
    fn the_pairing_counts() {
        // seeds differ widely, but each by about the same step: unpaired intervals would overlap
        assert_eq!(verdict("throughput_mbps", &[(1.0, 2.0), (50.0, 51.1), (100.0, 100.9)]), Verdict::Better);
    }

    #[test]
    fn differences_by_hand() {
        let pairs = [(Some(10.0), Some(12.0)), (Some(20.0), Some(22.5)), (Some(30.0), Some(33.0))];
        let comparison = judge("throughput_mbps", &pairs, 0.02, false).unwrap();
        assert_eq!((comparison.a, comparison.b), (Some(20.0), Some(22.5)));
        let difference = comparison.difference.unwrap();
        assert!((difference.mean - 2.5).abs() < 1e-12);
        assert!((difference.half_width.unwrap() - 4.302_652_729_911_275 * 0.5 / 3f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_seed_cannot_tell() {
        let pair = [(Some(10.0), Some(50.0))];
        let comparison = judge("throughput_mbps", &pair, 0.02, false).unwrap();
        assert_eq!(
            (comparison.verdict, comparison.note.as_deref()),
            (Verdict::CannotTell, Some("one seed is not enough"))
        );
        let same = [(Some(10.0), Some(10.0))];
        assert_eq!(judge("jain", &same, 0.02, false).unwrap().verdict, Verdict::CannotTell);
        assert_eq!(judge("jain", &same, 0.02, true).unwrap().verdict, Verdict::Same);
    }

    #[test]
    fn nothing_lost_is_no_change() {
        assert_eq!(verdict("retransmits", &[(0.0, 0.0), (0.0, 0.0)]), Verdict::Same);
        assert_eq!(verdict("jain", &[(0.3, 0.1 + 0.2), (0.3, 0.1 + 0.2)]), Verdict::Same);
        assert_eq!(judge("recovery_s", &[(None, None)], 0.02, false), None);
    }

    #[test]
    fn a_figure_that_one_side_never_reached_decides_the_verdict() {
        let pairs = |lost: usize, both: usize| -> Vec<Pair> {
            let unlucky = std::iter::repeat_n((Some(5.0), None), lost);
            unlucky.chain(std::iter::repeat_n((Some(5.0), Some(1.0)), both)).collect()
        };
        let verdict = |metric, lost, both| judge(metric, &pairs(lost, both), 0.02, false).unwrap().verdict;
        assert_eq!(verdict("completion_s", 1, 9), Verdict::Worse);
        assert_eq!(verdict("completion_s", 1, 0), Verdict::CannotTell);
        assert_eq!(verdict("convergence_s", 5, 5), Verdict::CannotTell);
        assert_eq!(verdict("convergence_s", 6, 4), Verdict::Worse);
        let swapped: Vec<Pair> = pairs(6, 4).into_iter().map(|(a, b)| (b, a)).collect();
        assert_eq!(judge("recovery_s", &swapped, 0.02, false).unwrap().verdict, Verdict::Better);
        assert_eq!(judge("rtt_mean_ms", &pairs(1, 3), 0.02, false).unwrap().verdict, Verdict::Better);
    }

    #[test]
    fn a_field_of_an_algorithms_state_is_neither_good_nor_bad() {
        assert_eq!(Better::of("watched_p99"), Better::Neither);
        assert_eq!((Better::of("jain"), Better::of("rto_max_ms")), (Better::Higher, Better::Lower));
    }
}
