//! Measures what the feeder costs, and how soon a reading is where algorithms look it up. Needs root; prints its
//! figures:
//!
//!     cargo bench -p sinr-feeder --bench feed

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run may say so loudly")]

#[path = "../tests/kernel/sandbox.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod sandbox;
#[path = "../tests/live/tools.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod tools;

use hotcc_radio_map::RadioView;
use nix::libc;
use sandbox::{Sandbox, sandbox};
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
    let unit = include_str!("../../deploy/sinr-feeder.service");
    assert!(unit.contains("CPUSchedulingPolicy=fifo"), "what is measured here is how the unit runs it");
    for (priority, policy) in [("at ordinary priority", libc::SCHED_OTHER), ("as its unit runs it", libc::SCHED_FIFO)] {
        latency(&sandbox, priority, policy);
    }
    schedule(libc::SCHED_FIFO);
    for lines_per_datagram in [20, 1] {
        cost(&sandbox, lines_per_datagram);
    }
}

/// Gives this thread, and the threads and processes that it starts from now on, this scheduling policy.
fn schedule(policy: libc::c_int) {
    let param = libc::sched_param { sched_priority: libc::c_int::from(policy == libc::SCHED_FIFO) };
    // SAFETY: `param` lives for the call, and 0 is the calling thread.
    let done = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Measures the time from before a datagram is sent until its reading is visible in the map. This thread polls the map
/// without a pause and at real-time priority, so that it does not wait itself. For comparison, also measures the time
/// until a thread that only receives and counts has the datagram, which is the kernel's share.
fn latency(sandbox: &Sandbox, priority: &str, policy: libc::c_int) {
    schedule(policy);
    let port = free_port();
    let args = ["--source", &format!("udp:{}", local(port)), "--link", "192.0.2.1"];
    let feeder = Process::feeder(sandbox, &args);
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
    schedule(libc::SCHED_FIFO);
    let before = Load::now();
    let [mut to_map, mut to_thread] = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        round(&feed, || view.snapshot(slot).unwrap().updates, &mut to_map);
        round(&counting, || counted.load(Relaxed), &mut to_thread);
    }
    for (what, mut took) in [("datagram to map", to_map), ("datagram to a thread that counts", to_thread)] {
        took.sort_unstable();
        let us = |permille: usize| took[took.len() * permille / 1000].as_secs_f64() * 1e6;
        println!("{what}, {priority}: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us", us(500), us(990), us(999));
    }
    println!("  meanwhile: {}", before.until_now());
}

/// Number of rounds of each: the feeder and the counting thread take turns.
const ROUNDS: usize = 20;

/// Sends 300 readings, and records how long each took.
fn round(sender: &Sender, seen: impl Fn() -> u64, took: &mut Vec<Duration>) {
    for i in 0..300 {
        let (before, sent) = (seen(), Instant::now());
        sender.sinr(f64::from(i % 20));
        while seen() == before {
            assert!(sent.elapsed() < Duration::from_secs(5), "lost");
            std::hint::spin_loop();
        }
        took.push(sent.elapsed());
        sleep(Duration::from_millis(2));
    }
}

/// The load of the machine: ticks of all its processors.
struct Load {
    idle: u64,
    stolen: u64,
    all: u64,
}

impl Load {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let ticks: Vec<u64> = stat.lines().next().unwrap().split(' ').filter_map(|n| n.parse().ok()).collect();
        Self { idle: ticks[3] + ticks[4], stolen: ticks[7], all: ticks[..8].iter().sum() }
    }

    fn until_now(&self) -> String {
        let now = Self::now();
        let share = |then: u64, now: u64, all: u64| (now - then) as f64 / all.max(1) as f64 * 100.0;
        let all = now.all - self.all;
        let load = fs::read_to_string("/proc/loadavg").unwrap();
        format!(
            "processors {:.0} % busy, {:.0} % taken by the machine's host, load {}",
            100.0 - share(self.idle, now.idle, all),
            share(self.stolen, now.stolen, all),
            load.split(' ').next().unwrap()
        )
    }
}

/// Measures the processor time of the feeder for 10,000 UEs with 10 readings per second each.
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
    let run_for = |length: Duration| {
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < length {
            let due = start.elapsed().as_millis() as usize * PER_MS / lines_per_datagram;
            (sent..due).for_each(|i| sender.send(&datagrams[i % datagrams.len()]));
            sent = sent.max(due);
            sleep(Duration::from_micros(500));
        }
        (start.elapsed(), sent * lines_per_datagram)
    };
    run_for(Duration::from_secs(4)); // afterwards, the links are taken and the periods known
    let load = Load::now();
    let applied =
        || metrics(http).iter().filter(|(name, _)| name.contains("readings_total")).map(|(_, n)| n).sum::<f64>();
    let (applied_before, cpu_before) = (applied(), cpu(feeder.child.id()));
    let (elapsed, sent) = run_for(Duration::from_secs(10));
    sleep(Duration::from_millis(100));
    let used = cpu(feeder.child.id()) - cpu_before;
    println!(
        "{UES} UEs, {:.0} readings/s, {lines_per_datagram} in a datagram: {:.1} % of a core, {:.2} us each, {:.2} % of them applied",
        sent as f64 / elapsed.as_secs_f64(),
        used / elapsed.as_secs_f64() * 100.0,
        used * 1e6 / sent as f64,
        (applied() - applied_before) / sent as f64 * 100.0
    );
    println!("  meanwhile: {}", load.until_now());
}

/// Returns the processor time that all threads of a process have used so far, in seconds.
fn cpu(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let used_ns = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    tasks.map(|task| used_ns(task.unwrap())).sum::<u64>() as f64 / 1e9
}
