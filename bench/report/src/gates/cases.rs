//! A document's table of each case's figures under the gates of one scenario.

use super::{Swept, excess, is_exempt, limits_of, means, own_figures, read, unit, without_figure};
use crate::estimate::number;
use crate::html::{Cell, Table};
use crate::markdown::heading;
use crate::releases::name_of;
use crate::rows::case_text;
use anyhow::Result;
use hotcc_lab::plural::counted;
use hotcc_lab::results::{Gate, Of};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the part of a document: a row for each case, a column for each gate.
pub(super) fn part(directory: &Path) -> Result<String> {
    let (cases, results) = read(directory)?;
    let (mut columns, mut of_gates) = (vec!["case".to_owned()], Vec::<BTreeMap<&Swept, String>>::new());
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for place in 0..cases.first().map_or(0, |case| case.scenario.expected.len()) {
        let Some((expected, limits)) = limits_of(place, &cases, None) else { continue };
        let Some(gate) = limits.values().next() else { continue };
        let own = own_figures(&expected, &results);
        let cells = means(&expected, &results)
            .into_iter()
            .map(|(case, (value, _))| (case, cell(value, case, &limits, is_exempt(case, &limits, &own))));
        let has_limits = gate.of == Of::Each && gate.has_limits();
        let lacking = without_figure(&expected, &results).filter(|_| has_limits);
        let cells = cells.chain(lacking.map(|run| (&run.case, "**none**".to_owned())));
        match places.get(&gate.name) {
            // a gate for the median, and one for each case, may have the same figures: the latter's limits mark them
            Some(place) if gate.of == Of::Each => of_gates[*place].extend(cells),
            Some(place) => cells.for_each(|(case, text)| {
                of_gates[*place].entry(case).or_insert(text);
            }),
            None => {
                places.insert(gate.name.clone(), of_gates.len());
                let of = if expected.over.is_empty() { unit(&expected.metric).trim_start() } else { "" };
                columns.push(if of.is_empty() { gate.name.clone() } else { format!("{}, {of}", gate.name) });
                of_gates.push(cells.collect());
            }
        }
    }
    let concerned: Vec<&Swept> =
        cases.iter().map(|case| &case.values).filter(|case| of_gates.iter().any(|of| of.contains_key(case))).collect();
    let varies = |key: &String| concerned.iter().any(|case| case.get(key) != concerned[0].get(key));
    let row = |case: &&Swept| {
        let name =
            case.iter().filter(|(key, _)| varies(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
        let cells = of_gates.iter().map(|of| of.get(case).cloned().unwrap_or_else(|| "–".to_owned()));
        [case_text(&name)].into_iter().chain(cells).map(Cell::Text).collect()
    };
    let rows = concerned.iter().map(row).collect();
    let table = Table { columns, rows, ..Table::default() };
    let state = format!(
        "{}; bold: beyond the limit, which follows if it differs between cases",
        counted(concerned.len(), "case")
    );
    Ok(format!("\n{}. {state}.\n\n{}\n", heading(&name_of(directory)), table.markdown()))
}

/// Returns a figure, in bold if it is beyond its limits, and the limit if it is not that of all cases. The limit of a
/// median does not apply to a case.
fn cell(value: f64, case: &Swept, limits: &BTreeMap<&Swept, Gate>, exempt: bool) -> String {
    let text = number(value);
    let Some(gate) = limits.get(case).filter(|gate| gate.of == Of::Each) else { return text };
    let text = if excess(value, gate) > 1.0 && !exempt { format!("**{text}**") } else { text };
    let differs = limits.values().any(|other| other.at_most != gate.at_most);
    match gate.at_most.filter(|_| differs) {
        Some(most) => format!("{text} (at most {})", number(most)),
        None => text,
    }
}
