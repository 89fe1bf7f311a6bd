//! The gates of crest: the page lists every gate, and those that can be run quickly have the marked verdict in the
//! simulator.

use super::files;
use hotcc_lab::results::{Expected, Missed, Wanted};
use hotcc_lab::scenario::Source;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Cases on fixed links, by scenario. Each gate that has a figure in these is held in these cases, even if other cases
/// miss it. Of figures that are means of three seeds, those near a limit are left out: one seed may be beyond it.
const FIXED: [(&str, &[&str]); 7] = [
    (
        "crest-rates",
        &[
            "path=0.5Mbit-40ms",
            "path=0.5Mbit-100ms",
            "path=1Mbit-20ms",
            "path=1Mbit-100ms",
            "path=2Mbit-20ms",
            "path=2Mbit-100ms",
            "path=4Mbit-20ms",
            "path=4Mbit-100ms",
            "path=8Mbit-20ms",
            "path=8Mbit-100ms",
            "path=20Mbit-20ms",
            "path=20Mbit-100ms",
            "path=4Mbit-20Mbit-4Mbit-40ms",
            "path=20Mbit-4Mbit-20Mbit-40ms",
            "path=50Mbit-10Mbit-50Mbit-40ms",
        ],
    ),
    ("crest-loss", &["cc=crest", "loss=0.001", "loss=0.01", "loss=0.02"]),
    ("crest-policer", &["cc=crest", "policer=20Mbit", "policer=50Mbit"]),
    ("crest-jitter", &["cc=crest", "path=2ms", "path=5ms", "path=units-of-8"]),
    ("crest-crowd", &["cc=crest", "cc=bbr", "link=10Mbit", "flows=1", "flows=4", "flows=8"]),
    // in other cases, the share beside CUBIC is beyond its limits
    ("crest-beside", &["link=10Mbit", "peer=cubic", "first=one", "queue=2BDP", "queue=4BDP"]),
    ("crest-places", &["place=satellite", "place=uplink", "place=fq-codel"]),
];

/// Cells of a row of a table of gates.
struct Row {
    gate: String,
    limit: String,
    figure: String,
    verdict: String,
    scenario: String,
    line: String,
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/algorithms/figures/crest.md")
}

fn rows(table: &str) -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [gate, limit, figure, verdict, scenario] = cells[..] else { return None };
        let [gate, limit, figure, verdict, scenario] = [gate, limit, figure, verdict, scenario].map(str::to_owned);
        Some(Row { gate, limit, figure, verdict, scenario, line: cells.join(" | ") })
    };
    table.lines().filter(|line| line.starts_with('|')).skip(2).filter_map(row).collect()
}

/// Returns the rows of the page's table for a backend.
fn rows_of_page(backend: &str) -> Vec<Row> {
    let page = fs::read_to_string(page()).unwrap();
    let (_, part) = page.split_once(&format!("<!-- gates: crest {backend} -->")).unwrap();
    rows(part.split_once("<!-- end of gates -->").unwrap().0)
}

/// Returns the name of each gate of a scenario, and where the scenario says that it is missed.
fn gates(scenario: &Path) -> Vec<(String, Missed)> {
    let cases = Source::read(scenario).unwrap().cases().unwrap();
    let gate = |expected: &Expected| match &expected.wanted {
        Wanted::Gate(gate) => Some((gate.name.clone(), expected.missed)),
        _ => None,
    };
    cases[0].scenario.expected.iter().filter_map(|expected| gate(expected.get_ref())).collect()
}

/// Runs gates in the simulator, and returns their rows.
fn simulate(scenarios: &[&str], options: &[&str]) -> (Output, Vec<Row>) {
    let scratch = tempfile::tempdir().unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let files = scenarios.iter().map(|name| directory.join(format!("{name}.toml")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["gates", "--sim", "--out"]).arg(scratch.path()).args(options).args(files);
    let output = command.output().unwrap();
    let rows = rows(&String::from_utf8_lossy(&output.stdout));
    (output, rows)
}

/// Runs gates in the simulator, and asserts that each is held unless its scenario marks it as missed.
fn assert_as_marked(scenarios: &[&str], options: &[&str]) -> Vec<Row> {
    let (output, rows) = simulate(scenarios, options);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !rows.is_empty(), "{errors}");
    rows
}

