//! Congestion controls ranked over all cases of a scenario: throughput as a share of what the path could carry, and
//! delay.

use super::estimate::{Estimate, Places};
use super::html::{Cell, Table};
use super::rows::{Row, case_text, conditions, labels};
use anyhow::Result;
use hotcc_testbed::statistics::median;
use serde::Serialize;

/// Label of the bound that knows the path's capacity.
const ORACLE: &str = "oracle";
/// Label of the bound that knows the path's capacity one round trip late.
const LATE_ORACLE: &str = "late-oracle";
/// Two throughputs whose ratio differs from 1 by no more than this are equally good.
const TIE: f64 = 0.002;

/// A congestion control's figures in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Its name.
    pub label: String,
    /// Whether it is a bound: not a congestion control, but the best that one could reach.
    pub is_bound: bool,
    /// Number of cases that were ranked.
    pub cases: usize,
    /// Throughput as a share of the throughput of the bound that knows the capacity, over cases.
    pub share: Estimate,
    /// 95th percentile of the packets' queueing delay, ms: the median over cases.
    pub delay_p95_ms: f64,
    /// 95th percentile of the packets' queueing delay, ms: the greatest of all cases.
    pub delay_p95_most_ms: f64,
    /// Retransmission timeouts: the sum over all cases of the mean over a case's seeds; 0 for a bound.
    pub timeouts: f64,
    /// Number of cases in which no other congestion control is better in throughput or delay without being worse in the
    /// other.
    pub best_trades: usize,
}

/// The throughput and the delay of one case.
#[derive(Clone, Copy)]
struct Trade {
    throughput: f64,
    delay: f64,
}

impl Trade {
    fn of(row: &Row) -> Option<Self> {
        let mean = |metric| row.estimate(metric).map(|estimate| estimate.mean);
        Some(Self { throughput: mean("throughput_mbps")?, delay: mean("queue_delay_p95_ms")? })
    }

    /// Returns whether it is better in one figure and no worse in the other.
    fn beats(self, other: Self) -> bool {
        let faster = self.throughput > other.throughput * (1.0 + TIE);
        let as_fast = self.throughput * (1.0 + TIE) >= other.throughput;
        as_fast && self.delay <= other.delay && (faster || self.delay < other.delay)
    }
}

fn is_bound(label: &str) -> bool {
    [ORACLE, LATE_ORACLE].contains(&label)
}

/// Ranks the congestion controls: those with the most best trades first, then those with less delay; bounds last. A
/// case counts only if every congestion control has figures for it and the bound is known, so that all are judged by
/// the same cases.
#[must_use]
pub fn rank(rows: &[Row]) -> Vec<Standing> {
    let labels = labels(rows);
    let mut whole: Vec<Vec<(&str, Trade)>> = Vec::new();
    let mut of_whole: Vec<&Row> = Vec::new();
    for (_, rows) in conditions(rows) {
        let trades = rows.iter().copied().filter_map(|row| Some((row.label.as_str(), Trade::of(row)?)));
        let trades: Vec<_> = trades.collect();
        if trades.len() == labels.len() && trades.iter().any(|(label, _)| *label == ORACLE) {
            whole.push(trades);
            of_whole.extend(rows);
        }
    }
    let find = |case: &[(&str, Trade)], label: &str| case.iter().find(|(of, _)| *of == label).map(|(_, trade)| *trade);
    let standing = |label: &String| -> Option<Standing> {
        let mine: Vec<Trade> = whole.iter().filter_map(|case| find(case, label)).collect();
        let shares: Vec<f64> = whole
            .iter()
            .filter_map(|case| Some(find(case, label)?.throughput / find(case, ORACLE)?.throughput))
            .collect();
        let unbeaten = |case: &&Vec<(&str, Trade)>| {
            let rivals = || case.iter().filter(|(of, _)| !is_bound(of) && of != label);
            find(case, label).is_some_and(|mine| !rivals().any(|(_, other)| other.beats(mine)))
        };
        Some(Standing {
            label: label.clone(),
            is_bound: is_bound(label),
            cases: mine.len(),
            share: Estimate::of(&shares)?,
            delay_p95_ms: median(&mine.iter().map(|trade| trade.delay).collect::<Vec<_>>())?,
            delay_p95_most_ms: mine.iter().map(|trade| trade.delay).fold(0.0, f64::max),
            timeouts: of_whole
                .iter()
                .filter(|row| row.label == *label)
                .filter_map(|r| r.estimate("timeouts"))
                .map(|e| e.mean)
                .fold(0.0, |sum, mean| sum + mean), // the sum of nothing is -0
            best_trades: if is_bound(label) { 0 } else { whole.iter().filter(unbeaten).count() },
        })
    };
    let mut standings: Vec<Standing> = labels.iter().filter_map(standing).collect();
    let order = |one: &Standing, other: &Standing| {
        one.is_bound
            .cmp(&other.is_bound)
            .then(other.best_trades.cmp(&one.best_trades))
            .then(one.delay_p95_ms.total_cmp(&other.delay_p95_ms))
    };
    standings.sort_by(order);
    standings
}

