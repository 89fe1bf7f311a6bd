//! Prints the result of `hotcc list`.

use super::print::{page, print_json, row, say};
use hotcc::object::Source;
use hotcc::object::describe::{Computed, Description};
use hotcc::tunables::values::format_value;
use hotcc_host::error::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Listed {
    name: String,
    cc_name: String,
    #[serde(flatten)]
    description: Description,
    computed: &'static [Computed],
}

impl Listed {
    fn summary(&self) -> &str {
        self.description.summary.as_deref().unwrap_or("(the object does not describe itself)")
    }

    fn signals(&self) -> String {
        let signals: Vec<String> = self.description.signals.iter().map(ToString::to_string).collect();
        if signals.is_empty() { "-".to_owned() } else { signals.join(", ") }
    }
}

fn listed(source: &Source, name: &str) -> Result<Listed> {
    let opened = source.open()?;
    let (cc_name, description) = (opened.cc_name, opened.description);
    Ok(Listed { name: name.to_owned(), cc_name, computed: description.computed(), description })
}

/// Prints one object, or all built-in ones. One object, or each one if `all` is set, is printed with its tunables and
/// per-flow state.
pub fn list(object: Option<&str>, all: bool, json: bool) -> Result<()> {
    let found: Vec<Listed> = match object {
        Some(object) => match &Source::find(object)?.tables()?[..] {
            [one] => vec![listed(one, object)?],
            several => several.iter().map(|one| listed(one, &one.origin)).collect::<Result<_>>()?,
        },
        None => hotcc_bpf::ALGOS.iter().map(|o| listed(&Source::builtin(o), o.name)).collect::<Result<_>>()?,
    };
    if json {
        return print_json(&found);
    }
    if object.is_none() && !all {
        overview(&found);
        return Ok(());
    }
    for (index, one) in found.iter().enumerate() {
        if index > 0 {
            say!("");
        }
        details(one);
    }
    Ok(())
}

fn overview(all: &[Listed]) {
    let mut rows = vec![row(["name", "summary", "signals", "paper"])];
    rows.extend(all.iter().map(|one| {
        // the format is "AUTHORS YEAR: TITLE, SECTIONS"; the overview has room only for authors and year
        let paper = one.description.paper.as_deref().unwrap_or("-").split(": ").next().unwrap_or_default();
        row([&one.cc_name, one.summary(), &one.signals(), paper])
    }));
    page(&rows);
    say!("\nTunables and per-flow state: hotcc list NAME, or hotcc list --all");
}

fn details(one: &Listed) {
    let d = &one.description;
    say!("{}  {}", one.cc_name, one.summary());
    say!("  signals: {}", one.signals());
    if let Some(paper) = &d.paper {
        say!("  paper: {paper}");
    }
    let mut rows = vec![row(["  tunable", "default", "paper", "range", "meaning"])];
    for t in &d.tunables {
        let value = |v: Option<i128>| v.map_or_else(|| "-".to_owned(), |v| format_value(t, v));
        let range = if t.choices.is_empty() {
            format!("{}..{} {}", t.min, t.max, t.unit).trim_end().to_owned()
        } else {
            t.choices.join("|")
        };
        let name = format!("  {}", t.name);
        rows.push(vec![name, value(t.default), value(t.paper), range, t.help.clone()]);
    }
    if rows.len() > 1 {
        say!("");
        page(&rows);
    }
    if !d.state.is_empty() {
        let mut rows = vec![row(["  per-flow state", "unit", "meaning"])];
        rows.extend(d.state.iter().map(|f| vec![format!("  {}", f.name), f.unit.clone(), f.help.clone()]));
        rows.extend(one.computed.iter().map(|c| row([&format!("  {}", c.name), c.unit, c.help])));
        say!("");
        page(&rows);
    }
}
