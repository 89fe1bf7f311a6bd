//! The page: its figures, its markup, and what it reports about runs that are invalid, unfinished or incomplete.

use crate::fixture::{self, case, flow, manifest, run};
use crate::markup;
use hotcc_lab::results::{FLOW_COLUMNS, FlowSummary, LINK_COLUMNS, RunId};
use hotcc_lab_proto::run_record::ReceiverEnd;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Writes the page of a directory, checks what must hold for every page, and returns it.
/// Returns how often each colour is in the legend of a chart.
fn legend_colours(html: &str, chart: &str) -> BTreeMap<String, usize> {
    let (_, from) = html.split_once(&format!("aria-label=\"{chart}\"")).unwrap();
    let legend = from.split("<ul class=\"legend\">").nth(1).unwrap().split("</ul>").next().unwrap();
    let mut found = BTreeMap::new();
    legend.split("stroke=\"").skip(1).for_each(|rest| *found.entry(rest[..7].to_owned()).or_default() += 1);
    found
}

fn page(directory: &Path) -> String {
    let out = directory.join("report.html");
    hotcc_report::write(directory, &out, 12).unwrap();
    let html = fs::read_to_string(&out).unwrap();
    markup::check(&html);
    for what in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!html.contains(what), "{what}");
    }
    assert!(html.contains("<html lang=\"en\">") && html.contains("<title>") && html.contains("<h1>"));
    assert_eq!(html.matches("<table").count(), html.matches("<caption").count());
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), html.matches("<figure").count());
    html
}

/// Returns the cells of the first row in a table's body with that heading.
fn row<'a>(html: &'a str, heading: &str) -> Vec<&'a str> {
    row_with(html, &format!("<th scope=\"row\">{heading}</th>"))
}

/// Returns the cells of the first row that contains `markup`.
fn row_with<'a>(html: &'a str, markup: &str) -> Vec<&'a str> {
    let row = html.split("<tr>").find(|row| row.contains(markup)).unwrap();
    let cells = row.split("</t").filter_map(|cell| cell.rsplit_once('>').map(|(_, text)| text));
    cells.take(row.matches("</td>").count() + 1).collect()
}

#[test]
fn figures_are_those_computed_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    // mean 10, deviation 1: ± 4.303 / sqrt 3 = 2.484
    let runs: Vec<_> = [(1, 9.0), (2, 10.0), (3, 11.0)]
        .map(|(seed, mbps)| run(case(&[("cc", "dtcp")]), seed, vec![flow("bulk", "dtcp", mbps, 40.0)]))
        .to_vec();
    fixture::write(dir.path(), &runs);
    let html = page(dir.path());
    let figures = ["all", "dtcp", "10.0 ± 2.5", "20.0 ± 5.0", "40 ± 0", "60 ± 0", "20 ± 0"];
    assert_eq!(row(&html, "dtcp")[..7], figures);
    // queue delay over time and its percentile, loss, retransmits, timeouts, Jain's index, seeds
    assert_eq!(row(&html, "dtcp")[7..], ["18 ± 0", "30 ± 0", "0.25 ± 0", "25 ± 0", "2 ± 0", "0.98 ± 0", "3"]);
    assert!(html.contains("All 3 runs have finished, none is invalid."));
}

#[test]
fn flows_of_a_congestion_control_are_averaged_and_others_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let flows = vec![
        flow("a-1", "dtcp", 10.0, 30.0),
        flow("a-2", "dtcp", 14.0, 50.0),
        flow("b", "cubic", 20.0, 60.0),
        flow("noise", "udp", 1.0, 60.0),
    ];
    fixture::write(dir.path(), &[run(case(&[]), 7, flows)]);
    let html = page(dir.path());
    assert_eq!(row(&html, "dtcp")[..5], ["all", "dtcp", "12", "24", "40"]);
    assert_eq!(row(&html, "cubic")[..5], ["all", "cubic", "20", "40", "60"]);
    assert_eq!(row(&html, "a-2 (dtcp)")[..5], ["all", "a-2 (dtcp)", "14", "28", "50"]);
    assert!(!html.contains("<th scope=\"row\">udp</th>"));
    assert_eq!(row(&html, "noise (udp)")[2], "1");
}

