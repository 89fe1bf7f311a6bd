//! Charts as inline SVG: what they have in common.
//!
//! The colours are those of Okabe & Ito, darkened enough for lines on white. Each has a dash pattern and a marker of
//! its own, so that no chart relies on colour alone. The page's style sheet ([`style_sheet`]) sets the dash of a
//! colour, because plotters can only draw each dash as an element of its own.

pub mod against;
pub mod board;
pub mod curves;
pub mod scatter;
pub mod timeline;
pub mod trace;

use anyhow::{Result, anyhow};
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::fmt::Write as _;
use std::ops::Range;

/// Colour and dash pattern (in CSS pixels) of each series.
const STYLES: [(RGBColor, &str); 15] = [
    (RGBColor(0x00, 0x72, 0xb2), ""),
    (RGBColor(0xd5, 0x5e, 0x00), "7 3"),
    (RGBColor(0x00, 0x8a, 0x63), "2 2"),
    (RGBColor(0xa6, 0x3d, 0x82), "10 3 2 3"),
    (RGBColor(0x11, 0x11, 0x11), "4 2"),
    (RGBColor(0x2a, 0x95, 0xd6), "12 3"),
    (RGBColor(0xa8, 0x73, 0x00), "6 2 1 2"),
    (RGBColor(0x77, 0x77, 0x77), "3 3"),
    // the styles above are for flows; this one is for a link, whose line is noisy, so that dashes would make it a blur
    (RGBColor(0x5a, 0x3e, 0xa8), ""),
    (RGBColor(0x8b, 0x1e, 0x1e), "1 2"),
    (RGBColor(0x3f, 0x6b, 0x12), "14 4"),
    (RGBColor(0x00, 0x6d, 0x77), "5 5"),
    (RGBColor(0xc2, 0x18, 0x5b), "9 2"),
    (RGBColor(0x6d, 0x4c, 0x41), "3 2 8 2"),
    (RGBColor(0x28, 0x35, 0x93), "1 4"),
];
/// Number of series that a chart can tell apart.
pub const MAX_SERIES: usize = STYLES.len();
const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
const EVENT: RGBColor = RGBColor(0x88, 0x88, 0x84);
const CAPACITY: RGBColor = RGBColor(0xc9, 0xd3, 0xdc);
/// Size of a chart of half the page's width: narrow enough for its text to stay readable on paper.
const HALF: (i32, i32) = (440, 320);
/// SVG units per CSS pixel; plotters rounds to whole units, so half a pixel is the finest step.
const UNITS: i32 = 2;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Context<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn px(pixels: i32) -> i32 {
    pixels * UNITS
}

fn colour(series: usize) -> RGBColor {
    STYLES[series % MAX_SERIES].0
}

