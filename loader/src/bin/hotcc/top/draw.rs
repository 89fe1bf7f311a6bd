//! Draws the state of `hotcc top`.

use super::sample::View;
use super::state::{Action, Column, FlowId, Mode, Point, Top, Wanted};
use hotcc_host::printable::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, Wrap};

/// From this width on, the flows' local addresses fit.
const WIDE_COLUMNS: u16 = 100;
/// Most rows for an answer, so that the view stays visible.
const ANSWER_ROWS: usize = 8;

/// A column: its title, its width, and whether it is aligned to the right.
type Head = (String, Constraint, bool);

pub fn draw(frame: &mut Frame, top: &Top) {
    let width = usize::from(frame.area().width.max(1));
    let rows: usize = top.message.iter().map(|line| 1 + line.chars().count() / width).sum();
    let rows = rows.min(ANSWER_ROWS) as u16;
    let [head, body, answer, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(rows), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(heading(top), head);
    match (top.view, &top.opened) {
        (View::Flows, Some(id)) => opened(frame, body, top, id),
        (View::Flows, None) => flows(frame, body, top),
        (View::Algorithms, _) => algorithms(frame, body, top),
        (View::Links, _) => links(frame, body, top),
    }
    let lines: Vec<Line> = top.message.iter().map(|line| Line::raw(printable(line))).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).bold(), answer);
    frame.render_widget(Line::raw(printable(&footer(top))).reversed(), foot);
}

fn heading(top: &Top) -> Line<'static> {
    let mut spans = Vec::new();
    for (view, title) in [(View::Flows, " 1 flows "), (View::Algorithms, " 2 algorithms "), (View::Links, " 3 links ")]
    {
        spans.push(if view == top.view { Span::raw(title).reversed() } else { Span::raw(title) });
    }
    let mut text = String::new();
    if top.view == View::Flows {
        text = format!("  {} of {}", top.shown.len(), top.flows.len());
        if !top.filter.is_empty() {
            text += &format!(", filter `{}`", top.filter);
        }
    }
    text += &format!("  every {:.1} s", top.every.as_secs_f64());
    if top.paused {
        text += "  PAUSED";
    }
    spans.push(Span::raw(printable(&text)));
    Line::from(spans)
}

fn footer(top: &Top) -> String {
    match &top.mode {
        Mode::Type(Wanted::Filter, text) => format!("filter by address, port or algorithm: {text}_"),
        Mode::Type(Wanted::Object { name }, text) => {
            format!("swap {name} to (built-in name, or path of a .bpf.o): {text}_")
        }
        Mode::Type(Wanted::Target { from }, text) => format!("move open connections from {from} to: {text}_"),
        Mode::Confirm(action) => question(action),
        Mode::Browse if top.opened.is_some() => "Esc back  Space pause  w swap  r undo  m migrate  q quit".to_owned(),
        Mode::Browse => match top.view {
            View::Flows => "Enter open  s/S sort  / filter  Space pause  w swap  r undo  m migrate  q quit",
            View::Algorithms => "w swap  r undo  m migrate  Space pause  Tab next view  q quit",
            View::Links => "Space pause  Tab next view  q quit",
        }
        .to_owned(),
    }
}

fn question(action: &Action) -> String {
    let which = "y: new connections only, l: open ones too, other keys: no";
    match action {
        Action::Swap { name, object, .. } => format!("Swap {name} to {object}? {which}"),
        Action::Rollback { name, .. } => format!("Roll back {name}? {which}"),
        Action::Migrate { from, to } => {
            format!("Move all open connections of this machine from {from} to {to}? y: yes, other keys: no")
        }
    }
}

/// Draws the rows around the selected one.
fn table(
    frame: &mut Frame,
    area: Rect,
    heads: &[Head],
    selected: usize,
    rows: usize,
    row: impl Fn(usize) -> Vec<String>,
) {
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (selected + 1).saturating_sub(height);
    let line = |cells: Vec<String>| {
        Row::new(cells.into_iter().zip(heads).map(|(text, (_, _, right))| {
            let line = Line::raw(printable(&text));
            if *right { line.right_aligned() } else { line }
        }))
    };
    let shown = (first..rows.min(first + height)).map(|i| {
        let style = if i == selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        line(row(i)).style(style)
    });
    let table = Table::new(shown, heads.iter().map(|(_, width, _)| *width));
    frame.render_widget(table.header(line(heads.iter().map(|(title, ..)| title.clone()).collect()).bold()), area);
}

