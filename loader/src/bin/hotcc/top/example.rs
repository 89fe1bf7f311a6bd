//! A made-up state for the tests of `hotcc top`, keys pressed in it, and its picture.

use super::draw::draw;
use super::sample::{Algorithm, Sample, View};
use super::state::{Next, Top};
use hotcc::live::{Flow, Link};
use hotcc::sockets::flows::Connection;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A flow to this port.
pub fn flow(port: u16, cc: &str, rate_bps: u64) -> Flow {
    let connection = Connection {
        netns: "here".to_owned(),
        local: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 50_000 - port)),
        peer: SocketAddr::from((Ipv4Addr::new(203, 0, 113, 7), port)),
        cc: cc.to_owned(),
        version: "current",
        ca_state: "open",
        cwnd: 10,
        ssthresh: None,
        srtt_us: None,
        min_rtt_us: None,
        delivery_bps: Some(rate_bps),
        retransmits: 3,
        acked_bytes: 0,
        mss: 1448,
        paced: false,
        app_limited: false,
        busy_ms: 0,
        receiver_limited_ms: 0,
        buffer_limited_ms: 0,
        state: Vec::new(),
        pep: None,
    };
    Flow { connection, sinr_db: None, slot: None }
}

pub fn top() -> Top {
    let mut top = Top::new(Duration::from_secs(1));
    for step in 0..50_i32 {
        let swing = (f64::from(step) / 6.0).sin();
        let mut flows =
            vec![flow(5201, "dtcp", (35e6 + 20e6 * swing) as u64), flow(443, "cubic", 9_100_000), flow(80, "dtcp", 0)];
        flows[0].connection.srtt_us = Some((40e3 - 10e3 * swing) as u32);
        flows[0].connection.cwnd = (120.0 + 30.0 * swing) as u32;
        flows[0].sinr_db = Some(8.0 + 10.0 * swing);
        flows[1].connection.srtt_us = Some(82_000);
        flows[1].connection.cwnd = 64;
        flows[1].connection.peer.set_ip(Ipv4Addr::new(203, 0, 113, 9).into());
        flows[1].sinr_db = Some(6.0);
        flows[2].connection.delivery_bps = None;
        top.update(Sample::Flows(flows));
    }
    top.view = View::Algorithms;
    let cubic = Algorithm {
        name: "cubic".to_owned(),
        serves: "kernel".to_owned(),
        connections: 1,
        older: None,
        listeners: 0,
        swaps: None,
        previous: None,
    };
    let dtcp = Algorithm {
        name: "dtcp".to_owned(),
        serves: "/root/mine.bpf.o (default)".to_owned(),
        connections: 1,
        older: Some(1),
        listeners: 2,
        swaps: Some(1),
        previous: Some("builtin:dtcp".to_owned()),
    };
    top.update(Sample::Algorithms(vec![dtcp, cubic]));
    top.view = View::Links;
    let fresh = Link {
        slot: 0,
        peers: "203.0.113.7/32".to_owned(),
        sinr_db: Some(11.5),
        average_db: Some(9.8),
        age_ms: Some(40),
        state: "fresh",
        capacity_bps: Some(52_000_000),
        source: "trace",
        feeder: Some(812),
        updates: 1,
    };
    let stale = Link {
        slot: 1,
        peers: "203.0.113.128/25".to_owned(),
        sinr_db: None,
        average_db: None,
        age_ms: Some(8_200),
        state: "stale",
        capacity_bps: None,
        feeder: None,
        ..fresh.clone()
    };
    top.update(Sample::Links(vec![fresh, stale]));
    top.view = View::Flows;
    top
}

/// Returns the peers' ports, in the order of the rows.
pub fn shown(top: &Top) -> Vec<u16> {
    top.shown.iter().map(|&i| top.flows[i].connection.peer.port()).collect()
}

/// Presses one key after the other; returns what follows the last one.
pub fn press(top: &mut Top, keys: &str) -> Next {
    let code = |c| match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        '\u{8}' => KeyCode::Backspace,
        c => KeyCode::Char(c),
    };
    keys.chars().fold(Next::Continue, |_, c| top.key(KeyEvent::new(code(c), KeyModifiers::NONE)))
}

/// Draws the state, and returns the text without blanks at the end of lines.
pub fn screen(top: &Top, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, top)).unwrap();
    let cells = terminal.backend().buffer().content().chunks(columns.into());
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    cells.map(|cells| line(cells).trim_end().to_owned() + "\n").collect()
}
