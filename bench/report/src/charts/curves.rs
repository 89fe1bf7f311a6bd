//! Curves, one for each congestion control: the distribution of the RTT, and figures against a swept parameter.

use super::super::rows::{Case, Row, case_text, conditions};
use super::{
    HALF, MAX_SERIES, colour, draw_markers, figure, left_out, legend, mesh, px, range_from_zero, range_of, svg, tick,
};
use crate::data::COLUMNS;
use anyhow::Result;
use maud::Markup;
use plotters::prelude::*;
use std::collections::BTreeSet;

/// Columns of the tables that are drawn against a parameter.
const AGAINST: [&str; 7] =
    ["throughput_mbps", "utilisation", "rtt_mean_ms", "queue_delay_mean_ms", "loss_ratio", "completion_s", "jain"];

/// A congestion control's RTT samples, ms.
pub struct RttSamples {
    /// Index among all congestion controls, which decides the colour.
    pub series: usize,
    /// Name of the congestion control.
    pub label: String,
    /// Samples, in any order.
    pub samples: Vec<f64>,
}

/// Draws the cumulative distributions; `None` if there are no samples.
pub fn rtt_distributions(condition: &str, mut all: Vec<RttSamples>, of_seeds: &str) -> Result<Option<Markup>> {
    all.retain(|one| !one.samples.is_empty());
    let left_out = left_out(all.len());
    all.truncate(MAX_SERIES);
    for one in &mut all {
        one.samples.sort_by(f64::total_cmp);
    }
    // an outlier must not compress all other values into the beginning of the axis
    let share = |sorted: &[f64], per_mille: usize| sorted[(sorted.len() - 1) * per_mille / 1000];
    let ends = all.iter().flat_map(|one| [one.samples[0], share(&one.samples, 995)]);
    let Some(xs) = range_of(ends, 0.04) else { return Ok(None) };
    let title = format!("Distribution of the RTT, {condition}");
    let span = xs.end - xs.start;
    let drawn = svg(HALF, &title, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_top(px(12))
            .margin_right(px(16))
            .x_label_area_size(px(44))
            .y_label_area_size(px(62))
            .build_cartesian_2d(xs.clone(), 0.0..1.0)?;
        let names = ("RTT, ms", "fraction of samples");
        mesh(&mut chart, names, (7, 6), &|x| tick(*x, span), &|y| tick(*y, 1.0))?;
        for one in &all {
            // steps of 0.5 % are too fine to be seen
            let curve =
                (0..=200).map(|k| (share(&one.samples, k * 5), k as f64 / 200.0)).take_while(|point| point.0 <= xs.end);
            chart.draw_series(LineSeries::new(curve, colour(one.series).stroke_width(4)))?;
        }
        Ok(())
    })?;
    let entries: Vec<_> = all.iter().map(|one| (one.series, one.label.clone())).collect();
    let caption = format!(
        "{title}: fraction of the sampling periods of {of_seeds} with at most this RTT. The axis ends at the 99.5th \
         percentile of the slowest congestion control.{left_out}"
    );
    Ok(Some(figure("half", &drawn, &legend(&entries, false), &caption)))
}

/// The charts against one parameter, with all other parameters fixed.
pub struct Against {
    /// The name of the parameter, and the values of the others.
    pub title: String,
    /// The charts, as HTML.
    pub charts: Vec<Markup>,
}

/// Draws the figures against each swept parameter with several numeric values, once for each combination of the other
/// parameters. Returns the first `most` of these, and how many there are.
pub fn against_parameters(rows: &[Row], labels: &[String], most: usize) -> Result<(Vec<Against>, usize)> {
    let keys: BTreeSet<&String> = rows.iter().flat_map(|row| row.condition.keys()).collect();
    let mut drawn = Vec::new();
    let mut there_are = 0;
    for key in keys {
        for (others, members) in fixed(rows, key) {
            let Some(axis) = ParameterAxis::of(key, &members) else { continue };
            there_are += 1;
            if drawn.len() >= most {
                continue;
            }
            let rest = if others.is_empty() { String::new() } else { format!(" at {}", case_text(&others)) };
            let title = format!("Against {key}{rest}");
            let columns = COLUMNS.iter().filter(|column| AGAINST.contains(&column.metric));
            let charts = columns.map(|column| {
                let lines = lines(&axis, (column.metric, column.factor), &members, labels);
                against(&axis, column.heading, &title, &lines)
            });
            let charts: Vec<Markup> = charts.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
            drawn.push(Against { title, charts });
        }
    }
    Ok((drawn, there_are))
}

