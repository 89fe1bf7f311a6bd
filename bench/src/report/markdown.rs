//! Tables as Markdown that is readable as it stands, and documents in which recipes keep such tables up to date.

use super::data::Data;
use super::html::{Cell, Table};
use super::tables;
use crate::lab::selection::SweptValue;
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of figures -->\n";

impl Table {
    /// As Markdown, columns padded; without caption and remark.
    #[must_use]
    pub fn markdown(&self) -> String {
        let text = |cell: &Cell| match cell {
            Cell::Head(text) | Cell::Text(text) | Cell::Figure(text) => text.replace('|', "\\|").replace('\n', " "),
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(text).collect()).collect();
        let is_figure = |column: usize| matches!(self.rows.first().and_then(|r| r.get(column)), Some(Cell::Figure(_)));
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

/// A result directory's tables.
#[must_use]
pub fn text(data: &Data) -> String {
    let mut out = tables::figures(data).markdown();
    for run in data.invalid() {
        for why in &run.invalid {
            out.push_str(&format!("INVALID, and in no figure: {} seed {}: {why}\n", run.run.case_name(), run.run.seed));
        }
    }
    if let Some(table) = tables::papers(data) {
        out.push_str(&format!("\n{}:\n\n{}", table.caption, table.markdown()));
    }
    out
}

/// The document with every part between `<!-- figures: SCENARIO -->` and `<!-- end of figures -->` replaced by the
/// tables of `results/SCENARIO`, one for each kernel there. `<!-- figures: SCENARIO KEY=VALUE... -->` is about the cases
/// with these swept values alone. A part of whose runs none is there stays as it is.
///
/// # Errors
/// A part has no end, or results cannot be read.
pub fn refreshed(document: &str, results: &Path) -> Result<String> {
    let mut out = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (mark, after) = after.split_once(BEGIN_END).context("a `<!-- figures: SCENARIO -->` is not closed")?;
        let (scenario, cases) = marked(mark)?;
        let (old, after) =
            after.split_once(END).with_context(|| format!("the figures of {mark} have no `{}`", END.trim_end()))?;
        let new = figures(&results.join(scenario), &cases)?;
        out.push_str(&format!("{before}{BEGIN}{mark}{BEGIN_END}{}{END}", new.as_deref().unwrap_or(old)));
        rest = after;
    }
    Ok(out + rest)
}

/// `SCENARIO KEY=VALUE...`.
fn marked(mark: &str) -> Result<(&str, Vec<SweptValue>)> {
    let (scenario, cases) = mark.split_once(' ').unwrap_or((mark, ""));
    ensure!(scenario.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "`{scenario}` is no scenario's name");
    let cases = cases.split_whitespace().map(str::parse).collect::<Result<_, String>>();
    Ok((scenario, cases.map_err(|why| anyhow!("`<!-- figures: {mark} -->`: {why}"))?))
}

fn figures(scenario: &Path, cases: &[SweptValue]) -> Result<Option<String>> {
    let Ok(kernels) = fs::read_dir(scenario) else { return Ok(None) };
    let mut kernels: Vec<_> =
        kernels.flatten().map(|e| e.path()).filter(|p| p.join("manifest.json").exists()).collect();
    kernels.sort();
    let mut out = String::new();
    for directory in kernels {
        let data = Data::of_cases(&directory, cases)?;
        if data.results.runs.is_empty() {
            continue;
        }
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        out.push_str(&format!("\nLinux {name}. {}.\n\n{}\n", data.state(), text(&data)));
    }
    Ok((!out.is_empty()).then_some(out))
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
    fn parts_without_results_stay_and_broken_ones_are_told() {
        let document = "a\n<!-- figures: x -->\nold\n<!-- end of figures -->\nb\n";
        assert_eq!(refreshed(document, Path::new("/nowhere")).unwrap(), document);
        let told = |text: &str| refreshed(text, Path::new("/nowhere")).unwrap_err().to_string();
        assert_eq!(told("<!-- figures: x -->\nold"), "the figures of x have no `<!-- end of figures -->`");
        assert_eq!(told("<!-- figures: x"), "a `<!-- figures: SCENARIO -->` is not closed");
        assert_eq!(told("<!-- figures: ../x -->\n<!-- end of figures -->\n"), "`../x` is no scenario's name");
        let case = told("<!-- figures: x cc -->\n<!-- end of figures -->\n");
        assert!(case.starts_with("`<!-- figures: x cc -->`: KEY=VALUE is meant"), "{case}");
    }
}
