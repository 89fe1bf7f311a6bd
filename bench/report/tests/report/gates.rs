//! Gates: held and missed ones, and the table in a document.

use crate::fixture::{case, flow, manifest, run, write, write_manifest};
use hotcc_lab::results::{Manifest, Results, RunSummary, SIMULATOR};
use hotcc_report::gates::{judge, refreshed};
use std::fs;
use std::path::Path;

const SCENARIO: &str = r#"
duration_s = 30
[sweep]
cc = ["crest", "bbr"]
path = [{ name = "a", mbps = 1, limit = 8 }, { name = "b", mbps = 2, limit = 9 }, { name = "c", mbps = 3, limit = 30 }]
[[host]]
name = "server"
[[host]]
name = "phone"
[[link]]
name = "air"
between = ["server", "phone"]
forward = { rate = "5Mbit/s" }
[[flow]]
name = "dl"
from = "server"
to = "phone"
cc = "$cc"
start_s = "$path.mbps"
"#;

/// Writes results. `rtts_ms` are crest's RTTs on each path; BBR's are 40 ms. The fixture's queueing delay is 20 ms less
/// than the RTT, and its 95th percentile is 1.5 times that.
fn results(directory: &Path, rtts_ms: &[f64], gate: &str) {
    let of = |path: &str, cc: &str, rtt_ms: f64| {
        run(case(&[("cc", cc), ("path", path)]), 1, vec![flow("dl", cc, rtt_ms / 10.0, rtt_ms)])
    };
    let paths = || ["a", "b", "c"].into_iter().zip(rtts_ms);
    let crest = paths().map(|(path, rtt_ms)| of(path, "crest", *rtt_ms));
    let runs: Vec<RunSummary> = crest.chain(paths().map(|(path, _)| of(path, "bbr", 40.0))).collect();
    write(directory, &runs);
    let ids = runs.iter().map(|run| run.run.clone()).collect();
    let scenario = "x-alone".to_owned();
    write_manifest(directory, &Manifest { scenario, backend: SIMULATOR.to_owned(), ..manifest(ids) });
    let expected = format!("[[expected]]\nsource = \"this project\"\ncase = {{ cc = \"crest\" }}\n{gate}");
    fs::write(directory.join("scenario.toml"), format!("{SCENARIO}{expected}\n")).unwrap();
}

/// Returns the limits, the figure that decides, and the verdict.
fn result_of(rtts_ms: &[f64], gate: &str) -> [String; 3] {
    let scratch = tempfile::tempdir().unwrap();
    results(scratch.path(), rtts_ms, &format!("gate = \"x\"\n{gate}"));
    let [gate] = &judge(scratch.path()).unwrap()[..] else { panic!("one gate") };
    [gate.limit.clone(), gate.figure.clone(), gate.verdict()]
}

#[test]
fn each_case_or_their_median_decides() {
    let rtts_ms = [24.0, 28.0, 40.0];
    let delay = "metric = \"queue_delay_p95_ms\"\n";
    let of = |gate: &str| result_of(&rtts_ms, &format!("{delay}{gate}"));
    assert_eq!(of("at_most = 29"), ["each at most 29 ms", "30 at path=c", "missed in 1 of 3 cases"]);
    assert_eq!(of("at_most = 29\nof = \"median\""), ["median at most 29 ms", "12", "held"]);
    assert_eq!(
        of("at_most = \"$path.limit\""),
        ["each at most 8 to 30 ms, by case", "12 at path=b", "missed in 1 of 3 cases"]
    );
    assert_eq!(of(""), ["–", "6 to 30", "no limit"]);
    let ratio = |gate: &str| of(&format!("over = {{ cc = \"bbr\" }}\n{gate}"));
    assert_eq!(ratio("at_least = 0.3\nat_most = 0.5"), ["each 0.3 to 0.5", "1 at path=c", "missed in 2 of 3 cases"]);
    let itself = ratio("at_most = 0.5\nor_at_most = 30");
    assert_eq!(itself, ["each at most 0.5, or itself at most 30 ms", "all at most 30", "held"]);
}

