//! Tables for people, JSON for programs, warnings on stderr.

use hotcc_host::error::{Error, Result};
use serde::Serialize;

pub fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::failed(format!("cannot write JSON: {e}")))?;
    println!("{text}");
    Ok(())
}

/// Prints rows in columns.
pub fn table(rows: &[Vec<String>]) {
    lines(rows).iter().for_each(|line| println!("{line}"));
}

/// Columns as wide as their widest cell; the last one is left ragged.
pub fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(c, cell): (usize, &String)| {
            if c + 1 == row.len() { cell.clone() } else { format!("{cell:<w$}", w = widths[c]) }
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

pub fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("hotcc: warning: {warning}");
    }
}
