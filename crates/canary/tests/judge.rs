//! The judge on small cohorts, and the text and JSON of its verdicts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_canary::{Cohort, Connection, Guard, Judge, Judgement, Verdict, default_guards};
use proptest::prelude::*;

/// A connection whose figures differ a little from those of others.
fn connection(number: u64) -> Connection {
    let spread = number * 7919 % 101;
    Connection {
        acked_bytes: 100_000,
        segments: 70,
        retransmits: 0,
        timeouts: 0,
        rtt_us: Some(50_000 + 100 * spread as u32),
        min_rtt_us: Some(40_000),
        goodput_kbps: Some(5000 + 10 * spread),
        delivery_kbps: Some(8000),
        duration_ms: 160,
    }
}

fn judge(guards: &[&str], count: u64, change: impl Fn(&mut Connection)) -> Judge {
    let guards = guards.iter().map(|guard| guard.parse().unwrap()).collect();
    let mut judge = Judge::new(guards, 100, 3);
    fill(&mut judge, count, change);
    judge
}

fn fill(judge: &mut Judge, count: u64, change: impl Fn(&mut Connection)) {
    for number in 0..count {
        let mut of_canary = connection(number);
        change(&mut of_canary);
        judge.add(Cohort::Canary, &of_canary);
        judge.add(Cohort::Control, &connection(number));
    }
}

#[test]
fn nothing_is_decided_before_the_least_number_of_connections() {
    let guards = ["goodput_p50 >= 0.95 * control"];
    let slow = |c: &mut Connection| c.goodput_kbps = Some(1);
    let verdict = judge(&guards, 99, slow).verdict();
    assert!(matches!(verdict, Verdict::Continue(_)), "{verdict:?}");
    assert!(verdict.explain().contains("99 and 99 connections, 100 needed in each"), "{}", verdict.explain());
    assert!(matches!(judge(&guards, 200, slow).verdict(), Verdict::Fail(_)));
    assert!(matches!(judge(&[], 99, slow).verdict(), Verdict::Continue(_)));
    assert!(matches!(judge(&[], 100, slow).verdict(), Verdict::Pass(_)));
}

#[test]
fn cohorts_without_any_retransmission_or_timeout_are_equal() {
    let guards = ["retransmit_ratio <= 1.2 * control", "timeout_ratio <= 1.2 * control"];
    let is_pass = |count| matches!(judge(&guards, count, |_| {}).verdict(), Verdict::Pass(_));
    assert!(is_pass(10_000));
    // 100 connections without a timeout do not show that there is less than one in 1,000
    assert!(!is_pass(100));
}

#[test]
fn losses_of_the_canary_alone_break_the_guard() {
    let lossy = |c: &mut Connection| c.retransmits = 2;
    let verdict = judge(&["retransmit_ratio <= 1.2 * control"], 200, lossy).verdict();
    assert!(matches!(verdict, Verdict::Fail(_)), "{verdict:?}");
    let finding = &verdict.findings()[0];
    assert_eq!((finding.ratio, finding.ratio_high), (None, None));
}

#[test]
fn a_step_begins_without_connections() {
    let mut judge = judge(&["goodput_p50 >= 0.95 * control"], 200, |c| c.goodput_kbps = Some(1));
    judge.next_step();
    let verdict = judge.verdict();
    assert!(matches!(verdict, Verdict::Continue(_)), "{verdict:?}");
    assert_eq!(verdict.findings()[0].canary, None);
    fill(&mut judge, 2000, |_| {});
    assert!(matches!(judge.verdict(), Verdict::Pass(_)), "{:?}", judge.verdict());
}

#[test]
fn connections_without_a_figure_do_not_count_for_it() {
    let verdict = judge(&["goodput_p50 >= 0.95 * control"], 2000, |c| c.goodput_kbps = None).verdict();
    assert!(matches!(verdict, Verdict::Continue(_)));
    let finding = &verdict.findings()[0];
    assert_eq!((finding.canary_connections, finding.control_connections), (0, 2000));
    assert_eq!(finding.judgement, Judgement::Undecided);
}

#[test]
fn a_verdict_explains_itself() {
    let guards = ["rtt_p50 <= 1.1 * control", "goodput_p50 >= 0.95 * control"];
    let slow = |c: &mut Connection| c.goodput_kbps = c.goodput_kbps.map(|kbps| kbps / 2);
    let verdict = judge(&guards, 2000, slow).verdict();
    let text = verdict.explain();
    let expected = [
        "The canary is worse than its guards allow. `goodput_p50 >= 0.95 * control` is broken: canary 27",
        " kbit/s, control 54",
        " kbit/s, ratio 0.500 (between 0.4",
        "); 2000 and 2000 connections. `rtt_p50 <= 1.1 * control` holds: canary 54",
        " µs, control 54",
        " µs, ratio 1.000 (between 0.99",
    ];
    let mut rest = text.as_str();
    for part in expected {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("no `{part}` in its place in: {text}")).1;
    }
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(json["verdict"], "fail");
    assert_eq!(json["findings"][0]["guard"], "rtt_p50 <= 1.1 * control");
    assert_eq!(json["findings"][1]["judgement"], "broken");
}