#[test]
fn the_page_has_every_gate_and_the_scenarios_say_which_are_missed() {
    let by_scenario = |backend| {
        let mut by_scenario: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for row in rows_of_page(backend) {
            by_scenario.entry(row.scenario.clone()).or_default().push(row);
        }
        by_scenario
    };
    let (mut simulated, mut measured) = (by_scenario("simulator"), by_scenario("6.12"));
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let gates = gates(&file);
        if !name.starts_with("crest-") || gates.is_empty() {
            continue;
        }
        for (rows, backend) in [(simulated.remove(&name), "simulator"), (measured.remove(&name), "vm")] {
            let Some(rows) = rows else {
                // a kernel takes hours, so its table may lack a scenario
                assert_eq!(backend, "vm", "{name}: run `just gates crest --sim`");
                continue;
            };
            assert_eq!(
                rows.iter().map(|row| &row.gate).collect::<Vec<_>>(),
                gates.iter().map(|(gate, _)| gate).collect::<Vec<_>>(),
                "{name}: run `just gates crest`, also with `--sim`"
            );
            for (row, (_, missed)) in rows.iter().zip(&gates) {
                let marked = missed.with(backend);
                assert_eq!(row.verdict.starts_with("missed"), marked, "{name}, {backend}: {}: `missed`", row.line);
            }
        }
    }
    let unknown: Vec<_> = simulated.keys().chain(measured.keys()).collect();
    assert!(unknown.is_empty(), "no scenario has these: {unknown:?}");
}

#[test]
fn the_page_says_what_the_simulator_says() {
    let scenarios = ["crest-short", "crest-handover"];
    let lines = |rows: &[Row]| rows.iter().map(|row| row.line.clone()).collect::<Vec<_>>();
    let of_page: Vec<Row> =
        rows_of_page("simulator").into_iter().filter(|row| scenarios.contains(&row.scenario.as_str())).collect();
    let (_, simulated) = simulate(&scenarios, &[]);
    let sorted = |rows: &[Row]| {
        let mut lines = lines(rows);
        lines.sort();
        lines
    };
    assert_eq!(sorted(&simulated), sorted(&of_page), "run `just gates crest --sim`");
}

#[test]
fn documents_have_the_medians_on_linux_6_12() {
    let rows = rows_of_page("6.12");
    let median = |gate: &str| -> f64 {
        let is_median = |row: &&Row| row.gate == gate && row.limit.starts_with("median ");
        rows.iter().filter(|row| row.scenario == "crest-alone").find(is_median).unwrap().figure.parse().unwrap()
    };
    let [throughput, p95] = ["throughput against BBR", "p95 queueing delay against BBR"].map(median);
    let wanted = format!("{throughput:.2} times BBR's throughput with {p95:.2} times ");
    for document in ["README.md", "docs/algorithms/crest.md", "docs/guide/install.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document)).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(&wanted), "{document} does not have `{wanted}`");
    }
}

#[test]
fn gates_on_generated_links_are_as_marked() {
    assert_as_marked(&["crest-generated"], &["--one-seed"]);
}

#[test]
fn gates_on_fixed_links_are_as_marked() {
    for (scenario, cases) in FIXED {
        let cases = cases.iter().flat_map(|case| ["--case", case]);
        let options: Vec<&str> = ["--one-seed"].into_iter().chain(cases).collect();
        let rows = assert_as_marked(&[scenario], &options);
        let of_verdict = |verdict: &'static str| rows.iter().filter(move |row| row.verdict.starts_with(verdict));
        let missed: Vec<&String> = of_verdict("missed").map(|row| &row.line).collect();
        assert!(missed.is_empty() && of_verdict("held").next().is_some(), "{scenario}: {missed:#?}");
    }
}

#[test]
fn gates_on_recorded_links_are_as_marked() {
    if std::env::var_os("HOTCC_TRACES").is_none() {
        println!("SKIPPED gates_on_recorded_links_are_as_marked: HOTCC_TRACES is not set");
        return;
    }
    // the middle window of each recording: the medians of few of them are not those of all
    let recordings = ["att-2016", "att", "tmobile", "umts", "verizon", "times-square"];
    let cork = ["cork-1", "cork-2", "cork-3", "cork-4", "cork-5", "cork-static"];
    let windows: Vec<String> = recordings.iter().chain(&cork).map(|name| format!("window={name}-2")).collect();
    let options: Vec<&str> = windows.iter().flat_map(|window| ["--case", window]).collect();
    assert_as_marked(&["crest-alone"], &options);
}
