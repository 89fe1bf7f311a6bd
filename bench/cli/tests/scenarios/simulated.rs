//! What algorithms promise of links, in the simulator: over more seeds than the lab has time for.

use crate::common::smaller;
use hotcc_lab::results::{Results, RunSummary, locate};
use hotcc_testbed::command::succeed;
use std::process::Command;

const SEEDS: &str = "seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]";
/// Student's t for 11 degrees of freedom: 95 % of means lie so many standard errors about.
const T: f64 = 2.201;

/// Runs those cases of a scenario, over twelve seeds, after those changes to its text.
fn simulate(scenario: &str, changes: &[(&str, &str)], cases: &[&str]) -> Vec<RunSummary> {
    let scratch = tempfile::tempdir().unwrap();
    let path = smaller(scenario, changes, scratch.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--sim", "--out"]).arg(scratch.path()).arg(path);
    succeed(command.args(cases.iter().flat_map(|case| ["--case", case])));
    Results::read(&locate(scratch.path()).unwrap()).unwrap().runs
}

/// Throughput, Mbit/s, and mean queueing delay, ms, of a case's runs, in the order of the seeds.
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

/// The mean of the differences, pair by pair, as a share of the second mean, and half its 95 % interval.
fn change(ours: &[[f64; 2]], theirs: &[[f64; 2]], figure: usize) -> (f64, f64) {
    assert_eq!((ours.len(), theirs.len()), (12, 12));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let whole = mean(&theirs.iter().map(|run| run[figure]).collect::<Vec<_>>());
    let pairs = ours.iter().zip(theirs);
    let shares: Vec<f64> = pairs.map(|(ours, theirs)| (ours[figure] - theirs[figure]) / whole).collect();
    let middle = mean(&shares);
    let squares: Vec<f64> = shares.iter().map(|share| (share - middle).powi(2)).collect();
    let spread = (squares.iter().sum::<f64>() / (shares.len() - 1) as f64 / shares.len() as f64).sqrt();
    (middle, T * spread)
}

/// On links whose SINR tells the rate, readings of 20 and of 100 ms.
#[test]
fn the_radio_signal_shortens_d_tcps_queue_and_costs_no_throughput() {
    let recorded =
        "model = \"trace\"\nfile = \"ucc5g_driving_download.csv\"\nfrom_s = 720\nlength_s = 40\nscale_to_bps = 60e6";
    let changes = [
        ("seeds = [1, 2, 3]", SEEDS),
        (recorded, "model = \"constant\"\nsinr_db = 10\ncapacity_bps = 60e6"), // not run
    ];
    let cases = ["radio=street", "radio=square", "who=off", "who=20ms", "who=100ms"];
    let runs = simulate("dtcp-signal.toml", &changes, &cases);
    for radio in ["street", "square"] {
        for loss in ["0", "0.001", "0.005"] {
            let with = |who| of_case(&runs, &[("radio", radio), ("loss", loss), ("who", who)]);
            let off = with("off");
            for who in ["20ms", "100ms"] {
                let [(rate, of_rate), (queue, of_queue)] = [0, 1].map(|figure| change(&with(who), &off, figure));
                println!(
                    "{radio}, loss {loss}, {who}: throughput {:+.1} +- {:.1} %, queue {:+.0} +- {:.0} %",
                    100.0 * rate,
                    100.0 * of_rate,
                    100.0 * queue,
                    100.0 * of_queue,
                );
                // measured without losses on the square wave: -2.1 to -2.4 %
                assert!(rate > -0.03, "{radio}, {loss}, {who}: throughput");
                let shorter = queue < -0.15 && queue + of_queue < 0.0;
                let more = rate > 0.05 && rate - of_rate > 0.0;
                // with 0.5 % of losses there is hardly a queue to shorten
                assert!(loss == "0.005" || shorter || more, "{radio}, {loss}, {who}: no gain");
            }
        }
    }
}

#[test]
fn a_wrong_radio_signal_costs_d_tcp_little() {
    let runs = simulate("dtcp-signal-wrong.toml", &[("seeds = [1, 2, 3]", SEEDS)], &[]);
    for loss in ["0", "0.001"] {
        let with = |signal| of_case(&runs, &[("loss", loss), ("signal", signal)]);
        for wrong in ["mirrored", "frozen", "high", "late"] {
            let (rate, of_rate) = change(&with(wrong), &with("off"), 0);
            println!("{wrong}, loss {loss}: throughput {:+.1} +- {:.1} %", 100.0 * rate, 100.0 * of_rate);
            assert!(rate > -0.03, "{wrong}, {loss}");
        }
    }
}

/// Shares of the packets of whole runs that a policer dropped.
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
