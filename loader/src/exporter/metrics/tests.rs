//! Tests of the page that a snapshot is encoded to; they need no kernel.

use super::*;
use crate::canary::{Cohorts, State, Status};
use crate::policy::ShownRule;
use crate::policy::figures::{FiguresEntry, RuleStats, Stats};
use crate::policy::layout::Counts;
use crate::sockets::count::GroupCounts;
use crate::sockets::exported::StateCounts;
use bytemuck::Zeroable;
use hotcc_abi::histogram::Histogram;
use hotcc_abi::radio::IndexKey;

fn histogram(values: &[(usize, u64)], sum: u64) -> Log2Histogram {
    let mut h = Log2Histogram { buckets: [0; LOG2_BUCKETS], sum };
    values.iter().for_each(|&(bucket, n)| h.buckets[bucket] = n);
    h
}

fn group(cc: &str, map_id: u32, connections: u64) -> Group {
    let counts = GroupCounts {
        connections,
        listeners: 1,
        cwnd_segments: histogram(&[(3, connections - 1), (20, 1)], 70),
        srtt_us: histogram(&[(0, 1), (6, 1), (31, 1)], 1_500_000),
        delivery_kbps: histogram(&[(7, 1)], 100),
    };
    let field = |value: &str| ("phase".to_owned(), value.to_owned());
    let state = if cc == "dtcp" {
        StateCounts {
            sums: BTreeMap::from([("weight".to_owned(), 0.5)]),
            connections: BTreeMap::from([(field("START"), 1), (field("PROBE"), connections - 1)]),
            forecast_bytes_per_s: Some(1000 * connections),
        }
    } else {
        StateCounts::default()
    };
    Group { cc: cc.to_owned(), map_id, counts, state }
}

fn ours(name: &str, map_id: u32) -> Algorithm {
    let object = "/o\"dd\\p\nath".to_owned();
    let profile = "paper".to_owned();
    let since_unix_ns = Some(1_700_000_000_500_000_000);
    Algorithm { name: name.to_owned(), map_id, object, profile, since_unix_ns, swaps: Some(2) }
}

fn link(last: u8, sinr_db: Option<f64>) -> Link {
    let key = IndexKey::prefix([192, 0, 2, last].into(), 32).unwrap();
    let age_ms = sinr_db.map(|_| 250);
    let capacity_bps = sinr_db.map(|_| 30_000_000);
    let fresh = Some(sinr_db.is_some());
    Link {
        key,
        sinr_db,
        average_db: sinr_db,
        age_ms,
        fresh,
        updates: 9,
        capacity_bps,
        capacity_age_ms: age_ms,
        cell: 3,
    }
}

fn full() -> Snapshot {
    let mut min_rtt_us = Histogram { sum: 2_500_000, ..Histogram::zeroed() };
    for (power, bounds_below, count) in [(0, 0, 1), (2, 8, 1), (7, 5, 2), (28, 8, 1)] {
        min_rtt_us.buckets[9 * power + bounds_below] = count;
    }
    let stats = AlgoStats {
        flows_opened: 4,
        flows_closed: 3,
        acked_bytes: 5_000,
        signal_stale: 6,
        min_rtt_us,
        ..AlgoStats::zeroed()
    };
    let algorithms = vec![ours("dtcp", 7), Algorithm { since_unix_ns: None, swaps: None, ..ours("idle", 8) }];
    let rule = ShownRule {
        rule: 1,
        id: "2a".to_owned(),
        keys: toml::Table::new(),
        congestion_control: "dtcp".to_owned(),
        loaded: true,
        cohort: None,
        remote_prefixes: 0,
        local_prefixes: 0,
        counts: Counts { connections: 17, unavailable: 18, ..Counts::default() },
    };
    let mut entry = FiguresEntry { connections: 19, acked_bytes: 20, timeouts: 21, ..FiguresEntry::zeroed() };
    entry.figures[1].sum = 2_000; // minimum RTT: a connection of 0.9 ms, one of 1.1 ms
    (entry.figures[1].buckets[9 * 10 + 7], entry.figures[1].buckets[9 * 11 + 1]) = (1, 1);
    (entry.figures[3].sum, entry.figures[3].buckets[9 * 14 + 3]) = (10_000, 1); // delivery rate: 10 Mbit/s
    let figures = RuleStats::new(1, "2a".to_owned(), toml::Table::new(), "dtcp".to_owned(), &entry);
    let groups = [group("cubic", 0, 5), group("dtcp", 5, 2), group("dtcp", 7, 3), group("theirs", 9, 1)];
    Snapshot {
        sockets: Some(by_label(&groups, &algorithms, MAX_OTHER_NAMES)),
        algorithms: Some(algorithms),
        stats: Some(vec![("dtcp".to_owned(), stats)]),
        radio: Some(Links { shown: vec![link(1, Some(-1.5)), link(2, None)], total: 5 }),
        commands: Some(Counters { swaps: 2, ..Counters::default() }),
        rx: Some(bytemuck::cast([7_u64, 8, 9, 10, 11, 12, 13, 14, 15, 16])), // in the order of the fields
        canary: Some(Status {
            state: State::Running,
            from: "cubic".to_owned(),
            to: "dtcp".to_owned(),
            conditions: toml::Table::new(),
            step: 2,
            steps: 3,
            share_percent: 5.0,
            expires_in_s: Some(20.0),
            connections: Cohorts { canary: 31, control: 32 },
            dropped_records: 33,
        }),
        policy: Some((Shown { rules: vec![rule] }, Stats { rules: vec![figures] })),
        errors: [0, 0, 1, 0, 0, 0, 0, 0],
        duration: Duration::from_millis(20),
    }
}