/// Returns a sentence for a caption if a chart has no room for all of its congestion controls.
fn left_out(there_are: usize) -> String {
    if there_are <= MAX_SERIES {
        return String::new();
    }
    format!(" Only the first {MAX_SERIES} of {there_are} congestion controls are drawn.")
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Returns the style rules that give each colour its dash, in charts and legends.
#[must_use]
pub fn style_sheet() -> String {
    let mut out = String::new();
    let scaled = |dash: &str| {
        let lengths = dash.split(' ').map(|length| (length.parse().unwrap_or(0) * UNITS).to_string());
        lengths.collect::<Vec<_>>().join(" ")
    };
    for (colour, dash) in STYLES.iter().chain(&[(EVENT, "3 3")]).filter(|(_, dash)| !dash.is_empty()) {
        let (colour, dash) = (hex(*colour), scaled(dash));
        let _ = writeln!(out, "svg polyline[stroke=\"{colour}\"] {{ stroke-dasharray: {dash} }}");
    }
    out
}

/// Draws into an SVG of `size` CSS pixels; `label` describes the chart in words.
fn svg(size: (i32, i32), label: &str, draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<Markup> {
    let mut drawn = String::new();
    let (width, height) = (px(size.0), px(size.1));
    {
        let root =
            SVGBackend::with_string(&mut drawn, (width.unsigned_abs(), height.unsigned_abs())).into_drawing_area();
        draw(&root)?;
        root.present()?;
    }
    let body = drawn.split_once('>').ok_or_else(|| anyhow!("a chart without an element"))?.1;
    let body = body.strip_suffix("</svg>\n").ok_or_else(|| anyhow!("a chart without an end"))?;
    Ok(html! { svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(label) { (PreEscaped(body)) } })
}

/// Returns a chart for the page, with its legend and a caption.
#[must_use]
pub fn figure(class: &str, svg: &Markup, legend: &Markup, caption: &str) -> Markup {
    html! {
        figure class=(class) {
            div.chart tabindex="0" role="region" aria-label="chart" { (svg) }
            (legend)
            figcaption { (caption) }
        }
    }
}

/// Returns a legend with each series' colour, dash and name, and with its marker if `marked`.
#[must_use]
pub fn legend(entries: &[(usize, String)], marked: bool) -> Markup {
    html! {
        ul.legend {
            @for (series, name) in entries {
                @let stroke = hex(colour(*series));
                li {
                    svg viewBox="0 0 80 24" aria-hidden="true" {
                        polyline fill="none" stroke=(stroke) stroke-width="4" points="0,12 80,12" {}
                        @if marked { (marker_svg(*series, &stroke)) }
                    }
                    (name)
                }
            }
        }
    }
}

fn marker_svg(series: usize, fill: &str) -> Markup {
    match series % 4 {
        0 => html! { circle cx="40" cy="12" r="8" fill=(fill) {} },
        1 => html! { polygon points="40,2 50,20 30,20" fill=(fill) {} },
        2 => html! { path d="M32,4 48,20 M48,4 32,20" stroke=(fill) stroke-width="4" {} },
        _ => html! { rect x="33" y="5" width="14" height="14" fill=(fill) {} },
    }
}

/// Draws a series' marker at each point.
fn draw_markers(chart: &mut Context<'_, '_>, series: usize, points: impl Iterator<Item = (f64, f64)>) -> Result<()> {
    let colour = colour(series);
    let style = colour.filled();
    match series % 4 {
        0 => {
            chart.draw_series(points.map(|at| Circle::new(at, px(4), style)))?;
        }
        1 => {
            chart.draw_series(points.map(|at| TriangleMarker::new(at, px(5), style)))?;
        }
        2 => {
            chart.draw_series(points.map(|at| Cross::new(at, px(4), colour.stroke_width(4))))?;
        }
        _ => {
            let square = |at| EmptyElement::at(at) + Rectangle::new([(-px(3), -px(3)), (px(4), px(4))], style);
            chart.draw_series(points.map(square))?;
        }
    }
    Ok(())
}

/// Draws the grid, the axes and their labels; an empty axis name takes no room.
fn mesh(
    chart: &mut Context<'_, '_>,
    (x_name, y_name): (&str, &str),
    (x_labels, y_labels): (usize, usize),
    x_label: &dyn Fn(&f64) -> String,
    y_label: &dyn Fn(&f64) -> String,
) -> Result<()> {
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(x_labels).y_labels(y_labels).x_label_formatter(x_label).y_label_formatter(y_label);
    mesh.light_line_style(TRANSPARENT).bold_line_style(GRID.stroke_width(2)).axis_style(TEXT.stroke_width(2));
    mesh.label_style(font(12)).axis_desc_style(font(13)).set_all_tick_mark_size(px(4));
    mesh.x_desc(x_name).y_desc(y_name).draw()?;
    Ok(())
}

/// Returns the style of a chart's text, `pixels` CSS pixels high.
fn font<'a>(pixels: i32) -> TextStyle<'a> {
    // plotters expects the height of a line
    ("sans-serif", f64::from(px(pixels)) * 1.24).into_font().color(&TEXT)
}

/// Returns a range around values, with some margin; it is never empty. `None` without values.
fn range_of(values: impl Iterator<Item = f64>, room: f64) -> Option<Range<f64>> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return None;
    }
    let span = high - low;
    // a span of less than a millionth is the rounding noise of a figure that does not vary
    let margin = if span <= 1e-6 * high.abs().max(low.abs()) { (high.abs() * 0.05).max(1e-3) } else { span * room };
    Some(low - margin..high + margin)
}

/// Returns a range from 0 to the greatest value, with some margin.
fn range_from_zero(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let high = values.filter(|v| v.is_finite()).reduce(f64::max)?;
    Some(0.0..if high > 0.0 { high * 1.06 } else { 1.0 })
}

/// Rounds to one decimal: positions in SVG that is written without plotters need no more.
fn tenths(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// Formats a label of an axis, with as many digits as the axis' span needs.
fn tick(value: f64, span: f64) -> String {
    let places = (2.0 - span.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.places$}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_its_own() {
        for (k, (colour, dash)) in STYLES.iter().enumerate() {
            assert!(STYLES[..k].iter().all(|(other, _)| other != colour), "{k}");
            assert!(STYLES[..k].iter().all(|(_, other)| other != dash || dash.is_empty()), "{k}");
        }
        assert!(style_sheet().contains("svg polyline[stroke=\"#D55E00\"] { stroke-dasharray: 14 6 }"));
    }

    #[test]
    fn ranges_are_never_empty() {
        assert_eq!(range_of([].into_iter(), 0.1), None);
        let point = range_of([5.0, 5.0].into_iter(), 0.1).unwrap();
        assert!(point.start < 5.0 && point.end > 5.0);
        let zero = range_of([0.0].into_iter(), 0.1).unwrap();
        assert!(zero.start < 0.0 && zero.end > 0.0);
        assert_eq!(range_from_zero([0.0].into_iter()), Some(0.0..1.0));
        assert_eq!(range_of([f64::NAN].into_iter(), 0.1), None);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(tick(20.0, 100.0), "20");
        assert_eq!(tick(0.25, 1.0), "0.25");
        assert_eq!(tick(-0.0, 10.0), "0");
        assert_eq!(tick(0.005, 0.02), "0.005");
    }
}
