//! How results are printed: tables for people, JSON for programs.

use hotcc::doctor::{Report, Verdict};
use hotcc::error::{Error, Result};
use hotcc::object::Source;
use hotcc::ops::migrate::{Migrated, Moved, MovedIn};
use hotcc::ops::tune::SetOutcome;
use hotcc::ops::{Outcome, Unloaded};
use hotcc::paths::maps::{Bumped, Paths};
use hotcc::paths::routes::{Change, Way};
use hotcc::paths::watch::News;
use hotcc::sockets::list::{Connection, SeenByPep, StateValue};
use hotcc::status::Status;
use hotcc::tunables::present::{Changed, Value};
use hotcc::tunables::values::{format_value, unknown};
use hotcc_abi::path::PathKey;
use serde::Serialize;
use std::time::{Duration, SystemTime};

pub mod rx;

fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::failed(format!("cannot write JSON: {e}")))?;
    println!("{text}");
    Ok(())
}

/// Prints rows in columns.
fn table(rows: &[Vec<String>]) {
    lines(rows).iter().for_each(|line| println!("{line}"));
}

/// Columns as wide as their widest cell; the last one is left ragged.
fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(c, cell): (usize, &String)| {
            if c + 1 == row.len() { cell.clone() } else { format!("{cell:<w$}", w = widths[c]) }
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Open connections; `with_state`: each followed by its algorithm's state.
pub fn flows(all: &[Connection], with_state: bool, json: bool) -> Result<()> {
    if json {
        return print_json(&all);
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let ms = |us: Option<u32>| or_dash(us.map(|us| format!("{:.3}", f64::from(us) / 1e3)));
    let mut rows = vec![row([
        "netns",
        "local",
        "peer",
        "cc",
        "version",
        "state",
        "cwnd",
        "ssthresh",
        "rtt ms",
        "min rtt ms",
        "Mbit/s",
        "retrans",
    ])];
    for c in all {
        rows.push(vec![
            c.netns.clone(),
            c.local.to_string(),
            c.peer.to_string(),
            c.cc.clone(),
            c.version.to_owned(),
            c.ca_state.to_owned(),
            c.cwnd.to_string(),
            or_dash(c.ssthresh.map(|s| s.to_string())),
            ms(c.srtt_us),
            ms(c.min_rtt_us),
            or_dash(c.delivery_bps.map(|bps| format!("{:.3}", bps as f64 / 1e6))),
            c.retransmits.to_string(),
        ]);
    }
    let lines = lines(&rows);
    println!("{}", lines[0]);
    for (connection, line) in all.iter().zip(&lines[1..]) {
        println!("{line}");
        if with_state {
            connection.state.iter().for_each(|value| println!("    {}", state_text(value)));
            connection.pep.iter().for_each(|seen| println!("    {}", pep_text(seen)));
        }
    }
    Ok(())
}

/// `pep: all up to 14480 bytes beyond the client, and 20000..28960; 12 segments; rtt 10.2 ms; 3 ms ago`
fn pep_text(seen: &SeenByPep) -> String {
    let ranges: String = seen.ranges_bytes.iter().map(|(start, end)| format!(", and {start}..{end}")).collect();
    let rtt = seen.rtt_us.map_or(String::new(), |us| format!("; rtt {:.1} ms", f64::from(us) / 1e3));
    let SeenByPep { in_order_bytes, segments, age_ms, .. } = seen;
    format!(
        "pep: all up to {in_order_bytes} bytes beyond the client{ranges}; {segments} segments{rtt}; {age_ms} ms ago"
    )
}

/// What an algorithm keeps in a threshold or window that is not set: the kernel's infinite ssthresh, or all bits.
const UNSET: [i128; 2] = [0x7fff_ffff, u32::MAX as i128];

/// Fixed point as what it stands for: `n_q16 4.25 segments per RTT (278528 / 65536)`.
fn state_text(StateValue { name, value, unit }: &StateValue) -> String {
    if unit == "segments" && UNSET.contains(value) {
        return format!("{name} not set");
    }
    let parts = unit.rsplit_once(" / ").or_else(|| Some(("", unit.strip_prefix("1/")?)));
    let scaled = parts.and_then(|(unit, scale)| Some((unit, scale, scale.parse::<f64>().ok()?)));
    match scaled {
        Some((unit, scale, divisor)) => {
            let text = format!("{name} {} {unit}", *value as f64 / divisor);
            format!("{} ({value} / {scale})", text.trim_end())
        }
        None => format!("{name} {value} {unit}").trim_end().to_owned(),
    }
}

#[derive(Serialize)]
struct Listed {
    name: String,
    cc_name: String,
    #[serde(flatten)]
    description: hotcc::object::describe::Description,
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

pub fn outcome(verb: &str, outcome: &Outcome, json: bool) -> Result<()> {
    if json {
        return print_json(outcome);
    }
    let Outcome { name, object, profile, .. } = outcome;
    let switched_ms = outcome.switched_in_us as f64 / 1e3;
    if outcome.served_already {
        println!(
            "{name} not {verb}: {object} served already, with the same tunables; `hotcc rollback` undoes what it did"
        );
    } else {
        println!("{name} {verb}: {object} serves now (profile {profile}), switched in {switched_ms:.1} ms");
    }
    for Changed { name, old, new } in &outcome.tunables_changed {
        println!("  {name}: {old} -> {new}");
    }
    if outcome.defaults_rewritten > 0 {
        println!("  default of {} network namespace(s), written again", outcome.defaults_rewritten);
    }
    if outcome.defaults_refused > 0 {
        let n = outcome.defaults_refused;
        println!("  default of {n} network namespace(s) NOT written again: there it must be TCP_CONG_NON_RESTRICTED;");
        println!("  new sockets there get the version before");
    }
    if let Some(moved) = outcome.moved {
        println!("  open sockets moved to it: {}", moved.moved);
        if moved.failed > 0 {
            println!("  open sockets the kernel refused to move: {}", moved.failed);
        }
    }
    warn(&outcome.warnings);
    if let Some(n) = outcome.connections_older.filter(|&n| n > 0) {
        println!("  connections that keep the version they have until they close: {n} (--live moves them)");
    }
    Ok(())
}

pub fn unloaded(unloaded: &Unloaded, json: bool) -> Result<()> {
    if json {
        return print_json(unloaded);
    }
    println!("{} unloaded", unloaded.name);
    if unloaded.defaults_moved > 0 {
        println!(
            "  default of {} network namespace(s) is {} now",
            unloaded.defaults_moved,
            unloaded.fallback.join(" or ")
        );
        if unloaded.fallback_refused > 0 {
            let Unloaded { fallback_wanted, fallback_refused, .. } = unloaded;
            println!(
                "  {fallback_wanted} was refused in {fallback_refused} of them: outside the initial one the default must be in"
            );
            println!("  net.ipv4.tcp_allowed_congestion_control");
        }
    }
    if let Some(n) = unloaded.connections_left.filter(|&n| n > 0) {
        println!("  connections that run it until they close: {n}");
    }
    if let Some(n) = unloaded.listeners_left.filter(|&n| n > 0) {
        println!("  listeners that chose it, and hand it on until they choose another: {n}");
    }
    warn(&unloaded.warnings);
    Ok(())
}

pub fn migrated(migrated: &Migrated, json: bool) -> Result<()> {
    if json {
        return print_json(migrated);
    }
    let Migrated { from, to, dry_run, sockets, namespaces } = migrated;
    let would = if *dry_run { "would be " } else { "" };
    println!("{from} to {to}: open sockets {would}moved: {}", sockets.moved);
    if sockets.failed > 0 {
        println!("  open sockets the kernel refuses to move (their route locks it): {}", sockets.failed);
    }
    for ns in namespaces {
        let MovedIn { netns, sockets: Moved { moved, failed }, error, .. } = ns;
        println!("  network namespace {netns}: {would}moved {moved}, refused {failed}");
        warn(&error.iter().map(|e| format!("network namespace {netns}: {e}")).collect::<Vec<_>>());
    }
    Ok(())
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("hotcc: warning: {warning}");
    }
}

pub fn values(values: &[Value], only: Option<&str>, json: bool) -> Result<()> {
    if let Some(name) = only {
        let found = values.iter().find(|v| v.name == name);
        let found = found.ok_or_else(|| unknown(name, values.iter().map(|v| v.name.as_str())))?;
        if json {
            return print_json(found);
        }
        println!("{}", found.value);
        return Ok(());
    }
    if json {
        return print_json(&values);
    }
    let mut rows = vec![row(["tunable", "value", "unit", "meaning"])];
    rows.extend(values.iter().map(|v| {
        let help = if v.settable { v.help.clone() } else { format!("{} (fixed once loaded)", v.help) };
        vec![v.name.clone(), v.value.clone(), v.unit.clone(), help.trim().to_owned()]
    }));
    table(&rows);
    Ok(())
}

pub fn set(name: &str, assignments: &[String], outcome: &SetOutcome, json: bool) -> Result<()> {
    if json {
        return print_json(outcome);
    }
    let versions = if outcome.versions > 1 { format!(" in {} versions", outcome.versions) } else { String::new() };
    println!("{name}: {} set{versions}", assignments.join(" "));
    if let Some(n) = outcome.connections_missed.filter(|&n| n > 0) {
        println!("  connections that run a version beyond reach: {n}");
    }
    Ok(())
}

pub fn status(status: &Status, json: bool) -> Result<()> {
    if json {
        return print_json(status);
    }
    if status.algorithms.is_empty() {
        println!("nothing is loaded by hotcc; see: hotcc list");
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
                "run" => Some("for `hotcc run`, goes with it"),
                "killed run" => Some("left by a `hotcc run` that was killed"),
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
        println!("{}", lines[0]);
        for (algorithm, line) in status.algorithms.iter().zip(&lines[1..]) {
            println!("{line}");
            if !algorithm.default_in.is_empty() {
                println!("    default in: {}", algorithm.default_in.join(", "));
            }
            if let (Some(object), Some(profile)) = (&algorithm.previous_object, &algorithm.previous_profile) {
                println!("    rollback restores: {object} (profile {profile})");
            }
        }
    }
    println!();
    let mut rows = vec![row(["others", "connections", "listeners", "kind"])];
    for o in &status.others {
        let default = if o.name == status.default { " [default here]" } else { "" };
        let kind = match (o.kind, o.map_id) {
            ("bpf", Some(map_id)) => format!("bpf, not ours (map {map_id})"),
            ("bpf", None) if !o.registered => "bpf, unloaded: its sockets run on".to_owned(),
            (kind, _) => kind.to_owned(),
        };
        let kind = format!("{kind}{default}");
        rows.push(vec![o.name.clone(), o.connections.to_string(), o.listeners.to_string(), kind]);
    }
    table(&rows);
    Ok(())
}

pub fn paths(paths: &Paths, json: bool) -> Result<()> {
    if json {
        return print_json(paths);
    }
    let Some(clock) = paths.clock else {
        println!("no path was ever watched here; see: hotcc paths watch");
        return Ok(());
    };
    let mut rows = vec![row(["destination", "generation"])];
    rows.extend(paths.paths.iter().map(|(key, generation)| vec![key.to_string(), generation.to_string()]));
    table(&rows);
    println!("clock {clock}; every other destination has generation 0");
    Ok(())
}

pub fn path_bumped(prefix: PathKey, bumped: &Bumped, json: bool) -> Result<()> {
    if json {
        return print_json(bumped);
    }
    println!("{prefix}: generation {}", bumped.generation);
    match bumped.destinations.saturating_sub(1) {
        0 => {}
        _ if bumped.everything => {}
        1 => println!("  and one destination within it"),
        within => println!("  and {within} destinations within it"),
    }
    warn_of_everything(bumped);
    Ok(())
}

fn warn_of_everything(bumped: &Bumped) {
    if bumped.everything {
        warn(&["the map of paths was full: all paths count as changed, and it is empty again".to_owned()]);
    }
}

pub fn path_news(news: &News, json: bool) -> Result<()> {
    #[derive(Serialize)]
    struct Line {
        prefix: String,
        table: u32,
        before: Option<String>,
        after: Option<String>,
        generation: u32,
    }
    let (changes, bumped) = match news {
        News::Began(_) if json => return Ok(()),
        News::Began(routes) => {
            println!("watching the routes to {routes} destinations");
            return Ok(());
        }
        News::Changed(changes, bumped) => (changes, bumped),
    };
    let text = |way: &Option<Way>| way.as_ref().map(Way::to_string);
    for Change { destination, table, before, after } in changes {
        let [before, after] = [before, after].map(text);
        let (prefix, table, generation) = (destination.to_string(), *table, bumped.generation);
        if json {
            let line = serde_json::to_string(&Line { prefix, table, before, after, generation });
            println!("{}", line.map_err(|e| Error::failed(format!("cannot write JSON: {e}")))?);
            continue;
        }
        let [before, after] = [before, after].map(|way| way.unwrap_or_else(|| "no route".to_owned()));
        println!("{prefix} (table {table}): {before} -> {after}, generation {generation}");
    }
    warn_of_everything(bumped);
    Ok(())
}

/// "3 min 5 s ago".
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

pub fn doctor(report: &Report, json: bool) -> Result<()> {
    if json {
        return print_json(report);
    }
    println!("kernel {} on {}", report.kernel, report.machine);
    let mut rows = Vec::new();
    for f in &report.findings {
        let verdict = match f.verdict {
            Verdict::Ok => "ok",
            Verdict::Degraded => "without",
            Verdict::Missing => "MISSING",
            Verdict::Unknown => "?",
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_as_people_read_it() {
        for (value, unit, text) in [
            (278_528, "segments per RTT / 65536", "f 4.25 segments per RTT (278528 / 65536)"),
            (32_768, "1/65536", "f 0.5 (32768 / 65536)"),
            (7, "us / 8", "f 0.875 us (7 / 8)"),
            (i128::from(u32::MAX), "segments", "f not set"),
            (i128::from(u32::MAX), "", "f 4294967295"),
            (12, "segments", "f 12 segments"),
        ] {
            let value = StateValue { name: "f".to_owned(), value, unit: unit.to_owned() };
            assert_eq!(state_text(&value), text);
        }
    }
}
