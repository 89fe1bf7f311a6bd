//! Checks docs/reference/bbr3.md: each row of its tables links to the right line, and each constant and state has a
//! row.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn source(file: &str) -> String {
    fs::read_to_string(root().join("bench/peers").join(file)).unwrap()
}

/// Returns the text, the file and the line that each row links to.
fn rows(page: &str) -> Vec<(&str, &str, usize)> {
    fn link(line: &str) -> Option<(&str, &str, usize)> {
        let (place, rest) = line.split_once("| [bbr3")?.1.split_once("](../../bench/peers/")?;
        let (file, rest) = rest.split_once(") `")?;
        let (text, _) = rest.split_once("` |")?;
        let (_, number) = place.split_once(':')?;
        Some((text, file, number.parse().unwrap()))
    }
    page.lines().filter_map(link).collect()
}

#[test]
fn rows_are_at_their_lines_and_none_is_missing() {
    let page = fs::read_to_string(root().join("docs/reference/bbr3.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() > 100, "{}", rows.len());
    for (text, file, number) in &rows {
        let source = source(file);
        let line = source.lines().nth(number - 1).unwrap_or_default();
        let found = source.lines().position(|line| line.contains(text)).map(|at| at + 1);
        assert!(line.contains(text), "`{text}` is at line {found:?} of {file}, not at {number}");
    }
    let names = |text: &str| rows.iter().any(|(row, ..)| row.contains(text));
    let state = source("bbr3_state.h");
    // units and sizes that are not from the draft
    let own = ["INFINITY", "BW_UNIT", "LOSS_RECORDS", "LOSS_RECORDS_PER_FLIGHT", "EXTRA_ACKED_SLOTS"];
    for constant in state.lines().filter_map(|line| line.strip_prefix("#define ")) {
        let name = constant.split(' ').next().unwrap();
        assert!(own.contains(&name) || names(&format!("{name} ")), "{name} has no row");
    }
    let fields = state.split("struct bbr3 {").nth(1).unwrap().split("};").next().unwrap();
    let own = ["max_bw_before", "lost_seen", "loss_events", "ack_phase"];
    for field in fields.lines().filter_map(|line| line.trim().split(' ').nth(1)) {
        assert!(own.contains(&field) || names(field), "{field} has no row");
    }
}
