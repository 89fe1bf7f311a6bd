//! The dossier: the page has every criterion of the scenarios, and says what the simulator says.

use super::files;
use hotcc_lab::results::{Missed, Wanted};
use hotcc_lab::scenario::{Case, Source};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Without a PEP, it is CUBIC.
const NOT_APPLICABLE: &str = "mdcubic";
const PEERS: [&str; 4] = ["bbr", "bbr3", "cubic", "reno"];

fn scenarios() -> Vec<PathBuf> {
    let is_of_dossier = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().starts_with("dossier-");
    files().into_iter().filter(is_of_dossier).collect()
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dossier.md")).unwrap()
}

/// Returns the rows of the tables in a text, without padding.
fn rows(text: &str) -> BTreeSet<String> {
    let row = |line: &str| line.split('|').map(str::trim).collect::<Vec<_>>().join("|");
    text.lines().filter(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn each_criterion_has_a_section_a_reason_and_a_row_for_each_algorithm() {
    let ours = hotcc_bpf::ALGOS.iter().map(|algo| algo.name).filter(|name| *name != NOT_APPLICABLE);
    let all: BTreeSet<&str> = ours.chain(PEERS).collect();
    let page = page();
    assert!(page.contains(&format!("`{NOT_APPLICABLE}` is not applicable")));
    for file in scenarios() {
        let cases = Source::read(&file).unwrap().cases().unwrap();
        let swept: BTreeSet<&str> = cases.iter().map(|case: &Case| case.values["cc"].as_str()).collect();
        assert_eq!(swept, all, "{}", file.display());
        for expected in &cases[0].scenario.expected {
            let expected = expected.get_ref();
            let Wanted::Gate(gate) = &expected.wanted else { panic!("{}: not a gate", file.display()) };
            let section = expected.source.strip_prefix("RFC 9743, ").unwrap();
            let reason = expected.note.as_ref().unwrap();
            let is_plain = !expected.case.contains_key("cc") && expected.missed == Missed::Nowhere;
            assert!(is_plain, "{}: {}", file.display(), gate.name);
            let begin = format!("|{section}|{}|", gate.name);
            let has_limit =
                rows(&page).iter().any(|row| row.starts_with(&begin) && row.ends_with(&format!("|{reason}|")));
            assert!(has_limit, "{}: run `just dossier`", gate.name);
            let scenario = file.file_stem().unwrap().to_string_lossy();
            for cc in &all {
                let (_, of_cc) = page.split_once(&format!("\n## {cc}\n")).unwrap_or_else(|| panic!("{cc}"));
                let of_cc = rows(of_cc.split("\n## ").next().unwrap());
                let begin = format!("|{}|{scenario}|", gate.name);
                let row = of_cc.iter().find(|row| row.starts_with(&begin)).unwrap_or_else(|| panic!("{cc}: {begin}"));
                assert!(!row.contains("not run") && !row.contains("so far"), "{cc}: {row}");
            }
        }
    }
}

#[test]
fn the_page_says_what_the_simulator_says() {
    let scratch = tempfile::tempdir().unwrap();
    let marker = "<!-- dossier: simulator -->\n<!-- end of dossier -->\n";
    let document = scratch.path().join("dossier.md");
    fs::write(&document, marker).unwrap();
    let scenario = scenarios().into_iter().find(|file| file.ends_with("dossier-path.toml")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["dossier", "--sim", "--out"]).arg(scratch.path()).arg("--page").arg(&document).arg(scenario);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let simulated = fs::read_to_string(&document).unwrap();
    let of_page = page();
    for part in simulated.split("\n## ").skip(2) {
        let cc = part.lines().next().unwrap();
        let of_page = rows(of_page.split(&format!("\n## {cc}\n")).nth(1).unwrap().split("\n## ").next().unwrap());
        let missing: Vec<String> = rows(part).into_iter().filter(|row| row.contains("dossier-path")).collect();
        assert!(
            !missing.is_empty() && missing.iter().all(|row| of_page.contains(row)),
            "{cc}: run `just dossier`: {missing:?}"
        );
    }
}
