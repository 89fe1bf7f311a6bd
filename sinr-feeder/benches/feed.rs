//! What the feeder costs, and how soon a reading is where algorithms look. Needs root; prints its figures:
//!
//!     cargo bench -p sinr-feeder --bench feed

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run may say so loudly")]

#[path = "../tests/kernel/sandbox.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod sandbox;
#[path = "../tests/live/tools.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod tools;

use sandbox::{Sandbox, sandbox};
use sinr_feeder::map::RadioView;
use std::fmt::Write;
use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tools::{Process, Sender, free_port, local, metrics, wait};

fn main() {
    let Some(sandbox) = sandbox("feed") else { return };
    latency(&sandbox);
    for lines_per_datagram in [20, 1] {
        cost(&sandbox, lines_per_datagram);
    }
}

/// From before a datagram is sent until its reading is seen in the map, which this thread looks at without a pause; and
/// the same with a thread that does nothing but receive and count, which is what the kernel takes for it.
fn latency(sandbox: &Sandbox) {
    let port = free_port();
    let feeder = Process::feeder(sandbox, &["--source", &format!("udp:{}", local(port)), "--link", "192.0.2.1"]);
    wait("the link", || !sandbox.links().is_empty(), || feeder.all_said());
    let view = RadioView::open(&sandbox.root).unwrap();
    let slot = view.slot_of("192.0.2.1:1".parse().unwrap()).unwrap().unwrap();

    let socket = UdpSocket::bind(local(0)).unwrap();
    let counting = Sender::new(socket.local_addr().unwrap().port());
    let counted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&counted);
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while socket.recv(&mut buffer).is_ok() {
            counter.fetch_add(1, Relaxed);
        }
    });
    let feed = Sender::new(port);
    let mut best = [[Duration::MAX; 2]; 2];
    for _ in 0..ROUNDS {
        let rounds =
            [round(&feed, || view.snapshot(slot).unwrap().updates), round(&counting, || counted.load(Relaxed))];
        for (best, round) in best.iter_mut().zip(rounds) {
            if round[1] < best[1] {
                *best = round;
            }
        }
    }
    for (what, [p50, p99]) in ["datagram to map", "datagram to a thread that counts"].into_iter().zip(best) {
        let us = |t: Duration| t.as_secs_f64() * 1e6;
        println!("{what}: p50 {:.0} us, p99 {:.0} us (the least disturbed of {ROUNDS} rounds)", us(p50), us(p99));
    }
}

/// On a machine that others use, the round with the least p99 is the one that says most about the feeder.
const ROUNDS: usize = 20;

/// Median and 99th percentile of 300 readings.
fn round(sender: &Sender, seen: impl Fn() -> u64) -> [Duration; 2] {
    const READINGS: usize = 300;
    let mut took: Vec<Duration> = Vec::with_capacity(READINGS);
    for i in 0..READINGS {
        let (before, sent) = (seen(), Instant::now());
        sender.sinr((i % 20) as f64);
        while seen() == before {
            assert!(sent.elapsed() < Duration::from_secs(5), "lost");
            std::hint::spin_loop();
        }
        took.push(sent.elapsed());
        sleep(Duration::from_millis(2));
    }
    took.sort_unstable();
    [took[READINGS / 2], took[READINGS * 99 / 100]]
}

/// Processor time of the feeder for 10,000 UEs with 10 readings a second each.
fn cost(sandbox: &Sandbox, lines_per_datagram: usize) {
    const UES: usize = 10_000;
    const PER_MS: usize = 100;
    let (port, http) = (free_port(), free_port());
    let (source, listen) = (format!("udp:{}", local(port)), local(http).to_string());
    let args = ["--source", &source, "--within", "10.0.0.0/8", "--listen", &listen, "--remove-on-exit"];
    let feeder = Process::feeder(sandbox, &args);
    wait("the feeder", || !metrics(http).is_empty(), || feeder.all_said());
    let datagrams: Vec<String> = (0..UES)
        .collect::<Vec<_>>()
        .chunks(lines_per_datagram)
        .map(|ues| {
            ues.iter().fold(String::new(), |mut text, ue| {
                let (high, low) = (ue / 256, ue % 256);
                writeln!(text, r#"{{"link":"10.0.{high}.{low}","sinr_db":{}.25,"rsrp_dbm":-95,"cqi":9}}"#, ue % 30)
                    .unwrap();
                text
            })
        })
        .collect();
    let sender = Sender::new(port);
    let play = |length: Duration| {
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < length {
            let due = start.elapsed().as_millis() as usize * PER_MS / lines_per_datagram;
            (sent..due).for_each(|i| sender.send(&datagrams[i % datagrams.len()]));
            sent = sent.max(due);
            sleep(Duration::from_micros(500));
        }
        (start.elapsed(), sent * lines_per_datagram)
    };
    play(Duration::from_secs(4)); // links are taken, periods known
    let applied =
        || metrics(http).iter().filter(|(name, _)| name.contains("readings_total")).map(|(_, n)| n).sum::<f64>();
    let (applied_before, cpu_before) = (applied(), cpu(feeder.child.id()));
    let (elapsed, sent) = play(Duration::from_secs(10));
    sleep(Duration::from_millis(100));
    let used = cpu(feeder.child.id()) - cpu_before;
    println!(
        "{UES} UEs, {:.0} readings/s, {lines_per_datagram} in a datagram: {:.1} % of a core, {:.2} us each, {:.2} % of them applied",
        sent as f64 / elapsed.as_secs_f64(),
        used / elapsed.as_secs_f64() * 100.0,
        used * 1e6 / sent as f64,
        (applied() - applied_before) / sent as f64 * 100.0
    );
}

/// Seconds of processor time that a process used so far.
fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
