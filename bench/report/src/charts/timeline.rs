//! One run over time: rates and the capacity, SINR, windows, RTTs and queues, one panel below the other.

use super::super::series::{
    Points, Recorded, Series, bucket_extremes, bucket_means, bucket_rates, period, read, split_at_gaps,
};
use super::{
    CAPACITY, EVENT, MAX_SERIES, colour, figure, font, legend, mesh, px, range_from_zero, range_of, svg, tick,
};
use crate::html::{items, note};
use anyhow::Result;
use hotcc_lab::results::RunSummary;
use maud::{Markup, html};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const WIDTH: i32 = 960;
/// Numbers of flows and links that a panel has room for.
const MAX_FLOWS: usize = 8;
const MAX_LINKS: usize = 4;
const MAX_EVENTS: usize = 30;
/// Number of buckets along the time axis: one point for every two or three CSS pixels.
const BUCKETS: f64 = 320.0;
/// Least style of a link.
const LINK_STYLE: usize = MAX_FLOWS;

const NO_DATA: &str = "No data was recorded over time.";

const FLOW_COLUMNS: [&str; 4] = ["delivery_rate_bps", "cwnd", "srtt_us", "rtt_us"];
const LINK_COLUMNS: [&str; 4] = ["capacity_bps", "sinr_db", "queue_bytes", "sent_bytes"];
// indices into these lists
const RATE: usize = 0;
const CWND: usize = 1;
const SRTT: usize = 2;
const RTT: usize = 3;
const CAPACITY_BPS: usize = 0;
const SINR: usize = 1;
const QUEUE: usize = 2;
const SENT: usize = 3;

/// The time series of a run.
pub struct Recording {
    flows: Recorded,
    links: Recorded,
}

impl Recording {
    /// Reads the series from the run's directory.
    #[must_use]
    pub fn read(directory: &Path) -> Self {
        Self {
            flows: read(&directory.join("flows.csv"), "flow", &FLOW_COLUMNS),
            links: read(&directory.join("links.csv"), "link", &LINK_COLUMNS),
        }
    }

    /// Returns what is wrong with the run's files.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        [&self.flows, &self.links].into_iter().filter_map(|file| file.problem.as_deref())
    }

    /// Returns the RTT samples of the flows with these names, ms.
    #[must_use]
    pub fn rtt_ms(&self, flows: &[&str]) -> Vec<f64> {
        let chosen = self.flows.series.iter().filter(|series| flows.contains(&series.name.as_str()));
        chosen.flat_map(|series| &series.columns[RTT]).map(|(_, us)| us / 1e3).collect()
    }
}

