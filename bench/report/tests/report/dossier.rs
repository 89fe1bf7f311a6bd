//! The dossier: verdicts for each congestion control on its own, and the page.

use crate::fixture::{case, flow, manifest, run, write, write_manifest};
use hotcc_lab::results::{Manifest, RunSummary, SIMULATOR};
use hotcc_report::gates::dossier::{judge, overview, refreshed, verdict};
use std::fs;
use std::path::Path;

const SCENARIO: &str = r#"
duration_s = 30
[sweep]
cc = ["crest", "cubic", "reno"]
rate = ["5Mbit/s", "10Mbit/s"]
[[host]]
name = "server"
[[host]]
name = "phone"
[[link]]
name = "air"
between = ["server", "phone"]
forward = { rate = "$rate" }
[[flow]]
name = "dl"
from = "server"
to = "phone"
cc = "$cc"
[[expected]]
gate = "throughput, against CUBIC's"
over = { cc = "cubic" }
metric = "throughput_mbps"
at_least = 0.9
source = "RFC 9743, 10.1"
note = "as CUBIC"
[[expected]]
gate = "throughput"
metric = "throughput_mbps"
at_least = 4
source = "RFC 9743, 5.1.4"
note = "any"
"#;

/// Writes results of a scenario: the throughputs (Mbit/s) of each congestion control at both rates.
fn results(directory: &Path, scenario: &str, throughputs: &[(&str, &[f64])]) {
    let of = |cc: &'static str| ["5Mbit/s", "10Mbit/s"].map(|rate| case(&[("cc", cc), ("rate", rate)]));
    let runs: Vec<RunSummary> = ["crest", "cubic", "reno"]
        .into_iter()
        .flat_map(|cc| {
            let mbps = throughputs.iter().find(|(name, _)| *name == cc).map_or(&[][..], |(_, mbps)| mbps);
            of(cc).into_iter().zip(mbps).map(move |(case, mbps)| run(case, 1, vec![flow("dl", cc, *mbps, 40.0)]))
        })
        .collect();
    write(directory, &runs);
    let ids = runs.iter().map(|run| run.run.clone()).collect();
    let scenario = scenario.to_owned();
    write_manifest(directory, &Manifest { scenario, backend: SIMULATOR.to_owned(), ..manifest(ids) });
    fs::write(directory.join("scenario.toml"), SCENARIO).unwrap();
}

const THROUGHPUTS: [(&str, &[f64]); 3] = [("crest", &[4.5, 8.0]), ("cubic", &[4.4, 9.0]), ("reno", &[4.4])];

#[test]
fn each_congestion_control_has_its_own_verdicts() {
    let scratch = tempfile::tempdir().unwrap();
    results(scratch.path(), "dossier-x", &THROUGHPUTS);
    let subjects = judge(&[scratch.path()]).unwrap();
    let verdicts = |cc: &str| {
        let subject = subjects.iter().find(|subject| subject.cc == cc).unwrap();
        subject.criteria.iter().map(|gate| (gate.gate.as_str(), verdict(gate))).collect::<Vec<_>>()
    };
    let (own, ratio) = ("throughput", "throughput, against CUBIC's");
    let of = |own_verdict: &str, verdict: &str| vec![(own, own_verdict.to_owned()), (ratio, verdict.to_owned())];
    assert_eq!(verdicts("crest"), of("pass", "fail in 1 of 2 cases"));
    assert_eq!(verdicts("cubic"), of("pass", "not applicable"), "a ratio to itself says nothing");
    assert_eq!(verdicts("reno"), of("pass so far, 1 of 2 runs", "pass so far, 1 of 2 runs"));
    assert_eq!(subjects[0].criteria[1].figure, "0.8889 at rate=10Mbit/s", "the case's other value is not repeated");

    results(scratch.path(), "dossier-x", &THROUGHPUTS[..2]);
    let subjects = judge(&[scratch.path()]).unwrap();
    assert_eq!(verdict(&subjects[2].criteria[0]), "not run");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>().join("|");
    let rows: Vec<String> = overview(&subjects).lines().map(cells).collect();
    assert_eq!(
        rows[2..],
        ["|5.1.4|throughput|pass|pass|not run|", "|10.1|throughput, against CUBIC's|**fail**|n/a|not run|"]
    );
}

#[test]
fn a_document_has_the_criteria_of_all_scenarios() {
    let scratch = tempfile::tempdir().unwrap();
    for name in ["dossier-x", "dossier-y"] {
        results(&scratch.path().join(name).join(SIMULATOR), name, &THROUGHPUTS);
    }
    let document = "a\n<!-- dossier: simulator -->\nold\n<!-- end of dossier -->\nb\n";
    let new = refreshed(document, scratch.path()).unwrap();
    let first = "Simulated, not measured on a kernel. Failed, of 4 criteria: crest 2, cubic 0, reno 0.";
    assert!(new.contains(first) && !new.contains("old"), "{new}");
    assert!(["\n## Limits\n", "\n## crest\n", "\n## reno\n"].iter().all(|heading| new.contains(heading)), "{new}");
    assert_eq!(refreshed(&new, scratch.path()).unwrap(), new, "a second time changes nothing");
    assert_eq!(refreshed(document, Path::new("/nowhere")).unwrap(), document);
}

#[test]
fn a_congestion_control_that_a_scenario_lacks_is_not_run_there() {
    let scratch = tempfile::tempdir().unwrap();
    let [x, y] = ["dossier-x", "dossier-y"].map(|name| scratch.path().join(name));
    results(&x, "dossier-x", &THROUGHPUTS);
    results(&y, "dossier-y", &THROUGHPUTS[..2]);
    let fewer = SCENARIO.replace(", \"reno\"", "").replace("5.1.4", "1.1").replace("10.1", "1.2");
    fs::write(y.join("scenario.toml"), fewer).unwrap();
    let overview = overview(&judge(&[x, y]).unwrap());
    let last = |row: &str| row.trim_end_matches('|').rsplit('|').next().unwrap().trim().to_owned();
    let of_reno: Vec<String> = overview.lines().skip(2).map(last).collect();
    assert_eq!(of_reno, ["not run", "not run", "pass so far", "pass so far"], "{overview}");
}