#[test]
fn receivers_and_their_programs_have_tables() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = ReceiverEnd {
        data_segments: 2000,
        out_of_order_segments: 7,
        bytes: 2_896_000,
        window_limited_us: Some(1500),
        ..ReceiverEnd::default()
    };
    let counted = FlowSummary { receiver: Some(receiver), ..flow("main", "dtcp", 10.0, 30.0) };
    let mut one = run(case(&[]), 1, vec![counted, flow("noise", "udp", 1.0, 60.0)]);
    fixture::write(dir.path(), std::slice::from_ref(&one));
    let html = page(dir.path());
    let (_, receivers) = html.split_once("<summary>Receivers</summary>").unwrap();
    // the segments without data, the window and the marks were not counted
    let cells = ["all", "main (dtcp)", "–", "2000", "7", "2.896", "–", "1.5", "–", "1"];
    assert_eq!(row(receivers, "main (dtcp)"), cells);
    assert!(!receivers.contains("noise (udp)") && !html.contains("Receiver programs"));

    one.receiver_programs = [("hints_made", 12), ("hints_sent", 36), ("clamps_set", 0)]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    fixture::write(dir.path(), &[one]);
    let html = page(dir.path());
    let (_, programs) = html.split_once("<summary>Receiver programs</summary>").unwrap();
    assert_eq!(row(programs, "all hosts"), ["all", "all hosts", "12", "36", "1"]);
}

#[test]
fn the_report_compares_our_figures_with_the_papers() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = [(1, 9.0), (2, 10.0), (3, 11.0)]
        .map(|(seed, mbps)| {
            run(case(&[("cc", "dtcp"), ("loss", "0.010")]), seed, vec![flow("bulk", "dtcp", mbps, 40.0)])
        })
        .to_vec();
    fixture::write(dir.path(), &runs);
    let expected = "[[expected]]\ncase = { loss = 0.01 }\nmetric = 'throughput_mbps'\nvalue = 8\nsource = 'Doe 2017, Table 4'\n\
                    note = 'indoors'\n[[expected]]\ncase = { cc = 'bbr' }\nmetric = 'jain'\nvalue = 1\nsource = 'x'\n\
                    [[expected]]\nmetric = 'speed'\nvalue = 1\nsource = 'y'\n[[expected]]\nmetric = 'jain'\n";
    fs::write(dir.path().join("scenario.toml"), format!("anything = 1\n{expected}")).unwrap();
    let html = page(dir.path());
    assert_eq!(
        row(&html, "mean throughput of the flows, Mbit/s"),
        [
            "loss=0.01",
            "run",
            "mean throughput of the flows, Mbit/s",
            "10.0 ± 2.5",
            "8",
            "1.25",
            "3",
            "Doe 2017, Table 4",
            "indoors"
        ]
    );
    assert_eq!(row(&html, "Jain's fairness index")[8], "no run matches this case");
    assert_eq!(row(&html, "speed")[8], "unknown metric `speed`");
    assert!(html.contains("[[expected]] number 4 is ignored: missing field"));
}

