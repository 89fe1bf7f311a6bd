//! Prints the results of `hotcc get` and `hotcc set`.

use super::print::{print_json, row, say, table, warn};
use hotcc::ops::tune::SetOutcome;
use hotcc::tunables::present::Value;
use hotcc::tunables::values::unknown;
use hotcc_host::error::Result;

pub fn values(values: &[Value], only: Option<&str>, json: bool) -> Result<()> {
    if let Some(name) = only {
        let found = values.iter().find(|v| v.name == name);
        let found = found.ok_or_else(|| unknown(name, values.iter().map(|v| (&*v.name, v.former_name.as_deref()))))?;
        if json {
            return print_json(found);
        }
        say!("{}", found.value);
        return Ok(());
    }
    if json {
        return print_json(&values);
    }
    let mut rows = vec![row(["tunable", "value", "unit", "meaning"])];
    rows.extend(values.iter().map(|v| {
        let help = if v.settable { v.help.clone() } else { format!("{} (fixed while loaded)", v.help) };
        vec![v.name.clone(), v.value.clone(), v.unit.clone(), help.trim().to_owned()]
    }));
    table(&rows);
    Ok(())
}

pub fn set(name: &str, assignments: &[String], outcome: &SetOutcome, json: bool) -> Result<()> {
    warn(&outcome.warnings);
    if json {
        return print_json(outcome);
    }
    let versions = if outcome.versions > 1 { format!(" in {} versions", outcome.versions) } else { String::new() };
    say!("{name}: {} set{versions}", assignments.join(" "));
    if let Some(n) = outcome.connections_missed.filter(|&n| n > 0) {
        say!("  connections on older versions that cannot be tuned: {n}");
    }
    Ok(())
}
