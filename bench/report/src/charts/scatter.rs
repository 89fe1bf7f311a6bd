//! Throughput against delay: a point for each seed, and the ellipse over which the seeds of a congestion control
//! scatter.

use super::super::ellipse::{Ellipse, SCALE_95};
use super::super::rows::Row;
use super::{HALF, MAX_SERIES, colour, draw_markers, figure, font, left_out, legend, mesh, px, range_of, svg, tick};
use anyhow::{Context as _, Result};
use maud::Markup;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const CORNERS: usize = 72;

/// One congestion control's seeds.
struct Cloud<'a> {
    /// Index among all congestion controls, which decides the colour.
    series: usize,
    label: &'a str,
    /// Delay and throughput.
    points: Vec<(f64, f64)>,
    ellipse: Ellipse,
}

/// Draws the chart for the rows of one condition; `None` if no row has both figures. `labels` decides the colours.
pub fn draw(condition: &str, rows: &[&Row], labels: &[String]) -> Result<Option<Markup>> {
    let has = |metric: &str| rows.iter().filter(|r| !r.runs.is_empty()).all(|r| !r.values(metric).is_empty());
    let (delay, axis) = if has("queue_delay_mean_ms") {
        ("queue_delay_mean_ms", "mean queueing delay, ms")
    } else {
        ("rtt_mean_ms", "mean RTT, ms")
    };
    let mut clouds: Vec<Cloud<'_>> = rows.iter().filter_map(|row| cloud(row, delay, labels)).collect();
    let left_out = left_out(clouds.len());
    clouds.truncate(MAX_SERIES);
    let outlines: Vec<Vec<(f64, f64)>> = clouds.iter().map(|c| c.ellipse.outline(SCALE_95, CORNERS)).collect();
    let all = || clouds.iter().flat_map(|c| &c.points).chain(outlines.iter().flatten());
    let (Some(xs), Some(ys)) = (range_of(all().map(|p| p.0), 0.08), range_of(all().map(|p| p.1), 0.08)) else {
        return Ok(None);
    };
    let seeds = clouds.iter().map(|c| c.points.len()).max().unwrap_or(0);
    let title = format!("Throughput against delay, {condition}");
    let drawn = svg(HALF, &title, |root| {
        let (x_span, y_span) = (xs.end - xs.start, ys.end - ys.start);
        let mut chart = ChartBuilder::on(root)
            .margin_top(px(12))
            .margin_right(px(16))
            .x_label_area_size(px(44))
            .y_label_area_size(px(62))
            .build_cartesian_2d(xs.clone(), ys.clone())?;
        let names = (axis, "throughput, Mbit/s");
        mesh(&mut chart, names, (7, 7), &|x| tick(*x, x_span), &|y| tick(*y, y_span))?;
        for (cloud, outline) in clouds.iter().zip(&outlines) {
            let colour = colour(cloud.series);
            let inner = cloud.ellipse.outline(1.0, CORNERS);
            if cloud.ellipse.minor > 0.0 {
                chart.draw_series([Polygon::new(inner.clone(), colour.mix(0.18))])?;
            }
            if cloud.ellipse.major > 0.0 {
                chart.draw_series([PathElement::new(inner, colour.stroke_width(3))])?;
                chart.draw_series([PathElement::new(outline.clone(), colour.mix(0.6).stroke_width(2))])?;
            }
            draw_markers(&mut chart, cloud.series, cloud.points.iter().copied())?;
        }
        // names are drawn last, so that no ellipse covers them
        let area = chart.plotting_area().strip_coord_spec();
        let (width, height) = area.dim_in_pixel();
        let plot = (f64::from(width), f64::from(height));
        let in_plot = |(x, y): (f64, f64)| ((x - xs.start) / x_span * plot.0, (ys.end - y) / y_span * plot.1);
        let boxes: Vec<NameBox> = clouds
            .iter()
            .zip(&outlines)
            .map(|(cloud, outline)| {
                let rows = outline.iter().chain(&cloud.points).map(|at| in_plot(*at).1);
                let (top, bottom) = rows.fold((f64::MAX, f64::MIN), |(top, bottom), y| (top.min(y), bottom.max(y)));
                let width = f64::from(px(7)) * cloud.label.chars().count() as f64;
                NameBox { centre: in_plot(cloud.ellipse.centre).0, top, bottom, width }
            })
            .collect();
        for (cloud, (x, y)) in clouds.iter().zip(place_names(&boxes, plot)) {
            let colour = colour(cloud.series);
            let style = font(12).color(&colour).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw_text(cloud.label, &style, (x as i32, y as i32)).context("cannot draw a name")?;
        }
        Ok(())
    })?;
    let entries: Vec<_> = clouds.iter().map(|c| (c.series, c.label.to_owned())).collect();
    let ellipses = match seeds {
        1 => "One seed: no ellipse.".to_owned(),
        2 => "Two seeds: the ellipse is a line.".to_owned(),
        _ => "Filled: the 1-sigma ellipse of the seeds. Outer outline: the ellipse that would contain 95 % of them if they \
              were normally distributed."
            .to_owned(),
    };
    let caption = format!("{title}. Up and left is better. Each point is one seed. {ellipses}{left_out}");
    Ok(Some(figure("half", &drawn, &legend(&entries, true), &caption)))
}

