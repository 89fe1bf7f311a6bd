//! Prints the results of `hotcc policy`.

use super::print::{print_json, row, say, table};
use hotcc::declared::Difference;
use hotcc::policy::figures::{Percentiles, Stats};
use hotcc::policy::layout::Moved;
use hotcc::policy::{Explained, Shown, line};
use hotcc_host::error::Result;

pub fn show(shown: &Shown, json: bool) -> Result<()> {
    if json {
        return print_json(shown);
    }
    if shown.rules.is_empty() {
        say!("no policy rule applies; to declare some, see: hotcc policy --help");
    }
    for rule in &shown.rules {
        let cohort = rule.cohort.map_or_else(String::new, |cohort| format!(" ({cohort} of `hotcc canary`)"));
        say!("rule {}{cohort}: {}", rule.rule, line(&rule.keys));
        let cc = &rule.congestion_control;
        if !rule.loaded {
            say!("   {cc} is not loaded: sockets keep what they have");
        } else if rule.keys.contains_key("tunables") {
            say!("   registered as {cc}");
        }
        let prefixes = [("remote", rule.remote_prefixes), ("local", rule.local_prefixes)];
        for (which, n) in prefixes.into_iter().filter(|(which, _)| rule.keys.contains_key(&format!("{which}_set"))) {
            say!("   {which} prefixes: {n}");
        }
        let counts = rule.counts;
        table(&[
            row(["   connections", &counts.connections.to_string()]),
            row(["   listeners", &counts.listeners.to_string()]),
            row(["   left alone", &counts.left_alone.to_string()]),
            row(["   not loaded", &counts.unavailable.to_string()]),
            row(["   refused by the kernel", &counts.refused.to_string()]),
        ]);
    }
    Ok(())
}

pub fn stats(stats: &Stats, json: bool) -> Result<()> {
    if json {
        return print_json(stats);
    }
    if stats.rules.is_empty() {
        say!("no policy rule applies; to declare some, see: hotcc policy --help");
    }
    for rule in &stats.rules {
        say!("rule {}: {}", rule.rule, line(&rule.keys));
        if rule.connections == 0 {
            say!("   no connection has ended yet");
            continue;
        }
        let percent = rule.retransmits as f64 * 100.0 / rule.segments.max(1) as f64;
        let timeouts = rule.timeouts;
        let mut rows = vec![
            row(["   connections", &rule.connections.to_string(), ""]),
            row(["   acknowledged", &format!("{:.3} MB", rule.acked_bytes as f64 / 1e6), ""]),
            row(["   retransmitted", &format!("{percent:.2} % of the segments"), &format!("{timeouts} timeouts")]),
        ];
        for (name, unit, per_unit, percentiles) in [
            ("goodput", "Mbit/s", 1e3, rule.goodput_kbps),
            ("delivery rate", "Mbit/s", 1e3, rule.delivery_kbps),
            ("RTT at the end", "ms", 1e3, rule.rtt_us),
            ("minimum RTT", "ms", 1e3, rule.min_rtt_us),
            ("duration", "s", 1e3, rule.duration_ms),
        ] {
            let Some(Percentiles { p5, p50, p95, .. }) = percentiles else { continue };
            let [p5, p50, p95] = [p5, p50, p95].map(|value| value / per_unit);
            let (median, range) = (format!("{p50:.2} {unit}"), format!("{p5:.2} to {p95:.2}"));
            rows.push(row([&format!("   {name}"), &median, &range]));
        }
        say!("   (median, and 5th to 95th percentile)");
        table(&rows);
    }
    Ok(())
}

pub fn explained(explained: &Explained, json: bool) -> Result<()> {
    if json {
        return print_json(explained);
    }
    for verdict in &explained.tried {
        say!("rule {}: {}", verdict.rule, verdict.text);
        say!("   {}", verdict.why_not.map_or_else(|| "matches".to_owned(), |why| format!("no: {why}")));
    }
    match (&explained.congestion_control, explained.rule) {
        (Some(cc), Some(rule)) if explained.loaded => say!("rule {rule} applies: {cc}"),
        (Some(cc), Some(rule)) => say!("rule {rule} applies, but {cc} is not loaded: the socket keeps what it has"),
        _ => say!("no rule matches: the route or the default of the network namespace decides"),
    }
    Ok(())
}

pub fn applied(difference: &Difference, moved: Option<Moved>, json: bool) -> Result<()> {
    if json {
        return print_json(&serde_json::json!({ "difference": difference, "open_sockets": moved }));
    }
    super::declared::difference(difference, false)?;
    let Some(moved) = moved else { return Ok(()) };
    say!("open sockets:");
    let kept = moved.learned.text().unwrap_or_else(|| "-".to_owned());
    table(&[
        row(["   moved", &moved.moved.to_string()]),
        row(["   of them, kept what their former algorithm had learned", &kept]),
        row(["   already as their rule says", &moved.same.to_string()]),
        row(["   left alone: they have a choice of their own", &moved.left_alone.to_string()]),
        row(["   not moved: the congestion control is not loaded", &moved.unavailable.to_string()]),
        row(["   refused by the kernel", &moved.refused.to_string()]),
        row(["   matched by no rule", &moved.unmatched.to_string()]),
    ]);
    Ok(())
}
