//! Tables for people, JSON for programs, warnings on stderr.

use comfy_table::{ContentArrangement, Table, presets};
use hotcc_host::error::{Error, Result};
use serde::Serialize;
use terminal_size::{Width, terminal_size_of};

/// Columns of the pages that are wrapped even if stdout is not a terminal.
pub const PAGE_COLUMNS: u16 = 120;

pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::failed(format!("cannot write JSON: {e}")))?;
    println!("{text}");
    Ok(())
}

/// Prints rows in columns. On a terminal, cells wrap at its width; elsewhere a row is one line.
pub fn table(rows: &[Vec<String>]) {
    println!("{}", columns(rows, terminal_columns()));
}

/// Prints rows in columns whose cells wrap: at the terminal's width, elsewhere at [`PAGE_COLUMNS`].
pub fn page(rows: &[Vec<String>]) {
    println!("{}", columns(rows, terminal_columns().or(Some(PAGE_COLUMNS))));
}

/// Rows in columns, one line each.
pub fn lines(rows: &[Vec<String>]) -> Vec<String> {
    columns(rows, None).lines().map(str::to_owned).collect()
}

fn columns(rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_rows(rows);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table.trim_fmt()
}

fn terminal_columns() -> Option<u16> {
    terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| columns)
}

pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

pub fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("hotcc: warning: {warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_end_without_blanks() {
        let rows = [row(["name", "unit"]), row(["  indented", ""]), row(["x", "ms"])];
        assert_eq!(lines(&rows), ["name        unit", "  indented", "x           ms"]);
    }

    #[test]
    fn a_given_width_wraps_cells_within_their_column() {
        let text = columns(&[row(["dtcp", "grows by N segments per round trip time"])], Some(30));
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("      ")), "{text}");
    }
}
