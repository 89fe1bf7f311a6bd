//! How `hotcc list` is printed.

use super::print::{print_json, row, table};
use hotcc::object::Source;
use hotcc::object::describe::Description;
use hotcc::tunables::values::format_value;
use hotcc_host::error::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Listed {
    name: String,
    cc_name: String,
    #[serde(flatten)]
    description: Description,
}

fn listed(source: &Source, name: &str) -> Result<Listed> {
    let opened = source.open()?;
    Ok(Listed { name: name.to_owned(), cc_name: opened.cc_name, description: opened.description })
}

pub fn list(object: Option<&str>, json: bool) -> Result<()> {
    let all: Vec<Listed> = match object {
        Some(object) => vec![listed(&Source::find(object)?, object)?],
        None => hotcc_bpf::ALGOS.iter().map(|o| listed(&Source::builtin(o), o.name)).collect::<Result<_>>()?,
    };
    if json {
        return print_json(&all);
    }
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            println!();
        }
        let d = &one.description;
        println!("{}  {}", one.cc_name, d.summary.as_deref().unwrap_or("(does not describe itself)"));
        if let Some(paper) = &d.paper {
            println!("  paper: {paper}");
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
            table(&rows);
        }
        if object.is_some() && !d.state.is_empty() {
            let mut rows = vec![row(["  per-flow state", "unit", "meaning"])];
            rows.extend(d.state.iter().map(|f| vec![format!("  {}", f.name), f.unit.clone(), f.help.clone()]));
            println!();
            table(&rows);
        }
    }
    Ok(())
}
