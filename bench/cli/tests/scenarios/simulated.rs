//! What the algorithms promise for certain links, checked in the simulator: over more seeds than the lab has time for.

use crate::common::{self, reduced_scenario, routes};
use hotcc_lab::results::{RunSummary, locate};
use hotcc_report::estimate::Estimate;
use std::fs;

const SEEDS: &str = "seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]";
const MORE_SEEDS: &str =
    "seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24]";
/// Replaces the recorded radio of a scenario whose cases with it are not run.
const WITHOUT_TRACE: (&str, &str) = (
    "model = \"trace\"\nfile = \"ucc5g_driving_download.csv\"\nfrom_s = 720\nlength_s = 40\nscale_to_bps = 60e6",
    "model = \"constant\"\nsinr_db = 10\ncapacity_bps = 60e6",
);
/// Changes of the path in `dcm-route.toml`.
const ROUTES: [&str; 3] = ["longer", "shorter", "handover"];

/// Runs these cases of a scenario, after applying `changes` to its text.
fn simulate(scenario: &str, changes: &[(&str, &str)], cases: &[&str]) -> Vec<RunSummary> {
    let scratch = tempfile::tempdir().unwrap();
    let path = reduced_scenario(scenario, changes, scratch.path());
    common::simulate(cases.iter().flat_map(|case| ["--case", case]), &path, scratch.path()).runs
}

/// Returns the throughput (Mbit/s) and the mean queueing delay (ms) of a case's runs, in the order of the seeds.
fn of_case(runs: &[RunSummary], case: &[(&str, &str)]) -> Vec<[f64; 2]> {
    let mut found: Vec<&RunSummary> =
        runs.iter().filter(|run| case.iter().all(|(axis, value)| run.run.case[*axis] == *value)).collect();
    found.sort_by_key(|run| run.run.seed);
    assert!(!found.is_empty(), "{case:?}");
    let figures = |run: &RunSummary| {
        let flow = &run.flows[0];
        [flow.throughput_bps / 1e6, flow.queue_delay_ms.mean]
    };
    found.into_iter().map(figures).collect()
}

/// Returns the differences, pair by pair, as shares of the mean of `theirs`.
fn differences(ours: &[[f64; 2]], theirs: &[[f64; 2]], figure: usize) -> Vec<f64> {
    assert!(ours.len() == theirs.len() && ours.len() >= 12, "{} and {}", ours.len(), theirs.len());
    let whole = theirs.iter().map(|run| run[figure]).sum::<f64>() / theirs.len() as f64;
    ours.iter().zip(theirs).map(|(ours, theirs)| (ours[figure] - theirs[figure]) / whole).collect()
}

/// Returns the mean of the shares, and half its 95 % interval.
fn mean(shares: &[f64]) -> (f64, f64) {
    let estimate = Estimate::of(shares).unwrap();
    (estimate.mean, estimate.half_width.unwrap())
}

fn change(ours: &[[f64; 2]], theirs: &[[f64; 2]], figure: usize) -> (f64, f64) {
    mean(&differences(ours, theirs, figure))
}

