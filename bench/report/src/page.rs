//! The report's page: one self-contained HTML file.

use super::charts::{MAX_SERIES, curves, scatter, style_sheet, timeline};
use super::data::Data;
use super::html::{Table, document, items, note};
use super::rows::{Case, Row, case_text, condition, conditions, placed};
use super::tables::{self, Place};
use anyhow::Result;
use hotcc_lab::results::{RunId, RunSummary, SIMULATOR};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;
use std::path::PathBuf;
use timeline::{Ranges, Recording, Shown};

/// Number of runs, reasons or files that a list shows before it says how many more there are.
const MAX_LISTED: usize = 30;
/// Maximum number of rows in the tables of flows and of receivers.
const MAX_FLOW_ROWS: usize = 300;

/// Returns the page as HTML, with at most `most` series, scatter plots and parameter sets drawn.
pub fn page(data: &Data, most: usize) -> Result<String> {
    let mut sections: Vec<(&str, &str, Markup)> = vec![("figures", "Figures", figures(data))];
    if !data.papers.is_empty() || !data.problems.is_empty() {
        sections.push(("papers", "The papers' figures", papers(data)));
    }
    sections.extend(parameters(data, most)?.map(|drawn| ("parameters", "Against parameters", drawn)));
    let mut recordings = Recordings::default();
    sections.push(("delay", "Throughput and delay", delay(data, most, &mut recordings)?));
    sections.push(("series", "Over time", series(data, most, &mut recordings)?));
    Ok(laid_out(data, &sections))
}

/// Returns a page with these sections (their ids, names and contents) below the header of the results.
pub(super) fn laid_out(data: &Data, sections: &[(&str, &str, Markup)]) -> String {
    document(html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (data.results.manifest.scenario) ": results" }
                link rel="icon" href="data:,";
                style { (PreEscaped(include_str!("page.css"))) (PreEscaped(style_sheet())) }
            }
            body {
                (header(data))
                nav aria-label="sections" {
                    ul { @for (id, name, _) in sections { li { a href={ "#" (id) } { (name) } } } }
                }
                main {
                    @for (id, name, body) in sections {
                        section aria-labelledby=(id) { h2 id=(id) { (name) } (body) }
                    }
                }
            }
        }
    })
}

fn header(data: &Data) -> Markup {
    let manifest = &data.results.manifest;
    let backend = match manifest.backend.as_str() {
        "vm" => "virtual machine, in virtual time",
        "native" => "this kernel, in real time",
        SIMULATOR => "simulated, without a kernel",
        other => other,
    };
    let is_simulated = manifest.is_simulated();
    let invalid: Vec<String> = data
        .invalid()
        .map(|run| format!("{}, seed {}: {}", case_text(&run.run.case), run.run.seed, run.invalid.join("; ")))
        .collect();
    let missing = data.missing.iter().map(|run| format!("{}, seed {}", case_text(&run.case), run.seed));
    let mut facts = vec![
        ("scenario, SHA-256", manifest.scenario_sha256.as_str()),
        ("kernel image, SHA-256", &manifest.kernel_sha256),
        ("QEMU", &manifest.qemu),
        ("CPU", &manifest.cpu),
    ];
    facts.extend(manifest.files.iter().map(|(name, sum)| (name.as_str(), sum.as_str())));
    facts.extend(manifest.objects.iter().map(|(name, sum)| (name.as_str(), sum.as_str())));
    html! {
        header {
            h1 { (manifest.scenario) @if is_simulated { " (simulated)" } }
            p.verdict { (verdict(data)) }
            (entries(&[("purpose", &data.summary), ("paper", &data.paper)]))
            (entries(&[("kernel", &manifest.kernel), ("environment", backend)]))
            @if !invalid.is_empty() {
                div.bad {
                    p { "Invalid runs, excluded from every figure:" }
                    ul { (items(invalid.into_iter(), MAX_LISTED)) }
                }
            }
            @if !data.missing.is_empty() {
                div.note {
                    p { "Unfinished runs:" }
                    ul { (items(missing, MAX_LISTED)) }
                }
            }
            details { summary { "Versions and checksums" } (entries(&facts)) }
        }
    }
}

