//! Tables as Markdown that is readable as plain text, and documents whose marked parts are replaced by up-to-date
//! tables.

use super::data::{COLUMNS, Column, Data};
use super::html::{Cell, Table};
use super::ranking;
use super::releases;
use super::rows::by_flow_name;
use super::tables::{self, Place};
use anyhow::{Context, Result, anyhow, ensure};
use hotcc_lab::results::SIMULATOR;
use hotcc_lab::selection::SweptValue;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of figures -->\n";
/// Word in a part's marker: one row for each flow.
const FLOWS: &str = "flows";
/// Word in a part's marker: the simulator's results instead of measurements on kernels.
const SIMULATED: &str = "simulated";
/// Word in a part's marker: the congestion controls ranked over all cases.
const RANKING: &str = "ranking";
/// Prefix of a word in a part's marker: the swept key that is not averaged over.
const BY: &str = "by:";
/// Beginning of the line above a kernel's tables.
const LINUX: &str = "Linux ";
/// Beginning of the line above simulated tables.
const NOT_MEASURED: &str = "Simulated, not measured on a kernel";

impl Table {
    /// Returns the table as Markdown with padded columns, without caption and remark.
    #[must_use]
    pub fn markdown(&self) -> String {
        let text = |cell: &Cell| match cell {
            Cell::Head(text) | Cell::Text(text) | Cell::Link(text, _) | Cell::Figure(text) => {
                text.replace('|', "\\|").replace('\n', " ")
            }
            Cell::Best(text) => format!("**{text}**"),
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(text).collect()).collect();
        let is_figure = |column: usize| self.rows.first().and_then(|r| r.get(column)).is_some_and(Cell::is_figure);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = rows.iter().filter_map(|row| row.get(c)).chain(self.columns.get(c));
                cells.map(|text| text.chars().count()).max().unwrap_or(0).max(3)
            })
            .collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).enumerate().map(|(c, (cell, width))| {
                if is_figure(c) { format!(" {cell:>width$} |") } else { format!(" {cell:<width$} |") }
            });
            format!("|{}\n", padded.collect::<String>())
        };
        let rule = widths.iter().enumerate().map(|(c, width)| {
            if is_figure(c) { format!(" {}: |", "-".repeat(width - 1)) } else { format!(" {} |", "-".repeat(*width)) }
        });
        let mut out = line(&self.columns);
        out.push_str(&format!("|{}\n", rule.collect::<String>()));
        rows.iter().for_each(|row| out.push_str(&line(row)));
        out
    }
}

/// Returns a result directory's tables.
#[must_use]
pub fn text(data: &Data) -> String {
    let heading = if data.results.manifest.is_simulated() { format!("{NOT_MEASURED}:\n\n") } else { String::new() };
    format!("{heading}{}", with_papers(&tables::figures(data, Place::Report), data))
}

fn with_papers(figures: &Table, data: &Data) -> String {
    let mut out = figures.markdown();
    for run in data.invalid() {
        for why in &run.invalid {
            out.push_str(&format!(
                "INVALID, excluded from all figures: {}, seed {}: {why}\n",
                run.run.case_name(),
                run.run.seed
            ));
        }
    }
    if let Some(table) = tables::papers(data) {
        out.push_str(&format!("\n{}:\n\n{}", table.caption, table.markdown()));
    }
    out
}

/// Replaces every part of a document between `<!-- figures: SCENARIO -->` and `<!-- end of figures -->` by the tables
/// of `results/SCENARIO`, one for each kernel there. The marker may have more words:
///
/// - `KEY=VALUE...`: only the cases with these swept values.
/// - `flows`: one row for each flow.
/// - Names of figures: one column for each congestion control or flow, with these figures in each cell.
/// - `ranking`: the congestion controls ranked over all cases.
/// - `by:KEY` and figures: one row for each value of this swept key and each congestion control, with the means over all
///   other cases; `FLOW:FIGURE` is the figure of the flows with this name.
/// - `simulated`: the simulator's results, and nothing else.
///
/// Tables of a kernel without results stay unchanged.
///
/// # Errors
/// A part has no end, or results cannot be read.
pub fn refreshed(document: &str, results: &Path) -> Result<String> {
    replaced(document, BEGIN, END, |mark, old| {
        let marked = Marked::parse(mark)?;
        let new = marked.figures(results)?;
        Ok(match marked.simulated {
            _ if new.is_empty() => old.to_owned(),
            true => new,
            false => merged(old, &new),
        })
    })
}