/// Groups rows whose conditions differ only in `key`.
fn fixed(rows: &[Row], key: &str) -> Vec<(Case, Vec<Row>)> {
    let others: Vec<Row> = rows
        .iter()
        .filter(|row| row.condition.contains_key(key))
        .map(|row| {
            let mut condition = row.condition.clone();
            condition.remove(key);
            Row { condition, ..row.clone() }
        })
        .collect();
    // rows keep their order, so both lists go through the conditions in the same order
    let whole: Vec<&Row> = rows.iter().filter(|row| row.condition.contains_key(key)).collect();
    conditions(&others)
        .into_iter()
        .map(|(case, _)| {
            let members = others.iter().zip(&whole).filter(|(other, _)| other.condition == *case);
            (case.clone(), members.map(|(_, row)| (*row).clone()).collect())
        })
        .collect()
}

/// Positions of a parameter's values on an axis.
struct ParameterAxis {
    key: String,
    /// Each value as text and as number, in ascending order.
    values: Vec<(String, f64)>,
    /// Whether the values are placed to scale; otherwise they are spaced evenly.
    linear: bool,
}

impl ParameterAxis {
    /// Places the values of a parameter on an axis. Returns `None` unless there are at least two values and all are
    /// numbers with the same unit.
    fn of(key: &str, rows: &[Row]) -> Option<Self> {
        let texts: BTreeSet<&String> = rows.iter().filter_map(|row| row.condition.get(key)).collect();
        let parsed: Vec<(String, f64, &str)> = texts
            .into_iter()
            .map(|text| {
                let (number, unit) = numeric(text)?;
                Some((text.clone(), number, unit))
            })
            .collect::<Option<_>>()?;
        let unit = parsed.first()?.2;
        if parsed.len() < 2 || parsed.iter().any(|(_, _, other)| *other != unit) {
            return None;
        }
        let mut values: Vec<(String, f64)> = parsed.into_iter().map(|(text, number, _)| (text, number)).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        // to scale, all of 0.0001, 0.001 and 0.01 but the last would be in one spot
        let span = values[values.len() - 1].1 - values[0].1;
        let closest = values.windows(2).map(|pair| pair[1].1 - pair[0].1).fold(f64::INFINITY, f64::min);
        Some(Self { key: key.to_owned(), linear: closest > span / 20.0, values })
    }

    fn place(&self, text: &str) -> Option<f64> {
        let index = self.values.iter().position(|(value, _)| value == text)?;
        Some(if self.linear { self.values[index].1 } else { index as f64 })
    }

    fn label(&self, place: f64, span: f64) -> String {
        if self.linear {
            return tick(place, span);
        }
        let near = (place.round() - place).abs() < 1e-6 && place >= 0.0;
        let value = self.values.get(place.round() as usize).filter(|_| near);
        value.map(|(text, _)| text.clone()).unwrap_or_default()
    }
}

/// Splits a number from its unit: `20ms` is 20 and `ms`.
fn numeric(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some((number, ""));
    }
    let unit = text.find(|c: char| c.is_alphabetic() || c == '%' || c == ' ')?;
    let number = text[..unit].parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, text[unit..].trim()))
}

/// A congestion control's line: its index among all, its name, and at each value the mean and the half width of its
/// interval.
struct Line<'a> {
    series: usize,
    label: &'a str,
    points: Vec<(f64, f64, f64)>,
}

/// Returns each congestion control's means, times `factor`.
fn lines<'a>(axis: &ParameterAxis, (metric, factor): (&str, f64), rows: &[Row], labels: &'a [String]) -> Vec<Line<'a>> {
    let line = |(series, label): (usize, &'a String)| {
        let points = rows.iter().filter(|row| row.label == *label).filter_map(|row| {
            let estimate = row.estimate(metric)?;
            let place = axis.place(row.condition.get(&axis.key)?)?;
            Some((place, estimate.mean * factor, estimate.half_width.unwrap_or(0.0) * factor))
        });
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { series, label, points }
    };
    labels.iter().enumerate().map(line).filter(|line| !line.points.is_empty()).collect()
}