/// Returns the page's one-line summary: the state of the runs, how many limits hold, and which congestion controls
/// lead.
fn verdict(data: &Data) -> String {
    let limits: Vec<bool> = data.papers.iter().filter_map(|paper| paper.holds).collect();
    let held = limits.iter().filter(|holds| **holds).count();
    let limits = if limits.is_empty() { String::new() } else { format!(" {held} of {} limits hold.", limits.len()) };
    let ahead = [("Most throughput", "throughput_mbps", 1.0), ("shortest p95 queue delay", "queue_delay_p95_ms", -1.0)]
        .into_iter()
        .filter_map(|(what, metric, sign)| ahead(data, metric, sign).map(|who| format!("{what}: {who}")))
        .collect::<Vec<_>>()
        .join("; ");
    format!("{}.{limits}{}", data.state(), if ahead.is_empty() { ahead } else { format!(" {ahead}.") })
}

/// Returns the congestion control with the greatest mean of a figure (times `sign`) in the most cases, of those that have
/// several congestion controls; `None` if there is a tie.
fn ahead(data: &Data, metric: &str, sign: f64) -> Option<String> {
    let is_bound = |row: &&&Row| data.results.runs.iter().any(|run| run.bounds.iter().any(|b| b.name == row.label));
    let mut times: Vec<(&str, usize)> = Vec::new();
    let mut cases = 0;
    for (_, rows) in conditions(&data.rows) {
        let known: Vec<(&str, f64)> = rows
            .iter()
            .filter(|row| !is_bound(row))
            .filter_map(|row| Some((row.label.as_str(), row.estimate(metric)?.mean * sign)))
            .collect();
        if known.len() < 2 {
            continue;
        }
        cases += 1;
        let most = known.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        let mut leaders = known.iter().filter(|(_, value)| *value == most);
        let (Some((best, _)), None) = (leaders.next(), leaders.next()) else { continue };
        match times.iter_mut().find(|(label, _)| label == best) {
            Some((_, count)) => *count += 1,
            None => times.push((best, 1)),
        }
    }
    let count = times.iter().map(|(_, count)| *count).max()?;
    let mut leaders = times.iter().filter(|(_, of)| *of == count);
    let (Some((label, _)), None) = (leaders.next(), leaders.next()) else { return None };
    Some(if cases == 1 { (*label).to_owned() } else { format!("{label} in {count} of {cases} cases") })
}

/// Lists names and values; entries without a value are left out.
fn entries(facts: &[(&str, &str)]) -> Markup {
    html! {
        dl { @for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) { dt { (name) } dd { (value) } } }
    }
}

fn figures(data: &Data) -> Markup {
    if data.results.runs.is_empty() {
        return note("No run has finished, so there are no figures.");
    }
    html! {
        (tables::figures(data, Place::Report).html())
        (folded("Each flow", &data.flows, |flows| tables::by_flow(flows, Place::Report)))
        (folded("Receivers", &data.receivers, tables::receivers))
        (folded("Receiver programs", &data.programs, tables::programs))
    }
}

/// Returns a table of the first rows that the reader can unfold; nothing if there are no rows.
fn folded(title: &str, rows: &[Row], table: impl Fn(&[Row]) -> Table) -> Markup {
    let shown = &rows[..rows.len().min(MAX_FLOW_ROWS)];
    html! {
        @if !shown.is_empty() {
            details {
                summary { (title) }
                (table(shown).html())
                @if shown.len() < rows.len() { (note(&format!("The first {} of {} rows.", shown.len(), rows.len()))) }
            }
        }
    }
}

fn papers(data: &Data) -> Markup {
    html! {
        @for problem in &data.problems { (note(problem)) }
        @if let Some(table) = tables::papers(data) { (table.html()) }
    }
}

