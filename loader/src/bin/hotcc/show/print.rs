//! Prints tables for people, JSON for programs, and warnings on stderr.

use comfy_table::{ContentArrangement, Table, presets};
use hotcc_host::error::{Result, Tried};
use hotcc_host::printable::{printable, printable_in_line};
use serde::Serialize;
use std::io::IsTerminal;
use terminal_size::{Width, terminal_size_of};

/// Prints a line on stdout, with its control characters escaped.
macro_rules! say {
    ($($part:tt)*) => { $crate::show::print::print_line(&format!($($part)*)) };
}
pub(crate) use say;

#[expect(clippy::print_stdout, reason = "all text is printed by this function")]
pub fn print_line(text: &str) {
    println!("{}", printable(text));
}

/// Width of pages, which are wrapped even if stdout is not a terminal.
pub const PAGE_COLUMNS: u16 = 120;

pub fn print_json(value: &impl Serialize) -> Result<()> {
    print_text(serde_json::to_string_pretty(value))
}

/// Prints a value as one line of JSON.
pub fn print_json_line(value: &impl Serialize) -> Result<()> {
    print_text(serde_json::to_string(value))
}

fn print_text(text: serde_json::Result<String>) -> Result<()> {
    say!("{}", text.tried(|| "cannot write JSON".to_owned())?);
    Ok(())
}

/// Breaks prose into lines of at most [`PAGE_COLUMNS`], each indented.
pub fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= usize::from(PAGE_COLUMNS) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{}{word}", " ".repeat(indent))),
        }
    }
    lines
}

/// Clears the terminal before a repeated print; does nothing if stdout is not a terminal.
#[expect(clippy::print_stdout, reason = "control characters of our own")]
pub fn clear() {
    if std::io::stdout().is_terminal() {
        print!("\x1b[H\x1b[2J");
    }
}

/// Prints rows in columns. On a terminal, cells wrap to its width; otherwise each row is one line.
pub fn table(rows: &[Vec<String>]) {
    say!("{}", columns(rows, terminal_columns()));
}

/// Prints rows in columns. Cells wrap to the terminal's width, or to [`PAGE_COLUMNS`] if stdout is not a terminal.
pub fn page(rows: &[Vec<String>]) {
    say!("{}", columns(rows, terminal_columns().or(Some(PAGE_COLUMNS))));
}

/// Formats rows in columns, one line for each row.
pub fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let in_line = |row: &Vec<String>| row.iter().map(|cell| printable_in_line(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(in_line).collect();
    columns(&rows, None).lines().map(str::to_owned).collect()
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
        eprintln!("hotcc: warning: {}", printable(warning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::error::Error;

    #[test]
    fn invalid_json_keeps_its_cause() {
        let wrong = BTreeMap::from([((1, 2), 3)]);
        for error in [print_json(&wrong), print_json_line(&wrong)].map(Result::unwrap_err) {
            assert!(error.source().is_some_and(|cause| cause.is::<serde_json::Error>()));
            assert_eq!(format!("{error:#}"), "cannot write JSON: key must be a string");
        }
    }

    #[test]
    fn columns_align_and_end_without_blanks() {
        let rows = [row(["name", "unit"]), row(["  indented", ""]), row(["x", "ms"])];
        assert_eq!(lines(&rows), ["name        unit", "  indented", "x           ms"]);
    }

    #[test]
    fn a_name_with_a_line_break_stays_in_its_row() {
        assert_eq!(lines(&[row(["a\nb", "1"]), row(["c", "2"])]), ["a\\u000ab  1", "c         2"]);
    }

    #[test]
    fn prose_breaks_between_words() {
        let lines = wrapped(&"word ".repeat(30), 4);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [118, 38]);
        assert!(lines.iter().all(|line| line.starts_with("    word")), "{lines:?}");
    }

    #[test]
    fn a_given_width_wraps_cells_within_their_column() {
        let text = columns(&[row(["dtcp", "grows by N segments per round trip time"])], Some(30));
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("      ")), "{text}");
    }
}
