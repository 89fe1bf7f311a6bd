//! The tables of a report: our figures, and the papers' figures beside them.

use super::data::{COLUMNS, Column, Data, PROGRAM_COLUMNS, RECEIVER_COLUMNS, Shown};
use super::estimate::{Estimate, Places, number};
use super::html::{Cell, Table};
use super::rows::{Case, Row, case_text, conditions, labels};
use hotcc_lab::results::{METRICS, RunSummary, Wanted};

/// A column's figures as text, with equal decimals.
struct Figures<'a> {
    column: &'a Column,
    places: Places,
}

impl<'a> Figures<'a> {
    fn new(column: &'a Column, rows: &[Row]) -> Self {
        let figures = rows.iter().filter_map(|row| row.estimate(column.metric));
        Self { column, places: Places::of(figures.map(|figure| figure.times(column.factor))) }
    }

    /// Formats as `12.30 ± 0.45`, with the number of seeds that have the figure if not all have.
    fn text(&self, row: &Row) -> String {
        let Some(e) = row.estimate(self.column.metric) else { return "–".to_owned() };
        let some = if e.n < row.runs.len() { format!(" (n = {})", e.n) } else { String::new() };
        self.places.estimate(&e.times(self.column.factor)) + &some
    }
}

/// Where a table is placed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In a report: the page, and what commands print.
    Report,
    /// In a document, between its markers.
    Document,
}

/// Returns a table with one row for each of `rows`, and those of `all` columns that are for `place`.
fn of_rows(all: &[Column], rows: &[Row], place: Place, what: &str, caption: &str) -> Table {
    let is_shown = |column: &&Column| match column.shown {
        Shown::Always => true,
        Shown::IfPresent => rows.iter().any(|row| !row.values(column.metric).is_empty()),
        Shown::InReports => place == Place::Report,
    };
    let columns: Vec<Figures<'_>> = all.iter().filter(is_shown).map(|column| Figures::new(column, rows)).collect();
    let mut headings = vec!["case".to_owned(), what.to_owned()];
    headings.extend(columns.iter().map(|figures| figures.column.heading.to_owned()));
    headings.push("seeds".to_owned());
    let rows = rows.iter().map(|row| {
        let mut cells = vec![Cell::Text(case_text(&row.condition)), Cell::Head(row.label.clone())];
        cells.extend(columns.iter().map(|figures| Cell::Figure(figures.text(row))));
        cells.push(Cell::Figure(row.runs.len().to_string()));
        cells
    });
    Table { caption: caption.to_owned(), columns: headings, rows: rows.collect(), remark: String::new() }
}

/// Returns the figures by case and congestion control.
pub fn figures(data: &Data, place: Place) -> Table {
    let remark = "Valid runs only. The interval follows Student's t distribution; one seed has no interval. A run's figure \
                  is the mean over its TCP flows with that congestion control; Jain's index is that of the whole run. Loss \
                  includes losses on links and drops by policers and in queues. Queue delay is one-way: the mean and the 95th percentile \
                  are over packets, \"over time\" is the mean over time. Timeouts are retransmission timeouts.";
    let mean = "ean over seeds ± half the 95 % confidence interval";
    let is_simulated = data.results.manifest.is_simulated();
    let caption =
        if is_simulated { format!("Simulated, not measured on a kernel: m{mean}") } else { format!("M{mean}") };
    Table { remark: remark.to_owned(), ..of_rows(&COLUMNS, &data.rows, place, "congestion control", &caption) }
}

/// Returns the figures by case and flow.
pub fn by_flow(flows: &[Row], place: Place) -> Table {
    of_rows(&COLUMNS, flows, place, "flow", "Each flow: mean over seeds ± half the 95 % confidence interval")
}

/// Returns the receivers' counters by case and flow.
pub fn receivers(receivers: &[Row]) -> Table {
    let remark = "Each counter is the mean over seeds ± half the 95 % confidence interval, until the flow was stopped. The \
                  first five columns are what the receiver got and offered. The window's limit and ECE are counted by the \
                  sender. – : not counted, or no limit.";
    let table = of_rows(&RECEIVER_COLUMNS, receivers, Place::Report, "flow", "Receivers: what each counted");
    Table { remark: remark.to_owned(), ..table }
}

/// Returns the counters of the receiver programs by case, without those that are zero everywhere.
pub fn programs(programs: &[Row]) -> Table {
    let counted = |column: &Column| programs.iter().any(|row| row.values(column.metric).iter().any(|n| *n > 0.0));
    let columns: Vec<Column> = PROGRAM_COLUMNS.into_iter().filter(counted).collect();
    of_rows(&columns, programs, Place::Report, "of", "Receiver programs: what they counted on all hosts together")
}