#[test]
fn the_first_line_says_what_holds_and_who_is_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (loss, dtcp, reno) in [("0", 8.0, 4.0), ("0.1", 3.0, 2.0)] {
        for (cc, mbps) in [("dtcp", dtcp), ("reno", reno)] {
            runs.push(run(case(&[("cc", cc), ("loss", loss)]), 1, vec![flow("bulk", cc, mbps, 10.0 * mbps)]));
        }
    }
    fixture::write(dir.path(), &runs);
    let block = |least: f64| {
        format!(
            "[[expected]]\ncase = {{ cc = 'dtcp' }}\nmetric = 'throughput_mbps'\nat_least = {least}\nsource = 'S'\n"
        )
    };
    fs::write(dir.path().join("scenario.toml"), block(3.0) + &block(3.5)).unwrap();
    let html = page(dir.path());
    let verdict = "All 4 runs have finished, none is invalid. 1 of 2 limits hold. Most throughput: dtcp in 2 of 2 cases; \
                   shortest p95 queue delay: reno in 2 of 2 cases.";
    assert!(html.contains(&format!("<p class=\"verdict\">{verdict}</p>")), "{html}");
}

#[test]
fn the_papers_orderings_are_held_against_the_worst_case() {
    let dir = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    // the ratio to reno is 2 at a loss of 0.01, and 1 and 2 at 0.1; bbr's last run is invalid and is in no ratio
    for (loss, seed, dtcp, reno) in [("0.01", 1, 8.0, 4.0), ("0.1", 1, 3.0, 3.0), ("0.1", 2, 4.0, 2.0)] {
        for (cc, mbps) in [("dtcp", dtcp), ("reno", reno), ("bbr", 0.5)] {
            let flows = vec![flow("bulk", cc, mbps, 40.0)];
            runs.push(run(case(&[("cc", cc), ("loss", loss)]), seed, flows));
        }
    }
    runs.last_mut().unwrap().invalid.push("the CPU was busy all the time".to_owned());
    fixture::write(dir.path(), &runs);
    let block = |over: &str, wanted: &str, source: u32| {
        format!(
            "[[expected]]\ncase = {{ cc = 'dtcp' }}\n{over}metric = 'throughput_mbps'\n{wanted}\nsource = 'S{source}'\n"
        )
    };
    let expected = [
        block("over = { cc = 'reno' }\n", "at_least = 1.5", 1),
        block("over = { cc = 'reno' }\n", "at_least = 1.51", 2),
        block("", "at_least = 3.5", 3),
        block("over = { cc = 'bbr' }\n", "value = 8", 4),
        block("over = { cc = 'cubic' }\n", "at_least = 1", 5),
        "[[expected]]\ncase = { cc = ['reno', 'cubic'], loss = [0.010, 0.5] }\nmetric = 'throughput_mbps'\n\
         at_least = 4\nsource = 'S6'\n"
            .to_owned(),
        "[[expected]]\ncase = { cc = 'reno' }\nlink = 'radio'\nmetric = 'utilisation'\nvalue = 0.45\nsource = 'S7'\n"
            .to_owned(),
    ];
    fs::write(dir.path().join("scenario.toml"), expected.concat()).unwrap();
    let html = page(dir.path());
    let rows: Vec<Vec<&str>> = (1..=5).map(|n| row_with(&html, &format!(">S{n}</td>"))).collect();
    let over_reno = "mean throughput of the flows, Mbit/s, over that of cc=reno";
    assert_eq!(rows[0][2..7], [over_reno, "1.5 ± 6.4", "at least 1.5", "holds", "2"]);
    assert_eq!(rows[1][2..7], [over_reno, "1.5 ± 6.4", "at least 1.51", "does not hold", "2"]);
    assert_eq!(rows[2][2..7], ["mean throughput of the flows, Mbit/s", "3.5 ± 6.4", "at least 3.5", "holds", "2"]);
    // seed 1: the mean of 8/0.5 and 3/0.5; seed 2's bbr is invalid
    assert_eq!(rows[3][2..7], ["mean throughput of the flows, Mbit/s, over that of cc=bbr", "11", "8", "1.38", "1"]);
    assert_eq!(rows[4][3..7], ["–", "at least 1", "–", "0"]);
    let listed = [
        "cc=reno or cubic, loss=0.01 or 0.5",
        "run",
        "mean throughput of the flows, Mbit/s",
        "4",
        "at least 4",
        "holds",
        "1",
    ];
    assert_eq!(row_with(&html, ">S6</td>")[..7], listed);
    let of_link = ["link radio", "share of the capacity that existed, 0..1", "0.9 ± 0", "0.45", "2.00", "2"]; // the same 0.9 in both seeds
    assert_eq!(row_with(&html, ">S7</td>")[1..7], of_link);
    let remarks = rows.iter().map(|row| row[8]).collect::<Vec<_>>();
    assert_eq!(
        remarks,
        [
            "the least of 2 cases",
            "the least of 2 cases",
            "the least of 2 cases",
            "mean over 2 cases",
            "no valid run has it"
        ]
    );
}