/// Uses links whose SINR determines the rate, with readings every 20 ms and every 100 ms. With 12 seeds, the interval of
/// the queue at 0.1 % of losses includes 0.
#[test]
fn the_radio_signal_shortens_d_tcps_queue_and_raises_its_throughput_where_packets_are_lost() {
    let changes = [("seeds = [1, 2, 3]", MORE_SEEDS), WITHOUT_TRACE];
    let cases = ["radio=street", "radio=square", "who=off", "who=20ms", "who=100ms"];
    let runs = simulate("dtcp-signal.toml", &changes, &cases);
    let mut of_all = [(); 2].map(|()| Vec::new());
    for radio in ["street", "square"] {
        for loss in ["0", "0.001", "0.005"] {
            let with = |who| of_case(&runs, &[("radio", radio), ("loss", loss), ("who", who)]);
            let off = with("off");
            for who in ["20ms", "100ms"] {
                let shares = [0, 1].map(|figure| differences(&with(who), &off, figure));
                let [(rate, of_rate), (queue, of_queue)] = [0, 1].map(|figure: usize| mean(&shares[figure]));
                of_all.iter_mut().zip(shares).for_each(|(all, of_case)| all.extend(of_case));
                println!(
                    "{radio}, loss {loss}, {who}: throughput {:+.1} +- {:.1} %, queue {:+.0} +- {:.0} %",
                    100.0 * rate,
                    100.0 * of_rate,
                    100.0 * queue,
                    100.0 * of_queue,
                );
                assert!(rate > -0.01, "{radio}, {loss}, {who}: throughput");
                // with 0.5 % of losses there is hardly any queue to shorten
                let shorter = queue < -0.15 && queue + of_queue < 0.0;
                assert!(loss == "0.005" || shorter, "{radio}, {loss}, {who}: queue");
                let more = rate > 0.03 && rate - of_rate > 0.0;
                assert!(loss == "0" || more, "{radio}, {loss}, {who}: no gain of throughput");
            }
        }
    }
    let [(rate, of_rate), (queue, of_queue)] = of_all.map(|shares| mean(&shares));
    println!("all: throughput {rate:+.4} +- {of_rate:.4}, queue {queue:+.3} +- {of_queue:.3}");
    assert!(rate > 0.05 && rate - of_rate > 0.0, "throughput over all cases");
    assert!(queue < -0.15 && queue + of_queue < 0.0, "queue over all cases");
}

/// Behind an obstacle the rate falls to a hundredth, and then returns at once.
#[test]
fn the_radio_signal_empties_d_tcps_queue_behind_an_obstacle_and_restores_the_rate_after_it() {
    const BLIND: &str =
        "[[variant]]\nname = \"blind\"\ncc = \"dtcp\"\nset = { sinr_term = \"off\" }\n\n[[host]]\nname = \"server\"";
    for scenario in ["dtcp-mmwave-1.toml", "dtcp-mmwave-2.toml"] {
        let changes = [
            ("[sweep]", &format!("{SEEDS}\n\n[sweep]")[..]),
            ("cc = [\"dtcp\", ", "cc = [\"dtcp\", \"blind\", "),
            ("[[host]]\nname = \"server\"", BLIND),
        ];
        let runs = simulate(scenario, &changes, &["cc=dtcp", "cc=blind"]);
        let [with, without] = ["dtcp", "blind"].map(|cc| of_case(&runs, &[("cc", cc)]));
        let [(rate, _), (queue, of_queue)] = [0, 1].map(|figure| change(&with, &without, figure));
        println!("{scenario}: throughput {:+.1} %, queue {:+.0} %", 100.0 * rate, 100.0 * queue);
        assert!(rate > -0.03, "{scenario}: throughput");
        assert!(queue < -0.4 && queue + of_queue < 0.0, "{scenario}: queue");
    }
}

/// Runs each scenario with one radio, if it has several.
#[test]
fn a_wrong_radio_signal_costs_d_tcp_little() {
    const WRONG: [&str; 4] = ["mirrored", "frozen", "high", "late"];
    for (scenario, radio) in [("dtcp-signal-wrong.toml", None), ("dtcp-signal-astray.toml", Some("radio=street"))] {
        let signals = ["off"].iter().chain(&WRONG).map(|signal| format!("signal={signal}"));
        let cases: Vec<String> = signals.chain(radio.map(ToOwned::to_owned)).collect();
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        let drive = "model = \"trace\"\nfile = \"ucc5g_driving_download.csv\"\nfrom_s = 720\nlength_s = 40\nscale_to_bps = 60e6";
        let without_trace = (drive, "model = \"constant\"\nsinr_db = 10\ncapacity_bps = 60e6"); // not run
        let changes: Vec<_> = [("seeds = [1, 2, 3]", SEEDS)].into_iter().chain(radio.map(|_| without_trace)).collect();
        let runs = simulate(scenario, &changes, &cases);
        for loss in ["0", "0.001"] {
            let with = |signal| of_case(&runs, &[("loss", loss), ("signal", signal)]);
            for wrong in WRONG {
                let (rate, of_rate) = change(&with(wrong), &with("off"), 0);
                println!("{scenario}: {wrong}, loss {loss}: {:+.1} +- {:.1} %", 100.0 * rate, 100.0 * of_rate);
                assert!(rate > -0.03, "{scenario}: {wrong}, {loss}");
            }
        }
    }
}

