//! Costs as text.

use super::{Costs, REFERENCE};
use std::fmt::Write as _;

/// Returns a line for each algorithm, followed by a line for each of its programs or functions.
#[must_use]
pub fn table(costs: &Costs) -> String {
    let names = costs.algorithms.iter().flat_map(|cost| cost.parts.iter().map(|part| part.name.len() + 2));
    let width = names.max().unwrap_or_default().max(costs.kernel.len());
    let mut text = format!("{:width$}", costs.kernel);
    for column in ["calls", "instr./call", "instr./ACK", "of the reference"] {
        let _ = write!(text, "  {column:>11}");
    }
    let reference = costs.of(REFERENCE).map(|cost| cost.instructions_per_ack);
    for cost in &costs.algorithms {
        let _ = write!(text, "\n{:width$}  {:>6} ACKs {:26.1}", cost.name, cost.acks, cost.instructions_per_ack);
        if let Some(reference) = reference {
            let _ = write!(text, "  {:16.2}", cost.instructions_per_ack / reference);
        }
        for part in &cost.parts {
            let _ = write!(text, "\n  {:1$}", part.name, width - 2);
            let _ = write!(text, "  {:>11}  {:>11.1}", part.calls, part.instructions_per_call);
            if !part.is_once() {
                let _ = write!(text, "  {:>11.1}", part.instructions as f64 / cost.acks as f64);
            }
        }
    }
    text
}