#[test]
fn invalid_and_unfinished_runs_are_named_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = (1..=3).map(|seed| run(case(&[]), seed, vec![flow("bulk", "dtcp", 10.0, 40.0)])).collect();
    let mut bad = runs[2].clone();
    bad.invalid = vec!["the CPU was busy all the time".to_owned(), "clock ran < backwards".to_owned()];
    bad.flows[0].throughput_bps = 9e9;
    fixture::write(dir.path(), &[runs[0].clone(), runs[1].clone(), bad]);
    fs::remove_file(dir.path().join("all/seed-2/summary.json")).unwrap();
    let html = page(dir.path());
    assert!(html.contains("2 of 3 runs have finished, 1 is invalid and excluded from every figure."));
    assert!(html.contains("<li>all, seed 3: the CPU was busy all the time; clock ran &lt; backwards</li>"));
    assert!(html.contains("<li>all, seed 2</li>"));
    assert_eq!(row(&html, "dtcp")[2..4], ["10", "20"]);
    assert_eq!(row(&html, "dtcp").last(), Some(&"1"));
}

#[test]
fn nothing_finished_is_a_page_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write_manifest(dir.path(), &manifest(vec![RunId { case: case(&[]), seed: 1 }]));
    let html = page(dir.path());
    assert!(html.contains("The only run has not finished."));
    assert!(html.contains("No run has finished, so there are no figures."));
    assert!(html.contains("cannot read scenario.toml"));
    let empty = tempfile::tempdir().unwrap();
    fixture::write_manifest(empty.path(), &manifest(Vec::new()));
    assert!(page(empty.path()).contains("The manifest lists no runs."));
}

#[test]
fn broken_series_do_not_keep_the_rest_from_being_shown() {
    let dir = tempfile::tempdir().unwrap();
    let one = run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)]);
    fixture::write(dir.path(), std::slice::from_ref(&one));
    assert!(page(dir.path()).contains("flows.csv is incomplete: "));
    fixture::write_series(dir.path(), &one, 0.1);
    let path = dir.path().join("all/seed-1/flows.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    let html = page(dir.path());
    assert!(html.contains("flows.csv is incomplete: line "), "the reader is told");
    assert!(html.contains("aria-label=\"all, seed 1\""), "half of it is drawn");
}

#[test]
fn a_rate_above_the_capacity_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let one = run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)]);
    fixture::write(dir.path(), std::slice::from_ref(&one));
    let series = |mbps: u32| {
        let rows: String = (1..=300)
            .map(|k| format!("{:.1},bulk,10,,40000,40000,20000,240,10,{mbps}000000,0,,\n", f64::from(k) / 10.0))
            .collect();
        fs::write(dir.path().join("all/seed-1/flows.csv"), FLOW_COLUMNS.join(",") + "\n" + &rows).unwrap();
        let rows: String = (1..=300)
            .map(|k| format!("{:.1},radio:gnb>ue,20000000,,9000,250000,0,0,0,0\n", f64::from(k) / 10.0))
            .collect();
        fs::write(dir.path().join("all/seed-1/links.csv"), LINK_COLUMNS.join(",") + "\n" + &rows).unwrap();
        page(dir.path())
    };
    let explained = |html: &str| html.contains("A rate is above the capacity where");
    assert!(!explained(&series(19)) && explained(&series(25)));
}

