//! Congestion controls by throughput and delay over all cases of a scenario: a self-contained picture.

use super::tenths;
use crate::estimate::number;
use crate::ranking::{Standing, front};
use anyhow::{Result, ensure};
use maud::{Markup, html};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// The plot's edges.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 370.0;
/// Shorter delays are drawn at this value: a bound may have no delay, and the axis is logarithmic.
const MIN_DELAY_MS: f64 = 5.0;
const TICKS_MS: [f64; 12] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4];
/// Least distance between the baselines of two names.
const LINE: f64 = 15.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.5;

/// Returns the picture as the text of an SVG file. `what` names the cases; if `simulated`, the picture says so.
///
/// # Errors
/// There is nothing to draw.
pub fn svg(standings: &[Standing], what: &str, simulated: bool) -> Result<String> {
    ensure!(standings.iter().any(|s| !s.is_bound), "no case has figures of all congestion controls and of the bound");
    // no throughput is below 0, however wide the interval
    let low = |s: &Standing| s.share.interval().map_or(s.share.mean, |(low, _)| low.max(0.0));
    let least_share = standings.iter().map(low).fold(1.0, f64::min);
    let floor = (((least_share - 0.02) * 20.0).floor() / 20.0).max(0.0);
    let most_ms = standings.iter().map(|s| s.delay_p95_ms).fold(MIN_DELAY_MS * 4.0, f64::max) * 2.5;
    let x =
        |ms: f64| LEFT + (ms.max(MIN_DELAY_MS) / MIN_DELAY_MS).ln() / (most_ms / MIN_DELAY_MS).ln() * (RIGHT - LEFT);
    let y = |share: f64| BOTTOM - (share - floor) / (1.02 - floor) * (BOTTOM - TOP);
    let places: Vec<(f64, f64)> = standings.iter().map(|s| (x(s.delay_p95_ms), y(s.share.mean))).collect();
    let names = names(standings, &places);
    let line: Vec<String> =
        front(standings).iter().map(|s| format!("{},{}", tenths(x(s.delay_p95_ms)), tenths(y(s.share.mean)))).collect();
    let twentieths = || (0..=20).map(|n| f64::from(n) / 20.0).filter(|share| *share >= floor);
    let cases = standings.iter().map(|s| s.cases).max().unwrap_or_default();
    let title = format!("Throughput and queueing delay on {cases} {what}");
    let points: Vec<String> = standings
        .iter()
        .map(|s| format!("{} {} % at {} ms", s.label, number(s.share.mean * 100.0), number(s.delay_p95_ms)))
        .collect();
    let mark = |(s, (cx, cy)): (&Standing, &(f64, f64))| -> Markup {
        let (cx, cy) = (tenths(*cx), tenths(*cy));
        html! {
            @if s.is_bound {
                circle cx=(cx) cy=(cy) r="5" fill="white" stroke="#555" stroke-width="2" {}
            } @else {
                @if let Some((_, high)) = s.share.interval() {
                    line x1=(cx) y1=(tenths(y(low(s)))) x2=(cx) y2=(tenths(y(high.min(1.02)))) stroke="#0072b2" stroke-opacity="0.4" stroke-width="2" {}
                }
                circle cx=(cx) cy=(cy) r="5" fill="#0072b2" {}
            }
        }
    };
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } font-family="sans-serif" font-size="13" fill="#222" role="img" aria-label={ (title) ": " (points.join(", ")) } {
            rect width=(WIDTH) height=(HEIGHT) fill="white" {}
            text x="10" y="26" font-size="16" font-weight="bold" { (title) }
            @for ms in TICKS_MS.iter().filter(|ms| **ms <= most_ms) {
                line x1=(tenths(x(*ms))) y1=(TOP) x2=(tenths(x(*ms))) y2=(BOTTOM) stroke="#ddd" {}
                text x=(tenths(x(*ms))) y=(BOTTOM + 18.0) text-anchor="middle" { @if *ms <= MIN_DELAY_MS { "≤ " } (number(*ms)) }
            }
            @for share in twentieths() {
                line x1=(LEFT) y1=(tenths(y(share))) x2=(RIGHT) y2=(tenths(y(share))) stroke="#ddd" {}
                text x=(LEFT - 8.0) y=(tenths(y(share) + 4.0)) text-anchor="end" { (number((share * 100.0).round())) }
            }
            text x=(LEFT - 50.0) y=(tenths(f64::midpoint(TOP, BOTTOM))) text-anchor="middle" transform={ "rotate(-90 " (LEFT - 50.0) " " (tenths(f64::midpoint(TOP, BOTTOM))) ")" } { "throughput, % of the bound" }
            text x=(tenths(f64::midpoint(LEFT, RIGHT))) y=(BOTTOM + 38.0) text-anchor="middle" { "median over the links of the 95th percentile of the queueing delay, ms" }
            polyline points=(line.join(" ")) fill="none" stroke="#d55e00" stroke-width="2" stroke-dasharray="5 4" {}
            @for one in standings.iter().zip(&places) { (mark(one)) }
            @for (s, (at_x, at_y)) in standings.iter().zip(&names) {
                text x=(tenths(*at_x)) y=(tenths(*at_y)) fill=(if s.is_bound { "#555" } else { "#222" }) { (s.label) }
            }
            text x="10" y=(HEIGHT - 12.0) fill="#555" {
                "Up and left is better. Dashed: the Pareto front. Rings: bounds. Bars: 95 % interval."
                @if simulated { " Simulated." }
            }
        }
    };
    Ok(drawn.into_string() + "\n")
}