/// Returns the share of the packets of all runs that a policer dropped.
fn policed(runs: &[RunSummary], cc: &str) -> f64 {
    let [dropped, sent] = runs
        .iter()
        .filter(|run| run.run.case["cc"] == cc)
        .map(|run| [run.flows[0].police_drops, run.flows[0].packets].map(|count| count as f64))
        .fold([0.0; 2], |sums, run| [sums[0] + run[0], sums[1] + run[1]]);
    assert!(dropped > 0.0, "{cc}: the policer had nothing to do");
    println!("{cc}: {:.2} % dropped", 100.0 * dropped / sent);
    dropped / sent
}

#[test]
fn a_policer_drops_under_three_percent_of_what_default_sends() {
    let dtcp =
        simulate("dtcp-rules.toml", &[("seeds = [1, 2]", SEEDS)], &["link=policer", "cc=dtcp", "cc=alg1", "cc=print"]);
    let fbtcp = simulate("fbtcp-policer.toml", &[], &["cc=fbtcp-default", "cc=fbtcp-paper"]);
    for (runs, cc) in [(&dtcp, "dtcp"), (&dtcp, "alg1"), (&fbtcp, "fbtcp-default")] {
        assert!(policed(runs, cc) < 0.03, "{cc}");
    }
    for (runs, cc) in [(&dtcp, "print"), (&fbtcp, "fbtcp-paper")] {
        assert!(policed(runs, cc) > 0.1, "{cc}: its page says that it loses much");
    }
}

#[test]
fn the_report_shows_what_receivers_counted_and_the_result_repeats() {
    const LOSSY: &str = r#"
duration_s = 2
[[host]]
name = "server"
[[host]]
name = "ue"
[[link]]
name = "air"
between = ["server", "ue"]
both = { delay_ms = 10 }
forward = { rate = "10Mbit/s", queue = "100kB", loss = 0.01 }
[[flow]]
name = "main"
from = "server"
to = "ue"
cc = "cubic"
"#;
    let scratch = tempfile::tempdir().unwrap();
    let scenario = scratch.path().join("lossy.toml");
    fs::write(&scenario, LOSSY).unwrap();
    let run = |out: &str| {
        let out = scratch.path().join(out);
        common::simulate([], &scenario, &out);
        let directory = locate(&out).unwrap();
        let [page, summary] =
            ["report.html", "all/seed-1/summary.json"].map(|file| fs::read_to_string(directory.join(file)).unwrap());
        (page, summary)
    };
    let once = run("once");
    assert!(once == run("again"), "the same bytes");
    let (page, summary) = once;
    let summary: RunSummary = serde_json::from_str(&summary).unwrap();
    let received = summary.flows[0].receiver.unwrap();
    assert!(received.out_of_order_segments > 0 && received.segments.is_none(), "{received:?}");
    let (_, receivers) = page.split_once("<summary>Receivers</summary>").unwrap();
    assert!(receivers.contains(&format!(">{}<", received.out_of_order_segments)), "{receivers}");
}

#[test]
fn dcm_learns_of_a_new_path_if_its_sender_watches() {
    let scratch = tempfile::tempdir().unwrap();
    let scenario = routes::write(scratch.path());
    common::simulate([], &scenario, scratch.path());
    routes::assert_learned(scratch.path());
}

