//! `hotcc-bench scoreboard` and `repeat`, on small scenarios in the simulator.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const LINK: &str = r#"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
name = "path"
between = ["server", "client"]
both = { delay_ms = 10 }
forward = { rate = "4Mbit/s", queue = "$queue" }
[[flow]]
name = "one"
from = "server"
to = "client"
cc = "$cc"
"#;
const SWEEP: &str = "[sweep]\ncc = ['crest', 'cubic', 'reno']\nqueue = ['1BDP', '2BDP', '4BDP', '8BDP']\n";
const PEER: &str = "[[flow]]\nname = 'peer'\nfrom = 'server'\nto = 'client'\ncc = 'cubic'\n";
const PAGE: &str = "# Board\n\n<!-- figures: board simulated ranking -->\n<!-- end of figures -->\n\n\
    <!-- figures: board-peer simulated by:queue one:share peer:throughput_mbps -->\n<!-- end of figures -->\n\n\
    <!-- repeated: board board-peer -->\n<!-- end of repeated -->\n";
const SCENARIOS: [&str; 2] = ["board.toml", "board-peer.toml"];

/// Writes a scenario that is ranked and one that is not, and a page for both.
fn write_files(directory: &Path) {
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("board.toml", &format!("duration_s = 3\nbounds = true\n{SWEEP}{LINK}"));
    write("board-peer.toml", &format!("duration_s = 3\n{SWEEP}{LINK}{PEER}"));
    write("page.md", PAGE);
}