/// Returns where each name begins: beside its dot, or further down if it would cover a name that has been placed.
fn names(standings: &[Standing], places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut placed: Vec<(f64, f64, f64)> = Vec::new();
    for (standing, (x, y)) in standings.iter().zip(places) {
        let width = LETTER * standing.label.len() as f64;
        let left = if x + 9.0 + width > WIDTH { x - 9.0 - width } else { x + 9.0 };
        let mut baseline = y + 4.0;
        let covers = |(from, at, wide): &(f64, f64, f64), baseline: f64| {
            (at - baseline).abs() < LINE && left < from + wide && *from < left + width
        };
        while placed.iter().any(|other| covers(other, baseline)) && baseline < HEIGHT {
            baseline += 1.0;
        }
        placed.push((left, baseline, width));
    }
    placed.into_iter().map(|(x, y, _)| (x, y)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;

    fn standing(label: &str, share: f64, delay_p95_ms: f64) -> Standing {
        Standing {
            label: label.to_owned(),
            is_bound: label == "oracle",
            cases: 3,
            share: Estimate { n: 3, mean: share, deviation: Some(0.01), half_width: Some(0.02) },
            delay_p95_ms,
            delay_p95_most_ms: delay_p95_ms,
            timeouts: 0.0,
            best_trades: 1,
        }
    }

    #[test]
    fn each_has_a_dot_and_a_name_of_its_own_place() {
        let all = [standing("a", 0.95, 30.0), standing("b", 0.95, 30.0), standing("oracle", 1.0, 0.0)];
        let drawn = svg(&all, "links", true).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 3);
        assert!(drawn.contains("on 3 links") && drawn.contains("Simulated") && !drawn.contains("NaN"), "{drawn}");
        assert!(drawn.contains("≤ 5"), "the bound has less than the axis: {drawn}");
        let places = [(100.0, 100.0), (100.0, 100.0), (60.0, 50.0)];
        let names = names(&all, &places);
        assert!((names[0].1 - names[1].1).abs() >= LINE, "{names:?}");
        assert!(svg(&all[2..], "links", true).is_err(), "only a bound");
    }

    #[test]
    fn a_wide_interval_does_not_extend_the_axis_below_zero() {
        let share = Estimate { n: 2, mean: 0.8, deviation: Some(0.1), half_width: Some(1.3) };
        let drawn = svg(&[Standing { share, ..standing("a", 0.8, 30.0) }], "links", true).unwrap();
        let lowest = format!("y=\"{}\" text-anchor=\"end\">0</text>", BOTTOM + 4.0);
        assert!(drawn.contains(&lowest) && !drawn.contains(">-"), "{drawn}");
    }
}
