//! The difference between crest and the other congestion controls, in one line computed from the measurements.

use super::report::Row;

/// The flow that is compared.
const SUBJECT: &str = "crest";
/// The flows that it is compared with, in this order.
const PEERS: [&str; 3] = ["bbr", "cubic", "dtcp"];
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
    let peers = PEERS.into_iter().filter_map(|name| Some((name, find(name).filter(|peer| peer.mbit_per_s > 0.0)?)));
    let least_ms = least_rtt_ms(flows);
    let mut line = String::new();
    for (name, peer) in peers {
        // the first part names what is compared
        let (start, throughput, delay) =
            if line.is_empty() { (": ", " throughput", " of its p95 delay") } else { ("; ", "", "") };
        let percent = 100.0 * subject.mbit_per_s / peer.mbit_per_s;
        line += &format!("{start}{percent:.0} % of {name}'s{throughput} at ");
        let (own_ms, peer_ms) = (subject.p95_rtt_ms - least_ms, peer.p95_rtt_ms - least_ms);
        line += &if peer_ms < LEAST_DELAY_MS {
            format!("{own_ms:.1} instead of {peer_ms:.1} ms of p95 delay")
        } else {
            format!("{:.2}{delay}", own_ms / peer_ms)
        };
    }
    if line.is_empty() {
        return format!("no comparison: there is no flow beside that of {SUBJECT}");
    }
    format!("{SUBJECT}{line}")
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
        let expected = "crest: 80 % of cubic's throughput at 0.10 of its p95 delay; 200 % of dtcp's at 6.0 instead of 0.0 ms of \
            p95 delay";
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
