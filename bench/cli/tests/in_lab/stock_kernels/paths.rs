//! A sender whose route changes, on a stock kernel.

use super::runs::results;
use crate::common::machine::stock_kernel;
use crate::common::{routes, run_lab};
use hotcc_lab::results::locate;

#[test]
fn dcm_learns_of_a_new_path_if_its_sender_watches_and_the_result_repeats() {
    const NAME: &str = "dcm_learns_of_a_new_path_if_its_sender_watches_and_the_result_repeats";
    if stock_kernel(NAME, "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let scenario = routes::write(scratch.path());
    let (once, again) = (scratch.path().join("once"), scratch.path().join("again"));
    run_lab("vm:6.12", [], &scenario, &once);
    routes::assert_learned(&once);
    run_lab("vm:6.12", ["watch=true"], &scenario, &again);
    let run = |out| results(&locate(out).unwrap().join("watch=true"));
    assert!(run(&once) == run(&again), "the same bytes");
}