#[test]
fn congestion_controls_that_are_compared_share_axes_and_a_chart() {
    let dir = tempfile::tempdir().unwrap();
    let of = |cc: &str, mbps| run(case(&[("cc", cc)]), 1, vec![flow("bulk", cc, mbps, 40.0)]);
    let runs = [of("dtcp", 10.0), of("reno", 2.0)];
    fixture::write(dir.path(), &runs);
    runs.iter().for_each(|one| fixture::write_series(dir.path(), one, 0.1));
    let html = page(dir.path());
    assert!(html.contains("aria-label=\"all: all congestion controls\""));
    // returns the numeric labels of a chart's axes
    let axis = |chart: &str| {
        let svg = html.split(&format!("aria-label=\"{chart}\"")).nth(1).unwrap().split("</svg>").next().unwrap();
        let labels: Vec<&str> =
            svg.split("</text>").filter_map(|text| text.rsplit_once('>')).map(|t| t.1.trim()).collect();
        labels.into_iter().filter(|label| label.parse::<f64>().is_ok()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(axis("cc=dtcp, seed 1"), axis("cc=reno, seed 1"));
    assert_eq!(axis("cc=dtcp, seed 1"), axis("all: all congestion controls"));
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</title><script>alert(1)</script>\"'&";
    let dir = tempfile::tempdir().unwrap();
    let mut one = run(case(&[("<b>", evil)]), 1, vec![flow(evil, evil, 10.0, 40.0), flow("<i>", "<u>", 1.0, 40.0)]);
    one.events = vec![format!("1.0 {evil}")];
    one.links[0].name = evil.to_owned();
    let mut second = one.clone();
    second.run.seed = 2;
    second.invalid = vec![evil.to_owned()];
    fixture::write(dir.path(), &[one.clone(), second]);
    fixture::write_series(dir.path(), &one, 0.1);
    let mut manifest = manifest(vec![one.run.clone(), RunId { case: one.run.case.clone(), seed: 2 }]);
    manifest.scenario = evil.to_owned();
    manifest.kernel = evil.to_owned();
    manifest.objects.insert(evil.to_owned(), evil.to_owned());
    fixture::write_manifest(dir.path(), &manifest);
    let expected =
        format!("[[expected]]\nmetric = '''{evil}'''\nvalue = 1\nsource = '''{evil}'''\nflow = '''{evil}'''\n");
    fs::write(dir.path().join("scenario.toml"), expected).unwrap();
    let html = page(dir.path());
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn the_same_directory_gives_the_same_bytes() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fixture::write_comparison(one.path());
    fixture::write_comparison(other.path());
    assert_eq!(page(one.path()), page(one.path()));
    assert_eq!(page(one.path()), page(other.path()));
}

#[test]
fn a_hundred_cases_make_a_page_that_can_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = (0..100)
        .map(|k| run(case(&[("load", &format!("kind-{k}"))]), 1, vec![flow("bulk", "dtcp", 10.0 + f64::from(k), 40.0)]))
        .collect();
    fixture::write(dir.path(), &runs);
    for one in &runs {
        fixture::write_series(dir.path(), one, 0.05);
    }
    let html = page(dir.path());
    assert_eq!(html.matches("<th scope=\"row\">dtcp</th>").count(), 100);
    assert!(html.contains("Only the first 12 of 100 cases are drawn"));
    assert!(html.contains("Only the first 12 of 100 conditions are drawn"));
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
}

#[test]
fn a_report_on_part_of_a_scenario_states_so() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write(dir.path(), &[run(case(&[("cc", "dtcp")]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)])]);
    let scenario = "duration_s = 30\nseeds = [1, 2]\n[sweep]\ncc = ['cubic', 'dtcp']\n[[host]]\nname = 'a'\n[[host]]\n\
        name = 'b'\n[[link]]\nname = 'x'\nbetween = ['a', 'b']\n[[flow]]\nname = 'bulk'\nfrom = 'a'\nto = 'b'\n\
        cc = \"$cc\"\n";
    fs::write(dir.path().join("scenario.toml"), scenario).unwrap();
    let html = page(dir.path());
    let told =
        "The only run has finished, none is invalid. 1 of 4 runs of the scenario: first seed only, only cc=dtcp.";
    assert!(html.contains(told), "{html}");
}

