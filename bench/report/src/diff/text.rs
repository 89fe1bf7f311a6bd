//! A comparison as text for people.

use super::super::estimate::number;
use super::super::rows::case_text;
use super::verdict::Verdict;
use super::{CaseDiff, Diff, FigureDiff};
use hotcc_lab::plural::counted;
use std::fmt::Write as _;

/// Number of runs that are listed before a line says how many more there are.
const MAX_LISTED: usize = 10;

impl Diff {
    /// Returns the comparison as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("A {}\nB {}\n", self.a, self.b);
        if self.manifests.is_empty() {
            out.push_str("the manifests are the same\n");
        }
        for change in &self.manifests {
            let value = |value: &Option<String>| value.as_deref().map_or("none".to_owned(), short);
            let _ = writeln!(out, "differs: {}: {} -> {}", change.what, value(&change.a), value(&change.b));
        }
        for run in self.left_out.iter().take(MAX_LISTED) {
            let _ = writeln!(out, "left out: {}, seed {}: {}", case_text(&run.run.case), run.run.seed, run.why);
        }
        if self.left_out.len() > MAX_LISTED {
            let _ = writeln!(out, "left out: {} more", self.left_out.len() - MAX_LISTED);
        }
        for case in &self.cases {
            case_lines(&mut out, case);
        }
        let counts: Vec<String> = Verdict::ALL
            .iter()
            .map(|v| (self.count(*v), v))
            .filter(|c| c.0 > 0)
            .map(|(n, v)| format!("{n} {v}"))
            .collect();
        let _ = writeln!(
            out,
            "\n{} compared, margin {} %: {}",
            counted(self.pairs, "run"),
            number(self.margin * 100.0),
            counts.join(", ")
        );
        if self.identical == self.pairs {
            out.push_str("all runs are identical, byte for byte\n");
        } else if self.identical > 0 {
            let _ = writeln!(out, "{} of them identical, byte for byte", self.identical);
        }
        if self.is_worse() {
            let tested = self.figures().filter(|figure| is_tested(figure)).count();
            let _ = writeln!(
                out,
                "if nothing had changed, chance alone would make about {} of {tested} intervals worse",
                number((tested as f64 * 0.025).ceil())
            );
        }
        out
    }
}

/// Returns whether chance can have affected a figure: the interval of its difference has a width.
fn is_tested(figure: &FigureDiff) -> bool {
    figure.comparison.difference.and_then(|difference| difference.half_width).is_some_and(|half| half > 0.0)
}

fn case_lines(out: &mut String, case: &CaseDiff) {
    let seeds = counted(case.seeds.len(), "seed");
    let _ = writeln!(out, "\n{} ({seeds})", case_text(&case.case));
    if case.identical {
        out.push_str("  identical, byte for byte\n");
        return;
    }
    let (same, different): (Vec<_>, Vec<_>) = case.figures.iter().partition(|f| f.comparison.verdict == Verdict::Same);
    let width = different.iter().map(|figure| name(figure).chars().count()).max().unwrap_or(0).max(6);
    if !different.is_empty() {
        let _ = writeln!(
            out,
            "  {:width$}  {:9}  {:>10}  {:>10}  {:>28}  {:>8}  verdict",
            "figure", "better if", "A", "B", "B - A, 95 % interval", "% of A"
        );
    }
    for figure in different {
        let comparison = &figure.comparison;
        let value = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let difference = comparison.difference.map_or("–".to_owned(), |difference| match difference.interval() {
            Some((low, high)) => format!("{} [{}, {}]", signed(difference.mean), signed(low), signed(high)),
            None => signed(difference.mean),
        });
        let share = match (comparison.difference, comparison.a) {
            (Some(difference), Some(a)) if a != 0.0 => format!("{:+.1} %", difference.mean / a.abs() * 100.0),
            _ => "–".to_owned(),
        };
        let note = comparison.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        let _ = writeln!(
            out,
            "  {:width$}  {:9}  {:>10}  {:>10}  {difference:>28}  {share:>8}  {}{note}",
            name(figure),
            figure.better,
            value(comparison.a),
            value(comparison.b),
            comparison.verdict
        );
    }
    if !same.is_empty() {
        let _ = writeln!(out, "  same: {}", same.into_iter().map(name).collect::<Vec<_>>().join(", "));
    }
}

fn name(figure: &FigureDiff) -> String {
    figure.flow.as_ref().map_or(figure.metric.to_owned(), |flow| format!("{flow} {}", figure.metric))
}

fn signed(value: f64) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, number(value))
}

/// Shortens a checksum, leaving enough of it to tell it from another.
fn short(text: &str) -> String {
    let is_sum = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_sum { format!("{}…", &text[..12]) } else { text.to_owned() }
}
