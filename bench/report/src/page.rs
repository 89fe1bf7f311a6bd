//! The page: one HTML file that needs nothing else.

use super::charts::{curves, scatter, style_sheet, timeline};
use super::data::Data;
use super::html::{escape, list, note};
use super::rows::{Row, case_text, conditions, placed};
use super::tables;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use timeline::Recording;

/// Runs, reasons and files that a list shows before it says how many more there are.
const MOST_LISTED: usize = 30;
/// Rows of the table of flows.
const MOST_FLOW_ROWS: usize = 300;

/// The page as HTML; at most so many series, scatters and parameter sets are drawn.
pub fn page(data: &Data, most: usize) -> Result<String> {
    let manifest = &data.results.manifest;
    let mut sections: Vec<(&str, &str, String)> = vec![("figures", "Figures", figures(data))];
    if !data.papers.is_empty() || !data.problems.is_empty() {
        sections.push(("papers", "The papers' figures", papers(data)));
    }
    let parameters = parameters(data, most)?;
    if !parameters.is_empty() {
        sections.push(("parameters", "Against parameters", parameters));
    }
    let mut recordings = Recordings::default();
    sections.push(("delay", "Throughput and delay", delay(data, most, &mut recordings)?));
    sections.push(("series", "Over time", series(data, most, &mut recordings)?));

    let title = escape(&manifest.scenario);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: results</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}{}</style>\n</head>\n<body>\n",
        include_str!("page.css"),
        style_sheet()
    );
    out.push_str(&header(data));
    out.push_str("<nav aria-label=\"sections\"><ul>\n");
    for (id, name, _) in &sections {
        let _ = writeln!(out, "<li><a href=\"#{id}\">{}</a></li>", escape(name));
    }
    out.push_str("</ul></nav>\n<main>\n");
    for (id, name, body) in &sections {
        let _ = writeln!(
            out,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n{body}</section>",
            escape(name)
        );
    }
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn header(data: &Data) -> String {
    let manifest = &data.results.manifest;
    let entries = |facts: &[(&str, &str)]| {
        let known = facts.iter().filter(|(_, value)| !value.is_empty());
        let entry = |(name, value): &(&str, &str)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
        format!("<dl>\n{}</dl>\n", known.map(entry).collect::<String>())
    };
    let backend = match manifest.backend.as_str() {
        "vm" => "virtual machine, in virtual time",
        "native" => "this kernel, in real time",
        other => other,
    };
    let state = format!("{}.", data.state());
    let mut out = format!("<header>\n<h1>{}</h1>\n", escape(&manifest.scenario));
    out.push_str(&entries(&[("what for", &data.summary), ("paper", &data.paper)]));
    out.push_str(&entries(&[("kernel", &manifest.kernel), ("ran in", backend), ("runs", &state)]));
    let invalid: Vec<String> = data
        .invalid()
        .map(|run| format!("{}, seed {}: {}", case_text(&run.run.case), run.run.seed, run.invalid.join("; ")))
        .collect();
    if !invalid.is_empty() {
        out.push_str("<div class=\"bad\"><p>Invalid, and left out of every figure:</p>\n");
        out.push_str(&list(invalid.into_iter(), MOST_LISTED));
        out.push_str("</div>\n");
    }
    if !data.missing.is_empty() {
        out.push_str("<div class=\"note\"><p>Not finished, so nothing is known of them:</p>\n");
        let missing = data.missing.iter().map(|run| format!("{}, seed {}", case_text(&run.case), run.seed));
        out.push_str(&list(missing, MOST_LISTED));
        out.push_str("</div>\n");
    }
    let mut facts = vec![
        ("scenario, SHA-256", manifest.scenario_sha256.as_str()),
        ("kernel image, SHA-256", &manifest.kernel_sha256),
        ("QEMU", &manifest.qemu),
        ("CPU", &manifest.cpu),
    ];
    facts.extend(manifest.files.iter().map(|(name, sum)| (name.as_str(), sum.as_str())));
    facts.extend(manifest.objects.iter().map(|(name, sum)| (name.as_str(), sum.as_str())));
    let _ = writeln!(out, "<details><summary>What ran</summary>\n{}</details>\n</header>", entries(&facts));
    out
}

