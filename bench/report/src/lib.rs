//! Reports: a result directory as a page, and the comparison of two result directories.

pub mod board;
pub mod charts;
pub mod data;
pub mod diff;
pub mod ellipse;
pub mod estimate;
pub mod expected;
pub mod gates;
pub mod html;
pub mod markdown;
pub mod page;
pub mod ranking;
mod releases;
pub mod repeated;
pub mod rows;
pub mod series;
pub mod tables;

use anyhow::{Context, Result};
use data::Data;
use std::fs;
use std::path::Path;

/// Number of cases that are drawn by default.
pub const CHARTS: usize = 12;

/// Writes the page of a result directory.
pub fn write(directory: &Path, out: &Path, charts: usize) -> Result<Data> {
    let data = Data::read(directory)?;
    write_page(&data, out, charts)?;
    Ok(data)
}

/// Writes the page of results that have been read.
pub fn write_page(data: &Data, out: &Path, charts: usize) -> Result<()> {
    let page = page::page(data, charts)?;
    fs::write(out, page).with_context(|| format!("cannot write {}", out.display()))
}
