//! Writes reports to stdout instead of sending them (`--dry-run`).

use crate::report::{FlowReport, Transport};
use std::fmt::Write as _;
use std::io::Write as _;

/// A line per report: `seen_at_us=1 server=A:P client=A:P in_order=N ranges=S-E,S-E segments=N`.
#[derive(Debug, Default)]
pub struct Print;

impl Transport for Print {
    fn send(&mut self, reports: &[FlowReport], _now_us: u64) -> usize {
        let lines: String = reports.iter().map(line).collect();
        // if the reader closes the pipe, the agent continues
        usize::from(std::io::stdout().lock().write_all(lines.as_bytes()).is_ok())
    }
}

fn line(report: &FlowReport) -> String {
    let FlowReport { key, in_order, ranges, segments, seen_at_us } = report;
    let mut line =
        format!("seen_at_us={seen_at_us} server={} client={} in_order={in_order} ranges=", key.server, key.client);
    for (i, range) in ranges.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(line, "{comma}{}-{}", range.start, range.end); // writing to a string cannot fail
    }
    let _ = writeln!(line, " segments={segments}");
    line
}
