//! The manual and the tree agree: links resolve, paths exist, every folder is on the map.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose subfolders are on CONTRIBUTING's map.
const MAPPED: [&str; 5] = ["", "bpf/", "bench/", "crates/", "docs/"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Pages of the top level.
const TOP: [&str; 5] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE.md"];

/// Returns the pages of the top level and every page below docs/.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::from(TOP.map(|page| root().join(page)));
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Returns the lines outside fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns the targets of `[text](target)`.
fn links(page: &str) -> Vec<&str> {
    let targets = prose(page).flat_map(|line| line.split("](").skip(1));
    targets.filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

/// Returns the anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in prose(page).filter(|line| line.starts_with('#')) {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let base: String = text.chars().filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect();
        let numbered = (1..).map(|n| format!("{base}-{n}"));
        let free = std::iter::once(base.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Returns the text between a heading and the next one of the same level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// Returns the words in backticks in one column of a section's table.
fn column(section: &str, column: usize) -> Vec<&str> {
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(column + 1));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_link_of_the_manual_resolves() {
    let mut broken = Vec::new();
    for path in pages() {
        let page = read(&path);
        for link in links(&page).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if !target.exists() || !anchor.is_empty() && !anchors(&read(&target)).contains(anchor) {
                broken.push(format!("{}: {link}", path.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = read(&docs.join("README.md"));
    let listed: BTreeSet<PathBuf> =
        links(&index).into_iter().filter_map(|l| docs.join(l).canonicalize().ok()).collect();
    let missing: Vec<_> = pages()
        .into_iter()
        .filter(|page| page.starts_with(&docs) && *page != docs.join("README.md"))
        .filter(|page| !listed.contains(&page.canonicalize().unwrap()))
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

#[test]
fn every_path_of_the_architecture_exists() {
    let page = read(&root().join("docs/ARCHITECTURE.md"));
    let table = column(section(&page, "Where is"), 1);
    assert!(table.len() > 10, "{table:?}");
    let steps = section(&page, "One reading, from the modem to `snd_cwnd`").split('`').skip(1).step_by(2);
    let paths = table.into_iter().chain(steps.filter(|word| word.contains('/')));
    let missing: Vec<_> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "named in docs/ARCHITECTURE.md, not in the tree: {missing:?}");
}

#[test]
fn the_map_has_every_folder_and_no_other() {
    let page = read(&root().join("CONTRIBUTING.md"));
    let named: BTreeSet<String> = column(section(&page, "Where things are"), 0)
        .iter()
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect();
    let missing: Vec<_> = named.iter().filter(|path| !root().join(path).is_dir()).collect();
    assert!(missing.is_empty(), "on the map of CONTRIBUTING.md, not in the tree: {missing:?}");
    let unnamed: Vec<_> = folders().into_iter().filter(|folder| !named.contains(folder)).collect();
    assert!(unnamed.is_empty(), "in the tree, not on the map of CONTRIBUTING.md: {unnamed:?}");
}

/// Returns the text of every Rust file below a folder, except build results.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !["target", ".git"].iter().any(|skipped| path.ends_with(skipped)) {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(read(&path));
        }
    }
    texts
}

/// Returns the names of the functions that a source marks as tests.
fn tests(source: &str) -> impl Iterator<Item = &str> {
    let marked = source.split("#[test]\n").skip(1);
    marked.filter_map(|rest| rest.lines().find_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next()))
}

#[test]
fn every_attack_of_the_threat_model_names_tests_that_exist() {
    let page = read(&root().join("SECURITY.md"));
    let (_, table) = section(&page, "Threat model").split_once("| attacker | at worst | test |\n").unwrap();
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 10, "{rows:?}");
    let sources = sources(root());
    let known: BTreeSet<&str> = sources.iter().flat_map(|source| tests(source)).collect();
    let is_test = |name: &str| match name.ends_with(".rs") {
        true => fs::read_to_string(root().join(name)).is_ok_and(|source| tests(&source).next().is_some()),
        false => known.contains(name),
    };
    for row in rows {
        let named: Vec<&str> = row.split('|').nth(3).unwrap().split('`').skip(1).step_by(2).collect();
        let missing: Vec<&&str> = named.iter().filter(|name| !is_test(name)).collect();
        assert!(!named.is_empty() && missing.is_empty(), "no such test: {missing:?} in {row}");
    }
}

/// Returns the folders of the top level and directly below [`MAPPED`], without those that git ignores.
fn folders() -> BTreeSet<String> {
    let ignored = read(&root().join(".gitignore"));
    let ignored: Vec<&str> = ignored.lines().map(|line| line.trim_matches('/')).chain([".git"]).collect();
    let mut folders = BTreeSet::new();
    for parent in MAPPED {
        for entry in fs::read_dir(root().join(parent)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() && !ignored.contains(&name.as_str()) {
                folders.insert(format!("{parent}{name}"));
            }
        }
    }
    folders
}
