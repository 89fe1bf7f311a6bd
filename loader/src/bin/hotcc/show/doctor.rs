//! Prints the result of `hotcc doctor`.

use super::print::{print_json, row, say, table};
use hotcc::doctor::{Report, Verdict};
use hotcc_host::error::Result;

pub fn doctor(report: &Report, json: bool) -> Result<()> {
    if json {
        return print_json(report);
    }
    say!("kernel {} on {}", report.kernel, report.machine);
    let mut rows = Vec::new();
    for f in &report.findings {
        let verdict = match f.verdict {
            Verdict::Ok => "ok",
            Verdict::Degraded => "limited",
            Verdict::Missing => "MISSING",
            Verdict::Unknown => "unknown",
        };
        let mut text = f.found.clone();
        if matches!(f.verdict, Verdict::Degraded | Verdict::Missing) {
            text = format!("{text}: {}", f.without);
            if !f.cure.is_empty() {
                text = format!("{text}. Try: {}", f.cure);
            }
        }
        rows.push(row([verdict, f.what, &text]));
    }
    table(&rows);
    say!("verdict: {}", report.verdict());
    Ok(())
}
