//! Canaries in a minute of virtual time: a bad one is rolled back within its first step, and an equal one is promoted.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_lab::canaries::{self, Tried};
use hotcc_testbed::command::build;
use hotcc_testbed::soak;
use serde_json::Value;

#[test]
#[ignore = "takes minutes: just soak"]
fn canaries_end_as_they_should_on_the_oldest_kernel() {
    canaries_end_as_they_should("6.1", "canaries_end_as_they_should_on_the_oldest_kernel");
}

#[test]
#[ignore = "takes minutes: just soak"]
fn canaries_end_as_they_should_on_the_newest_kernel() {
    canaries_end_as_they_should("newest", "canaries_end_as_they_should_on_the_newest_kernel");
}

fn canaries_end_as_they_should(name: &str, test: &str) {
    build(&["hotcc"]);
    let Some(kernel) = stock_kernel(test, name) else { return };
    let _processor = Processor::take();
    let seeds: Vec<u64> = soak::seeds(1, 1).collect();
    let planned: Vec<(Tried, u64)> =
        [Tried::Bad, Tried::Equal].into_iter().flat_map(|tried| seeds.iter().map(move |seed| (tried, *seed))).collect();
    let ran = canaries::run(&kernel, &planned, &mut |text| eprintln!("{text}")).unwrap();
    assert_eq!(ran.len(), planned.len());
    let mut summaries = Vec::new();
    for (tried, state) in [(Tried::Bad, "rolled_back"), (Tried::Equal, "promoted")] {
        let mut took_s = Vec::new();
        for ((_, seed), events) in planned.iter().zip(&ran).filter(|((of, _), _)| *of == tried) {
            let end = events.last().unwrap();
            assert_eq!(end["state"], state, "{tried:?}, seed {seed}: {end}");
            let steps = events.iter().filter(|event| event["event"] == "step").count();
            assert_eq!(steps, 1, "{tried:?}, seed {seed}: there is one comparison");
            let time_s = |event: &Value| event["time_s"].as_f64().unwrap();
            took_s.push(time_s(end) - time_s(&events[0]));
        }
        took_s.sort_by(f64::total_cmp);
        let (count, first, last) = (took_s.len(), took_s[0], took_s[took_s.len() - 1]);
        summaries.push(format!("{state} in {count} of {count} runs, after {first:.0} to {last:.0} s"));
    }
    soak::report(&format!("{}: bad ones {}; equal ones {}", kernel.release, summaries[0], summaries[1]));
}
