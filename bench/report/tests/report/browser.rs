//! The page in a real browser: it must load without a message on the console.

use crate::fixture;
use hotcc_testbed::browser::chromium;
use hotcc_testbed::kernel::skipped;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Loads a page in the browser. Returns the resulting DOM, and the lines that were printed on the console.
fn load(browser: &str, page: &Path) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    let console = said.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn the_console_stays_silent() {
    let Some(browser) = chromium() else {
        skipped("the_console_stays_silent", "no chromium");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // a page that fails, to prove that a failure is detected
    let control = dir.path().join("control.html");
    fs::write(&control, "<!DOCTYPE html><title>x</title><script>nothing.there()</script>").unwrap();
    assert_eq!(load(browser, &control).1.len(), 1);

    fixture::write_comparison(dir.path());
    let page = dir.path().join("report.html");
    hotcc_report::write(dir.path(), &page, 12).unwrap();
    let (dom, console) = load(browser, &page);
    assert_eq!(console, Vec::<String>::new());
    let html = fs::read_to_string(&page).unwrap();
    for element in ["<table", "<svg", "<polyline", "<section", "<figure", "<tr"] {
        assert_eq!(dom.matches(element).count(), html.matches(element).count(), "{element}: the parser repaired it");
    }
}
