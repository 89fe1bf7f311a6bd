//! Prints the result of `hotcc status`.

use super::print::{lines, print_json, row, say, table};
use hotcc::status::Status;
use hotcc::tunables::present::Changed;
use hotcc_host::error::Result;
use std::time::{Duration, SystemTime};

pub fn status(status: &Status, json: bool) -> Result<()> {
    if json {
        return print_json(status);
    }
    if status.algorithms.is_empty() {
        say!("hotcc has loaded no algorithm; to see what is available: hotcc list");
    } else {
        let mut rows = vec![row([
            "name",
            "connections",
            "older",
            "listeners",
            "default in",
            "since",
            "swaps",
            "profile",
            "object",
        ])];
        for a in &status.algorithms {
            let loaded_for = match a.loaded_for {
                "run" => Some("for `hotcc run`, until it ends"),
                "killed run" => Some("left by a killed `hotcc run`"),
                _ => None,
            };
            let marks = [
                (a.name == status.default).then_some("default here"),
                loaded_for,
                (!a.registered).then_some("NOT REGISTERED"),
            ];
            let marks: Vec<&str> = marks.into_iter().flatten().collect();
            let object =
                if marks.is_empty() { a.object.clone() } else { format!("{} [{}]", a.object, marks.join(", ")) };
            rows.push(vec![
                a.name.clone(),
                a.connections_current.to_string(),
                a.connections_older.to_string(),
                a.listeners.to_string(),
                format!("{} netns", a.default_in_namespaces),
                a.since_unix_s.map_or_else(|| "?".to_owned(), since),
                a.swaps.to_string(),
                a.profile.clone(),
                object,
            ]);
        }
        let lines = lines(&rows);
        say!("{}", lines[0]);
        for (algorithm, line) in status.algorithms.iter().zip(&lines[1..]) {
            say!("{line}");
            if let Some(problem) = &algorithm.problem {
                say!("    problem: {problem}");
            }
            if !algorithm.tunables_changed.is_empty() {
                let text = |Changed { name, old, new }: &Changed| format!("{name}={new} (profile: {old})");
                let changed: Vec<String> = algorithm.tunables_changed.iter().map(text).collect();
                say!("    tunables: {}", changed.join(", "));
            }
            if !algorithm.default_in.is_empty() {
                say!("    default in: {}", algorithm.default_in.join(", "));
            }
            if let (Some(object), Some(profile)) = (&algorithm.previous_object, &algorithm.previous_profile) {
                say!("    rollback restores: {object} (profile {profile})");
            }
        }
    }
    say!("");
    let mut rows = vec![row(["others", "connections", "listeners", "kind"])];
    for o in &status.others {
        let default = if o.name == status.default { " [default here]" } else { "" };
        let map = o.map_id.map_or_else(String::new, |id| format!(" (map {id})"));
        let kind = format!("{}{map}{default}", o.description());
        rows.push(vec![o.name.clone(), o.connections.to_string(), o.listeners.to_string(), kind]);
    }
    table(&rows);
    Ok(())
}

/// Formats the time since `unix_s`, e.g. "3 min 5 s ago".
fn since(unix_s: u64) -> String {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s));
    let seconds = elapsed.map_or(0, |d| d.as_secs());
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min {} s ago", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min ago", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h ago", seconds / 86400, seconds % 86400 / 3600),
    }
}