#[test]
fn the_top_says_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write(dir.path(), &[run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)])]);
    assert!(!page(dir.path()).contains("purpose"));
    let scenario = "duration_s = 1\nsummary = \"A corner & a wall\"\npaper = \"Doe 2020\"\n\
        [[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
        [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n";
    fs::write(dir.path().join("scenario.toml"), scenario).unwrap();
    let html = page(dir.path());
    assert!(html.contains("<dt>purpose</dt><dd>A corner &amp; a wall</dd>"), "{html}");
    assert!(html.contains("<dt>paper</dt><dd>Doe 2020</dd>") && html.contains("<dt>walk.csv</dt>"), "{html}");
}

#[test]
fn a_caption_states_the_spans_of_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let one = run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)]);
    fixture::write(dir.path(), std::slice::from_ref(&one));
    fixture::write_series(dir.path(), &one, 0.1);
    let spans = "Rates are means over 500 ms; everything else shows its minimum and maximum in each 94 ms.";
    assert!(page(dir.path()).contains(spans)); // of 30 s
}

#[test]
fn what_has_no_room_is_mentioned() {
    let dir = tempfile::tempdir().unwrap();
    let ccs: Vec<String> = (0..16).map(|n| format!("cc{n:02}")).collect();
    let runs: Vec<_> = ccs.iter().map(|cc| run(case(&[("cc", cc)]), 1, vec![flow("bulk", cc, 10.0, 40.0)])).collect();
    fixture::write(dir.path(), &runs);
    runs.iter().for_each(|one| fixture::write_series(dir.path(), one, 0.5));
    let links = dir.path().join(runs[0].run.path()).join("links.csv");
    let mut rows = fs::read_to_string(&links).unwrap();
    (0..4).for_each(|n| rows.push_str(&format!("1.000,l{n}:a>b,20000000,,9000,99999999,0,0,0,0\n")));
    fs::write(links, rows).unwrap();
    let html = page(dir.path());
    assert!(html.contains("The first 4 of 5 links that carried the traffic are drawn."));
    assert_eq!(html.matches("Only the first 15 of 16 congestion controls are drawn.").count(), 2, "points and RTTs");
}

#[test]
fn a_link_has_no_flow_s_colour() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
        .map(|cc| run(case(&[("cc", cc)]), 1, vec![flow("bulk", cc, 10.0, 40.0)]))
        .to_vec();
    fixture::write(dir.path(), &runs);
    runs.iter().for_each(|one| fixture::write_series(dir.path(), one, 0.5));
    let colours = legend_colours(&page(dir.path()), "cc=i, seed 1");
    assert!(colours.len() > 1 && colours.values().all(|times| *times == 1), "{colours:?}");
}

#[test]
fn a_tie_has_no_leader() {
    let dir = tempfile::tempdir().unwrap();
    let tied = |cc, mbps| run(case(&[("cc", cc)]), 1, vec![flow("bulk", cc, mbps, 40.0)]);
    fixture::write(dir.path(), &[tied("dtcp", 8.0), tied("reno", 8.0)]);
    assert!(!page(dir.path()).contains("Most throughput"));
    fixture::write(dir.path(), &[tied("dtcp", 8.0), tied("reno", 8.1)]);
    assert!(page(dir.path()).contains("Most throughput"));
}
