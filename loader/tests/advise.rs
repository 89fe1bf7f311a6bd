//! Tests `hotcc advise` with real connections through a router.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/fed.rs"]
mod fed;
use common::*;
use fed::Fed;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::{clock, pins};
use hotcc_testbed::netlab::Lab;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use nix::sys::time::TimeValLike;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const RATE_BPS: f64 = 20e6;

fn groups(arguments: &[&str]) -> Vec<Value> {
    let report = json(&[&["advise", "--json", "--quiet"], arguments].concat());
    assert!(report["looks"].as_u64().unwrap() >= 2, "{report}");
    report["groups"].as_array().unwrap().clone()
}

/// A connection of CUBIC fills the queue of a router; another one is idle.
#[test]
fn a_full_queue_is_found_and_nothing_changes() {
    let Some(_test) = kernel_test("a_full_queue_is_found_and_nothing_changes", &["cc_advise"]) else { return };
    ok(&["load", "mdcubic", "--as", "cc_advise"]); // creates the map of PEP reports
    let lab = Lab::new("hotcc-advise").unwrap();
    let [server, router, phone] = ["server", "router", "phone"].map(|name| lab.namespace(name).unwrap());
    lab.veth(&server, "10.249.1.1/24", &router, "10.249.1.2/24").unwrap();
    lab.veth(&router, "10.249.2.1/24", &phone, "10.249.2.2/24").unwrap();
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    server.ip("route add default via 10.249.1.2").unwrap();
    phone.ip("route add default via 10.249.2.1").unwrap();
    router.tc("qdisc add dev phone root tbf rate 20mbit burst 15000 limit 500000").unwrap();

    let listener = phone.enter(|| TcpListener::bind("10.249.2.2:0").unwrap()).unwrap();
    let connect = || {
        let stream = server.enter(|| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        setsockopt(&stream, TcpCongestion, &OsString::from("cubic")).unwrap();
        (stream, listener.accept().unwrap().0)
    };
    let ((busy, mut reader), (idle, _idle_end)) = (connect(), connect());
    let received = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                received.fetch_add(length as u64, Relaxed);
            }
        });
        let mut writer = busy.try_clone().unwrap();
        scope.spawn(move || while writer.write_all(&[7; 1 << 16]).is_ok() {});

        let before = received.load(Relaxed);
        let found = groups(&["--for", "5s", "--to-prefix", "10.249.2.0/24"]);
        let moved = received.load(Relaxed) - before;
        let port = listener.local_addr().unwrap().port().to_string();
        let by_port = groups(&["--for", "1s", "--port", &port, "--min-bytes", "1000000000"]);
        let elsewhere = groups(&["--for", "1s", "--to-prefix", "10.249.3.0/24"]);
        let text = ok(&["advise", "--for", "1s", "--to-prefix", "10.249.2.0/24", "--min-bytes", "1000"]);
        let link = Fed::new("10.249.2.2/32", 600_000);
        link.publish(12.5, 11.0, 0);
        setsockopt(&busy, TcpCongestion, &OsString::from("bbr")).unwrap();
        let looked = AtomicBool::new(false);
        let known = std::thread::scope(|scope| {
            scope.spawn(|| {
                // as a border does; not for ever, if the advice fails
                for _ in 0..1500 {
                    if looked.load(Relaxed) {
                        break;
                    }
                    let time_ns = clock::monotonic_ns();
                    let report = PepFlow { updates: 2, rtt_us: 7_000, time_ns, ..PepFlow::default() };
                    write_storage(pins::PEP_FLOW, &busy, &report);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let known = json(&["advise", "--json", "--quiet", "--for", "1s", "--to-prefix", "10.249.2.0/24"]);
            looked.store(true, Relaxed);
            known["groups"].as_array().unwrap().clone()
        });
        setsockopt(&busy, TcpCongestion, &OsString::from("cubic")).unwrap();
        busy.shutdown(Shutdown::Both).unwrap();

        assert_eq!(found.len(), 1, "{found:?}");
        let group = &found[0];
        println!("{group:#}");
        let number = |key: &str| group[key].as_f64().unwrap();
        assert_eq!((&group["to"], &group["cc"]), (&"10.249.2.0/24".into(), &"cubic".into()));
        assert_eq!(group["connections"], 1, "the idle one moves nothing: {group}");
        assert!((0.5..=1.0).contains(&(number("bytes") / moved as f64)), "{moved} bytes: {group}");
        assert!((0.5..=1.1).contains(&(number("goodput_bps") / RATE_BPS)), "{group}");
        assert!(number("queue_mean_us") > number("least_rtt_us"), "{group}");
        assert!(number("queue_p95_us") >= number("queue_mean_us") / 2.0, "{group}");
        assert!(group["radio"] == false && group["pep"] == false, "{group}");
        assert_eq!((known.len(), &known[0]["to"]), (1, &"radio link 10.249.2.2/32".into()), "{known:?}");
        assert!(["radio", "pep", "paced"].iter().all(|is| known[0][is] == true), "{known:?}");
        let advice = &group["advice"];
        assert_eq!((&advice["rule"], &advice["try_cc"]), (&"long-queue".into(), &"crest".into()));
        assert_eq!(advice["evidence"][0]["page"], "docs/scoreboard.md");
        assert!(text.contains("\n  try crest (long-queue)\n") && text.ends_with("Nothing was changed.\n"), "{text}");
        assert!(text.contains("hotcc canary start --from cubic --to crest"), "{text}");

        // the receiver's end has the same port, and moves nothing
        assert!(by_port.iter().all(|group| group["advice"]["rule"] == "few-bytes"), "{by_port:?}");
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        assert_eq!([cc_of(&busy), cc_of(&idle)], ["cubic", "cubic"]);
    });
}

/// Returns the processor time of all commands so far, in seconds.
fn commands_cpu_s() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    (used.user_time() + used.system_time()).num_microseconds() as f64 / 1e6
}

/// With many radio links, a look takes long. Then looks are further apart, so that they take at most 4 % of the time.
#[test]
fn looks_at_many_links_take_little_of_a_processor() {
    let Some(_test) = kernel_test("looks_at_many_links_take_little_of_a_processor", &[]) else { return };
    let others = (0..3000).map(|n| Ipv4Addr::from_bits(Ipv4Addr::new(10, 250, 0, 0).to_bits() + n));
    let _links = Fed::several(others.chain([Ipv4Addr::LOCALHOST]).map(|peer| format!("{peer}/32")), 1000);
    let _connection = Connection::new("cubic");
    let cpu_s = |time: &str, every: &str| {
        let before = commands_cpu_s();
        json(&["advise", "--json", "--quiet", "--for", time, "--every", every, "--to-prefix", "127.0.0.1"]);
        commands_cpu_s() - before
    };
    let two_looks_s = cpu_s("1s", "60");
    let often_s = cpu_s("4s", "0.1");
    assert!(often_s < 2.0 * two_looks_s + 0.06 * 4.0, "{often_s} s of 4 s; two looks: {two_looks_s} s");
}

#[test]
fn the_command_line_is_checked() {
    assert!(fails(2, &["advise", "--for", "1"]).contains("expected a time like 90s"));
    assert!(fails(2, &["advise", "--every", "0"]).contains("between 0.1 and 3600"));
    assert!(fails(2, &["advise", "--port", "0"]).contains("0 is not in 1..=65535"));
    assert!(fails(2, &["advise", "--to-prefix", "10.0.0.0/33"]).contains("at most 32 bits"));
}