fn cloud<'a>(row: &'a Row, delay: &str, labels: &[String]) -> Option<Cloud<'a>> {
    let both = |values: &std::collections::BTreeMap<&'static str, f64>| {
        Some((*values.get(delay)?, *values.get("throughput_mbps")?))
    };
    let points: Vec<_> = row.runs.iter().filter_map(|run| both(&run.values)).collect();
    let series = labels.iter().position(|label| *label == row.label)?;
    Some(Cloud { series, label: &row.label, ellipse: Ellipse::fit(&points)?, points })
}

/// The cloud that a name belongs to, and the width of the name, in pixels of the plot.
struct NameBox {
    centre: f64,
    top: f64,
    bottom: f64,
    width: f64,
}

/// Returns the middle of each name: above its cloud, else below it, else at the first height from the top at which it
/// covers no other name.
fn place_names(boxes: &[NameBox], plot: (f64, f64)) -> Vec<(f64, f64)> {
    let height = f64::from(px(14));
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for (index, one) in boxes.iter().enumerate() {
        let half = (one.width / 2.0).min(plot.0 / 2.0);
        let x = one.centre.clamp(half, plot.0 - half);
        let free = |y: &f64| {
            let inside = *y >= height / 2.0 && *y <= plot.1 - height / 2.0;
            let apart = |(other, at): (&NameBox, &(f64, f64))| {
                (at.1 - y).abs() >= height || (at.0 - x).abs() >= (other.width + one.width) / 2.0
            };
            inside && boxes[..index].iter().zip(&placed).all(apart)
        };
        let above = one.top - height * 0.9;
        let below = one.bottom + height * 0.9;
        let further = (0..).map(|k| f64::from(k) * height / 2.0).take_while(|y| *y < plot.1);
        let y = [above, below].into_iter().chain(further).find(free).unwrap_or(height / 2.0);
        placed.push((x, y));
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn row(label: &str, points: &[(f64, f64)]) -> Row {
        let run = |(k, (delay, rate)): (usize, &(f64, f64))| super::super::super::rows::RowRun {
            seed: k as u64,
            values: BTreeMap::from([("queue_delay_mean_ms", *delay), ("throughput_mbps", *rate)]),
        };
        Row { condition: BTreeMap::new(), label: label.to_owned(), runs: points.iter().enumerate().map(run).collect() }
    }

    fn drawn(rows: &[Row]) -> Option<String> {
        let labels: Vec<String> = rows.iter().map(|r| r.label.clone()).collect();
        draw("all", &rows.iter().collect::<Vec<_>>(), &labels).unwrap().map(Markup::into_string)
    }

    #[test]
    fn degenerate_samples_are_drawn() {
        assert_eq!(drawn(&[]), None);
        assert_eq!(drawn(&[row("none", &[])]), None);
        assert!(drawn(&[row("one", &[(5.0, 10.0)])]).unwrap().contains("One seed"));
        assert!(drawn(&[row("two", &[(5.0, 10.0), (6.0, 9.0)])]).unwrap().contains("is a line"));
        let same = drawn(&[row("same", &[(5.0, 10.0); 4])]).unwrap();
        assert!(!same.contains("<polygon") && same.contains("<circle") && !same.contains("NaN"));
    }

    #[test]
    fn a_longer_delay_is_further_to_the_right() {
        let page = drawn(&[row("one", &[(5.0, 10.0), (50.0, 9.0)])]).unwrap();
        let places = page.split("<circle cx=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap());
        let places: Vec<i32> = places.collect();
        assert!(places[0] + 100 < places[1], "{places:?}");
    }

    #[test]
    fn names_keep_apart_and_inside() {
        let boxes: Vec<NameBox> =
            (0..5).map(|_| NameBox { centre: 870.0, top: 20.0, bottom: 580.0, width: 120.0 }).collect();
        let placed = place_names(&boxes, (900.0, 600.0));
        for (k, a) in placed.iter().enumerate() {
            assert!(placed[..k].iter().all(|b| (a.1 - b.1).abs() >= f64::from(px(14))), "{placed:?}");
            assert!(a.0 <= 840.0 && a.1 > 0.0 && a.1 < 600.0, "{placed:?}");
        }
    }
}