/// Draws the figures against the swept parameters; `None` if no swept key is a parameter.
fn parameters(data: &Data, most: usize) -> Result<Option<Markup>> {
    let (drawn, there_are) = curves::against_parameters(&data.rows, &data.labels, most)?;
    Ok((there_are > 0).then(|| {
        html! {
            @for against in &drawn { (headed(&against.title, &against.charts, "No figure varies.")) }
            (left_out(drawn.len(), there_are, "combinations of the other parameters"))
        }
    }))
}

fn delay(data: &Data, most: usize, recordings: &mut Recordings) -> Result<Markup> {
    let conditions = conditions(&data.rows);
    let mut shown = Vec::new();
    for (condition, rows) in conditions.iter().take(most) {
        let name = case_text(condition);
        let mut charts: Vec<Markup> = scatter::draw(&name, rows, &data.labels)?.into_iter().collect();
        charts.extend(rtt(data, &name, rows, recordings)?);
        shown.push(headed(&name, &charts, "No valid run has a throughput and a delay."));
    }
    Ok(html! {
        @for one in &shown { (one) }
        @if conditions.is_empty() { (note("No run with a TCP flow has finished.")) }
        (left_out(shown.len(), conditions.len(), "conditions"))
    })
}

fn rtt(data: &Data, name: &str, rows: &[&Row], recordings: &mut Recordings) -> Result<Option<Markup>> {
    let mut all = Vec::new();
    let mut seeds = Vec::new();
    for row in rows {
        let series = data.labels.iter().position(|label| *label == row.label);
        let (Some((run, flows)), Some(series)) = (data.first_run(row), series) else { continue };
        let samples = recordings.of(data, &run.run).rtt_ms(&flows);
        all.push(curves::RttSamples { series, label: row.label.clone(), samples });
        if !seeds.contains(&run.run.seed) {
            seeds.push(run.run.seed);
        }
    }
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let of_seeds = format!("seed{} {}", if seeds.len() == 1 { "" } else { "s" }, seeds.join(", "));
    curves::rtt_distributions(name, all, &of_seeds)
}

/// Draws the runs over time. Runs that differ only in their congestion control have the same axes, and a common chart.
fn series(data: &Data, most: usize, recordings: &mut Recordings) -> Result<Markup> {
    let all = data.shown_runs();
    let mut shown = Vec::new();
    for (condition, runs) in &compared(data, all.iter().take(most).copied(), recordings) {
        shown.push(compared_series(data, condition, runs, recordings)?);
    }
    Ok(html! {
        @for one in &shown { (one) }
        @if all.is_empty() { (note("No run has finished.")) }
        (left_out(all.len().min(most), all.len(), "cases"))
    })
}

/// Groups runs that differ only in their congestion control, and reads their recordings.
fn compared<'a>(
    data: &Data,
    runs: impl Iterator<Item = &'a RunSummary>,
    recordings: &mut Recordings,
) -> Vec<(Case, Vec<&'a RunSummary>)> {
    let mut compared: Vec<(Case, Vec<&RunSummary>)> = Vec::new();
    for run in runs {
        recordings.of(data, &run.run);
        let condition = condition(run);
        match compared.iter_mut().find(|(other, _)| *other == condition) {
            Some((_, runs)) => runs.push(run),
            None => compared.push((condition, vec![run])),
        }
    }
    compared
}

fn compared_series(data: &Data, condition: &Case, runs: &[&RunSummary], recordings: &Recordings) -> Result<Markup> {
    let mut ranges = Ranges::default();
    let mut each = Vec::new();
    for run in runs {
        let recording = recordings.known(&run.run);
        let shown = Shown::of_run(run, recording, |cc| place(data, &placed(run, cc).0));
        ranges.widen(&shown);
        each.push((run, recording, shown));
    }
    let mut charts = Vec::new();
    for (run, recording, shown) in &each {
        let title = format!("{}, seed {}", case_text(&run.run.case), run.run.seed);
        let chart = timeline::draw(run, recording, &title, shown, &ranges)?;
        charts.push(html! {
            div.keep {
                h3 { (title) }
                @if !run.invalid.is_empty() { (note(&format!("This run is invalid: {}.", run.invalid.join("; ")))) }
                (chart)
            }
        });
    }
    Ok(html! {
        @if runs.len() > 1 { (overlaid(data, condition, runs, recordings, &ranges)?) } // one run has its own chart
        @for chart in &charts { (chart) }
    })
}