fn figures(data: &Data) -> String {
    if data.results.runs.is_empty() {
        return note("No run has finished, so there are no figures.");
    }
    let mut out = tables::figures(data).html();
    if !data.flows.is_empty() {
        let shown = &data.flows[..data.flows.len().min(MOST_FLOW_ROWS)];
        out.push_str("<details><summary>Each flow</summary>\n");
        out.push_str(&tables::by_flow(shown).html());
        if shown.len() < data.flows.len() {
            out.push_str(&note(&format!("The first {} of {} rows.", shown.len(), data.flows.len())));
        }
        out.push_str("</details>\n");
    }
    out
}

fn papers(data: &Data) -> String {
    let mut out: String = data.problems.iter().map(|problem| note(problem)).collect();
    out.extend(tables::papers(data).map(|table| table.html()));
    out
}

fn parameters(data: &Data, most: usize) -> Result<String> {
    let (drawn, there_are) = curves::against_parameters(&data.rows, &data.labels, most)?;
    let mut out = String::new();
    for against in &drawn {
        out.push_str(&headed(&against.title, &against.charts, "No figure varies."));
    }
    out.push_str(&left_out(drawn.len(), there_are, "combinations of the other parameters"));
    Ok(out)
}

fn delay(data: &Data, most: usize, recordings: &mut Recordings) -> Result<String> {
    let mut out = String::new();
    let conditions = conditions(&data.rows);
    for (condition, rows) in conditions.iter().take(most) {
        let name = case_text(condition);
        let mut charts: Vec<String> = scatter::draw(&name, rows, &data.labels)?.into_iter().collect();
        charts.extend(rtt(data, &name, rows, recordings)?);
        out.push_str(&headed(&name, &charts, "No valid run has a throughput and a delay."));
    }
    if conditions.is_empty() {
        out.push_str(&note("No run with a TCP flow has finished."));
    }
    out.push_str(&left_out(conditions.len().min(most), conditions.len(), "conditions"));
    Ok(out)
}

fn rtt(data: &Data, name: &str, rows: &[&Row], recordings: &mut Recordings) -> Result<Option<String>> {
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

fn series(data: &Data, most: usize, recordings: &mut Recordings) -> Result<String> {
    let shown = data.shown_runs();
    let mut out = String::new();
    for run in shown.iter().take(most) {
        let title = format!("{}, seed {}", case_text(&run.run.case), run.run.seed);
        let _ = writeln!(out, "<div class=\"keep\">\n<h3>{}</h3>", escape(&title));
        if !run.invalid.is_empty() {
            out.push_str(&note(&format!("This run is invalid: {}.", run.invalid.join("; "))));
        }
        let place = |cc: &str| {
            let label = placed(run, cc).0;
            // datagram flows have no row: the last style
            data.labels.iter().position(|other| *other == label).unwrap_or(super::charts::MAX_SERIES - 1)
        };
        out.push_str(&timeline::draw(run, recordings.of(data, &run.run), &title, place)?);
        out.push_str("</div>\n");
    }
    if shown.is_empty() {
        out.push_str(&note("No run has finished."));
    }
    out.push_str(&left_out(shown.len().min(most), shown.len(), "cases"));
    Ok(out)
}

/// Charts under a heading, two in a row, the first row on the same printed page as the heading; or why there are none.
fn headed(title: &str, charts: &[String], none: &str) -> String {
    let mut out = format!("<div class=\"keep\">\n<h3>{}</h3>\n", escape(title));
    if charts.is_empty() {
        out.push_str(&note(none));
    }
    for (row, pair) in charts.chunks(2).enumerate() {
        let end = if row == 0 { "</div>\n" } else { "" };
        let _ = write!(out, "<div class=\"pair\">\n{}</div>\n{end}", pair.concat());
    }
    if charts.is_empty() {
        out.push_str("</div>\n");
    }
    out
}

/// What is not on the page, and how to have it.
fn left_out(drawn: usize, there_are: usize, what: &str) -> String {
    if drawn == there_are {
        return String::new();
    }
    note(&format!(
        "Drawn are the first {drawn} of {there_are} {what}; the tables have all of them, and `--charts {there_are}` draws all."
    ))
}

/// Series that were read: a run may be in several charts.
#[derive(Default)]
struct Recordings(BTreeMap<PathBuf, Recording>);

impl Recordings {
    fn of(&mut self, data: &Data, run: &hotcc_lab::results::RunId) -> &Recording {
        self.0.entry(run.path()).or_insert_with(|| Recording::read(&data.results.directory.join(run.path())))
    }
}
