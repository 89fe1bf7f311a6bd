//! The state of `hotcc top`: what is shown, in which order, and what a key does.

use super::sample::{Algorithm, Sample, View};
use hotcc::live::{Flow, Link};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Samples that a flow's history keeps.
pub const HISTORY: usize = 60;

/// What the flows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    Local,
    Peer,
    Cc,
    #[default]
    Rate,
    Rtt,
    Window,
    Sinr,
}

impl Column {
    pub const ALL: [Self; 7] = [Self::Local, Self::Peer, Self::Cc, Self::Rate, Self::Rtt, Self::Window, Self::Sinr];

    fn next(self) -> Self {
        let place = Self::ALL.iter().position(|c| *c == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    /// Returns whether the highest value comes first, unless the user reverses the order.
    fn highest_first(self) -> bool {
        !matches!(self, Self::Local | Self::Peer | Self::Cc)
    }

    fn compare(self, a: &Flow, b: &Flow) -> Ordering {
        let (x, y) = (&a.connection, &b.connection);
        match self {
            Self::Local => (x.local, x.peer).cmp(&(y.local, y.peer)),
            Self::Peer => (x.peer, x.local).cmp(&(y.peer, y.local)),
            Self::Cc => x.cc.cmp(&y.cc),
            Self::Rate => x.delivery_bps.cmp(&y.delivery_bps),
            Self::Rtt => x.srtt_us.cmp(&y.srtt_us),
            Self::Window => x.cwnd.cmp(&y.cwnd),
            Self::Sinr => a.sinr_db.partial_cmp(&b.sinr_db).unwrap_or(Ordering::Equal),
        }
    }
}

/// Network namespace, local address and peer.
pub type FlowId = (String, SocketAddr, SocketAddr);

fn id(flow: &Flow) -> FlowId {
    (flow.connection.netns.clone(), flow.connection.local, flow.connection.peer)
}

/// One sample of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub rate_bps: Option<u64>,
    pub srtt_us: Option<u32>,
    pub cwnd: u32,
    pub sinr_db: Option<f64>,
}

/// A change that the user may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Swap { name: String, object: String, live: bool },
    Rollback { name: String, live: bool },
    Migrate { from: String, to: String },
}

/// What keys go to.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Browse,
    /// A line of text, and what it is for.
    Type(Wanted, String),
    /// A question before a change.
    Confirm(Action),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Filter,
    Object { name: String },
    Target { from: String },
}

/// What the caller does after a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// Take a sample now.
    Sample,
    Do(Action),
    Quit,
}

#[derive(Default)]
pub struct Top {
    pub view: View,
    pub flows: Vec<Flow>,
    pub algorithms: Vec<Algorithm>,
    pub links: Vec<Link>,
    /// Places in `flows` of those that the filter leaves, in the order of the sort.
    pub shown: Vec<usize>,
    pub column: Column,
    /// Whether the column's usual order is reversed.
    pub reversed: bool,
    pub filter: String,
    pub paused: bool,
    /// Row of the view.
    pub selected: usize,
    pub opened: Option<FlowId>,
    pub mode: Mode,
    /// What the last change answered, or an error.
    pub message: Vec<String>,
    /// Time between samples.
    pub every: Duration,
    history: HashMap<FlowId, VecDeque<Point>>,
}

impl Top {
    pub fn new(every: Duration) -> Self {
        Self { every, ..Self::default() }
    }

    /// Takes over a new sample.
    pub fn update(&mut self, sample: Sample) {
        match sample {
            Sample::Flows(flows) => {
                let mut before = std::mem::take(&mut self.history);
                for flow in &flows {
                    let id = id(flow);
                    let mut points = before.remove(&id).unwrap_or_default();
                    if points.len() == HISTORY {
                        points.pop_front();
                    }
                    let c = &flow.connection;
                    let (rate_bps, srtt_us, cwnd) = (c.delivery_bps, c.srtt_us, c.cwnd);
                    points.push_back(Point { rate_bps, srtt_us, cwnd, sinr_db: flow.sinr_db });
                    self.history.insert(id, points);
                }
                if let Some(id) = &self.opened
                    && let Some(points) = before.remove(id)
                {
                    self.history.insert(id.clone(), points); // an opened flow that has closed stays on the screen
                }
                self.flows = flows;
                self.arrange();
            }
            Sample::Algorithms(algorithms) => self.algorithms = algorithms,
            Sample::Links(links) => self.links = links,
        }
        self.select(0);
    }

    /// Filters and sorts the flows.
    fn arrange(&mut self) {
        let wanted = self.filter.to_lowercase();
        let matches = |flow: &Flow| {
            let c = &flow.connection;
            wanted.is_empty() || format!("{} {} {} {}", c.netns, c.local, c.peer, c.cc).to_lowercase().contains(&wanted)
        };
        self.shown = (0..self.flows.len()).filter(|&i| matches(&self.flows[i])).collect();
        let descending = self.descending();
        self.shown.sort_by(|&a, &b| {
            let order = self.column.compare(&self.flows[a], &self.flows[b]);
            if descending { order.reverse() } else { order }
        });
    }