#[track_caller]
fn has(page: &str, lines: &str) {
    for line in lines.trim().lines().map(str::trim) {
        assert!(page.lines().any(|l| l == line), "no line {line} in\n{page}");
    }
}

#[test]
fn algorithms_and_commands() {
    let page = page(full()).unwrap();
    has(
        &page,
        r#"
        # TYPE hotcc_build info
        # TYPE hotcc_algorithm info
        hotcc_algorithm_info{cc="dtcp",object="/o\"dd\\p\nath",profile="paper"} 1
        hotcc_algorithm_info{cc="idle",object="/o\"dd\\p\nath",profile="paper"} 1
        hotcc_algorithm_loaded{cc="idle"} 1
        hotcc_algorithm_serving_since_seconds{cc="dtcp"} 1700000000.5
        hotcc_algorithm_swaps{cc="dtcp"} 2
        # TYPE hotcc_swaps counter
        hotcc_swaps_total 2
        hotcc_swap_failures_total 0
        hotcc_rx_flows_agreed_total 7
        hotcc_rx_hints_made_total 8
        hotcc_rx_hints_sent_total 9
        hotcc_rx_hints_without_room_total 10
        hotcc_rx_hints_received_total 11
        hotcc_rx_hints_refused_total 12
        hotcc_rx_hints_applied_total 13
        hotcc_rx_flows_clamped_total 14
        hotcc_rx_clamps_set_total 15
        hotcc_rx_clamps_refused_total 16
        hotcc_policy_rule_info{id="2a",cc="dtcp",rule="1"} 1
        hotcc_policy_sockets_total{id="2a",cc="dtcp",outcome="connection"} 17
        hotcc_policy_sockets_total{id="2a",cc="dtcp",outcome="not_loaded"} 18
        hotcc_policy_ended_connections_total{id="2a",cc="dtcp"} 19
        hotcc_policy_acked_bytes_total{id="2a",cc="dtcp"} 20
        hotcc_policy_timeouts_total{id="2a",cc="dtcp"} 21
        # TYPE hotcc_policy_min_rtt_seconds histogram
        hotcc_policy_min_rtt_seconds_bucket{le="0.000512",id="2a",cc="dtcp"} 0
        hotcc_policy_min_rtt_seconds_bucket{le="0.001024",id="2a",cc="dtcp"} 1
        hotcc_policy_min_rtt_seconds_bucket{le="0.002048",id="2a",cc="dtcp"} 2
        hotcc_policy_min_rtt_seconds_sum{id="2a",cc="dtcp"} 0.002
        hotcc_policy_min_rtt_seconds_count{id="2a",cc="dtcp"} 2
        hotcc_policy_goodput_bytes_per_second_count{id="2a",cc="dtcp"} 0
        hotcc_canary_state{state="running"} 1
        hotcc_canary_state{state="expired"} 0
        hotcc_canary_share_ratio 0.05
        hotcc_canary_step 2
        hotcc_canary_ended_connections_total{cohort="canary"} 31
        hotcc_canary_ended_connections_total{cohort="control"} 32
        hotcc_canary_dropped_records_total 33
        hotcc_scrape_errors_total{part="flows"} 1
        hotcc_scrape_errors_total{part="radio"} 0
        hotcc_scrape_duration_seconds 0.02"#,
    );
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn a_switch_that_is_not_finished_has_no_time() {
    let page = page(full()).unwrap();
    let shown: Vec<&str> = page.lines().filter(|l| l.starts_with("hotcc_algorithm_") && l.contains("idle")).collect();
    assert!(shown.len() == 2 && !shown.iter().any(|l| l.contains("since") || l.contains("swaps")), "{shown:?}");
}

/// To Prometheus, a counter that jumps when a rule moves to another place looks like many connections.
#[test]
fn series_of_a_rule_do_not_depend_on_its_place() {
    let lines = |snapshot| {
        let page = page(snapshot).unwrap();
        let of_rules = page.lines().filter(|l| l.starts_with("hotcc_policy_"));
        of_rules.filter(|l| !l.contains("_rule_info{")).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut moved = full();
    let (shown, stats) = moved.policy.as_mut().unwrap();
    (shown.rules[0].rule, stats.rules[0].rule) = (3, 3);
    // a rule that is in the file twice has one series
    shown.rules.push(ShownRule { rule: 4, counts: Counts::default(), ..shown.rules[0].clone() });
    stats.rules.push(RuleStats { rule: 4, ..stats.rules[0].clone() });
    has(&page(moved.clone()).unwrap(), r#"hotcc_policy_rule_info{id="2a",cc="dtcp",rule="3"} 1"#);
    assert_eq!(lines(moved), lines(full()));
}

#[test]
fn sockets_by_version_and_distributions() {
    let page = page(full()).unwrap();
    has(
        &page,
        r#"
        hotcc_sockets{cc="cubic",version="kernel"} 5
        hotcc_sockets{cc="dtcp",version="current"} 3
        hotcc_sockets{cc="dtcp",version="older"} 2
        hotcc_sockets{cc="idle",version="current"} 0
        hotcc_sockets{cc="theirs",version="unmanaged"} 1
        hotcc_listeners{cc="dtcp",version="older"} 1
        # TYPE hotcc_open_sockets_by_cwnd_segments gauge
        hotcc_open_sockets_by_cwnd_segments{cc="dtcp",upper_bound="4"} 0
        hotcc_open_sockets_by_cwnd_segments{cc="dtcp",upper_bound="8"} 3
        hotcc_open_sockets_by_cwnd_segments{cc="dtcp",upper_bound="65536"} 3
        hotcc_open_sockets_by_cwnd_segments{cc="dtcp",upper_bound="+Inf"} 5
        hotcc_cwnd_sum_segments{cc="dtcp"} 140.0
        hotcc_open_sockets_by_srtt_seconds{cc="cubic",upper_bound="0.000064"} 2
        hotcc_open_sockets_by_srtt_seconds{cc="cubic",upper_bound="16.777216"} 2
        hotcc_open_sockets_by_srtt_seconds{cc="cubic",upper_bound="+Inf"} 3
        hotcc_srtt_sum_seconds{cc="cubic"} 1.5
        hotcc_open_sockets_by_delivery_bytes_per_second{cc="cubic",upper_bound="8000"} 0
        hotcc_open_sockets_by_delivery_bytes_per_second{cc="cubic",upper_bound="16000"} 1
        hotcc_open_sockets_by_delivery_bytes_per_second{cc="cubic",upper_bound="16777216000"} 1
        hotcc_delivery_sum_bytes_per_second{cc="cubic"} 12500.0
        hotcc_open_sockets_by_state{cc="dtcp",field="phase",value="START"} 2
        hotcc_open_sockets_by_state{cc="dtcp",field="phase",value="PROBE"} 3
        hotcc_state_sum_ratio{cc="dtcp",field="weight"} 1.0
        hotcc_forecast_sum_bytes_per_second{cc="dtcp"} 5000"#,
    );
}

#[test]
fn monotonic_counters_and_histograms() {
    has(
        &page(full()).unwrap(),
        r#"
        # TYPE hotcc_acked_bytes counter
        hotcc_acked_bytes_total{cc="dtcp"} 5000
        hotcc_flows_opened_total{cc="dtcp"} 4
        hotcc_signal_decisions_total{cc="dtcp",signal="stale"} 6
        # TYPE hotcc_flow_min_rtt_seconds histogram
        hotcc_flow_min_rtt_seconds_bucket{le="0.000064",cc="dtcp"} 2
        hotcc_flow_min_rtt_seconds_bucket{le="0.000128",cc="dtcp"} 4
        hotcc_flow_min_rtt_seconds_bucket{le="+Inf",cc="dtcp"} 5
        hotcc_flow_min_rtt_seconds_count{cc="dtcp"} 5
        hotcc_flow_min_rtt_seconds_sum{cc="dtcp"} 2.5"#,
    );
}

#[test]
fn radio_metrics_state_how_many_links_are_left_out() {
    let page = page(full()).unwrap();
    has(
        &page,
        r#"
        hotcc_radio_links 5
        hotcc_radio_links_omitted 3
        hotcc_radio_sinr_db{link="192.0.2.1/32"} -1.5
        hotcc_radio_age_seconds{link="192.0.2.1/32"} 0.25
        hotcc_radio_fresh{link="192.0.2.1/32"} 1.0
        hotcc_radio_fresh{link="192.0.2.2/32"} 0.0
        hotcc_radio_capacity_bytes_per_second{link="192.0.2.1/32"} 3750000.0
        hotcc_radio_capacity_age_seconds{link="192.0.2.1/32"} 0.25
        hotcc_radio_updates_total{link="192.0.2.2/32"} 9
        hotcc_radio_cell_changes_total{link="192.0.2.1/32"} 3"#,
    );
    assert!(!page.contains(r#"sinr_db{link="192.0.2.2/32"}"#), "never written, and still told:\n{page}");
}

#[test]
fn a_part_that_failed_is_left_out_whole() {
    let page = page(Snapshot { errors: [1; PARTS.len()], ..Snapshot::default() }).unwrap();
    let names: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(names, ["hotcc_build", "hotcc_scrape_errors", "hotcc_scrape_duration_seconds"]);
}

#[test]
fn names_beyond_the_bound_are_summed() {
    let groups: Vec<Group> = (0..40).map(|i| group(&format!("cc{i:02}"), 0, 2)).collect();
    let labels = by_label(&groups, &[ours("zz", 1)], 32);
    assert_eq!(labels.len(), 34);
    assert_eq!(labels[OTHER].by_version["kernel"], (16, 8));
    assert_eq!(labels[OTHER].cwnd_segments.sum, 8 * 70);
    assert!(labels.contains_key("zz") && labels.contains_key("cc31") && !labels.contains_key("cc32"));
}

/// The manual names exactly the metrics of the page, and the alerts name only metrics of the page.
#[test]
fn manual_and_alerts_are_up_to_date() {
    let page = page(full()).unwrap();
    let told: std::collections::BTreeSet<&str> = page
        .lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split(['{', ' ']).next())
        .map(|n| ["_bucket", "_sum", "_count"].iter().find_map(|s| n.strip_suffix(s)).unwrap_or(n))
        .collect();
    let read = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path);
        std::fs::read_to_string(path).unwrap()
    };
    let manual = read("docs/reference/metrics.md");
    let documented: std::collections::BTreeSet<&str> =
        manual.lines().filter_map(|l| l.strip_prefix("| `hotcc_")?.split_once('`')).map(|(name, _)| name).collect();
    let told_short: std::collections::BTreeSet<&str> = told.iter().filter_map(|n| n.strip_prefix("hotcc_")).collect();
    assert_eq!(documented, told_short);
    let rules = read("deploy/prometheus-rules.yml");
    for name in rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|w| w.starts_with("hotcc_")) {
        assert!(told.contains(name), "an alert names {name}, which is no metric");
    }
}

mod protobuf;
