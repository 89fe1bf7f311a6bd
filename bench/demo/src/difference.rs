//! The difference between crest and the other congestion controls, in one line computed from the measurements.

use super::report::Row;

/// The flow that is compared.
const SUBJECT: &str = "crest";
/// The flows that it is compared with, in this order.
pub(super) const PEERS: [&str; 3] = ["bbr", "cubic", "dtcp"];
/// Shorter delays print as 0.0 ms, so a ratio to them is not meaningful.
const LEAST_DELAY_MS: f64 = 0.05;

/// Returns the least RTT of all flows, which share one path.
pub(super) fn least_rtt_ms(flows: &[Row]) -> f64 {
    flows.iter().map(|row| row.measured.min_rtt_ms).fold(f64::INFINITY, f64::min)
}

/// Compares crest's throughput and p95 delay with those of each peer that has a flow.
pub(super) fn difference(flows: &[Row]) -> String {
    let find = |name: &str| flows.iter().find(|row| row.flow == name).map(|row| &row.measured);
    let Some(subject) = find(SUBJECT) else { return format!("no comparison: there is no flow of {SUBJECT}") };
    let least_ms = least_rtt_ms(flows);
    let with = |name: &str| {
        let peer = find(name).filter(|peer| peer.mbit_per_s > 0.0)?;
        let percent = 100.0 * subject.mbit_per_s / peer.mbit_per_s;
        let (own_ms, peer_ms) = (subject.p95_rtt_ms - least_ms, peer.p95_rtt_ms - least_ms);
        Some(if peer_ms < LEAST_DELAY_MS {
            format!("{percent:.0} % of {name}'s throughput at a p95 delay of {own_ms:.1} ms instead of {peer_ms:.1} ms")
        } else {
            format!("{percent:.0} % of {name}'s throughput at {:.2} of its p95 delay", own_ms / peer_ms)
        })
    };
    let compared: Vec<String> = PEERS.into_iter().filter_map(with).collect();
    if compared.is_empty() {
        return format!("no comparison: there is no flow beside that of {SUBJECT}");
    }
    format!("{SUBJECT}: {}", compared.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::iperf::Measurements;
    use super::*;

    fn row(flow: &str, mbit_per_s: f64, p95_rtt_ms: f64) -> Row {
        let measured = Measurements { mbit_per_s, min_rtt_ms: 20.0, p95_rtt_ms, ..Measurements::default() };
        Row { flow: flow.to_owned(), measured }
    }

    #[test]
    fn the_line_gives_the_ratios_whoever_is_ahead() {
        let wins = [row("crest", 48.5, 26.0), row("bbr", 50.0, 50.0)];
        assert_eq!(difference(&wins), "crest: 97 % of bbr's throughput at 0.20 of its p95 delay");
        let loses = [row("bbr", 50.0, 26.0), row("crest", 40.0, 50.0)];
        assert_eq!(difference(&loses), "crest: 80 % of bbr's throughput at 5.00 of its p95 delay");
    }

    #[test]
    fn every_peer_with_data_is_compared_and_no_other_flow() {
        let flows = [
            row("dtcp", 20.0, 20.0),
            row("dtcp, tuned halfway", 9.0, 90.0),
            row("cubic", 50.0, 80.0),
            row("crest", 40.0, 26.0),
        ];
        let expected = "crest: 80 % of cubic's throughput at 0.10 of its p95 delay; \
            200 % of dtcp's throughput at a p95 delay of 6.0 ms instead of 0.0 ms";
        assert_eq!(difference(&flows), expected);
    }

    #[test]
    fn the_delay_counts_from_the_least_rtt_of_all_flows() {
        let mut flows = [row("crest", 50.0, 30.0), row("bbr", 50.0, 50.0), row("cubic", 0.0, 70.0)];
        flows[2].measured.min_rtt_ms = 10.0;
        assert_eq!(difference(&flows), "crest: 100 % of bbr's throughput at 0.50 of its p95 delay");
    }

    #[test]
    fn without_two_flows_there_is_no_comparison() {
        assert_eq!(difference(&[row("bbr", 50.0, 26.0)]), "no comparison: there is no flow of crest");
        assert_eq!(difference(&[row("crest", 50.0, 26.0)]), "no comparison: there is no flow beside that of crest");
    }
}