/// Replaces every part of a document between `BEGIN MARK -->` and `END` by what `new` returns for its mark and the old
/// part.
pub(crate) fn replaced(
    document: &str,
    begin: &str,
    end: &str,
    new: impl Fn(&str, &str) -> Result<String>,
) -> Result<String> {
    let (mut out, mut rest) = (String::new(), document);
    while let Some((before, after)) = rest.split_once(begin) {
        let (mark, after) = after
            .split_once(BEGIN_END)
            .with_context(|| format!("a `{begin}MARK` is not closed: ` -->` and the end of the line must follow"))?;
        let (old, after) = after.split_once(end).with_context(|| {
            format!("`{begin}{mark} -->` has no end: expected a line `{}` below it", end.trim_end())
        })?;
        out.push_str(&format!("{before}{begin}{mark}{BEGIN_END}{}{end}", new(mark, old)?));
        rest = after;
    }
    Ok(out + rest)
}

/// `SCENARIO [flows] [ranking] [simulated] [by:KEY] [[FLOW:]FIGURE...] [KEY=VALUE...]`.
struct Marked<'a> {
    scenario: &'a str,
    by_flow: bool,
    simulated: bool,
    ranking: bool,
    /// The swept key that is not averaged over.
    by: Option<&'a str>,
    /// If there are any, the table has one column for each label; with `by`, one for each of these, of a flow or of all.
    columns: Vec<(Option<&'a str>, &'static Column)>,
    cases: Vec<SweptValue>,
}

impl<'a> Marked<'a> {
    fn parse(mark: &'a str) -> Result<Self> {
        let (scenario, words) = mark.split_once(' ').unwrap_or((mark, ""));
        ensure!(
            scenario.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'),
            "invalid scenario name `{scenario}`: expected only letters, digits and `-`"
        );
        let (by_flow, simulated, ranking) = (false, false, false);
        let mut marked =
            Self { scenario, by_flow, simulated, ranking, by: None, columns: Vec::new(), cases: Vec::new() };
        for word in words.split_whitespace() {
            let (flow, metric) = word.split_once(':').map_or((None, word), |(flow, metric)| (Some(flow), metric));
            match COLUMNS.iter().find(|column| column.metric == metric) {
                Some(column) => marked.columns.push((flow, column)),
                None if word.starts_with(BY) => marked.by = word.strip_prefix(BY),
                None if word == FLOWS => marked.by_flow = true,
                None if word == SIMULATED => marked.simulated = true,
                None if word == RANKING => marked.ranking = true,
                None => marked
                    .cases
                    .push(word.parse().map_err(|why| anyhow!("`{BEGIN}{mark} -->`: invalid word `{word}`: {why}"))?),
            }
        }
        ensure!(
            marked.by.is_some() || marked.columns.iter().all(|(flow, _)| flow.is_none()),
            "`{BEGIN}{mark} -->`: a figure of a flow needs `{BY}KEY`"
        );
        ensure!(
            marked.by.is_none() || !marked.columns.is_empty(),
            "`{BEGIN}{mark} -->`: `{BY}KEY` needs names of figures"
        );
        Ok(marked)
    }

    /// Returns the tables of the existing results; empty if there are none.
    fn figures(&self, results: &Path) -> Result<String> {
        let Ok(kernels) = fs::read_dir(results.join(self.scenario)) else { return Ok(String::new()) };
        let mut kernels: Vec<_> =
            kernels.flatten().map(|e| e.path()).filter(|p| p.join("manifest.json").exists()).collect();
        kernels.sort_by_key(|directory| releases::order(directory));
        let mut out = String::new();
        for directory in kernels {
            let data = Data::of_cases(&directory, &self.cases)?;
            if data.results.runs.is_empty() || data.results.manifest.is_simulated() != self.simulated {
                continue;
            }
            if let Some(by) = self.by {
                let is_swept = data.results.manifest.runs.iter().all(|run| run.case.contains_key(by));
                ensure!(is_swept, "`{BY}{by}`: {} does not sweep `{by}`", self.scenario);
            }
            let heading = heading(&releases::name_of(&directory));
            let (table, cells) = self.table(&data);
            out.push_str(&format!("\n{heading}. {}.{cells}\n\n{}\n", data.state(), with_papers(&table, &data)));
        }
        Ok(out)
    }