/// One panel.
pub(super) struct Panel {
    name: &'static str,
    height: i32,
    pub(super) range: Range<f64>,
    /// Corners of steps, filled below.
    area: Option<Points>,
    /// Each line's style and its parts.
    lines: Vec<(usize, Vec<Points>)>,
    /// Length and name of the horizontal axis, if it is not the time.
    pub(super) own_axis: Option<(f64, &'static str)>,
}

impl Panel {
    pub(super) fn new(
        name: &'static str,
        height: i32,
        lines: Vec<(usize, Vec<Points>)>,
        area: Option<Points>,
    ) -> Option<Self> {
        let values = lines.iter().flat_map(|line| &line.1).flatten().chain(area.iter().flatten());
        let range = range_from_zero(values.map(|p| p.1))?;
        Some(Self { name, height, range, area, lines, own_axis: None })
    }
}

/// The data that a chart draws, of one run or of several.
#[derive(Default)]
pub struct Shown<'a> {
    duration_s: f64,
    /// Flows with their styles and their names in the legend.
    flows: Vec<(&'a Series, usize, String)>,
    /// Links with their styles.
    links: Vec<(&'a Series, usize)>,
    /// Number of links that carried the traffic, also of those without room.
    links_there_are: usize,
    bottleneck: Option<&'a Series>,
}

impl<'a> Shown<'a> {
    /// Selects the flows and links of a run. `series` returns a congestion control's index among all.
    pub fn of_run(run: &RunSummary, recording: &'a Recording, series: impl Fn(&str) -> usize) -> Self {
        let flows = flow_styles(run, series).into_iter().filter_map(|(name, cc, style)| {
            let recorded = recording.flows.series.iter().find(|flow| flow.name == name)?;
            Some((recorded, style, format!("{name} ({cc})")))
        });
        let flows: Vec<_> = flows.collect();
        let (links, bottleneck) = shown_links(&recording.links.series);
        let links_there_are = links.len();
        // a link has none of the flows' styles
        let free = (LINK_STYLE..).filter(|style| flows.iter().all(|(_, of, _)| *of != style % MAX_SERIES));
        let links = links.into_iter().take(MAX_LINKS).zip(free).collect();
        Self { duration_s: run.duration_s, flows, links, links_there_are, bottleneck }
    }

    /// Adds the only flow of a run, and the queue that it went through.
    pub fn overlay(&mut self, run: &RunSummary, recording: &'a Recording, style: usize, label: &str) {
        self.duration_s = self.duration_s.max(run.duration_s);
        self.flows.extend(recording.flows.series.iter().map(|flow| (flow, style, label.to_owned())));
        let bottleneck = shown_links(&recording.links.series).1;
        self.links.extend(bottleneck.map(|link| (link, style)));
        self.bottleneck = self.bottleneck.or(bottleneck);
    }
}

/// Ranges of panels by name, common to all charts that are compared.
#[derive(Default)]
pub struct Ranges(BTreeMap<&'static str, Range<f64>>);

impl Ranges {
    /// Extends the ranges to include a chart.
    pub fn widen(&mut self, shown: &Shown<'_>) {
        for panel in panels(shown) {
            let range = self.0.entry(panel.name).or_insert_with(|| panel.range.clone());
            *range = range.start.min(panel.range.start)..range.end.max(panel.range.end);
        }
    }
}

/// Draws the chart of a run with its legend and events, as HTML.
pub fn draw(
    run: &RunSummary,
    recording: &Recording,
    title: &str,
    shown: &Shown<'_>,
    ranges: &Ranges,
) -> Result<Markup> {
    let problems = html! { @for problem in recording.problems() { (note(problem)) } };
    // numbered as in the list below the chart, which includes events without a time
    let numbered = run.events.iter().enumerate().take(MAX_EVENTS);
    let events: Vec<(usize, f64)> = numbered.filter_map(|(k, event)| Some((k + 1, event_time(event)?))).collect();
    let queues = shown.links.iter().map(|(link, style)| (*style, format!("{} (link)", link.name)));
    let Some(chart) = chart(shown, title, &events, queues, ranges)? else {
        return Ok(html! { (problems) (note(NO_DATA)) });
    };
    let flows = run.flows.len();
    let numbered = run.events.iter().enumerate().map(|(k, event)| format!("{}: {event}", k + 1));
    Ok(html! {
        (problems)
        (chart)
        @if flows > MAX_FLOWS { (note(&format!("The first {MAX_FLOWS} of {flows} flows are drawn."))) }
        @if shown.links_there_are > MAX_LINKS {
            (note(&format!("The first {MAX_LINKS} of {} links that carried the traffic are drawn.", shown.links_there_are)))
        }
        @if !run.events.is_empty() { ul.events aria-label="events" { (items(numbered, MAX_EVENTS)) } }
    })
}

/// Draws the chart of several runs, each with one congestion control, with its legend, as HTML.
pub fn draw_overlaid(shown: &Shown<'_>, title: &str, ranges: &Ranges) -> Result<Markup> {
    Ok(chart(shown, title, &[], std::iter::empty(), ranges)?.unwrap_or_else(|| note(NO_DATA)))
}

fn chart(
    shown: &Shown<'_>,
    title: &str,
    events: &[(usize, f64)],
    queues: impl Iterator<Item = (usize, String)>,
    ranges: &Ranges,
) -> Result<Option<Markup>> {
    let mut panels = panels(shown);
    if panels.is_empty() {
        return Ok(None);
    }
    for panel in &mut panels {
        panel.range = ranges.0.get(panel.name).unwrap_or(&panel.range).clone();
    }
    let drawn = draw_panels(&panels, shown.duration_s, events, title)?;
    let flows = shown.flows.iter().map(|(_, style, name)| (*style, name.clone()));
    let capacity = shown.bottleneck.map_or(String::new(), |link| {
        format!(" Filled: capacity of {}, the narrowest link that carried the traffic.", link.name)
    });
    let (_, rate_span) = rate_spans(shown);
    let above = if exceeds(&panels[0], rate_span) {
        " A rate is above the capacity where data that was lost or overtaken arrives, and what waited for it is delivered \
         at once."
    } else {
        ""
    };
    let caption = format!(
        "{title}.{capacity}{above} Rates are means over {} ms; everything else shows its minimum and maximum in each {} ms.",
        tick(rate_span * 1e3, 100.0),
        tick(bucket_width(shown.duration_s) * 1e3, 100.0)
    );
    Ok(Some(figure("whole", &drawn, &legend(&flows.chain(queues).collect::<Vec<_>>(), false), &caption)))
}

/// Returns whether a rate of the panel, a mean over `span` seconds, is above the greatest capacity within its span.
fn exceeds(panel: &Panel, span: f64) -> bool {
    let Some(area) = &panel.area else { return false };
    let greatest = |t: f64| {
        let (from, until) = (t - span / 2.0, t + span / 2.0);
        let steps = area.chunks_exact(2).filter(|step| step[0].0 < until && step[1].0 > from);
        steps.map(|step| step[0].1).reduce(f64::max)
    };
    let mut points = panel.lines.iter().flat_map(|line| &line.1).flatten();
    points.any(|(t, rate)| greatest(*t).is_some_and(|most| *rate > most * 1.01))
}

/// Returns each drawn flow's name, congestion control and style. If every flow has a different congestion control, the
/// style is the congestion control's, so that a colour has the same meaning on the whole page; otherwise each flow has
/// its own.
fn flow_styles(run: &RunSummary, series: impl Fn(&str) -> usize) -> Vec<(&str, &str, usize)> {
    let by_cc: Vec<usize> = run.flows.iter().map(|flow| series(&flow.cc) % MAX_SERIES).collect();
    let distinct = by_cc.iter().enumerate().all(|(k, style)| !by_cc[..k].contains(style));
    let style = |k: usize| if distinct { by_cc[k] } else { k };
    let named = run.flows.iter().enumerate().map(|(k, flow)| (flow.name.as_str(), flow.cc.as_str(), style(k)));
    named.take(MAX_FLOWS).collect()
}

/// Returns the links that carried at least a tenth of what the busiest link did (the ACKs' way back does not), and the
/// one of them with the least mean capacity; of equals, the one with the longest queue.
fn shown_links(links: &[Series]) -> (Vec<&Series>, Option<&Series>) {
    let sum = |points: &Points| points.iter().map(|p| p.1).sum::<f64>();
    let most = links.iter().map(|link| sum(&link.columns[SENT])).fold(0.0, f64::max);
    let shown: Vec<&Series> = links.iter().filter(|link| sum(&link.columns[SENT]) * 10.0 >= most).collect();
    let capacity = |link: &Series| sum(&link.columns[CAPACITY_BPS]) / link.columns[CAPACITY_BPS].len() as f64;
    let queue = |link: &Series| link.columns[QUEUE].iter().map(|p| p.1).fold(0.0, f64::max);
    let narrow = shown.iter().filter(|link| !link.columns[CAPACITY_BPS].is_empty());
    let bottleneck = narrow.min_by(|a, b| capacity(a).total_cmp(&capacity(b)).then(queue(b).total_cmp(&queue(a))));
    let bottleneck = bottleneck.copied();
    (shown, bottleneck)
}

fn bucket_width(duration: f64) -> f64 {
    // below 10 ms a bucket would hold at most one sample
    (duration / BUCKETS).max(0.01)
}

/// Returns the flows' sampling period, and the length of the spans over which rates are means.
fn rate_spans(shown: &Shown<'_>) -> (f64, f64) {
    let width = bucket_width(shown.duration_s);
    let sampling = period(shown.flows.iter().map(|flow| &flow.0.columns[RATE])).unwrap_or(width);
    // a bucket covers several samples, or the rate would oscillate from bucket to bucket
    (sampling, width.max(5.0 * sampling))
}

fn panels(shown: &Shown<'_>) -> Vec<Panel> {
    let Shown { duration_s: duration, flows, links, bottleneck, .. } = shown;
    let width = bucket_width(*duration);
    let (sampling, rate_width) = rate_spans(shown);
    let silence = (10.0 * sampling).max(3.0 * width).max(0.25);
    let line = |points: &Points, scale: f64| {
        let scaled = points.iter().map(|(t, v)| (*t, v * scale)).collect();
        split_at_gaps(&bucket_extremes(&scaled, width), silence)
    };
    let of_flows = |column: usize, scale: f64| -> Vec<(usize, Vec<Points>)> {
        flows.iter().map(|(flow, style, _)| (*style, line(&flow.columns[column], scale))).collect()
    };
    let rates = flows.iter().map(|(flow, style, _)| {
        let rates = bucket_rates(&flow.columns[RATE], sampling, rate_width);
        (*style, vec![rates.iter().map(|(t, v)| (*t, v / 1e6)).collect()])
    });
    let capacity = bottleneck.map(|link| steps(&link.columns[CAPACITY_BPS], width, *duration));
    let radio = bottleneck.iter().chain(links.iter().map(|(link, _)| link)).find(|link| !link.columns[SINR].is_empty());
    let sinr = radio.map(|link| vec![(LINK_STYLE, line(&link.columns[SINR], 1.0))]).unwrap_or_default();
    let queues = links.iter().map(|(link, style)| (*style, line(&link.columns[QUEUE], 1e-3)));
    let mut sinr = Panel::new("SINR, dB", 120, sinr, None);
    if let Some(panel) = &mut sinr {
        // a scale in decibels has no natural zero
        let values = panel.lines.iter().flat_map(|line| &line.1).flatten().map(|p| p.1);
        panel.range = range_of(values, 0.08).unwrap_or(0.0..1.0);
    }
    let all = [
        Panel::new("rate, Mbit/s", 220, rates.collect(), capacity),
        sinr,
        Panel::new("cwnd, segments", 150, of_flows(CWND, 1.0), None),
        Panel::new("srtt, ms", 150, of_flows(SRTT, 1e-3), None),
        Panel::new("queue, kB", 130, queues.collect(), None),
    ];
    all.into_iter().flatten().collect()
}

/// Returns the capacity in Mbit/s as corners of steps until `end`.
fn steps(points: &Points, width: f64, end: f64) -> Points {
    // a row's capacity is the mean of the period that ends with the row
    let span = period([points].into_iter()).unwrap_or(0.0);
    let first = points.first().map(|(t, _)| (t - span).max(0.0));
    let starts = first.into_iter().chain(points.iter().map(|(t, _)| *t));
    let mut levels: Points = starts.zip(points).map(|(start, (_, bps))| (start, bps / 1e6)).collect();
    let changes = levels.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    if changes as f64 >= 2.0 * BUCKETS {
        levels = bucket_means(&levels, width);
    }
    levels.dedup_by(|b, a| a.1 == b.1);
    let ends = levels.iter().skip(1).map(|p| p.0).chain([end]);
    levels.iter().zip(ends).flat_map(|((t, v), until)| [(*t, *v), (until.max(*t), *v)]).collect()
}

pub(super) fn draw_panels(panels: &[Panel], duration: f64, events: &[(usize, f64)], title: &str) -> Result<Markup> {
    const TOP: i32 = 22;
    const BOTTOM: i32 = 46;
    let duration = if duration > 0.0 { duration } else { 1.0 };
    // panels with the same axis share its labels, which are below the last of these panels
    let is_labelled = |index: usize| panels.get(index + 1).is_none_or(|next| next.own_axis.is_some());
    let labelled = (0..panels.len()).filter(|index| is_labelled(*index)).count().max(1);
    let height = TOP + BOTTOM * labelled as i32 + panels.iter().map(|panel| panel.height).sum::<i32>();
    svg((WIDTH, height), title, |root| {
        let mut rest = root.clone();
        for (index, panel) in panels.iter().enumerate() {
            let (first, last) = (index == 0, is_labelled(index));
            let (length, axis) = panel.own_axis.unwrap_or((duration, "time, s"));
            let height = panel.height + if first { TOP } else { 0 } + if last { BOTTOM } else { 0 };
            let (area, below) = rest.split_vertically(px(height));
            rest = below;
            let mut chart = ChartBuilder::on(&area)
                .margin_top(px(if first { TOP } else { 9 }))
                .margin_bottom(px(if last { 0 } else { 5 }))
                .margin_right(px(14))
                .x_label_area_size(px(if last { BOTTOM } else { 0 }))
                .y_label_area_size(px(70))
                .build_cartesian_2d(0.0..length, panel.range.clone())?;
            if let Some(corners) = panel.area.as_ref().filter(|corners| !corners.is_empty()) {
                let ends = [(corners[corners.len() - 1].0, 0.0), (corners[0].0, 0.0)];
                chart.draw_series([Polygon::new([corners.as_slice(), &ends].concat(), CAPACITY.filled())])?;
            }
            let names = (if last { axis } else { "" }, panel.name);
            let span = panel.range.end - panel.range.start;
            let labels = (10, usize::try_from(panel.height / 30).unwrap_or(4));
            mesh(&mut chart, names, labels, &|x| tick(*x, length), &|y| tick(*y, span))?;
            for (_, t) in events {
                let ends = vec![(*t, panel.range.start), (*t, panel.range.end)];
                chart.draw_series([PathElement::new(ends, EVENT.stroke_width(2))])?;
            }
            for (style, parts) in &panel.lines {
                for part in parts {
                    chart.draw_series(LineSeries::new(part.iter().copied(), colour(*style).stroke_width(3)))?;
                }
            }
            if first {
                let style = font(12).pos(Pos::new(HPos::Center, VPos::Bottom));
                for (t, text) in event_labels(events, duration) {
                    let (x, _) = chart.backend_coord(&(t, panel.range.end));
                    root.draw_text(&text, &style, (x, px(TOP - 5)))?;
                }
            }
        }
        Ok(())
    })
}

/// Returns the time that an event's text begins with: `12.5 swap …` happened at 12.5.
fn event_time(event: &str) -> Option<f64> {
    event.split_whitespace().next()?.trim_end_matches(['s', ':']).parse().ok().filter(|t: &f64| t.is_finite())
}

/// Returns the numbers of events and where they are drawn; neighbours whose numbers would touch share a range such as
/// `3–5`, halfway between them.
fn event_labels(events: &[(usize, f64)], duration: f64) -> Vec<(f64, String)> {
    let close = duration * 0.045;
    let label = |group: &[(usize, f64)]| {
        let (first, last) = (group[0], group[group.len() - 1]);
        let text = if group.len() == 1 { first.0.to_string() } else { format!("{}–{}", first.0, last.0) };
        (f64::midpoint(first.1, last.1), text)
    };
    let mut labels = Vec::new();
    let mut rest = events;
    while let Some((_, from)) = rest.first() {
        let (group, others) = rest.split_at(rest.iter().take_while(|(_, t)| (t - from).abs() < close).count());
        labels.push(label(group));
        rest = others;
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, capacity: f64, queue: f64, sent: f64) -> Series {
        let columns = vec![vec![(0.0, capacity)], vec![], vec![(0.0, queue)], vec![(0.0, sent)]];
        Series { name: name.to_owned(), columns }
    }

    #[test]
    fn the_bottleneck_carries_the_traffic() {
        let links = [
            link("wide", 1e9, 0.0, 1e6),
            link("radio:down", 2e7, 9e4, 1e6),
            link("radio:up", 1e7, 100.0, 3e4),
            link("other", 2e7, 10.0, 1e6),
        ];
        let (shown, bottleneck) = shown_links(&links);
        assert_eq!(shown.iter().map(|l| l.name.as_str()).collect::<Vec<_>>(), ["wide", "radio:down", "other"]);
        assert_eq!(bottleneck.unwrap().name, "radio:down");
        assert!(shown_links(&[]).1.is_none());
    }

    #[test]
    fn capacity_is_a_staircase() {
        let corners = steps(&vec![(1.0, 1e7), (2.0, 1e7), (3.0, 2e7)], 0.1, 3.0);
        assert_eq!(corners, [(0.0, 10.0), (2.0, 10.0), (2.0, 20.0), (3.0, 20.0)]);
        // it varies for 70 s, then it is constant
        let level = |k: u32| if k >= 698 { 50e6 } else { 10e6 + f64::from(k % 2) * 1e6 };
        let long: Points = (0..1300).map(|k| (f64::from(k + 1) * 0.1, level(k))).collect();
        assert_eq!(steps(&long, 0.4, 130.0).last(), Some(&(130.0, 50.0)));
    }

    #[test]
    fn a_mean_over_a_drop_of_the_capacity_is_not_above_it() {
        let falls = vec![(0.0, 50.0), (1.2, 50.0), (1.2, 8.0), (2.0, 8.0)];
        let panel = |rate| Panel::new("rate", 1, vec![(0, vec![vec![(1.25, rate)]])], Some(falls.clone())).unwrap();
        assert!(!exceeds(&panel(24.8), 0.5) && exceeds(&panel(60.0), 0.5));
    }

    #[test]
    fn events_are_numbered() {
        assert_eq!(event_time("12.5 swap dtcp -> westwoodp: moved 3"), Some(12.5));
        assert_eq!(event_time("swap"), None);
        assert_eq!(event_time(""), None);
        let labels = event_labels(&[(1, 1.0), (2, 1.1), (3, 1.2), (5, 5.0)], 10.0);
        assert_eq!(labels, [(1.1, "1–3".to_owned()), (5.0, "5".to_owned())]);
    }
}
