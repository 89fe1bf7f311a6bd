//! The scoreboard's page: every congestion control in one chart for each case, which its row leads to.

use crate::fixture::{self, case, flow, run};
use crate::markup;
use hotcc_lab::results::RunSummary;
use hotcc_report::board;
use hotcc_report::data::Data;
use hotcc_report::ranking::rank;
use std::collections::BTreeSet;

/// As many as the project's scoreboard has.
const CCS: [&str; 13] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
const LINKS: [&str; 2] = ["city", "coast"];

fn runs() -> Vec<RunSummary> {
    let one = |(place, cc): (usize, &&str), link: &str| RunSummary {
        bounds: vec![flow("oracle", "oracle", 40.0, 20.0), flow("late-oracle", "late-oracle", 39.0, 21.0)],
        ..run(case(&[("cc", cc), ("link", link)]), 1, vec![flow("bulk", cc, 20.0 + place as f64, 40.0 + place as f64)])
    };
    CCS.iter().enumerate().flat_map(|cc| LINKS.map(|link| one(cc, link))).collect()
}

#[test]
fn each_row_leads_to_a_chart_in_which_every_congestion_control_has_its_own_colour() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write(dir.path(), &runs());
    runs().iter().for_each(|one| fixture::write_series(dir.path(), one, 0.5));
    let data = Data::read(dir.path()).unwrap();
    let html = board::page(&data, &rank(&data.rows), "links").unwrap();
    markup::check(&html);
    assert!(!html.contains("<script") && html.contains("prefers-color-scheme: dark"));
    assert!(html.contains("Dashed: the Pareto front. Rings: bounds."));
    for (place, link) in LINKS.iter().enumerate() {
        let id = format!("case-{}", place + 1);
        assert!(html.contains(&format!("<a href=\"#{id}\">link={link}</a>")), "{link}");
        let (_, chart) = html.split_once(&format!("<div id=\"{id}\">")).unwrap();
        let legend = chart.split("<ul class=\"legend\">").nth(1).unwrap().split("</ul>").next().unwrap();
        let strokes: BTreeSet<&str> = legend.split("stroke=\"").skip(1).map(|rest| &rest[..7]).collect();
        assert_eq!((legend.matches("<li>").count(), strokes.len()), (CCS.len(), CCS.len()), "{legend}");
    }
    // the best throughput, and the least delay
    assert!(html.contains("<strong>80 ± 0</strong>") && html.contains("<strong>30.0</strong>"), "{html}");
}

#[test]
fn without_a_bound_there_is_no_board() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = runs().into_iter().map(|one| RunSummary { bounds: Vec::new(), ..one }).collect();
    fixture::write(dir.path(), &runs);
    let data = Data::read(dir.path()).unwrap();
    let error = board::page(&data, &rank(&data.rows), "links").unwrap_err().to_string();
    assert_eq!(error, "no case has figures of all congestion controls and of the bound");
}

#[test]
fn a_board_of_one_congestion_control_has_charts() {
    let dir = tempfile::tempdir().unwrap();
    let runs: Vec<_> = runs().into_iter().filter(|one| one.run.case["cc"] == "a").collect();
    fixture::write(dir.path(), &runs);
    runs.iter().for_each(|one| fixture::write_series(dir.path(), one, 0.5));
    let data = Data::read(dir.path()).unwrap();
    let html = board::page(&data, &rank(&data.rows), "links").unwrap();
    let (_, first) = html.split_once("<div id=\"case-1\">").unwrap();
    assert!(first.split("<div id=\"case-2\">").next().unwrap().contains("<svg"), "{first}");
}

#[test]
fn a_board_states_whose_recordings_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write(dir.path(), &runs());
    runs().iter().skip(1).for_each(|one| fixture::write_series(dir.path(), one, 0.5));
    let data = Data::read(dir.path()).unwrap();
    let html = board::page(&data, &rank(&data.rows), "links").unwrap();
    assert!(html.contains("a: flows.csv is incomplete: "), "{html}");
}