/// Returns a table with one row for each case, and one column for each congestion control or flow, with these figures
/// in each cell.
pub fn side_by_side(rows: &[Row], figures: &[&Column]) -> Table {
    let labels = labels(rows);
    let figures: Vec<Figures<'_>> = figures.iter().map(|column| Figures::new(column, rows)).collect();
    let cell = |row: &Row| figures.iter().map(|figures| figures.text(row)).collect::<Vec<_>>().join(", ");
    let cells = |(case, of_case): (&Case, Vec<&Row>)| {
        let of =
            |label: &String| of_case.iter().find(|row| row.label == *label).map_or("–".to_owned(), |row| cell(row));
        let mut cells = vec![Cell::Text(case_text(case))];
        cells.extend(labels.iter().map(|label| Cell::Figure(of(label))));
        cells
    };
    let rows = conditions(rows).into_iter().map(cells).collect();
    let columns = ["case".to_owned()].into_iter().chain(labels.iter().cloned()).collect();
    Table { columns, rows, ..Table::default() }
}

/// Returns a table with one row for each value of the swept key `by` and each congestion control: means over all other
/// cases and seeds. A figure is that of the flows with a name, or of all flows.
pub fn pooled(runs: &[RunSummary], by: &str, figures: &[(Option<&str>, &Column)]) -> Table {
    let mut rows: Vec<([&str; 2], Vec<&RunSummary>)> = Vec::new();
    for run in runs.iter().filter(|run| run.invalid.is_empty()) {
        let names = [by, "cc"].map(|key| run.run.case.get(key).map_or("all", String::as_str));
        match rows.iter_mut().find(|(of, _)| *of == names) {
            Some((_, runs)) => runs.push(run),
            None => rows.push((names, vec![run])),
        }
    }
    let order: Vec<&str> = rows.iter().map(|(names, _)| names[0]).collect();
    rows.sort_by_key(|(names, _)| order.iter().position(|name| *name == names[0]));
    let mut cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|([value, cc], _)| vec![Cell::Text((*value).to_owned()), Cell::Head((*cc).to_owned())])
        .collect();
    for (flow, column) in figures {
        let value = |run: &&RunSummary| Some(run.metric(column.metric, *flow)? * column.factor);
        let estimates: Vec<Option<Estimate>> =
            rows.iter().map(|(_, runs)| Estimate::of(&runs.iter().filter_map(value).collect::<Vec<_>>())).collect();
        let places = Places::of(estimates.iter().flatten().copied());
        for (row, estimate) in cells.iter_mut().zip(&estimates) {
            row.push(Cell::Figure(estimate.map_or("–".to_owned(), |estimate| places.estimate(&estimate))));
        }
    }
    let heading = |(flow, column): &(Option<&str>, &Column)| match flow {
        Some(flow) => format!("{flow}: {}", column.heading),
        None => column.heading.to_owned(),
    };
    let columns =
        [by, "congestion control"].map(str::to_owned).into_iter().chain(figures.iter().map(heading)).collect();
    Table { columns, rows: cells, ..Table::default() }
}

/// Returns the meaning of a metric, with its unit.
fn plain_name(metric: &str) -> String {
    METRICS.iter().find(|(name, _)| *name == metric).map_or(metric, |(_, meaning)| meaning).to_owned()
}

/// Returns the papers' figures beside ours; `None` if there are none.
pub fn papers(data: &Data) -> Option<Table> {
    if data.papers.is_empty() {
        return None;
    }
    let rows = data.papers.iter().map(|paper| {
        let notes: Vec<&str> = paper.remark.as_deref().into_iter().chain(paper.note.as_deref()).collect();
        let seeds = paper.ours.map_or(0, |ours| ours.n);
        let figure =
            paper.over.iter().fold(plain_name(&paper.metric), |figure, over| format!("{figure}, over that of {over}"));
        let verdict = match paper.holds {
            Some(true) => "holds".to_owned(),
            Some(false) => "does not hold".to_owned(),
            None => paper.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")),
        };
        vec![
            Cell::Text(paper.case.clone()),
            Cell::Text(paper.flow.clone().unwrap_or_else(|| "run".to_owned())),
            Cell::Head(figure),
            Cell::Figure(paper.ours.map_or("–".to_owned(), |ours| ours.text())),
            Cell::Figure(match &paper.paper {
                Wanted::Value(value) => number(*value),
                Wanted::AtLeast(least) => format!("at least {}", number(*least)),
                Wanted::Gate(gate) => gate.name.clone(),
            }),
            Cell::Figure(verdict),
            Cell::Figure(seeds.to_string()),
            Cell::Text(paper.source.clone()),
            Cell::Text(notes.join("; ")),
        ]
    });
    let columns = ["case", "flow", "figure", "ours", "paper", "ours / paper", "seeds", "source", "note"];
    Some(Table {
        caption: "The papers' figures and ours".to_owned(),
        remark:
            "Ours: mean over seeds ± half the 95 % confidence interval. The unit is part of the figure's name; ratios \
                 and utilisation are fractions of 1."
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    })
}
