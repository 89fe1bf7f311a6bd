//! The effect of reports on a sender while none of its client's ACKs arrive.

use crate::host::*;
use pep_agent::report::Transport;
use pep_agent::server::{Options, RecordFate};
use std::cell::RefCell;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

fn grows_without_acks(name: &str, cc: &'static str, address: &str) {
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, options());
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, address, cc);
    introduce(&mut border, &agent, &flow);
    let start = flow.info();
    hosts.hold_acks();
    flow.fill();
    wait("the first window", || format!("{}", flow.unacked()), || flow.unacked() == start.tcpi_snd_cwnd);
    let mut sent = vec![flow.unacked()];
    for round in 0..4 {
        let clocked = agent.records(RecordFate::Clocked);
        let report = flow.seen();
        border.send(&[report], now_us());
        wait("a clocked record", || agent.told(), || agent.records(RecordFate::Clocked) > clocked);
        let told = || format!("{round}: {:?} {} {:#?}", sent, agent.told(), flow.connection());
        wait("more in flight", told, || flow.unacked() > *sent.last().unwrap());
        sleep(Duration::from_millis(20));
        sent.push(flow.unacked());
    }
    // slow start by what arrived at the border: W1 doubles, and all of D2 is beyond the border
    assert!(sent[4] >= 2 * 2 * 2 * 2 * sent[0], "{sent:?}");
    let info = flow.info();
    assert_eq!((info.tcpi_total_retrans, info.tcpi_ca_state), (start.tcpi_total_retrans, 0), "{sent:?}");
    assert_eq!((info.tcpi_rtt, info.tcpi_rttvar), (start.tcpi_rtt, start.tcpi_rttvar), "no RTT sample");
    assert!(flow.state("d2_segments") > 0 && flow.state("flags") & 3 == 3, "{:#?}", flow.connection());
    hosts.release_acks();
}

#[test]
fn reports_clock_a_sender_whose_acks_are_held_back() {
    grows_without_acks("reports_clock_a_sender_whose_acks_are_held_back", "mdcubic_clk4", SERVER);
}

#[test]
fn reports_clock_a_sender_over_ipv6() {
    grows_without_acks("reports_clock_a_sender_over_ipv6", "mdcubic_clk6", SERVER_V6);
}

#[test]
fn without_clocking_the_credit_waits_for_the_clients_next_ack() {
    let (name, cc) = ("without_clocking_the_credit_waits_for_the_clients_next_ack", "mdcubic_noclk");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, Options { clock: false, ..options() });
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    introduce(&mut border, &agent, &flow);
    let first = flow.info().tcpi_snd_cwnd;
    hosts.hold_acks();
    flow.fill();
    wait("the first window", || format!("{}", flow.unacked()), || flow.unacked() == first);
    let written = agent.records(RecordFate::Written);
    border.send(&[flow.seen()], now_us());
    wait("a record", || agent.told(), || agent.records(RecordFate::Written) > written);
    sleep(Duration::from_millis(100));
    assert_eq!((flow.unacked(), flow.info().tcpi_snd_cwnd), (first, first), "nothing moves without an ACK");
    assert_eq!(flow.connection().pep.unwrap().in_order_bytes as u32, first * flow.info().tcpi_snd_mss);
    hosts.release_acks();
    let before = flow.info().tcpi_bytes_acked;
    (&flow.client).write_all(b"ack").unwrap(); // this segment acknowledges everything that the client has
    wait("an ACK", || agent.told(), || flow.info().tcpi_bytes_acked > before);
    assert!(flow.info().tcpi_snd_cwnd >= 2 * first, "{:#?}", flow.connection());
    assert_eq!(agent.records(RecordFate::Clocked), 0);
}

/// ssthresh of a flow that was never held back.
const INFINITE_SSTHRESH: i128 = 0x7fff_ffff;

/// The border sees every segment of a flow; then the client loses some. The path's only delay is that of a queue behind
/// the border, where a loss counts as congestion unless the tunable says otherwise.
#[test]
fn a_loss_beyond_the_border_shrinks_nothing() {
    let (name, cc) = ("a_loss_beyond_the_border_shrinks_nothing", "mdcubic_d2");
    let Some(test) = kernel_test(name, cc, &["d2_loss_events=1000", "d2_reduction=cubic"]) else { return };
    let hosts = Hosts::new();
    hosts.server.sysctl("net.ipv4.tcp_rto_min_us", "200000").unwrap();
    // a queue that the receiver's window cannot fill: no losses except those of the test
    hosts.client.sysctl("net.ipv4.tcp_rmem", "4096 262144 262144").unwrap();
    hosts.router.tc("qdisc add dev client root tbf rate 20mbit burst 16kb limit 4mb").unwrap();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, options());
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    introduce(&mut border, &agent, &flow);
    let reader = flow.read_at_client();
    let view = flow.border_view();
    let reports = always(move || _ = border.send(&[view.report()], now_us()));
    let wait_for = |what: &str, ready: &dyn Fn(&Flow) -> bool| {
        let ready = || {
            flow.fill();
            ready(&flow)
        };
        wait(what, || agent.told(), ready);
    };
    wait_for("a running transfer", &|flow| flow.info().tcpi_bytes_acked > 500_000);
    // so many, because a packet of several segments that begins before them passes whole: tbf passes up to 16 KB as one
    flow.lose_at_client(16);
    // more than one: a full receive buffer at the client may also lose a packet, before the test does
    wait_for("retransmissions", &|flow| flow.info().tcpi_total_retrans >= 3);
    flow.lose_nothing(); // the retransmission is still in the queue
    // one consistent snapshot: the next loss may be near
    let open = RefCell::new(None);
    wait_for("its end", &|flow| {
        let connection = flow.connection();
        let ended = connection.ca_state == "open";
        *open.borrow_mut() = ended.then_some(connection);
        ended
    });
    let connection = open.into_inner().unwrap();
    assert!(connection.retransmits >= 3, "{connection:#?}");
    let state = |field| connection.state.iter().find(|f| f.name == field).unwrap().value;
    assert!(state("losses_d1") == 0 && state("losses_d2") > 0, "{connection:#?}");
    let ssthresh = connection.ssthresh.map_or(INFINITE_SSTHRESH, i128::from);
    assert_eq!(ssthresh, state("prior_ssthresh"), "{connection:#?}");
    drop(reports);
    flow.end();
    reader.join().unwrap();
}
