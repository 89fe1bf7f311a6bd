//! The comparison that a demo prints, checked against the figures of its own report.

use serde_json::Value;

/// Asserts that the report compares crest with the flows beside it, and that the text says the same.
pub fn assert_compares_crest(report: &Value, text: &str) {
    let flows = report["flows"].as_array().unwrap();
    let names: Vec<&str> = flows.iter().map(|flow| flow["flow"].as_str().unwrap()).collect();
    assert_eq!(&names[..4], ["crest", "bbr", "cubic", "dtcp"], "{report}");
    let table = text.split_once("p95 RTT ms  p95 delay ms").unwrap().1;
    let figure = |flow: &Value, name: &str| flow[name].as_f64().unwrap();
    let least_ms = flows.iter().map(|flow| figure(flow, "min_rtt_ms")).fold(f64::INFINITY, f64::min);
    let delay_ms = |flow| figure(flow, "p95_rtt_ms") - least_ms;
    let line = report["difference"].as_str().unwrap();
    for flow in &flows[..4] {
        let (name, rate, delay_ms) = (flow["flow"].as_str().unwrap(), figure(flow, "mbit_per_s"), delay_ms(flow));
        let cells = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let row = cells.into_iter().find(|cells| cells.first() == Some(&name)).unwrap();
        assert_eq!((row[1], row[3]), (&*format!("{rate:.1}"), &*format!("{delay_ms:.1}")), "{text}");
    }
    for peer in &flows[1..4] {
        let percent = 100.0 * figure(&flows[0], "mbit_per_s") / figure(peer, "mbit_per_s");
        let name = peer["flow"].as_str().unwrap();
        assert!(line.contains(&format!("{percent:.0} % of {name}'s ")), "{line}: {report}");
    }
    // CUBIC fills the queue on every path
    let ratio = delay_ms(&flows[0]) / delay_ms(&flows[2]);
    assert!(line.contains(&format!("cubic's at {ratio:.2};")), "{line}: {report}");
    assert!(table.contains(line), "{text}");
}
