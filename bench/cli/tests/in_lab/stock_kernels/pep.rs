//! Effects of a border PEP that is broken or lies on the senders that use its reports, in the lab with both agents
//! running.

use crate::common::machine::stock_kernel;
use crate::common::{reduced_scenario, run_lab};
use hotcc_lab::results::RunSummary;
use hotcc_testbed::soak;

const WITHOUT: &str = "cubic";
/// Faults that run with each seed, and the least throughput relative to CUBIC's. The first two make every report
/// useless: the sender is left with CUBIC. The third one takes most from the others: over eight seeds, they had 1.07 of
/// an equal share, with a standard deviation of 0.07, too much for a single run.
const EACH_SEED: [(&str, f64); 3] = [("delayed", 0.9), ("sees-ahead", 0.9), ("sees-all", STILL_HELPS)];
/// Faults that leave some reports useful, of which each runs with one seed. Measured throughput relative to CUBIC's:
/// 1.33, 1.41 and 1.23.
const ONE_SEED: [&str; 3] = ["dies", "replayed", "sees-holes"];
const STILL_HELPS: f64 = 1.25;
/// Standard deviation of the logarithm of a pair's ratio: the throughput of a run's flows behind the PEP, over that of
/// the run with CUBIC and the same seed. Measured: 0.05 to 0.14 over 44 pairs of six faults.
const PAIR_DEVIATION: f64 = 0.1;

/// Returns the total throughput of a run's flows whose names begin with `name`.
fn received(run: &RunSummary, name: &str) -> f64 {
    run.flows.iter().filter(|flow| flow.name.starts_with(name)).map(|flow| flow.throughput_bps).sum()
}

/// Returns the runs of these cases.
fn of<'a>(runs: &'a [RunSummary], peps: &[&str]) -> Vec<&'a RunSummary> {
    let of: Vec<_> = runs.iter().filter(|run| peps.contains(&run.run.case["pep"].as_str())).collect();
    assert!(!of.is_empty(), "{peps:?}");
    of
}

/// Returns the run under this congestion control, of which there is one.
fn under<'a>(runs: &'a [RunSummary], cc: &str) -> &'a RunSummary {
    runs.iter().find(|run| run.run.case["cc"] == cc).unwrap()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Runs these cases, with less traffic than in the scenario: the agents of a debug build take 170,000 instructions per
/// report.
fn runs<'a>(cases: impl IntoIterator<Item = &'a str>, seeds: &[u64]) -> Vec<RunSummary> {
    let seeds = format!("seeds = {seeds:?}");
    let less = [
        ("duration_s = 60", "duration_s = 30"),
        ("seeds = [1, 2, 3]", &seeds),
        ("24Mbit/s", "12Mbit/s"),
        ("delay_us = 2000", "delay_us = 10000\nsegments = 64"),
    ];
    let scratch = tempfile::tempdir().unwrap();
    let path = reduced_scenario("pep-faults.toml", &less, scratch.path());
    let cases: Vec<String> = cases.into_iter().map(|pep| format!("pep={pep}")).collect();
    let results = run_lab("vm:6.12", cases.iter().map(String::as_str), &path, scratch.path());
    results.runs.iter().for_each(took_effect);
    results.runs
}

/// Checks that the fault of a run happened: otherwise the run proves nothing.
fn took_effect(run: &RunSummary) {
    let told = |what: &str| run.events.iter().any(|event| event.contains(what));
    let is_told = match run.run.case["pep"].as_str() {
        WITHOUT => run.events.is_empty(),
        "dies" => told("the border's agent is killed") && told("the border's agent starts again"),
        _ => told("of the PEP's datagrams") && !told(" 0 of the PEP's datagrams"),
    };
    assert!(is_told, "{:?}: {:?}", run.run, run.events);
}

