//! Throughput and delay of one congestion control as multiples of another's, with one dot for each case: a
//! self-contained picture.

use super::tenths;
use crate::estimate::number;
use crate::rows::{Row, conditions};
use anyhow::Result;
use hotcc_testbed::statistics::median;
use maud::{Markup, html};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 210.0;
/// Left and right ends of the axis.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 700.0;
/// Least extent of the logarithmic axis to either side of 1; it extends further if the ratios need it.
const MIN_SPAN: f64 = 2.0;
const TICKS: [f64; 9] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
const STRIPS: [(&str, &str, f64); 2] =
    [("throughput_mbps", "throughput", 70.0), ("queue_delay_p95_ms", "p95 queueing delay", 125.0)];
/// Number of heights over which the dots of a strip are spread, so that they do not cover each other.
const HEIGHTS: usize = 5;

/// Returns the picture as the text of an SVG file. `what` names the cases; if `simulated`, the picture says so.
pub fn svg(rows: &[Row], cc: &str, other: &str, what: &str, simulated: bool) -> Result<String> {
    let ratios = |metric: &str| -> Vec<f64> {
        let of_case = |(_, rows): (_, Vec<&Row>)| {
            let mean = |label: &str| rows.iter().find(|row| row.label == label)?.estimate(metric).map(|e| e.mean);
            Some(mean(cc)? / mean(other).filter(|mean| *mean > 0.0)?)
        };
        conditions(rows).into_iter().filter_map(of_case).collect()
    };
    let strips = STRIPS.map(|(metric, name, y)| (name, y, ratios(metric)));
    let all = || strips.iter().flat_map(|(_, _, ratios)| ratios).copied().filter(|ratio| *ratio > 0.0);
    let least = all().fold(1.0 / MIN_SPAN, f64::min) * 0.9;
    let most = all().fold(MIN_SPAN, f64::max) * 1.1;
    let x = |ratio: f64| LEFT + (ratio.max(least) / least).ln() / (most / least).ln() * (RIGHT - LEFT);
    let medians: Vec<f64> = strips.iter().filter_map(|(_, _, ratios)| median(ratios)).collect();
    let [throughput, delay] = medians[..] else {
        return Err(anyhow::anyhow!("no case has figures of both {cc} and {other}"));
    };
    let cases = strips[0].2.len();
    let title = format!("{cc} against {other} on {cases} {what}");
    let label =
        format!("{title}: median throughput {} times, p95 queueing delay {} times", number(throughput), number(delay));
    let note = if simulated { "Each dot is one of them. Simulated." } else { "Each dot is one of them." };
    let strip = |(name, y, ratios): &(&str, f64, Vec<f64>), median: f64| -> Markup {
        html! {
            text x="10" y=(y + 5.0) font-weight="bold" { (name) }
            @for (place, ratio) in ratios.iter().enumerate() {
                circle cx=(tenths(x(*ratio))) cy=(y - 10.0 + 5.0 * (place % HEIGHTS) as f64) r="4" fill="#0072b2" fill-opacity="0.6" {}
            }
            line x1=(tenths(x(median))) y1=(y - 20.0) x2=(tenths(x(median))) y2=(y + 20.0) stroke="#d55e00" stroke-width="3" {}
            text x=(tenths(x(median))) y=(y - 24.0) text-anchor="middle" fill="#d55e00" { "median " (number(median)) }
        }
    };
    let drawn = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } font-family="sans-serif" font-size="14" fill="#222" role="img" aria-label=(label) {
            rect width=(WIDTH) height=(HEIGHT) fill="white" {}
            text x="10" y="24" font-size="16" font-weight="bold" { (title) }
            @for tick in TICKS.iter().filter(|tick| (least..=most).contains(tick)) {
                line x1=(tenths(x(*tick))) y1="46" x2=(tenths(x(*tick))) y2="150" stroke=(if *tick == 1.0 { "#222" } else { "#ddd" }) stroke-width="1.5" {}
                text x=(tenths(x(*tick))) y="168" text-anchor="middle" { (number(*tick)) @if *tick == 1.0 { " (" (other) ")" } }
            }
            (strip(&strips[0], throughput))
            (strip(&strips[1], delay))
            text x="10" y="198" fill="#555" { (note) }
            text x=(RIGHT) y="198" text-anchor="end" fill="#555" { "times that of " (other) }
        }
    };
    Ok(drawn.into_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowRun;
    use std::collections::BTreeMap;

    fn row(window: &str, cc: &str, mbps: f64, p95_ms: f64) -> Row {
        let values = BTreeMap::from([("throughput_mbps", mbps), ("queue_delay_p95_ms", p95_ms)]);
        Row {
            condition: BTreeMap::from([("window".to_owned(), window.to_owned())]),
            label: cc.to_owned(),
            runs: vec![RowRun { seed: 1, values }],
        }
    }

    #[test]
    fn each_case_is_a_dot_in_both_strips() {
        let rows = [
            row("a", "crest", 10.0, 20.0),
            row("a", "bbr", 10.0, 100.0),
            row("b", "crest", 9.0, 30.0),
            row("b", "bbr", 10.0, 60.0),
        ];
        let drawn = svg(&rows, "crest", "bbr", "links", true).unwrap();
        assert_eq!(drawn.matches("<circle").count(), 4);
        assert!(
            drawn.contains("median 0.95") && drawn.contains("median 0.35") && drawn.contains("Simulated"),
            "{drawn}"
        );
        assert!(drawn.contains("crest against bbr on 2 links") && !drawn.contains("NaN"));
        assert!(svg(&rows, "crest", "cubic", "links", true).is_err());
    }

    #[test]
    fn no_delay_at_all_is_at_the_end_of_the_axis() {
        let rows = [row("a", "crest", 10.0, 0.0), row("a", "bbr", 10.0, 100.0)];
        assert!(!svg(&rows, "crest", "bbr", "links", true).unwrap().contains("inf"));
    }
}