/// Compares DCM that learns of a new path with DCM that does not.
#[test]
fn dcm_gains_throughput_if_it_learns_of_a_longer_path_or_a_handover() {
    let ours = ["cc=dcm", "cc=dcm-untold", "cc=dcm-paper", "cc=dcm-paper-untold"];
    for loss in ["loss = 0.001", "loss = 0.0001"] {
        let runs = simulate("dcm-route.toml", &[("seeds = [1, 2, 3]", SEEDS), ("loss = 0.001", loss)], &ours);
        for (cc, route) in ["dcm", "dcm-paper"].iter().flat_map(|cc| ROUTES.map(|route| (*cc, route))) {
            let of = |cc: &str| of_case(&runs, &[("move", route), ("cc", cc)]);
            let (rate, of_rate) = change(&of(cc), &of(&format!("{cc}-untold")), 0);
            println!("{loss}, {cc}, {route}: throughput {:+.1} +- {:.1} %", 100.0 * rate, 100.0 * of_rate);
            if route == "shorter" {
                assert!(rate > -0.02, "{loss}, {cc}");
            } else {
                // the only exception; measured: +3.2 +- 5.2 %
                let is_unclear = (loss, cc, route) == ("loss = 0.001", "dcm", "longer");
                assert!(rate > 0.0 && (is_unclear || rate > of_rate), "{loss}, {cc}, {route}: no gain");
            }
        }
    }
}

/// On this link all seeds are the same; the others need minutes, or a recorded trace.
#[test]
fn the_page_on_the_worth_of_signals_says_what_the_simulator_says() {
    let changes = [("seeds = [1, 2, 3]", "seeds = [1]"), WITHOUT_TRACE];
    let kinds = ["best", "old-100ms", "old-300ms"];
    let cases: Vec<String> = kinds.iter().map(|kind| format!("readings={kind}")).collect();
    let cases: Vec<&str> = cases.iter().map(String::as_str).chain(["radio=square"]).collect();
    let runs = simulate("signal-age.toml", &changes, &cases);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/algorithms/figures/signals.md");
    let page = fs::read_to_string(page).unwrap();
    for kind in kinds {
        let case = format!("radio=square, readings={kind}");
        let mut cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_prefix(&case)?.split_once('|'));
        let (_, cells) = cells.next().unwrap_or_else(|| panic!("the page has no {case}"));
        let of_page: Vec<&str> = cells.trim_matches(['|', ' ']).split('|').map(str::trim).collect();
        let figures = |cc: &str| {
            let run = runs.iter().find(|run| run.run.case["cc"] == cc && run.run.case["readings"] == kind).unwrap();
            let [mbps, p95_ms] = ["throughput_mbps", "queue_delay_p95_ms"].map(|name| run.metric(name, None).unwrap());
            format!("{mbps:.2} ± 0, {p95_ms:.1} ± 0")
        };
        assert_eq!(of_page, ["dtcp", "crest"].map(figures), "{case}: run `just figures signals`");
    }
}

/// The sender does not use ECN.
#[test]
fn a_link_that_marks_but_marked_no_packet_has_a_mark_ratio_of_0() {
    const SCENARIO: &str = r#"
duration_s = 2
[sweep]
queue = [{ name = "drop-tail", as = "60kB" }, { name = "fq", as = { discipline = "fq_codel" } }]
[sysctl]
"net.ipv4.tcp_ecn" = 0
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
name = "x"
between = ["a", "b"]
both = { delay_ms = 10 }
forward = { rate = "5Mbit/s", queue = "$queue.as" }
[[flow]]
name = "f"
from = "a"
to = "b"
cc = "cubic"
"#;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("marks.toml");
    fs::write(&path, SCENARIO).unwrap();
    let results = common::simulate([], &path, scratch.path());
    let of = |queue: &str| results.runs.iter().find(|run| run.run.case["queue"] == queue).unwrap();
    assert_eq!(of("drop-tail").metric("mark_ratio", None), None);
    assert_eq!(of("fq").metric("mark_ratio", None), Some(0.0));
    let page = fs::read_to_string(results.directory.join("report.html")).unwrap();
    assert!(page.contains("marks, %"), "{page}");
}
