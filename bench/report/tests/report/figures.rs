//! Tables in documents: of all results, and of some cases.

use crate::fixture::{case, flow, manifest, run, write, write_manifest};
use hotcc_lab::results::{Manifest, SIMULATOR};
use hotcc_report::markdown::refreshed;
use std::fs;

/// Documents keep their columns: the results from which their tables were made may no longer exist.
#[test]
fn a_document_has_fewer_columns_than_a_report() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("small/6.12");
    let flows = vec![flow("up", "dtcp", 12.5, 30.0), flow("down", "dtcp", 12.5, 30.0)];
    write(&directory, &[run(case(&[]), 1, flows)]);
    let headings = |text: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with("| case")).unwrap();
        line.trim_matches('|').split(" |").map(|heading| heading.trim().to_owned()).collect()
    };
    let before = ["throughput, Mbit/s", "utilisation, %", "mean RTT, ms", "p95 RTT, ms", "queue delay, ms", "loss, %"];
    let document = [&["case", "congestion control"], &before[..], &["retransmits", "Jain's index", "seeds"]].concat();
    for (mark, what) in [("small", "congestion control"), ("small flows", "flow")] {
        let text = format!("<!-- figures: {mark} -->\n<!-- end of figures -->\n");
        let shown = headings(&refreshed(&text, scratch.path()).unwrap());
        let expected: Vec<&str> =
            document.iter().map(|heading| if *heading == "congestion control" { what } else { heading }).collect();
        assert_eq!(shown, expected);
    }
    let report = hotcc_report::markdown::text(&hotcc_report::data::Data::read(&directory).unwrap());
    let added: Vec<String> =
        headings(&report).into_iter().filter(|heading| !document.contains(&heading.as_str())).collect();
    assert_eq!(added, ["queue delay over time, ms", "p95 queue delay, ms", "timeouts"]);
    let row = report.lines().nth(2).unwrap();
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells[6..10], ["10", "8", "15", "0.25"], "mean, over time, p95, loss: {row}");
    assert_eq!(cells[10..12], ["25", "2"], "retransmits, timeouts: {row}");
}

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

#[test]
fn simulated_results_are_shown_where_the_mark_asks_for_them_and_say_so() {
    let scratch = tempfile::tempdir().unwrap();
    let one = |mbps: f64| run(case(&[]), 1, vec![flow("dl", "dtcp", mbps, 30.0)]);
    write(&scratch.path().join("mmwave/6.12"), &[one(12.5)]);
    let simulator = scratch.path().join("mmwave/simulator");
    write(&simulator, &[one(20.75)]);
    let simulated = Manifest { backend: SIMULATOR.to_owned(), ..manifest(vec![one(20.75).run]) };
    write_manifest(&simulator, &simulated);
    let part = |mark: &str| format!("<!-- figures: {mark} -->\nLinux 6.12.1. Old.\n<!-- end of figures -->\n");
    let shown = |mark: &str| refreshed(&part(mark), scratch.path()).unwrap();
    let measured = shown("mmwave");
    assert!(measured.contains("12.5") && !measured.contains("20.75"), "{measured}");
    let simulated = shown("mmwave simulated");
    assert!(simulated.contains("20.75") && !simulated.contains("12.5") && !simulated.contains("Linux"), "{simulated}");
    let state = "\n\nSimulated, not measured on a kernel. The only run has finished, none is invalid.\n\n| case";
    assert!(simulated.contains(state), "{simulated}");
    assert_eq!(refreshed(&simulated, scratch.path()).unwrap(), simulated, "a second time changes nothing");
}

#[test]
fn named_figures_stand_side_by_side() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("small/6.12");
    let of = |loss: &str, cc: &str, mbps: f64| {
        run(case(&[("loss", loss), ("cc", cc)]), 1, vec![flow("up", cc, mbps, 30.0), flow("down", cc, 2.5, 30.0)])
    };
    write(&directory, &[of("0", "dtcp", 12.5), of("0", "cubic", 3.5), of("1", "dtcp", 20.5)]);
    let shown = |mark: &str| {
        let text = format!("<!-- figures: {mark} -->\n<!-- end of figures -->\n");
        refreshed(&text, scratch.path()).unwrap()
    };
    let by_cc = shown("small throughput_mbps queue_delay_p95_ms");
    let table = "is invalid. Each cell has: throughput, Mbit/s; p95 queue delay, ms.\n\n\
                 | case   |     dtcp |   cubic |\n| ------ | -------: | ------: |\n\
                 | loss=0 |  7.5, 15 | 3.0, 15 |\n| loss=1 | 11.5, 15 |       – |\n";
    assert!(by_cc.contains(table), "{by_cc}");
    let by_flow = shown("small flows throughput_mbps loss=0");
    let table = "| case             |   up | down |\n| ---------------- | ---: | ---: |\n\
                 | cc=dtcp, loss=0  | 12.5 |  2.5 |\n| cc=cubic, loss=0 |  3.5 |  2.5 |\n";
    assert!(by_flow.contains(table), "{by_flow}");
}

