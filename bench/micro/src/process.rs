//! What the kernel says of a process.

use anyhow::{Context, Result};

/// Returns the resident memory of a process, in pages; `process` is a process id, or `self`.
pub fn resident_pages(process: &str) -> Result<f64> {
    let file = format!("/proc/{process}/statm");
    let statm = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).with_context(|| format!("{file}: no resident memory"))
}
