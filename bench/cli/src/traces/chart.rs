//! A trace drawn as text, and as an SVG file.

use super::inspect::Shown;
use anyhow::Result;
use hotcc_channel_model::trace::{Column, Trace};
use hotcc_report::charts::trace::{Quantity, draw};
use std::fmt::Write as _;

/// Width of a text chart without its axis, and height of a panel, in characters.
const COLUMNS: usize = 72;
const ROWS: usize = 6;
/// Number of points of a line in an SVG chart.
const POINTS: usize = 960;
/// Blocks of one to eight eighths.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Name with unit, column, factor, and whether the axis starts at 0.
type Panel = (&'static str, Column, f64, bool);

const PANELS: [Panel; 3] = [
    ("capacity, Mbit/s", |s| s.capacity_bps, 1e-6, true),
    ("SINR, dB", |s| s.sinr_db, 1.0, false),
    ("RTT, ms", |s| s.rtt_ms, 1.0, true),
];

/// Returns the chart and the figures, for a terminal.
pub fn text(shown: &Shown, trace: &Trace) -> String {
    let facts = &shown.facts;
    let period = facts.period_s.map_or(String::new(), |s| format!(", one every {s} s"));
    let mut out = format!("{}: {:.1} s, {} samples{period}\n", facts.name, facts.duration_s, facts.samples);
    facts.parts().iter().for_each(|part| out += &format!("{part}\n"));
    for (name, column, scale, from_zero) in PANELS {
        let means: Vec<f64> = trace.means(column, COLUMNS).iter().map(|(_, mean)| mean * scale).collect();
        if !means.is_empty() {
            out += &panel(name, &means, from_zero);
        }
    }
    // Writing to a String does not fail.
    let end = format!("{:.0} s", facts.duration_s);
    let _ = writeln!(out, "{:10} 0 s{end:>width$}", "", width = COLUMNS - 3);
    out += &prediction(shown);
    out
}

/// Returns a panel in which each column is a bar up to its mean.
fn panel(name: &str, means: &[f64], from_zero: bool) -> String {
    let (min, max) = means.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(*v), max.max(*v)));
    let low = if from_zero { 0.0 } else { min };
    let span = if max > low { max - low } else { 1.0 };
    let eighths: Vec<usize> =
        means.iter().map(|v| ((v - low) / span * (8 * ROWS) as f64).round().max(0.0) as usize).collect();
    let mut out = format!("\n{name}; means over {COLUMNS} equal parts\n");
    for row in (0..ROWS).rev() {
        let label = match row {
            0 => format!("{low:.1}"),
            row if row + 1 == ROWS => format!("{:.1}", low + span),
            _ => String::new(),
        };
        let bar = |filled: &usize| match filled.saturating_sub(8 * row) {
            0 => ' ',
            part => BLOCKS[part.min(8) - 1],
        };
        let line: String = eighths.iter().map(bar).collect();
        let _ = writeln!(out, "{label:>10} {}", line.trim_end());
    }
    out
}

/// Describes how well the SINR predicts the capacity.
fn prediction(shown: &Shown) -> String {
    if shown.facts.sinr_db.is_none() {
        return "\nNo SINR: a feeder can publish only the capacity of this trace.\n".to_owned();
    }
    if shown.correlations.is_empty() {
        return "\nNo correlation of SINR and capacity: too few samples have both, or one of them does not vary.\n"
            .to_owned();
    }
    let mut out = "\ncorrelation of the capacity with the SINR\n  SINR older by    coefficient    pairs\n".to_owned();
    for at in &shown.correlations {
        let _ = writeln!(out, "{:>13} s {:>14.2} {:>8}", at.lag_s, at.coefficient, at.pairs);
    }
    out
}

/// Returns the chart as an SVG file: the quantities over time, then how well the SINR predicts the capacity, if that is
/// known.
pub fn svg(shown: &Shown, trace: &Trace) -> Result<String> {
    let quantity = |(name, column, scale, from_zero): Panel| Quantity {
        name,
        points: trace.means(column, POINTS).iter().map(|(t, mean)| (*t, mean * scale)).collect(),
        from_zero,
        axis: None,
    };
    let mut quantities = Vec::from(PANELS.map(quantity));
    if let Some(oldest) = shown.correlations.last() {
        quantities.push(Quantity {
            name: "correlation",
            points: shown.correlations.iter().map(|at| (at.lag_s, at.coefficient)).collect(),
            from_zero: shown.correlations.iter().all(|at| at.coefficient >= 0.0),
            axis: Some((oldest.lag_s, "age of the SINR that is compared with the capacity, s")),
        });
    }
    draw(&shown.facts.name, shown.facts.duration_s, quantities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_their_value() {
        let drawn = panel("x", &[0.0, 1.0, 6.0, 3.0], true);
        let rows: Vec<&str> = drawn.lines().skip(2).collect();
        assert_eq!(rows.len(), ROWS);
        assert_eq!((rows[0], rows[3], rows[5]), ("       6.0   █", "             ██", "       0.0  ███"));
        // Values below 0, and without any span.
        assert!(panel("x", &[-5.0, -1.0], false).contains("-5.0"));
        assert!(panel("x", &[4.0, 4.0], false).contains("4.0"));
    }
}