#[test]
fn a_fault_of_a_pep_leaves_the_others_nine_tenths_of_an_equal_share() {
    const NAME: &str = "a_fault_of_a_pep_leaves_the_others_nine_tenths_of_an_equal_share";
    if stock_kernel(NAME, "6.12").is_none() {
        return;
    }
    let first = soak::seeds(1, 3);
    let (half, rest): (Vec<u64>, Vec<u64>) = first.clone().partition(|seed| seed % 2 == 0);
    let each_seed = EACH_SEED.map(|(fault, _)| fault);
    let compared = || [WITHOUT].into_iter().chain(each_seed);
    // the longest test: it uses two processors, so that the other tests do not wait for it at the end
    let all = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut runs_here = runs(compared(), &half);
            // each fault has its own seed: pairs that share a run of CUBIC would deviate together
            runs_here.extend(ONE_SEED.into_iter().zip(first.clone()).flat_map(|(fault, seed)| runs([fault], &[seed])));
            runs_here
        });
        let mut all = runs(compared(), &rest);
        all.extend(others.join().unwrap());
        all
    });
    let cubic = of(&all, &[WITHOUT]);
    for fault in each_seed.into_iter().chain(ONE_SEED) {
        let ours = of(&all, &[fault]);
        let means = |what: &str, value: &dyn Fn(&RunSummary) -> f64| {
            let [ours, cubic] = [&ours, &cubic].map(|runs| mean(runs.iter().map(|run| value(run))));
            println!("{fault}: {what} {ours:.3}, with CUBIC {cubic:.3}");
            (ours, cubic)
        };
        let (all, all_with_cubic) = means("all receive", &|run| received(run, ""));
        assert!(all >= 0.9 * all_with_cubic, "{fault}: all receive {all}, with CUBIC {all_with_cubic}");
        // Jain's index does not tell which flows starve. The others' throughput is compared with an equal share, not
        // with what they receive beside CUBIC, which is half as much again.
        let (others, _) = means("the others receive", &|run| received(run, "nl-"));
        assert!(others >= 0.9 * all_with_cubic / 2.0, "{fault}: the others receive {others} of {all_with_cubic}");
        let (jain, jain_with_cubic) = means("Jain's index is", &|run| run.jain);
        assert!(jain >= 0.9 * jain_with_cubic, "{fault}: Jain's index is {jain}, with CUBIC {jain_with_cubic}");
    }
    let judged = EACH_SEED.map(|(fault, least_gain)| (vec![fault], least_gain));
    for (faults, least_gain) in judged.into_iter().chain([(ONE_SEED.to_vec(), STILL_HELPS)]) {
        let ours = of(&all, &faults);
        let gains = ours.iter().map(|run| {
            let pair = cubic.iter().find(|other| other.run.seed == run.run.seed).unwrap();
            (received(run, "l-") / received(pair, "l-")).ln()
        });
        let pairs = ours.len();
        let gain = mean(gains).exp();
        let least = least_gain * (-3.0 * PAIR_DEVIATION / (pairs as f64).sqrt()).exp(); // three standard errors
        println!("{faults:?}: behind the PEP {gain:.3} of CUBIC's, {pairs} pairs, at least {least:.3}");
        soak::report(&format!("{faults:?}: {gain:.3} of what CUBIC gets behind a PEP, {pairs} pairs"));
        assert!(gain >= least, "{faults:?}: {gain} of what CUBIC gets behind the PEP, not {least}");
    }
}

