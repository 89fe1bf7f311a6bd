//! An eavesdropper that replays borders' datagrams, from other addresses and as often as it can.

use crate::host::*;
use crate::scripted::Scripted;
use hotcc_testbed::soak;
use pep_agent::server::{DatagramFate, Options};
use pep_agent::wire::PORT;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

/// The datagram overheard last.
type Overheard = Arc<Mutex<Vec<u8>>>;

/// Replays that datagram from four addresses until it is dropped.
fn eavesdropper(hosts: &Hosts, overheard: &Overheard) -> Always {
    let addresses = (0..4).map(|n| format!("10.248.1.{}", 100 + n));
    let sockets: Vec<UdpSocket> = addresses
        .map(|address| {
            hosts.router.ip(&format!("address add {address}/24 dev server")).unwrap();
            hosts.router.enter(|| UdpSocket::bind((address, 0)).unwrap()).unwrap()
        })
        .collect();
    let overheard = Arc::clone(overheard);
    always(move || {
        let bytes = overheard.lock().unwrap().clone();
        for socket in sockets.iter().cycle().take(64) {
            let _ = socket.send_to(&bytes, (SERVER, PORT));
        }
    })
}

/// The eavesdropper's copy always arrives before the border's own datagram.
#[test]
fn no_handshake_is_denied_by_replays() {
    const HANDSHAKES: u64 = 60;
    // each round with a new server, which has room for a few hundred runs of a key
    for _ in 0..soak::times(1) {
        if handshakes_under_replay(HANDSHAKES).is_none() {
            return;
        }
    }
    let all = soak::times(HANDSHAKES);
    soak::report(&format!("{all} of {all} handshakes succeed"));
}

/// If the test cannot run, prints a line that says so and returns `None`.
fn handshakes_under_replay(handshakes: u64) -> Option<()> {
    let Scene { test: _test, hosts, agent, flow, .. } = scene("no_handshake_is_denied_by_replays", "mdcubic_replay")?;
    let overheard = Overheard::default();
    let eavesdropper = eavesdropper(&hosts, &overheard);
    for handshake in 1..=handshakes {
        let mut border = Scripted::new(0xa5, &hosts, handshake);
        let told = || format!("handshake {handshake}: {}", agent.told());
        let mut echoes = None;
        wait("an echo", told, || {
            let bytes = border.datagram(&[flow.seen_to(flow.first)]);
            overheard.lock().unwrap().clone_from(&bytes);
            sleep(Duration::from_millis(3));
            border.send(&bytes);
            sleep(Duration::from_millis(5));
            let before = agent.datagrams(DatagramFate::Echo);
            if border.answers() {
                echoes.get_or_insert(before);
            }
            echoes.is_some_and(|before| agent.datagrams(DatagramFate::Echo) > before)
        });
    }
    drop(eavesdropper);
    assert!(agent.datagrams(DatagramFate::Unauthenticated) > handshakes, "{}", agent.told());
    Some(())
}

/// The flood comes from the border's address, from a third party that cannot read the border's datagrams.
#[test]
fn no_flood_of_spoofed_datagrams_silences_a_border() {
    const REPORTS: u64 = 50;
    let (name, cc) = ("no_flood_of_spoofed_datagrams_silences_a_border", "mdcubic_spoof");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, Options { rate_per_second: 1000, ..options() });
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    let mut spoofed = Scripted { epoch: 78, ..Scripted::new(0xb6, &hosts, 78) };
    let forged = spoofed.datagram(&[flow.seen_to(flow.first)]);
    let flood = always(move || {
        for bytes in [&forged[..], b"noise"].iter().cycle().take(64) {
            let _ = spoofed.socket.send(bytes);
        }
    });
    let limited = || agent.datagrams(DatagramFate::RateLimited);
    wait("a flood", || agent.told(), || limited() > 1000);
    for accepted in 1..=REPORTS {
        border.report(&[flow.seen_to(flow.first)]);
        wait("an accepted report", || agent.told(), || agent.datagrams(DatagramFate::Accepted) >= accepted);
    }
    let before = agent.datagrams(DatagramFate::Echo);
    let told = || agent.told();
    wait("an answer", told, || border.answers() && agent.datagrams(DatagramFate::Echo) > before - 1);
    drop(flood);
}

/// A border's own datagrams are limited, too, once their codes are verified.
#[test]
fn a_border_that_floods_is_limited() {
    let (name, cc) = ("a_border_that_floods_is_limited", "mdcubic_greedy");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, Options { rate_per_second: 100, ..options() });
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    for _ in 0..200 {
        border.report(&[flow.seen_to(flow.first)]);
    }
    let told = || agent.told();
    wait("its end", told, || {
        agent.datagrams(DatagramFate::Accepted) + agent.datagrams(DatagramFate::RateLimited) == 200
    });
    assert!(agent.datagrams(DatagramFate::RateLimited) > 0, "{}", agent.told());
}