/// Returns a congestion control's index among all. Datagram flows have no row: they get the last style.
fn place(data: &Data, label: &str) -> usize {
    data.labels.iter().position(|other| other == label).unwrap_or(MAX_SERIES - 1)
}

/// Draws the runs of several congestion controls, each with one flow, in a common chart; nothing if one of them has
/// several flows.
fn overlaid(
    data: &Data,
    condition: &Case,
    runs: &[&RunSummary],
    recordings: &Recordings,
    ranges: &Ranges,
) -> Result<Markup> {
    let (mut shown, mut problems) = (Shown::default(), Vec::new());
    for run in runs {
        let [flow] = run.flows.as_slice() else { return Ok(html! {}) };
        let (label, recording) = (placed(run, &flow.cc).0, recordings.known(&run.run));
        problems.extend(recording.problems().map(|problem| format!("{label}: {problem}")));
        shown.overlay(run, recording, place(data, &label) % MAX_SERIES, &label);
    }
    let title = format!("{}: all congestion controls", case_text(condition));
    let chart = timeline::draw_overlaid(&shown, &title, ranges)?;
    Ok(html! { div.keep { h3 { (title) } @for problem in &problems { (note(problem)) } (chart) } })
}

/// Draws each condition's valid runs in a common chart: the first seed of each congestion control.
pub(super) fn overlaid_conditions(data: &Data) -> Result<Vec<(Case, Markup)>> {
    let mut recordings = Recordings::default();
    let valid = data.shown_runs().into_iter().filter(|run| run.invalid.is_empty());
    let compared = compared(data, valid, &mut recordings);
    let chart = |(condition, runs): (Case, Vec<&RunSummary>)| {
        let drawn = if runs.iter().all(|run| run.flows.len() == 1) {
            overlaid(data, &condition, &runs, &recordings, &Ranges::default())?
        } else {
            compared_series(data, &condition, &runs, &recordings)?
        };
        Ok((condition, drawn))
    };
    compared.into_iter().map(chart).collect()
}

/// Returns charts under a heading, two in a row, with the first row on the same printed page as the heading; or a note
/// with the reason why there are none.
fn headed(title: &str, charts: &[Markup], none: &str) -> Markup {
    let (first, rest) = charts.split_at(charts.len().min(2));
    let row = |charts: &[Markup]| html! { div.pair { @for chart in charts { (chart) } } };
    html! {
        div.keep {
            h3 { (title) }
            @if first.is_empty() { (note(none)) } @else { (row(first)) }
        }
        @for pair in rest.chunks(2) { (row(pair)) }
    }
}

/// Returns a note with the number of charts that are not drawn, and the option that draws them.
fn left_out(drawn: usize, there_are: usize, what: &str) -> Markup {
    html! {
        @if drawn < there_are {
            (note(&format!(
                "Only the first {drawn} of {there_are} {what} are drawn. The tables contain all of them; \
                 `--charts {there_are}` draws all."
            )))
        }
    }
}

/// Recordings that have been read; cached because a run may be in several charts.
#[derive(Default)]
struct Recordings(BTreeMap<PathBuf, Recording>);

impl Recordings {
    fn of(&mut self, data: &Data, run: &RunId) -> &Recording {
        self.0.entry(run.path()).or_insert_with(|| Recording::read(&data.results.directory.join(run.path())))
    }

    /// Returns the recording of a run that has been read before.
    fn known(&self, run: &RunId) -> &Recording {
        &self.0[&run.path()]
    }
}