#[test]
fn an_invalid_guard_is_explained() {
    let error = |text: &str| text.parse::<Guard>().unwrap_err().to_string();
    assert!(
        error("loss <= 1.2 * control").starts_with("unknown metric `loss`: expected retransmit_ratio, timeout_ratio")
    );
    for unknown in ["rtt", "rtt_p0", "rtt_p100", "rtt_p050", "rtt_p+5", "rtt_p", "retransmit_ratio_p50"] {
        assert!(error(&format!("{unknown} <= 1 * control")).starts_with("unknown metric"), "{unknown}");
    }
    for form in ["", "rtt_p95", "rtt_p95 < 1.1 * control", "rtt_p95 <= 1.1", "rtt_p95 <= 1.1 * canary"] {
        assert!(error(form).contains("expected METRIC <= FACTOR * control"), "{form}");
    }
    for factor in ["0", "-1", "NaN", "inf", "x", ""] {
        assert!(error(&format!("rtt_p95 <= {factor} * control")).starts_with("invalid factor"), "{factor}");
    }
}

#[test]
fn the_default_guards_are_these() {
    let texts: Vec<_> = default_guards().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["retransmit_ratio <= 1.2 * control", "rtt_p95 <= 1.1 * control", "goodput_p50 >= 0.95 * control"]
    );
}

/// Mostly small numbers, with some that no connection has.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, 0..10_000u64, any::<u64>()]
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let options = (prop::option::of(number()), prop::option::of(number()), prop::option::of(number()));
    (number(), number(), number(), number(), number(), options).prop_map(|(segments, a, b, c, ms, (rtt, x, y))| {
        Connection {
            acked_bytes: a,
            segments,
            retransmits: b,
            timeouts: c,
            rtt_us: rtt.map(|rtt| rtt as u32),
            min_rtt_us: rtt.map(|rtt| (rtt / 2) as u32),
            goodput_kbps: x,
            delivery_kbps: y,
            duration_ms: ms,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_guard_is_parsed_as_it_is_displayed(
        metric in "retransmit_ratio|timeout_ratio|(min_rtt|rtt|goodput|delivery|duration)_p[1-9][0-9]?",
        limit in "<=|>=",
        factor in 1e-300..1e300f64,
    ) {
        let text = format!("{metric} {limit} {factor} * control");
        let guard: Guard = text.parse().unwrap();
        prop_assert_eq!(guard.to_string(), text);
        prop_assert_eq!(format!(" {metric}{limit}{factor}*control ").parse::<Guard>().unwrap(), guard);
    }

    #[test]
    fn any_text_is_a_guard_or_an_error(text in "\\PC{0,40}") {
        let _ = text.parse::<Guard>();
    }

    #[test]
    fn all_numbers_of_a_verdict_are_finite(
        connections in prop::collection::vec((any::<bool>(), any_connection()), 0..200),
        least in 0..20u64,
    ) {
        let ratios = ["retransmit_ratio <= 1.2", "timeout_ratio >= 0.5"];
        let percentiles = ["rtt_p1 <= 2", "goodput_p99 >= 0.1", "duration_p50 <= 1"];
        let guards = ratios.iter().chain(&percentiles);
        let guards = guards.map(|guard| format!("{guard} * control").parse().unwrap()).collect();
        let mut judge = Judge::new(guards, least, 0);
        for (is_canary, connection) in connections {
            judge.add(if is_canary { Cohort::Canary } else { Cohort::Control }, &connection);
            let verdict = judge.verdict();
            for finding in verdict.findings() {
                let numbers = [finding.canary, finding.control, finding.ratio, finding.ratio_low, finding.ratio_high];
                for number in numbers.into_iter().flatten() {
                    prop_assert!(number.is_finite() && number >= 0.0, "{finding:?}");
                }
                if let (Some(low), Some(ratio)) = (finding.ratio_low, finding.ratio) {
                    prop_assert!(low <= ratio * (1.0 + 1e-9), "{finding:?}");
                    prop_assert!(finding.ratio_high.is_none_or(|high| high >= ratio * (1.0 - 1e-9)), "{finding:?}");
                }
            }
            let text = verdict.explain();
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
