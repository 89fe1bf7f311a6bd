//! Prints the result of a load, a swap, a rollback, an unload or a migration.

use super::print::{print_json, say, warn};
use hotcc::ops::migrate::{Left, Migrated, Moved, MovedIn};
use hotcc::ops::{Outcome, Unloaded};
use hotcc::sockets::learned::Learned;
use hotcc::tunables::present::Changed;
use hotcc_host::error::Result;

/// Adds a line of text.
macro_rules! line {
    ($lines:ident, $($part:tt)*) => { $lines.push(format!($($part)*)) };
}

pub fn outcome(verb: &str, outcome: &Outcome, json: bool) -> Result<()> {
    if json {
        return print_json(outcome);
    }
    outcome_lines(verb, outcome).iter().for_each(|line| say!("{line}"));
    warn(&outcome.warnings);
    Ok(())
}

/// Describes a load, a swap or a rollback; without its warnings.
pub fn outcome_lines(verb: &str, outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let Outcome { name, object, profile, .. } = outcome;
    let switched_ms = outcome.switched_in_us as f64 / 1e3;
    if outcome.served_already {
        line!(lines, "{name} not {verb}: {object} already serves with the same tunables");
    } else {
        line!(lines, "{name} {verb}: {object} now serves (profile {profile}), switched in {switched_ms:.1} ms");
    }
    for Changed { name, old, new } in &outcome.tunables_changed {
        line!(lines, "  {name}: {old} -> {new}");
    }
    if outcome.defaults_rewritten > 0 && !outcome.served_already {
        line!(lines, "  default of {} network namespace(s): set to the new version", outcome.defaults_rewritten);
    }
    if outcome.defaults_refused > 0 {
        let n = outcome.defaults_refused;
        line!(
            lines,
            "  default of {n} network namespace(s): NOT updated: the algorithm is not TCP_CONG_NON_RESTRICTED, or \
             /proc/sys is read-only;"
        );
        line!(lines, "  new sockets there get the previous version");
    }
    if let Some(moved) = outcome.moved {
        line!(lines, "  open sockets moved to the serving version: {}", moved.moved);
        kept(&mut lines, &moved.learned);
        if moved.failed > 0 {
            line!(lines, "  open sockets that the kernel refused to move: {}", moved.failed);
        }
    }
    if let Some(n) = outcome.connections_older.filter(|&n| n > 0) {
        let how = if verb == "loaded" { format!("hotcc migrate {name} {name}") } else { "--live".to_owned() };
        line!(lines, "  connections that keep their version until they close: {n} ({how} moves them)");
    }
    lines
}

/// Describes what moved sockets kept.
fn kept(lines: &mut Vec<String>, learned: &Learned) {
    if let Some(kept) = learned.text() {
        line!(lines, "  of them, sockets that kept what their former algorithm had learned: {kept}");
    }
}

pub fn unloaded(unloaded: &Unloaded, json: bool) -> Result<()> {
    if json {
        return print_json(unloaded);
    }
    say!("{} unloaded", unloaded.name);
    if unloaded.defaults_moved > 0 {
        say!("  default of {} network namespace(s): now {}", unloaded.defaults_moved, unloaded.fallback.join(" or "));
        if unloaded.fallback_refused > 0 {
            let Unloaded { fallback_wanted, fallback_refused, .. } = unloaded;
            say!(
                "  {fallback_wanted} was refused in {fallback_refused} of them: outside the initial network namespace, a default must"
            );
            say!("  be listed in net.ipv4.tcp_allowed_congestion_control");
        }
    }
    if let Some(n) = unloaded.connections_left.filter(|&n| n > 0) {
        say!("  connections that keep it until they close: {n}");
    }
    if let Some(n) = unloaded.listeners_left.filter(|&n| n > 0) {
        say!("  listeners that chose it, and pass it to accepted connections until they choose another: {n}");
    }
    warn(&unloaded.warnings);
    Ok(())
}

pub fn migrated(migrated: &Migrated, json: bool) -> Result<()> {
    if json {
        return print_json(migrated);
    }
    migrated_lines(migrated).iter().for_each(|line| say!("{line}"));
    warn(&migration_warnings(migrated));
    Ok(())
}

/// Lists the namespaces in which not all sockets could be visited.
pub fn migration_warnings(migrated: &Migrated) -> Vec<String> {
    let failed = migrated.namespaces.iter().filter_map(|ns| Some((&ns.netns, ns.error.as_ref()?)));
    failed.map(|(netns, error)| format!("network namespace {netns}: {error}")).collect()
}

/// Describes a migration; without its warnings.
pub fn migrated_lines(migrated: &Migrated) -> Vec<String> {
    let mut lines = Vec::new();
    let Migrated { from, to, dry_run, sockets, namespaces, left } = migrated;
    let would = if *dry_run { "would be " } else { "" };
    line!(lines, "{from} to {to}: open sockets {would}moved: {}", sockets.moved);
    if sockets.failed > 0 {
        line!(
            lines,
            "  open sockets that the kernel refuses to move (their route locks the congestion control): {}",
            sockets.failed
        );
    }
    kept(&mut lines, &sockets.learned);
    for ns in namespaces {
        let MovedIn { netns, sockets: Moved { moved, failed, .. }, .. } = ns;
        line!(lines, "  network namespace {netns}: {would}moved {moved}, refused {failed}");
    }
    for Left { reason, sockets } in left {
        line!(lines, "  open sockets left as they are: {sockets}: {reason}");
    }
    lines
}
