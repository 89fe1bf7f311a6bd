//! How much of its recordings a scenario uses.

use super::links::AFTER_THE_END;
use crate::scenario::{ScenarioError, Source};
use crate::traces::TraceFiles;
use hotcc_channel_model::RadioSpec;
use hotcc_channel_model::trace::Trace;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns a note for each part of a recording that is longer than the runs that use it. A recording that cannot be
/// read has none: planning reports it.
pub fn partly_used(source: &Source) -> Result<Vec<String>, ScenarioError> {
    let (traces, cases) = (source.traces(), source.cases()?);
    let (mut lengths_s, mut notes) = (BTreeMap::new(), Vec::new());
    for case in &cases {
        let used_s = rounded(case.scenario.duration_s.get_ref() + AFTER_THE_END.as_secs_f64());
        for radio in &case.scenario.radio {
            let RadioSpec::Trace(spec) = radio.get_ref() else { continue };
            let file = spec.file.as_path();
            let Some(lasts_s) = *lengths_s.entry(file).or_insert_with(|| length_s(&traces, file)) else { continue };
            if rounded(spec.length_s.unwrap_or(lasts_s - spec.from_s)) <= used_s {
                continue;
            }
            let (name, lasts_s, from_s) = (file.display(), rounded(lasts_s), spec.from_s);
            let note = format!("{name} lasts {lasts_s} s; runs use {used_s} s of it, from second {from_s}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok(notes)
}

fn length_s(traces: &TraceFiles, file: &Path) -> Option<f64> {
    let trace = Trace::load(&traces.find(file).ok()?).ok()?;
    Some(trace.duration().as_secs_f64())
}

/// Rounds to the tenths of a second that notes show.
fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}