fn left(title: &str, width: Constraint) -> Head {
    (title.to_owned(), width, false)
}

fn right(title: &str, width: u16) -> Head {
    (title.to_owned(), Constraint::Length(width), true)
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

fn decimal(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.1}"))
}

fn mbps(bps: Option<u64>) -> Option<f64> {
    bps.map(|bps| bps as f64 / 1e6)
}

fn ms(us: Option<u32>) -> Option<f64> {
    us.map(|us| f64::from(us) / 1e3)
}

fn flows(frame: &mut Frame, area: Rect, top: &Top) {
    let is_wide = area.width >= WIDE_COLUMNS;
    let heads = Column::ALL.map(|column| {
        let (title, width, right) = match column {
            Column::Local if is_wide => ("local", Constraint::Fill(1), false),
            Column::Local => ("local", Constraint::Length(7), false),
            Column::Peer => ("peer", Constraint::Fill(1), false),
            Column::Cc => ("algorithm", Constraint::Length(if is_wide { 15 } else { 12 }), false),
            Column::Rate => ("Mbit/s", Constraint::Length(9), true),
            Column::Rtt => ("RTT ms", Constraint::Length(9), true),
            Column::Window => ("window", Constraint::Length(8), true),
            Column::Sinr => ("SINR dB", Constraint::Length(9), true),
        };
        let mark = if top.descending() { "▼" } else { "▲" };
        (format!("{title}{}", if column == top.column { mark } else { "" }), width, right)
    });
    table(frame, area, &heads, top.selected, top.shown.len(), |i| {
        let flow = &top.flows[top.shown[i]];
        let c = &flow.connection;
        vec![
            if is_wide { c.local.to_string() } else { format!(":{}", c.local.port()) },
            c.peer.to_string(),
            c.cc.clone(),
            or_dash(decimal(mbps(c.delivery_bps))),
            or_dash(decimal(ms(c.srtt_us))),
            c.cwnd.to_string(),
            or_dash(decimal(flow.sinr_db)),
        ]
    });
}

fn algorithms(frame: &mut Frame, area: Rect, top: &Top) {
    let heads = [
        left("name", Constraint::Length(15)),
        right("connections", 11),
        right("older", 6),
        right("listeners", 9),
        right("swaps", 5),
        left("serves", Constraint::Fill(2)),
        left("before", Constraint::Fill(1)),
    ];
    table(frame, area, &heads, top.selected, top.algorithms.len(), |i| {
        let a = &top.algorithms[i];
        vec![
            a.name.clone(),
            a.connections.to_string(),
            or_dash(a.older),
            a.listeners.to_string(),
            or_dash(a.swaps),
            a.serves.clone(),
            a.previous.clone().unwrap_or_default(),
        ]
    });
}

fn links(frame: &mut Frame, area: Rect, top: &Top) {
    let heads = [
        left("peers", Constraint::Fill(1)),
        right("SINR dB", 8),
        right("average dB", 10),
        right("age ms", 10),
        left("state", Constraint::Length(5)),
        right("Mbit/s", 8),
        left("source", Constraint::Length(14)),
        left("feeder", Constraint::Length(7)),
    ];
    table(frame, area, &heads, top.selected, top.links.len(), |i| {
        let l = &top.links[i];
        vec![
            l.peers.clone(),
            or_dash(decimal(l.sinr_db)),
            or_dash(decimal(l.average_db)),
            or_dash(l.age_ms),
            l.state.to_owned(),
            or_dash(decimal(mbps(l.capacity_bps))),
            l.source.to_owned(),
            l.feeder.map_or_else(|| "gone".to_owned(), |pid| pid.to_string()),
        ]
    });
}

fn opened(frame: &mut Frame, area: Rect, top: &Top, id: &FlowId) {
    let [title, rate, sinr, rtt, window] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    let (netns, local, peer) = id;
    let now = top.opened_flow().map(|flow| &flow.connection);
    let now = now.map_or("closed".to_owned(), |c| format!("{}, {}, {} retransmitted", c.cc, c.ca_state, c.retransmits));
    let text = format!("{local} to {peer}, network namespace {netns}: {now}");
    frame.render_widget(Line::raw(printable(&text)).bold(), title);
    let points = |value: fn(&Point) -> Option<f64>| top.history(id).map(value).collect::<Vec<_>>();
    chart(frame, rate, "rate, Mbit/s", &points(|p| mbps(p.rate_bps)));
    chart(frame, sinr, "SINR, dB", &points(|p| p.sinr_db));
    chart(frame, rtt, "RTT, ms", &points(|p| ms(p.srtt_us)));
    chart(frame, window, "window, segments", &points(|p| Some(p.cwnd.into())));
}