fn bench(directory: &Path, command: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    bench.arg(command).args(options).args(["--out", "out"]).args(SCENARIOS).current_dir(directory);
    let Output { status, stdout, stderr } = bench.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Returns the rows of the table below a marker of the page.
fn rows(page: &str, marker: &str) -> Vec<Vec<String>> {
    let (_, part) = page.split_once(marker).unwrap();
    let lines = part.split("<!-- end").next().unwrap().lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_board_ranks_what_has_bounds_and_pools_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let (code, said, errors) = bench(directory.path(), "scoreboard", &["--quick", "--page", "page.md"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("best trades"), "{said}");
    let page = fs::read_to_string(directory.path().join("page.md")).unwrap();
    let ranking = rows(&page, "simulated ranking");
    let labels: Vec<&str> = ranking.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(labels.len(), 5, "{page}");
    assert!(labels[3..].iter().all(|label| label.ends_with("oracle")), "{labels:?}");
    let pooled = rows(&page, "by:queue");
    let [queue, cc, share, peer_mbps] = &pooled[1][..] else { panic!("{page}") };
    assert_eq!((pooled.len(), queue.as_str(), cc.as_str()), (12, "1BDP", "cubic"));
    // one run in each of these cells, so none has an interval
    let [share, peer_mbps] = [share, peer_mbps].map(|text| text.parse::<f64>().unwrap());
    assert!((20.0..80.0).contains(&share), "{page}");
    assert!((peer_mbps / (4.0 * (1.0 - share / 100.0)) - 1.0).abs() < 0.15, "shares of 4 Mbit/s: {page}");
    assert!(fs::read_to_string(directory.path().join("page.svg")).unwrap().starts_with("<svg"));
    let read = |file: &str| fs::read_to_string(directory.path().join("out/board/simulator").join(file)).unwrap();
    assert_eq!(read("scoreboard.svg"), fs::read_to_string(directory.path().join("page.svg")).unwrap());
    assert_eq!((read("scoreboard.csv").lines().count(), read("scoreboard-cases.csv").lines().count()), (6, 1 + 4 * 5));
    let json: serde_json::Value = serde_json::from_str(&read("scoreboard.json")).unwrap();
    assert_eq!([&json["ranking"], &json["cases"]].map(|list| list.as_array().unwrap().len()), [5, 4 * 5]);
    let html = read("scoreboard.html");
    for place in 1..=4 {
        assert!(
            html.contains(&format!("<a href=\"#case-{place}\">")) && html.contains(&format!("id=\"case-{place}\""))
        );
    }
    assert_eq!(html.matches(": all congestion controls\"").count(), 4, "a chart for each case");
    let (code, said, errors) = bench(directory.path(), "scoreboard", &["--quick", "--only", "reno,cubic"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(said.contains("reno") && !said.contains("crest"), "{said}");
}

#[test]
fn the_kernel_runs_only_the_wanted_cases_of_what_is_not_ranked() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let options = ["--check", "--only", "crest,cubic", "--kernel-case", "queue=2BDP", "--kernel-case", "queue=8BDP"];
    let (code, said, errors) = bench(directory.path(), "scoreboard", &options);
    assert_eq!(code, Some(0), "{errors}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("board-peer.toml: valid")).collect();
    assert!(lines.len() == 2 && lines[0].contains(" 8 of 12 runs of the scenario: only cc=crest or cubic;"), "{said}");
    assert!(
        lines[1].contains(" 4 of 12 runs of the scenario: only cc=crest or cubic, only queue=2BDP or 8BDP;"),
        "{said}"
    );
}

#[test]
fn repeated_runs_are_compared_byte_by_byte() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    let (code, _, errors) = bench(directory.path(), "repeat", &["--sim"]);
    assert_eq!(code, Some(1));
    let expected =
        "hotcc-bench: there is no out/board: `hotcc-bench lab` with the same --out first makes the runs to repeat\n";
    assert_eq!(errors, expected, "nothing has run");
    assert_eq!(bench(directory.path(), "lab", &["--sim"]).0, Some(0));
    let repeat = || bench(directory.path(), "repeat", &["--sim", "--one-in", "3", "--page", "page.md"]);
    let (code, said, errors) = repeat();
    assert_eq!(code, Some(0), "{errors}");
    let page = fs::read_to_string(directory.path().join("page.md")).unwrap();
    for scenario in ["board", "board-peer"] {
        let line = said.lines().find(|line| line.starts_with(&format!("`{scenario}` on simulator: "))).unwrap();
        assert!(
            line.ends_with(" of 12 runs, drawn at random, were repeated; all of them agree to the byte."),
            "{line}"
        );
        assert!(page.contains(line), "{page}");
    }
    // one byte of the first results
    let repeated = directory.path().join("out/repeated/board/simulator");
    let drawn = fs::read_dir(&repeated).unwrap().flatten().find(|e| e.path().is_dir()).unwrap().file_name();
    let series = directory.path().join("out/board/simulator").join(&drawn).join("seed-1/links.csv");
    let mut bytes = fs::read(&series).unwrap();
    *bytes.last_mut().unwrap() = b' ';
    fs::write(&series, bytes).unwrap();
    let (code, said, _) = repeat();
    let differs = format!("1 of them **differ**: `{}/seed-1`", drawn.to_str().unwrap());
    assert!(code == Some(1) && said.contains(&differs), "{said}");
    assert!(fs::read_to_string(directory.path().join("page.md")).unwrap().contains(&differs));
    fs::remove_file(&series).unwrap();
    assert!(repeat().1.contains(&differs), "a missing file");
    // another setup
    let scenario = directory.path().join("board.toml");
    fs::write(&scenario, fs::read_to_string(&scenario).unwrap().replace("4Mbit/s", "5Mbit/s")).unwrap();
    let (code, _, errors) = repeat();
    assert!(code == Some(1) && errors.contains("not the same scenario's SHA-256"), "{errors}");
}

#[test]
fn what_another_backend_made_is_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    write_files(directory.path());
    for name in ["board", "board-peer"] {
        let of_kernel = directory.path().join("out").join(name).join("6.12.1");
        fs::create_dir_all(&of_kernel).unwrap();
        fs::write(of_kernel.join("manifest.json"), "{}").unwrap();
    }
    let (code, _, errors) = bench(directory.path(), "repeat", &["--sim"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("out/board has no results of the simulator"), "{errors}");
    assert!(!directory.path().join("out/repeated").exists(), "nothing ran");
}
