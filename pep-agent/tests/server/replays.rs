//! An eavesdropper who sends again what borders send, from elsewhere and as often as it can.

use crate::host::*;
use crate::scripted::Scripted;
use pep_agent::server::DatagramFate;
use pep_agent::wire::PORT;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

/// What was overheard last.
type Overheard = Arc<Mutex<Vec<u8>>>;

/// Sends it from four addresses, until it is dropped.
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

/// The eavesdropper's copy is there before the border's own datagram, each time.
#[test]
fn no_handshake_is_denied_by_replays() {
    const HANDSHAKES: u64 = 60;
    let Some(Scene { test: _test, hosts, agent, flow, .. }) =
        scene("no_handshake_is_denied_by_replays", "mdcubic_replay")
    else {
        return;
    };
    let overheard = Overheard::default();
    let eavesdropper = eavesdropper(&hosts, &overheard);
    for handshake in 1..=HANDSHAKES {
        let mut border = Scripted::new(0xa5, &hosts, handshake);
        let told = || format!("handshake {handshake}: {}", agent.told());
        wait("an accepted report", told, || {
            let bytes = border.datagram(&[flow.seen_to(flow.first)]);
            overheard.lock().unwrap().clone_from(&bytes);
            sleep(Duration::from_millis(3));
            border.send(&bytes);
            sleep(Duration::from_millis(5));
            border.answers();
            agent.datagrams(DatagramFate::Echo) == handshake
        });
    }
    drop(eavesdropper);
    assert!(agent.datagrams(DatagramFate::Unproven) > HANDSHAKES, "{}", agent.told());
}