    /// Returns the table, and a sentence about its cells if it needs one.
    fn table(&self, data: &Data) -> (Table, String) {
        if self.ranking {
            return (ranking::table(&ranking::rank(&data.rows)), String::new());
        }
        if let Some(by) = self.by {
            let table = tables::pooled(&data.results.runs, by, &self.columns);
            return (table, format!(" Means over all cases with the same {by}, and their 95 % intervals."));
        }
        match (self.columns.is_empty(), self.by_flow) {
            (true, true) => return (tables::by_flow(&data.flows, Place::Document), String::new()),
            (true, false) => return (tables::figures(data, Place::Document), String::new()),
            _ => {}
        }
        let rows = if self.by_flow { &by_flow_name(&data.results) } else { &data.rows };
        let columns: Vec<&Column> = self.columns.iter().map(|(_, column)| *column).collect();
        let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
        (tables::side_by_side(rows, &columns), format!(" Each cell has: {}.", headings.join("; ")))
    }
}

/// Returns the beginning of the line above tables, from the name of the directory of results.
pub(crate) fn heading(backend: &str) -> String {
    if backend == SIMULATOR { NOT_MEASURED.to_owned() } else { format!("{LINUX}{backend}") }
}

/// Replaces the tables in `old` that have the same kernel series (such as `6.12`) and architecture as a table in `new`,
/// and adds the other new ones.
fn merged(old: &str, new: &str) -> String {
    let tables: BTreeMap<_, _> = by_kernel(old).into_iter().chain(by_kernel(new)).collect();
    tables.values().map(|table| format!("\n{}\n\n", table.trim_end())).collect()
}

/// Splits a part into its tables, each from its line `Linux RELEASE. ...` on, with the major and minor version, and
/// whether it is for arm64.
fn by_kernel(part: &str) -> Vec<((Vec<u32>, bool), String)> {
    let mut tables: Vec<((Vec<u32>, bool), String)> = Vec::new();
    for line in part.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix(LINUX) {
            let release = rest.split(". ").next().unwrap_or_default();
            let mut series = releases::numbers(release);
            series.truncate(2);
            tables.push(((series, releases::is_arm64(release)), String::new()));
        }
        if let Some((_, table)) = tables.last_mut() {
            table.push_str(line);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let table = Table {
            columns: vec!["case".to_owned(), "Mbit/s".to_owned()],
            rows: vec![
                vec![Cell::Text("a|b".to_owned()), Cell::Figure("4 ± 1".to_owned())],
                vec![Cell::Text("all".to_owned()), Cell::Figure("–".to_owned())],
            ],
            ..Table::default()
        };
        let text = "| case | Mbit/s |\n| ---- | -----: |\n| a\\|b |  4 ± 1 |\n| all  |      – |\n";
        assert_eq!(table.markdown(), text);
    }

    #[test]
    fn a_kernel_s_tables_replace_those_of_its_series_alone() {
        let part = |release: &str, table: &str| format!("\nLinux {release}. All runs.\n\n| {table} |\n\n");
        let old = part("6.12.107+deb13", "old") + &part("7.3.4", "newest");
        let replaced = part("6.12.108", "new") + &part("7.3.4", "newest");
        assert_eq!(merged(&old, &part("6.12.108", "new")), replaced);
        let added = part("6.1.9", "first") + &replaced;
        assert_eq!(merged(&replaced, &part("6.1.9", "first")), added);
        assert_eq!(merged("\nnothing was run yet\n", &part("6.1.9", "first")), part("6.1.9", "first"));
    }

    #[test]
    fn parts_without_results_are_kept_and_malformed_parts_are_errors() {
        let document = "a\n<!-- figures: x -->\nold\n<!-- end of figures -->\nb\n";
        assert_eq!(refreshed(document, Path::new("/nowhere")).unwrap(), document);
        let told = |text: &str| refreshed(text, Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(
            told("<!-- figures: x -->\nold"),
            "`<!-- figures: x -->` has no end: expected a line `<!-- end of figures -->` below it"
        );
        assert_eq!(
            told("<!-- figures: x"),
            "a `<!-- figures: MARK` is not closed: ` -->` and the end of the line must follow"
        );
        assert_eq!(
            told("<!-- figures: ../x -->\n<!-- end of figures -->\n"),
            "invalid scenario name `../x`: expected only letters, digits and `-`"
        );
        let case = told("<!-- figures: x cc -->\n<!-- end of figures -->\n");
        assert!(case.starts_with("`<!-- figures: x cc -->`: invalid word `cc`: expected KEY=VALUE"), "{case}");
    }
}