    pub fn descending(&self) -> bool {
        self.column.highest_first() != self.reversed
    }

    pub fn history(&self, id: &FlowId) -> impl ExactSizeIterator<Item = &Point> {
        self.history.get(id).map(VecDeque::iter).unwrap_or_default()
    }

    pub fn opened_flow(&self) -> Option<&Flow> {
        let opened = self.opened.as_ref()?;
        self.flows.iter().find(|flow| id(flow) == *opened)
    }

    /// Moves the selection by this many rows, within the view.
    fn select(&mut self, by: isize) {
        let rows = match self.view {
            View::Flows => self.shown.len(),
            View::Algorithms => self.algorithms.len(),
            View::Links => self.links.len(),
        };
        self.selected = self.selected.saturating_add_signed(by).min(rows.saturating_sub(1));
    }

    fn selected_flow(&self) -> Option<&Flow> {
        self.shown.get(self.selected).map(|&i| &self.flows[i])
    }

    /// Returns the congestion control of the selected row.
    fn selected_cc(&self) -> Option<String> {
        match self.view {
            View::Flows => self.opened_flow().or(self.selected_flow()).map(|f| f.connection.cc.clone()),
            View::Algorithms => self.algorithms.get(self.selected).map(|a| a.name.clone()),
            View::Links => None,
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Next {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        self.message.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Browse => self.browse(key.code),
            Mode::Type(wanted, text) => self.typed(key.code, wanted, text),
            Mode::Confirm(action) => match (key.code, action) {
                (KeyCode::Char('y'), action) => Next::Do(action),
                (KeyCode::Char('l'), Action::Swap { name, object, .. }) => {
                    Next::Do(Action::Swap { name, object, live: true })
                }
                (KeyCode::Char('l'), Action::Rollback { name, .. }) => Next::Do(Action::Rollback { name, live: true }),
                _ => Next::Continue,
            },
        }
    }

    fn browse(&mut self, code: KeyCode) -> Next {
        let flows = self.view == View::Flows;
        match code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace if self.opened.is_some() => self.opened = None,
            KeyCode::Esc if flows && !self.filter.is_empty() => self.refilter(String::new()),
            KeyCode::Esc => return Next::Quit,
            KeyCode::Enter if flows => self.opened = self.selected_flow().map(id),
            KeyCode::Char('1') => return self.show(View::Flows),
            KeyCode::Char('2') => return self.show(View::Algorithms),
            KeyCode::Char('3') => return self.show(View::Links),
            KeyCode::Tab => {
                return self.show(match self.view {
                    View::Flows => View::Algorithms,
                    View::Algorithms => View::Links,
                    View::Links => View::Flows,
                });
            }
            KeyCode::Char(' ') => {
                self.paused = !self.paused;
                return if self.paused { Next::Continue } else { Next::Sample };
            }
            KeyCode::Char('s') if flows => {
                (self.column, self.reversed) = (self.column.next(), false);
                self.arrange();
            }
            KeyCode::Char('S') if flows => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('/') if flows => self.mode = Mode::Type(Wanted::Filter, self.filter.clone()),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-20),
            KeyCode::PageDown => self.select(20),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Char(letter @ ('w' | 'm' | 'r')) => {
                if let Some(name) = self.selected_cc() {
                    self.mode = match letter {
                        'w' => Mode::Type(Wanted::Object { name }, String::new()),
                        'm' => Mode::Type(Wanted::Target { from: name }, String::new()),
                        _ => Mode::Confirm(Action::Rollback { name, live: false }),
                    };
                }
            }
            _ => {}
        }
        Next::Continue
    }

    fn show(&mut self, view: View) -> Next {
        (self.view, self.selected, self.opened) = (view, 0, None);
        Next::Sample
    }

    fn typed(&mut self, code: KeyCode, wanted: Wanted, mut text: String) -> Next {
        match code {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Esc => {
                if wanted == Wanted::Filter {
                    self.refilter(String::new());
                }
                return Next::Continue;
            }
            KeyCode::Enter => {
                let text = text.trim().to_owned();
                match wanted {
                    Wanted::Object { name } if !text.is_empty() => {
                        self.mode = Mode::Confirm(Action::Swap { name, object: text, live: false });
                    }
                    Wanted::Target { from } if !text.is_empty() => {
                        self.mode = Mode::Confirm(Action::Migrate { from, to: text });
                    }
                    _ => {}
                }
                return Next::Continue;
            }
            _ => {}
        }
        if wanted == Wanted::Filter {
            self.refilter(text.clone());
        }
        self.mode = Mode::Type(wanted, text);
        Next::Continue
    }

    fn refilter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
        self.selected = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::example::{flow, press, shown, top};

    #[test]
    fn flows_are_sorted_by_each_column_in_both_directions() {
        let mut top = top();
        assert_eq!(shown(&top), [5201, 443, 80], "the highest rate first");
        press(&mut top, "S");
        assert_eq!(shown(&top), [80, 443, 5201]);
        for (column, order) in [
            (Column::Rtt, [443, 5201, 80]),
            (Column::Window, [5201, 443, 80]),
            (Column::Sinr, [5201, 443, 80]),
            (Column::Local, [5201, 443, 80]),
            (Column::Peer, [80, 5201, 443]),
            (Column::Cc, [443, 5201, 80]),
            (Column::Rate, [5201, 443, 80]),
        ] {
            press(&mut top, "s");
            assert_eq!((top.column, shown(&top)), (column, order.to_vec()));
        }
    }

    #[test]
    fn a_filter_finds_addresses_ports_and_names() {
        let mut top = top();
        for (text, ports) in [("203.0.113.9", &[443][..]), (":5201", &[5201]), ("CUBIC", &[443]), ("none", &[])] {
            press(&mut top, &format!("/{text}\n"));
            assert_eq!((shown(&top), &top.mode), (ports.to_vec(), &Mode::Browse), "{text}");
            press(&mut top, "/\u{1b}");
        }
        assert_eq!(shown(&top).len(), 3, "Esc removes the filter");
        press(&mut top, "/CUBIC\n\u{1b}");
        assert_eq!((shown(&top).len(), &top.mode), (3, &Mode::Browse), "also one that Enter kept");
        press(&mut top, "/dtcpx\u{8}");
        assert_eq!(shown(&top).len(), 2, "rows change as the user types");
        top.update(Sample::Flows(vec![flow(1, "dtcp", 0), flow(2, "reno", 0)]));
        assert_eq!(shown(&top), [1], "the next sample too");
    }

    #[test]
    fn an_opened_flow_keeps_its_last_samples() {
        let mut top = top();
        press(&mut top, "\n");
        let id = top.opened.clone().unwrap();
        for rate in 0..100 {
            top.update(Sample::Flows(vec![flow(5201, "dtcp", rate)]));
        }
        let rates = |top: &Top| top.history(&id).map(|p| p.rate_bps.unwrap()).collect::<Vec<_>>();
        assert_eq!(rates(&top), (40..100).collect::<Vec<_>>());
        assert_eq!(top.history.len(), 1, "flows that have closed are forgotten");
        top.update(Sample::Flows(Vec::new()));
        assert_eq!((rates(&top).len(), top.opened_flow().is_none()), (HISTORY, true), "the opened one is not");
        press(&mut top, "\u{1b}");
        top.update(Sample::Flows(Vec::new()));
        assert!(top.opened.is_none() && top.history.is_empty());
    }

    #[test]
    fn keys_pause_switch_and_leave() {
        let mut top = top();
        assert_eq!((press(&mut top, " "), top.paused), (Next::Continue, true));
        assert_eq!((press(&mut top, " "), top.paused), (Next::Sample, false));
        for (key, view) in [("\t", View::Algorithms), ("\t", View::Links), ("\t", View::Flows), ("3", View::Links)] {
            assert_eq!((press(&mut top, key), top.view), (Next::Sample, view));
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut top, "1/");
        assert_eq!(top.key(control_c), Next::Quit, "also while the user types");
        assert_eq!((press(&mut top, "\u{1b}q"), press(&mut top, "\u{1b}")), (Next::Quit, Next::Quit));
    }

    #[test]
    fn a_change_needs_a_yes() {
        let swap = |live| Next::Do(Action::Swap { name: "dtcp".to_owned(), object: "./x.o".to_owned(), live });
        let rollback = |live| Next::Do(Action::Rollback { name: "dtcp".to_owned(), live });
        let migrate = Next::Do(Action::Migrate { from: "dtcp".to_owned(), to: "cubic".to_owned() });
        for (keys, next) in [
            ("w./x.o\ny", swap(false)),
            ("w./x.o\nl", swap(true)),
            ("w./x.o\nn", Next::Continue),
            ("w./x.o\n\n", Next::Continue),
            ("w\ny", Next::Continue),
            ("ry", rollback(false)),
            ("rl", rollback(true)),
            ("r\u{1b}", Next::Continue),
            ("mcubic\ny", migrate),
            ("mcubic\nl", Next::Continue),
            ("3ry", Next::Continue),
        ] {
            let mut top = top();
            assert_eq!((press(&mut top, keys), &top.mode), (next, &Mode::Browse), "{keys:?}");
        }
    }

    #[test]
    fn the_selection_stays_within_the_rows() {
        let mut top = top();
        press(&mut top, "jjjjj");
        assert_eq!(top.selected, 2);
        top.update(Sample::Flows(vec![flow(1, "dtcp", 0)]));
        assert_eq!(top.selected, 0);
        press(&mut top, "kk");
        assert_eq!(top.selected, 0);
    }
}