#[test]
fn cases_can_be_pooled_but_for_one_swept_key() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("small/6.12");
    let of = |queue: &str, link: &str, cc: &str, mbps: f64| {
        let case = case(&[("queue", queue), ("link", link), ("cc", cc)]);
        run(
            case,
            1,
            vec![flow("one", cc, mbps, 30.0), flow("peer-1", "cubic", 2.0, 40.0), flow("peer-2", "cubic", 4.0, 40.0)],
        )
    };
    let mut invalid = of("1BDP", "c", "dtcp", 1.0);
    invalid.invalid.push("busy".to_owned());
    let runs = [
        of("1BDP", "a", "dtcp", 6.0),
        of("1BDP", "b", "dtcp", 2.0),
        invalid,
        of("2BDP", "a", "dtcp", 18.0),
        of("1BDP", "a", "cubic", 6.0),
    ];
    write(&directory, &runs);
    let shown = |mark: &str| {
        let text = format!("<!-- figures: {mark} -->\n<!-- end of figures -->\n");
        refreshed(&text, scratch.path())
    };
    let pooled = shown("small by:queue one:share peer:throughput_mbps queue_delay_p95_ms").unwrap();
    let rows: Vec<Vec<&str>> = pooled
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let headings = ["queue", "congestion control", "one: share, %", "peer: throughput, Mbit/s", "p95 queue delay, ms"];
    assert_eq!(rows[0], headings);
    assert_eq!((rows[2][0], rows[2][1], rows[2][3]), ("1BDP", "dtcp", "3 ± 0"), "{pooled}");
    // 6 of 12 and 2 of 8 Mbit/s: 37.5 %, with an interval of 12.706 * 12.5
    assert!(rows[2][2].starts_with("37.5") || rows[2][2].starts_with("38 ± 15"), "{pooled}");
    assert_eq!(rows[3][..2], ["1BDP", "cubic"]);
    assert_eq!(rows[4][..3], ["2BDP", "dtcp", "75"], "{pooled}");
    let error = shown("small one:share").unwrap_err().to_string();
    assert_eq!(error, "`<!-- figures: small one:share -->`: a figure of a flow needs `by:KEY`");
}

#[test]
fn a_part_about_some_cases_has_the_papers_ratios_to_others() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("small/6.12");
    let of = |cc: &str, mbps: f64| run(case(&[("cc", cc)]), 1, vec![flow("dl", cc, mbps, 30.0)]);
    write(&directory, &[of("dtcp", 12.5), of("cubic", 3.25)]);
    let expected = "[[expected]]\ncase = { cc = 'dtcp' }\nover = { cc = 'cubic' }\nmetric = 'throughput_mbps'\n\
                    value = 2\nsource = 'Table 1'\n";
    fs::write(directory.join("scenario.toml"), expected).unwrap();
    let document = "<!-- figures: small cc=dtcp -->\n<!-- end of figures -->\n";
    let new = refreshed(document, scratch.path()).unwrap();
    assert!(new.contains("3.846") && !new.contains("no valid run has it"), "{new}");
}

#[test]
fn pooling_by_a_key_that_is_not_swept_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let of = |queue: &str, mbps: f64| {
        run(case(&[("queue", queue), ("cc", "dtcp")]), 1, vec![flow("one", "dtcp", mbps, 30.0)])
    };
    write(&scratch.path().join("small/6.12"), &[of("1BDP", 6.0), of("2BDP", 18.0)]);
    let error_of = |mark: &str| {
        let text = format!("<!-- figures: {mark} -->\n<!-- end of figures -->\n");
        refreshed(&text, scratch.path()).unwrap_err().to_string()
    };
    assert!(error_of("small by:queu jain").contains("does not sweep `queu`"));
    assert!(error_of("small by:queue").contains("needs names of figures"));
}