/// The paper does not bound slow start: it sends until the client's first ACK arrives, and most of these packets are
/// lost.
#[test]
fn slow_start_does_not_flood_a_slow_domain_2() {
    const NAME: &str = "slow_start_does_not_flood_a_slow_domain_2";
    if stock_kernel(NAME, "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let less = [("duration_s = 4", "duration_s = 1"), ("seeds = [1, 2, 3]", "seeds = [1]")];
    let path = reduced_scenario("pep-deep.toml", &less, scratch.path());
    let results = run_lab("vm:6.12", ["rate=50Mbit/s", "cc=paper", "cc=mdcubic"], &path, scratch.path());
    let [unbounded, bounded] = ["paper", "mdcubic"].map(|cc| {
        let run = under(&results.runs, cc);
        let dropped = run.flows[0].queue_drops as f64 / run.flows[0].packets as f64;
        println!("{cc}: {} of {} packets dropped", run.flows[0].queue_drops, run.flows[0].packets);
        (dropped, run.flows[0].bytes as f64)
    });
    assert!(unbounded.0 > 0.3, "without a bound {} of all packets are dropped: not the case meant here", unbounded.0);
    assert!(bounded.0 < unbounded.0 / 8.0, "{} of all packets are dropped, {} without a bound", bounded.0, unbounded.0);
    assert!(bounded.1 > 0.9 * unbounded.1, "{} B arrive, {} without a bound", bounded.1, unbounded.1);
}

/// Only the queue drops packets in this case: every loss is congestion, behind the PEP.
#[test]
fn a_full_queue_behind_the_border_is_congestion() {
    const NAME: &str = "a_full_queue_behind_the_border_is_congestion";
    if stock_kernel(NAME, "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let less = [("duration_s = 6", "duration_s = 4"), ("seeds = [1, 2, 3]", "seeds = [1]")];
    let path = reduced_scenario("pep-egress.toml", &less, scratch.path());
    let results = run_lab("vm:6.12", ["loss=0", "cc=mdcubic"], &path, scratch.path());
    let [loss, used] = ["loss_ratio", "utilisation"].map(|metric| results.runs[0].metric(metric, None).unwrap());
    println!("{loss} of the packets are lost, {used} of the link is used");
    assert!(loss < 0.02, "{loss} of the packets are lost");
    assert!(used > 0.9, "{used} of the link is used");
}

/// crest grows by about a tenth per round trip while segments are lost, and so stops growing where as many are.
#[test]
fn crest_ignores_what_the_access_network_loses() {
    const NAME: &str = "crest_ignores_what_the_access_network_loses";
    if stock_kernel(NAME, "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // single runs without the PEP spread
    let two = [("duration_s = 10", "duration_s = 8"), ("seeds = [1]", "seeds = [1, 2]")];
    let path = reduced_scenario("pep-crest.toml", &two, scratch.path());
    let results = run_lab("vm:6.12", ["access=loss-10%", "cc=crest", "cc=alone"], &path, scratch.path());
    let [with, without] = ["crest", "alone"].map(|cc| {
        let runs = results.runs.iter().filter(|run| run.run.case["cc"] == cc);
        let rates: Vec<f64> = runs.map(|run| run.flows[0].throughput_bps / 1e6).collect();
        println!("{cc}: {rates:.2?} Mbit/s");
        assert_eq!(rates.len(), 2, "{cc}");
        mean(rates.into_iter())
    });
    assert!(with > 2.0 * without, "{with} Mbit/s, and without the PEP {without} Mbit/s");
}

#[test]
fn the_first_megabyte_takes_round_trips_of_domain_1() {
    const NAME: &str = "the_first_megabyte_takes_round_trips_of_domain_1";
    let scratch = tempfile::tempdir().unwrap();
    let less = [("duration_s = 20", "duration_s = 3"), ("seeds = [1, 2, 3]", "seeds = [1]")];
    let path = reduced_scenario("pep-start.toml", &less, scratch.path());
    // a client with the oldest kernel grants 64 KB, and two more segments for each one received: less than the PEP
    // grants
    for (name, most) in [("6.1", 0.8), ("6.12", 0.7), ("newest", 0.7)] {
        let Some(kernel) = stock_kernel(NAME, name) else { return };
        let results = run_lab(
            &format!("vm:{name}"),
            ["paced=false", "cc=cubic", "cc=mdcubic"],
            &path,
            &scratch.path().join(name),
        );
        let seconds = |cc: &str| {
            let run = under(&results.runs, cc);
            run.metric("completion_s", None).unwrap_or_else(|| panic!("{cc} did not finish: {run:?}"))
        };
        let (without, with) = (seconds("cubic"), seconds("mdcubic"));
        println!("{}: 1 MB in {with} s, without the PEP in {without} s", kernel.release);
        assert!(with < most * without, "on {}: {with} s, without the PEP {without} s", kernel.release);
    }
}