/// Draws the chart of one figure; `None` if the figure does not vary.
fn against(axis: &ParameterAxis, heading: &str, title: &str, lines: &[Line<'_>]) -> Result<Option<Markup>> {
    let left_out = left_out(lines.len());
    let lines = &lines[..lines.len().min(MAX_SERIES)];
    let all = || lines.iter().flat_map(|line| &line.points);
    let varies = all().any(|a| all().next().is_some_and(|b| (a.1 - b.1).abs() > 1e-9 * b.1.abs()));
    let xs = range_of(axis.values.iter().filter_map(|(text, _)| axis.place(text)), 0.06);
    let (Some(xs), Some(ys), true) = (xs, range_from_zero(all().map(|p| p.1 + p.2)), varies) else {
        return Ok(None);
    };
    let (x_span, y_span) = (xs.end - xs.start, ys.end);
    let name = format!("{title}: {heading}");
    let ticks = if axis.linear { 6 } else { axis.values.len() };
    let drawn = svg(HALF, &name, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_top(px(12))
            .margin_right(px(16))
            .x_label_area_size(px(44))
            .y_label_area_size(px(62))
            .build_cartesian_2d(xs.clone(), ys.clone())?;
        let names = (axis.key.as_str(), heading);
        mesh(&mut chart, names, (ticks, 6), &|x| axis.label(*x, x_span), &|y| tick(*y, y_span))?;
        for Line { series, points, .. } in lines {
            let style = colour(*series);
            // a thin rectangle, because a line would get the dashes of its colour
            let bar = |(x, mean, half): &(f64, f64, f64)| {
                let (side, low) = (x_span * 0.002, (mean - half).max(ys.start));
                Rectangle::new([(x - side, low), (x + side, mean + half)], style.mix(0.6).filled())
            };
            chart.draw_series(points.iter().filter(|p| p.2 > 0.0).map(bar))?;
            let means = points.iter().map(|p| (p.0, p.1));
            chart.draw_series(LineSeries::new(means.clone(), style.stroke_width(4)))?;
            draw_markers(&mut chart, *series, means)?;
        }
        Ok(())
    })?;
    let entries: Vec<_> = lines.iter().map(|line| (line.series, line.label.to_owned())).collect();
    let spaced = if axis.linear { "" } else { " The values are spaced evenly, not to scale." };
    let caption = format!("{name}. Lines: mean over seeds. Bars: 95 % confidence interval.{spaced}{left_out}");
    Ok(Some(figure("half", &drawn, &legend(&entries, true), &caption)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowRun;
    use std::collections::BTreeMap;

    fn row(label: &str, case: &[(&str, &str)], mbps: f64) -> Row {
        let run = |seed| RowRun { seed, values: BTreeMap::from([("throughput_mbps", mbps + seed as f64)]) };
        let condition = case.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Row { condition, label: label.to_owned(), runs: vec![run(1), run(2)] }
    }

    #[test]
    fn numbers_with_units() {
        assert_eq!(numeric("0.01"), Some((0.01, "")));
        assert_eq!(numeric("20ms"), Some((20.0, "ms")));
        assert_eq!(numeric("1 %"), Some((1.0, "%")));
        assert_eq!(numeric("1e-3"), Some((0.001, "")));
        assert_eq!(numeric("blockage"), None);
        assert_eq!(numeric("inf"), None);
    }

    #[test]
    fn a_parameter_is_an_axis_only_where_it_is_a_number() {
        let axis = |values: &[&str]| {
            let rows: Vec<_> = values.iter().map(|v| row("a", &[("loss", v)], 1.0)).collect();
            ParameterAxis::of("loss", &rows).map(|axis| axis.linear)
        };
        assert_eq!(axis(&["0.1"]), None);
        assert_eq!(axis(&["10ms", "1s"]), None);
        assert_eq!(axis(&["urban", "rural"]), None);
        assert_eq!(axis(&["10", "20", "30"]), Some(true));
        assert_eq!(axis(&["0", "0.0001", "0.01"]), Some(false));
    }

    #[test]
    fn other_parameters_stay_fixed() {
        let rows = [
            row("a", &[("loss", "0"), ("rtt", "x")], 10.0),
            row("a", &[("loss", "1"), ("rtt", "x")], 5.0),
            row("a", &[("loss", "0"), ("rtt", "y")], 4.0),
            row("a", &[("loss", "1"), ("rtt", "y")], 3.0),
        ];
        let (drawn, there_are) = against_parameters(&rows, &["a".to_owned()], 1).unwrap();
        assert_eq!((drawn.len(), there_are), (1, 2));
        assert_eq!(drawn[0].title, "Against loss at rtt=x");
        // the throughput is the only figure that the rows have
        assert_eq!(drawn[0].charts.len(), 1);
    }

    #[test]
    fn no_samples_no_chart() {
        assert!(rtt_distributions("all", Vec::new(), "seed 1").unwrap().is_none());
        let one = RttSamples { series: 0, label: "a".into(), samples: vec![20.0; 3] };
        assert!(rtt_distributions("all", vec![one], "seed 1").unwrap().is_some());
    }
}
