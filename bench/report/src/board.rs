//! The scoreboard's page: the plot, the ranking, one row for each case, and each case over time.

use super::charts::board;
use super::data::{COLUMNS, Column, Data};
use super::html::{Cell, note};
use super::page::{laid_out, overlaid_conditions};
use super::ranking::{Standing, table};
use super::rows::case_text;
use super::tables::side_by_side;
use anyhow::Result;
use maud::{Markup, PreEscaped, html};

/// Figures in each cell of the table of cases.
const FIGURES: [&str; 2] = ["throughput_mbps", "queue_delay_p95_ms"];

/// Returns the page as HTML. `what` names the cases.
///
/// # Errors
/// There is nothing to rank, or a chart cannot be drawn.
pub fn page(data: &Data, standings: &[Standing], what: &str) -> Result<String> {
    let picture = board::svg(standings, what, data.results.manifest.is_simulated())?;
    let mut ranking = table(standings);
    ranking.caption = "The best of each column is marked".to_owned();
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| FIGURES.contains(&column.metric)).collect();
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let mut cases = side_by_side(&data.rows, &columns);
    cases.caption = format!("Each cell has: {}", headings.join("; "));
    let charts = overlaid_conditions(data)?;
    for row in &mut cases.rows {
        if let Some(Cell::Text(case)) = row.first().cloned()
            && let Some(place) = charts.iter().position(|(condition, _)| case_text(condition) == case)
        {
            row[0] = Cell::Link(case, id(place));
        }
    }
    let plot =
        html! { figure.board { div.chart tabindex="0" role="region" aria-label="chart" { (PreEscaped(picture)) } } };
    let over_time = html! {
        @for (place, (_, chart)) in charts.iter().enumerate() { div id=(id(place)) { (chart) } }
        @if charts.is_empty() { (note("No valid run has finished.")) }
    };
    let sections: [(&str, &str, Markup); 4] = [
        ("plot", "Throughput and delay", plot),
        ("ranking", "Ranking", ranking.html()),
        ("cases", "Each case", cases.html()),
        ("series", "Over time", over_time),
    ];
    Ok(laid_out(data, &sections))
}

/// Returns the id of a case's chart.
fn id(place: usize) -> String {
    format!("case-{}", place + 1)
}