/// A transfer that did not finish has no time of completion.
#[test]
fn a_run_that_ended_without_the_figure_misses_the_limit() {
    let of = |finished: [bool; 3], gate: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let gate = format!("gate = \"x\"\nmetric = \"completion_s\"\n{gate}");
        results(scratch.path(), &[24.0, 28.0, 40.0], &gate);
        for (mut run, finished) in Results::read(scratch.path()).unwrap().runs.into_iter().zip(finished) {
            run.flows[0].complete = Some(finished);
            fs::write(scratch.path().join(run.run.summary()), serde_json::to_vec(&run).unwrap()).unwrap();
        }
        let [gate] = &judge(scratch.path()).unwrap()[..] else { panic!("one gate") };
        assert_eq!(gate.is_failure(), finished.contains(&false), "{gate:?}");
        [gate.figure.clone(), gate.verdict()]
    };
    assert_eq!(of([true; 3], "at_most = 40"), ["30 at path=c", "held"]);
    assert_eq!(of([true, true, false], "at_most = 40"), ["none at path=c", "missed in 1 of 3 cases"]);
    assert_eq!(of([false; 3], "at_most = 40"), ["none at path=a", "missed in 3 of 3 cases"]);
    assert_eq!(of([true, true, false], "at_most = 40\nof = \"median\"")[1], "missed");
}

#[test]
fn a_document_shows_the_newest_kernel_of_its_series() {
    let scratch = tempfile::tempdir().unwrap();
    let gate = "gate = \"delay\"\nmetric = \"queue_delay_p95_ms\"\nat_most = 29";
    for (release, rtt_ms) in [("6.12.95+deb13", 24.0), ("6.12.117+deb13", 28.0), ("6.12.117+deb13-arm64", 32.0)] {
        results(&scratch.path().join("x-alone").join(release), &[rtt_ms], gate);
    }
    results(&scratch.path().join("x-alone/6.18.1"), &[40.0], gate);
    let figure = |series: &str| {
        let document = format!("<!-- gates: x {series} -->\n<!-- end of gates -->\n");
        let new = refreshed(&document, scratch.path()).unwrap();
        let row = new.lines().find(|line| line.contains("delay"));
        row.map(|row| row.split('|').nth(3).unwrap().trim().to_owned())
    };
    assert_eq!(figure("6.12").as_deref(), Some("12 at path=a"));
    assert_eq!(figure("6.12-arm64").as_deref(), Some("18 at path=a"));
    assert_eq!(figure("6.1"), None, "6.18 is another series");
}

#[test]
fn missing_runs_are_reported() {
    let gate = "metric = \"queue_delay_p95_ms\"\nat_most = 29";
    assert_eq!(result_of(&[24.0], gate)[1..], ["6 at path=a", "held so far, 1 of 3 runs"]);
    assert_eq!(result_of(&[], gate)[1..], ["–", "not run"]);
}

#[test]
fn a_document_keeps_rows_of_scenarios_without_results() {
    let scratch = tempfile::tempdir().unwrap();
    let gate = "gate = \"delay\"\nmetric = \"queue_delay_p95_ms\"\nat_most = 29";
    results(&scratch.path().join("x-alone/simulator"), &[24.0, 28.0, 30.0], gate);
    let document = "a\n<!-- gates: x simulator -->\n\n| gate | limit | figure | verdict | scenario |\n| - | - | - | - | - |\n\
                    | old | at most 1 | 2 | missed | x-alone |\n| kept | at most 1 | 2 | missed | x-beside |\n\
                    <!-- end of gates -->\nb\n";
    let new = refreshed(document, scratch.path()).unwrap();
    let cells: Vec<String> = new.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(cells.contains(&"| delay | each at most 29 ms | 15 at path=c | held | x-alone |".to_owned()), "{new}");
    assert!(
        cells.contains(&"| kept | at most 1 | 2 | missed | x-beside |".to_owned()) && !new.contains("| old"),
        "{new}"
    );
    assert!(new.contains("Simulated, not measured on a kernel. 2 figures: 1 held, 1 missed, 0 not run"), "{new}");
    assert_eq!(refreshed(&new, scratch.path()).unwrap(), new, "a second time changes nothing");
    assert_eq!(refreshed(document, Path::new("/nowhere")).unwrap(), document);
}