/// Returns the congestion controls that no other beats by throughput and delay over all cases, with the least delay
/// first.
#[must_use]
pub fn front(standings: &[Standing]) -> Vec<&Standing> {
    let trade = |s: &Standing| Trade { throughput: s.share.mean, delay: s.delay_p95_ms };
    let ccs = || standings.iter().filter(|standing| !standing.is_bound);
    let mut front: Vec<&Standing> = ccs().filter(|one| !ccs().any(|other| trade(other).beats(trade(one)))).collect();
    front.sort_by(|one, other| one.delay_p95_ms.total_cmp(&other.delay_p95_ms));
    front
}

/// Returns the ranking as a table, with the best value of each column in bold.
#[must_use]
pub fn table(standings: &[Standing]) -> Table {
    let columns = [
        "congestion control",
        "throughput, % of the bound",
        "p95 queue delay, ms, median",
        "longest",
        "timeouts",
        "best trades",
    ];
    let ccs = || standings.iter().filter(|standing| !standing.is_bound);
    let least = |figure: fn(&Standing) -> f64| ccs().map(figure).fold(f64::INFINITY, f64::min);
    let most = |figure: fn(&Standing) -> f64| ccs().map(figure).fold(f64::NEG_INFINITY, f64::max);
    let best = [
        most(|s| s.share.mean),
        least(|s| s.delay_p95_ms),
        least(|s| s.delay_p95_most_ms),
        least(|s| s.timeouts),
        most(|s| s.best_trades as f64),
    ];
    let places = |figure: fn(&Standing) -> f64| Places::of_values(standings.iter().map(figure));
    let [delays, longest] = [places(|s| s.delay_p95_ms), places(|s| s.delay_p95_most_ms)];
    let timeouts = places(|s| s.timeouts);
    let shares = Places::of(standings.iter().map(|s| s.share.times(100.0)));
    let row = |s: &Standing| {
        let figures = [
            (s.share.mean, shares.estimate(&s.share.times(100.0))),
            (s.delay_p95_ms, delays.number(s.delay_p95_ms)),
            (s.delay_p95_most_ms, longest.number(s.delay_p95_most_ms)),
            (s.timeouts, timeouts.number(s.timeouts)),
            (s.best_trades as f64, format!("{} of {}", s.best_trades, s.cases)),
        ];
        let cells = figures.into_iter().zip(best).enumerate().map(|(place, ((value, text), best))| match s.is_bound {
            true if place > 2 => Cell::Figure("–".to_owned()),
            true => Cell::Figure(text),
            false if value == best => Cell::Best(text),
            false => Cell::Figure(text),
        });
        [Cell::Head(s.label.clone())].into_iter().chain(cells).collect()
    };
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: standings.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns the ranking as comma-separated values.
pub fn csv(standings: &[Standing]) -> Result<String> {
    let mut lines = csv::Writer::from_writer(Vec::new());
    lines.write_record([
        "congestion_control",
        "is_bound",
        "cases",
        "throughput_share",
        "throughput_share_half_width_95",
        "queue_delay_p95_median_ms",
        "queue_delay_p95_most_ms",
        "timeouts",
        "best_trades",
    ])?;
    for s in standings {
        lines.serialize((
            &s.label,
            s.is_bound,
            s.cases,
            s.share.mean,
            s.share.half_width,
            s.delay_p95_ms,
            s.delay_p95_most_ms,
            s.timeouts,
            s.best_trades,
        ))?;
    }
    Ok(String::from_utf8(lines.into_inner()?)?)
}

/// Returns the figures of each case and congestion control as comma-separated values.
pub fn cases_csv(rows: &[Row]) -> Result<String> {
    let mut lines = csv::Writer::from_writer(Vec::new());
    lines.write_record(["case", "congestion_control", "throughput_mbps", "queue_delay_p95_ms"])?;
    for row in rows {
        let trade = Trade::of(row);
        lines.serialize((
            case_text(&row.condition),
            &row.label,
            trade.map(|trade| trade.throughput),
            trade.map(|trade| trade.delay),
        ))?;
    }
    Ok(String::from_utf8(lines.into_inner()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowRun;
    use std::collections::BTreeMap;

    fn row(link: &str, label: &str, mbps: f64, p95_ms: f64) -> Row {
        let values = BTreeMap::from([("throughput_mbps", mbps), ("queue_delay_p95_ms", p95_ms), ("timeouts", 1.0)]);
        let condition = BTreeMap::from([("link".to_owned(), link.to_owned())]);
        Row { condition, label: label.to_owned(), runs: vec![RowRun { seed: 1, values }] }
    }

    /// Returns rows in which `a` has the least delay on both links, `b` has the most throughput, and `a` beats `c`.
    fn rows() -> Vec<Row> {
        vec![
            row("x", "c", 8.0, 30.0),
            row("x", "a", 9.0, 20.0),
            row("x", "b", 9.9, 100.0),
            row("x", "oracle", 10.0, 0.0),
            row("y", "c", 3.0, 50.0),
            row("y", "a", 4.0, 40.0),
            row("y", "b", 4.5, 300.0),
            row("y", "oracle", 5.0, 0.0),
        ]
    }

    #[test]
    fn best_trades_come_first_then_less_delay_and_bounds_last() {
        let standings = rank(&rows());
        let order: Vec<(&str, usize)> = standings.iter().map(|s| (s.label.as_str(), s.best_trades)).collect();
        assert_eq!(order, [("a", 2), ("b", 2), ("c", 0), ("oracle", 0)]);
        let a = &standings[0];
        assert_eq!((a.cases, a.delay_p95_ms, a.delay_p95_most_ms, a.timeouts), (2, 30.0, 40.0, 2.0));
        assert!((a.share.mean - 0.85).abs() < 1e-12, "{a:?}");
        let front: Vec<&str> = front(&standings).iter().map(|s| s.label.as_str()).collect();
        assert_eq!(front, ["a", "b"]);
    }

    #[test]
    fn a_case_counts_only_if_every_congestion_control_finished_it() {
        let mut rows = rows();
        rows.retain(|row| !(row.label == "c" && row.condition["link"] == "y"));
        assert!(rank(&rows).iter().all(|standing| standing.cases == 1 && standing.timeouts <= 1.0));
        rows.retain(|row| row.label != "oracle");
        assert!(rank(&rows).is_empty(), "without a bound there is no share");
    }

    #[test]
    fn the_best_of_each_column_is_marked_and_no_bound_is() {
        let standings = rank(&rows());
        let text = table(&standings).markdown();
        assert!(text.contains("**2 of 2**") && text.contains("**30**"), "{text}");
        assert!(text.lines().find(|line| line.contains("oracle")).is_some_and(|line| !line.contains("**")), "{text}");
        assert_eq!(csv(&standings).unwrap().lines().count(), 5);
        assert_eq!(cases_csv(&rows()[..1]).unwrap().lines().nth(1), Some("link=x,c,8.0,30.0"));
        assert!(csv(&standings).unwrap().lines().nth(1).is_some_and(|line| line.starts_with("a,false,2,0.85")));
    }
}
