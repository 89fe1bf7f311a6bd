//! Tables in documents: of all that is there, and of some cases.

use crate::fixture::{case, flow, run, write};
use hotcc_report::markdown::refreshed;
use std::fs;

#[test]
fn a_part_about_some_cases_has_their_figures_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("mmwave/6.12");
    let of =
        |loss: &str, cc: &str, mbps: f64| run(case(&[("loss", loss), ("cc", cc)]), 1, vec![flow("dl", cc, mbps, 30.0)]);
    write(&directory, &[of("0.01", "dtcp", 12.5), of("0.01", "cubic", 3.25), of("0", "dtcp", 20.75)]);
    let expected = |loss: &str, value: &str| {
        format!(
            "[[expected]]\ncase = {{ loss = {loss}, cc = \"dtcp\" }}\nmetric = \"throughput_mbps\"\nvalue = {value}\n\
             source = \"Table {value}\"\n"
        )
    };
    fs::write(directory.join("scenario.toml"), expected("0.010", "11") + &expected("0", "22")).unwrap();

    let part = |mark: &str| format!("<!-- figures: {mark} -->\nold\n<!-- end of figures -->\n");
    let shown = |mark: &str| refreshed(&part(mark), scratch.path()).unwrap();
    let has = |text: &str, figures: &[(&str, bool)]| {
        for (figure, is_there) in figures {
            assert_eq!(text.contains(figure), *is_there, "{figure} in {text}");
        }
    };
    let all = shown("mmwave");
    has(&all, &[("12.5", true), ("3.25", true), ("20.75", true), ("Table 11", true), ("Table 22", true)]);
    has(&all, &[("All 3 runs have finished", true), ("old", false)]);
    let lossy = shown("mmwave loss=1e-2");
    has(&lossy, &[("12.5", true), ("3.25", true), ("20.75", false), ("Table 11", true), ("Table 22", false)]);
    has(&lossy, &[("All 2 runs have finished", true), ("<!-- figures: mmwave loss=1e-2 -->\n", true)]);
    let one = shown("mmwave loss=0.01 cc=cubic cc=reno");
    has(&one, &[("12.5", false), ("3.25", true), ("Table", false), ("The only run has finished", true)]);
    assert_eq!(shown("mmwave loss=0.5"), part("mmwave loss=0.5"), "what has no results stays");
}