#[test]
fn a_document_shows_each_case_with_its_limit() {
    let scratch = tempfile::tempdir().unwrap();
    let delay = "metric = \"queue_delay_p95_ms\"\n";
    let gates = format!(
        "gate = \"delay\"\n{delay}at_most = \"$path.limit\"\n\
         [[expected]]\nsource = \"this project\"\ncase = {{ cc = \"crest\" }}\nover = {{ cc = \"bbr\" }}\n\
         gate = \"against BBR\"\n{delay}of = \"median\"\nat_most = 0.3"
    );
    results(&scratch.path().join("x-alone/simulator"), &[24.0, 28.0], &gates);
    let document = "a\n<!-- gates: x-alone simulator cases -->\nstale\n<!-- end of gates -->\nb\n";
    let new = refreshed(document, scratch.path()).unwrap();
    let cells: Vec<String> = new.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let rows: Vec<&String> = cells.iter().filter(|line| line.starts_with('|') && !line.contains("---")).collect();
    assert_eq!(
        rows,
        [
            "| case | delay, ms | against BBR |",
            "| path=a | 6 (at most 8) | 0.2 |",
            "| path=b | **12** (at most 9) | 0.4 |",
        ]
    );
    assert!(new.contains("Simulated, not measured on a kernel. 2 cases;") && !new.contains("stale"), "{new}");
    assert_eq!(refreshed(document, Path::new("/nowhere")).unwrap(), document);
    let invalid = document.replace(" cases", " case");
    assert!(refreshed(&invalid, scratch.path()).unwrap_err().to_string().contains("expected NAME BACKEND"));
}

#[test]
fn a_reference_of_zero_hides_no_case() {
    let of = |losses: u64, gate: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let gate = format!("gate = \"x\"\nmetric = \"loss_ratio\"\nover = {{ cc = \"bbr\" }}\n{gate}");
        results(scratch.path(), &[24.0, 28.0, 40.0], &gate);
        let mut runs = Results::read(scratch.path()).unwrap().runs;
        for run in &mut runs {
            let is_clean = run.run.case["cc"] == "bbr" && run.run.case["path"] == "c";
            run.flows[0].queue_drops = 0;
            run.flows[0].losses = if is_clean { 0 } else { losses };
            fs::write(scratch.path().join(run.run.summary()), serde_json::to_vec(run).unwrap()).unwrap();
        }
        let [gate] = &judge(scratch.path()).unwrap()[..] else { panic!("one gate") };
        [gate.figure.clone(), gate.verdict()]
    };
    assert_eq!(of(300, "at_most = 2"), ["inf at path=c", "missed in 1 of 3 cases"]);
    assert_eq!(of(300, "at_most = 2\nor_at_most = 0.05")[1], "held");
    assert_eq!(of(0, "at_most = 2")[1], "held");
}

#[test]
fn a_gate_about_no_case_is_not_run() {
    let scratch = tempfile::tempdir().unwrap();
    let delay = "metric = \"queue_delay_p95_ms\"\nat_most = 29";
    let other = "[[expected]]\nsource = \"this project\"\ncase = { cc = \"crest\", path = \"d\" }\ngate = \"y\"\n";
    results(scratch.path(), &[24.0, 28.0, 30.0], &format!("gate = \"x\"\n{delay}\n{other}{delay}"));
    let gates = judge(scratch.path()).unwrap();
    let verdicts: Vec<_> = gates.iter().map(|gate| (gate.gate.as_str(), gate.verdict())).collect();
    assert_eq!(verdicts, [("x", "held".to_owned()), ("y", "not run".to_owned())]);
}

#[test]
fn no_marks_are_within_an_upper_limit() {
    let of = result_of(&[24.0, 28.0, 40.0], "metric = \"mark_ratio\"\nat_most = 0.01");
    assert_eq!(of[2], "held", "{of:?}");
}

#[test]
fn a_case_beyond_its_limit_is_marked_also_if_a_gate_for_the_median_has_the_same_name() {
    let scratch = tempfile::tempdir().unwrap();
    let delay = "gate = \"delay\"\nmetric = \"queue_delay_p95_ms\"\n";
    let gates = format!(
        "{delay}of = \"median\"\nat_most = 20\n[[expected]]\nsource = \"this project\"\n\
         case = {{ cc = \"crest\" }}\n{delay}at_most = 8"
    );
    results(&scratch.path().join("x-alone/simulator"), &[24.0, 28.0], &gates);
    let document = "<!-- gates: x-alone simulator cases -->\n<!-- end of gates -->\n";
    let new = refreshed(document, scratch.path()).unwrap();
    assert!(new.contains("**12**") && !new.contains("**6**"), "{new}");
}

#[test]
fn a_table_names_each_kernel_of_its_figures() {
    let scratch = tempfile::tempdir().unwrap();
    let gate = "gate = \"delay\"\nmetric = \"queue_delay_p95_ms\"\nat_most = 29";
    for place in ["x-alone/6.12.117+deb13", "x-beside/6.12.95+deb13"] {
        results(&scratch.path().join(place), &[24.0], gate);
    }
    let new = refreshed("<!-- gates: x 6.12 -->\n<!-- end of gates -->\n", scratch.path()).unwrap();
    assert!(new.contains("Linux 6.12.117+deb13, 6.12.95+deb13. "), "{new}");
}