/// Draws the latest values, of which some may not be known.
fn chart(frame: &mut Frame, area: Rect, title: &str, values: &[Option<f64>]) {
    let [head, bars] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let values = &values[values.len().saturating_sub(bars.width.into())..];
    let known = || values.iter().flatten().copied();
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let range = if low <= high { format!(" ({low:.1} to {high:.1})") } else { String::new() };
    let latest = or_dash(decimal(values.last().copied().flatten()));
    frame.render_widget(Line::raw(format!("{title}: {latest}{range}")), head);
    // bars begin at 0, or below the lowest value if that is negative
    let base = (low - 1.0).min(0.0);
    let heights = values.iter().map(|value| value.map(|value| ((value - base) * 1e3).round() as u64));
    frame.render_widget(Sparkline::default().data(heights), bars);
}

#[cfg(test)]
mod tests {
    use crate::top::example::{flow, press, screen, top};
    use crate::top::sample::Sample;

    const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/top.md");

    /// Writes the pictures of the guide if `HOTCC_WRITE_DOCS` is set.
    #[test]
    fn the_guide_shows_each_view() {
        let mut top = top();
        let mut pictures = Vec::new();
        for (keys, rows) in [("", 6), ("\n", 18), ("\u{1b}2", 6), ("3", 5), ("2mcubic\n", 6)] {
            press(&mut top, keys);
            pictures.push(screen(&top, 100, rows));
        }
        let page = std::fs::read_to_string(GUIDE).unwrap();
        let mut parts: Vec<&str> = page.split("```\n").collect();
        let places: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].starts_with(" 1 flows")).collect();
        assert_eq!(places.len(), pictures.len());
        places.iter().zip(&pictures).for_each(|(&place, picture)| parts[place] = picture);
        let new = parts.join("```\n");
        if std::env::var_os("HOTCC_WRITE_DOCS").is_some() {
            std::fs::write(GUIDE, &new).unwrap();
        }
        assert!(page == new, "to update the guide, run this test with HOTCC_WRITE_DOCS=1:\n{}", pictures.join("\n"));
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters() {
        let text = screen(&top(), 80, 6);
        assert!(text.contains(":44799  203.0.113.7:5201"), "{text}");
        for size in [(1, 1), (10, 2), (20, 3)] {
            let mut top = top();
            screen(&top, size.0, size.1);
            press(&mut top, "\n");
            screen(&top, size.0, size.1);
        }
    }

    #[test]
    fn of_many_flows_those_around_the_selected_one_are_drawn() {
        let mut top = top();
        top.update(Sample::Flows((1..=10_000).map(|port| flow(port, "dtcp", port.into())).collect()));
        assert!(screen(&top, 80, 10).contains(":10000 "));
        for _ in 0..50 {
            press(&mut top, "j");
        }
        let text = screen(&top, 80, 10);
        assert!(text.contains(":9950 ") && !text.contains(":10000 "), "{text}");
    }

    #[test]
    fn a_terminal_obeys_no_name_and_no_answer() {
        let mut top = top();
        let name = "x\u{1b}]0;t\u{7}\u{9b}1m\r";
        top.flows[0].connection.cc = name.to_owned();
        top.algorithms[0].serves = name.to_owned();
        top.message = vec![name.to_owned()];
        for keys in ["", "\n", "w\u{9b}", "\n", "n", "\u{1b}2"] {
            press(&mut top, keys);
            top.message = vec![name.to_owned()];
            let text = screen(&top, 120, 30);
            assert!(text.contains("x\\u001b]0;t\\u0007\\u009b1m\\u000d"), "{text}");
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
    }

    #[test]
    fn a_long_answer_leaves_the_view_visible() {
        let mut top = top();
        top.message = vec!["word ".repeat(500)];
        let text = screen(&top, 80, 24);
        assert!(text.contains(":5201 ") && text.contains("word word") && text.contains("q quit"), "{text}");
    }
}
