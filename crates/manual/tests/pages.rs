//! Every command of every program has a manual page, and every program completes its commands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::command::{build, succeed};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PROGRAMS: [&str; 4] = ["hotcc", "sinr-feeder", "pep-agent", "hotcc-bench"];

/// Builds the programs beside this test, and returns their names and paths.
fn programs() -> [(&'static str, PathBuf); 4] {
    build(&PROGRAMS);
    let own = std::env::current_exe().unwrap(); // DIRECTORY/debug/deps/NAME
    PROGRAMS.map(|name| (name, own.ancestors().nth(2).unwrap().join(name)))
}

/// Returns the commands that `--help` lists.
fn commands(program: &PathBuf, path: &[String]) -> Vec<String> {
    let help = succeed(Command::new(program).args(path).arg("--help"));
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let list = list.lines().take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

/// Returns the names of the pages that a program must have: its own, and one for each command below `path`.
fn wanted(name: &str, program: &PathBuf, path: &[String]) -> BTreeSet<String> {
    let own = [&[name.to_owned()], path].concat().join("-") + ".1";
    let below = commands(program, path);
    let below = below.into_iter().flat_map(|command| wanted(name, program, &[path, &[command]].concat()));
    below.chain([own]).collect()
}

#[test]
fn every_command_has_a_page() {
    for (name, program) in programs() {
        let pages = tempfile::tempdir().unwrap();
        succeed(Command::new(&program).arg("man").arg(pages.path()));
        let written: BTreeSet<String> =
            fs::read_dir(pages.path()).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
        let wanted = wanted(name, &program, &[]);
        assert!(wanted.len() > 3, "{wanted:?}");
        assert_eq!(written, wanted);
        let page = fs::read_to_string(pages.path().join(format!("{name}.1"))).unwrap();
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH SUBCOMMANDS"] {
            assert!(page.contains(section), "{name}.1 has no {section}");
        }
        for command in wanted.iter().filter_map(|page| page.strip_suffix(".1")).filter(|page| *page != name) {
            let page = fs::read_to_string(pages.path().join(format!("{command}.1"))).unwrap();
            assert!(page.contains(".SH DESCRIPTION"), "{command}.1 describes nothing");
        }
    }
}

#[test]
fn a_page_has_the_usage_and_whole_examples() {
    let (_, hotcc) = &programs()[0];
    let pages = tempfile::tempdir().unwrap();
    succeed(Command::new(hotcc).arg("man").arg(pages.path()));
    let page = fs::read_to_string(pages.path().join("hotcc-run.1")).unwrap().replace(r"\-", "-").replace(r"\*(Aq", "'");
    let usage = "hotcc run [OPTIONS] --cc <NAME|PATH> -- <COMMAND>...";
    assert!(page.lines().any(|line| line == usage), "{page}");
    let (before, examples) = page.split_once("\n.nf\n").unwrap();
    assert!(before.ends_with("\nExamples:"), "{page}");
    let (examples, _) = examples.split_once("\n.fi").unwrap();
    let longest = "hotcc run --cc dtcp --profile paper --set alpha_permille=300 -- curl -T file https://example.org";
    assert!(examples.lines().any(|line| line.trim() == longest), "{page}");
}

#[test]
fn every_program_completes_its_commands() {
    for (name, program) in programs() {
        for shell in ["bash", "zsh", "fish"] {
            let script = succeed(Command::new(&program).args(["completions", shell]));
            for command in commands(&program, &[]) {
                assert!(script.contains(&command), "{name} {command} in {shell}");
            }
        }
    }
}
