//! Tests the exporter: this test, promtool and a real Prometheus server scrape it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail loudly, helpers too")]

mod common;
#[path = "common/exported.rs"]
mod exported;
use common::*;
use exported::{Process, exporter, scrape, started_by, value};
use hotcc_abi::radio::{Capacity, IndexKey, PackedSinr, sinr_to_q8};
use hotcc_abi::{clock, pins};
use hotcc_radio_map::RadioSlots;
use hotcc_testbed::command::succeed;
use hotcc_testbed::http::get;
use hotcc_testbed::kernel::skipped;
use hotcc_testbed::netlab::Lab;
use hotcc_testbed::{metrics, ports};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn installed(test: &str, program: &str) -> bool {
    let found = Path::new(program).exists();
    if !found {
        skipped(test, format_args!("needs {program}"));
    }
    found
}

const PROMTOOL: &str = "/usr/bin/promtool";
const PROMETHEUS: &str = "/usr/bin/prometheus";

#[test]
fn answers_and_stops_cleanly() {
    let Some(_test) = kernel_test("answers_and_stops_cleanly", &[]) else { return };
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (process, address) = exporter(&[]);
        assert_eq!(get(address, "/healthz").unwrap().1, "ok\n");
        assert!(get(address, "/").unwrap().1.contains("/metrics"));
        assert!(get(address, "/nothing").unwrap().0.contains("404"));
        let taken = fails(1, &["exporter", "--listen", &address.to_string()]);
        assert!(taken.contains(&format!("cannot listen on {address}")) && taken.contains("in use"), "{taken}");
        assert_eq!(process.stop(signal).code(), Some(0));
    }
}

#[test]
fn its_unit_leaves_it_the_capabilities_it_needs() {
    let Some(_test) = kernel_test("its_unit_leaves_it_the_capabilities_it_needs", &["dtcp_unit"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_unit"]);
    let unit = include_str!("../../deploy/hotcc-exporter.service");
    let left = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let left = left.to_lowercase().replace("cap_", "+").replace(' ', ",");
    let mut bounded = Command::new("setpriv");
    bounded.args([&format!("--bounding-set=-all,{left}"), hotcc_path()]);
    let (mut process, address) = started_by(bounded.stderr(Stdio::piped()), &[]);
    assert_eq!(value(&scrape(address), "hotcc_algorithm_loaded{cc=\"dtcp_unit\"}"), Some(1.0));
    let mut line = String::new();
    BufReader::new(process.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let left = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let kept: Vec<&str> = left.split(' ').filter(|name| !["CAP_SETGID", "CAP_SETUID"].contains(name)).collect();
    let kept = kept.join(", ");
    let said = format!("running as user 0, with {kept}; serving HTTP as user 65534, with no capability\n");
    assert!(line.ends_with(&said), "{line}");
}

/// Returns the id of the exporter's HTTP process.
fn front(exporter: &Process) -> u32 {
    let id = exporter.0.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.trim().parse().unwrap_or_else(|_| panic!("one child, not {children:?}"))
}

#[test]
fn its_http_process_has_no_rights_and_the_collector_no_port() {
    let Some(_test) = kernel_test("its_http_process_has_no_rights_and_the_collector_no_port", &[]) else { return };
    let (process, address) = exporter(&[]);
    let front = front(&process);
    let status = std::fs::read_to_string(format!("/proc/{front}/status")).unwrap();
    let nobody = "65534\t65534\t65534\t65534";
    let zero = "0000000000000000";
    for line in [
        &format!("Uid:\t{nobody}"),
        &format!("Gid:\t{nobody}"),
        "Groups:\t65534 ",
        &format!("CapPrm:\t{zero}"),
        &format!("CapEff:\t{zero}"),
        &format!("CapInh:\t{zero}"),
        &format!("CapAmb:\t{zero}"),
        "NoNewPrivs:\t1",
    ] {
        assert!(status.lines().any(|l| l == line), "no {line:?} in\n{status}");
    }
    let sockets = |id: u32| -> Vec<String> {
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        links.map(|link| link.display().to_string()).filter(|link| link.starts_with("socket:")).collect()
    };
    // in /proc/net/tcp, the port of the local address is hexadecimal, and the inode is in column 9, counted from 0
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", address.port());
    let listener =
        table.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).find(|l| l[1].ends_with(&port)).unwrap();
    let listener = format!("socket:[{}]", listener[9]);
    assert!(sockets(front).contains(&listener));
    // the collector keeps the listener until it has printed the address
    wait_for("the collector to close its port", || (!sockets(process.0.id()).contains(&listener)).then_some(()));
    assert!(get(address, "/healthz").unwrap().0.starts_with("200 "));
}

#[test]
fn either_process_ends_with_the_other() {
    let Some(_test) = kernel_test("either_process_ends_with_the_other", &[]) else { return };
    let mut command = Command::new(hotcc_path());
    let (mut process, address) = started_by(command.stderr(Stdio::piped()), &[]);
    kill(Pid::from_raw(front(&process).cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains("the HTTP process ended unexpectedly (SIGKILL killed it); start the exporter again"),
        "{said}"
    );
    assert!(get(address, "/healthz").is_err());
    let (process, address) = exporter(&[]);
    let front = front(&process);
    process.stop(Signal::SIGKILL);
    // the orphan stays a zombie if no process reaps it
    let state = || std::fs::read_to_string(format!("/proc/{front}/stat"));
    wait_for("the HTTP process to end", || state().map_or(true, |stat| stat.contains(") Z ")).then_some(()));
    assert!(get(address, "/healthz").is_err());
}

/// Opens more connections than the process may have open files.
#[test]
fn idle_connections_do_not_stop_a_scrape() {
    const IDLE: usize = 400;
    let Some(_test) = kernel_test("idle_connections_do_not_stop_a_scrape", &[]) else { return };
    let (process, address) = exporter(&[]);
    let front = front(&process);
    let _idle: Vec<TcpStream> = (0..IDLE).map(|_| TcpStream::connect(address).unwrap()).collect();
    scrape(address);
    let files = std::fs::read_dir(format!("/proc/{front}/fd")).unwrap().count();
    assert!(files < 128, "{files} files of the HTTP process are open");
}

#[test]
fn many_scrapes_at_once_all_answer() {
    let Some(_test) = kernel_test("many_scrapes_at_once_all_answer", &[]) else { return };
    let (_process, address) = exporter(&[]);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| scrape(address));
        }
    });
}

/// Flows that are far shorter than any scrape interval are all counted.
#[test]
fn short_flows_are_all_counted() {
    const FLOWS_PER_THREAD: usize = 50;
    const THREADS: usize = 20;
    const HALF: usize = 10_000;
    let Some(_test) = kernel_test("short_flows_are_all_counted", &["dtcp_short"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_short"]);
    let (_process, address) = exporter(&[]);
    let before = scrape(address);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                for _ in 0..FLOWS_PER_THREAD {
                    let mut flow = Connection::to(&listener, Some("dtcp_short"));
                    flow.send(HALF);
                    std::thread::sleep(Duration::from_millis(50));
                    flow.send(HALF);
                    // the server closes after it has read the end, so everything is acknowledged when the client reads
                    // the server's end
                    flow.client.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(flow.server.read(&mut [0]).unwrap(), 0);
                    drop(flow.server);
                    assert_eq!(flow.client.read(&mut [0]).unwrap(), 0);
                }
            });
        }
    });
    let flows = (THREADS * FLOWS_PER_THREAD) as f64;
    // the algorithm updates this counter last when a flow ends
    let last = r#"hotcc_flow_min_rtt_seconds_count{cc="dtcp_short"}"#;
    let goal = value(&before, last).unwrap() + flows;
    let after = wait_for("all flows to close", || Some(scrape(address)).filter(|page| value(page, last) >= Some(goal)));
    assert_eq!(value(&after, r#"hotcc_sockets{cc="dtcp_short",version="current"}"#), Some(0.0));
    let grown = |series: &str| value(&after, series).unwrap() - value(&before, series).unwrap();
    for series in [
        r#"hotcc_flows_opened_total{cc="dtcp_short"}"#,
        r#"hotcc_flows_closed_total{cc="dtcp_short"}"#,
        last,
        r#"hotcc_flow_final_srtt_seconds_bucket{le="+Inf",cc="dtcp_short"}"#,
        r#"hotcc_flow_duration_seconds_count{cc="dtcp_short"}"#,
    ] {
        assert_eq!(grown(series), flows, "{series}");
    }
    assert!(grown(r#"hotcc_flow_duration_seconds_sum{cc="dtcp_short"}"#) >= flows * 0.05);
    // a FIN takes a sequence number, too
    let acked = grown(r#"hotcc_acked_bytes_total{cc="dtcp_short"}"#);
    assert_eq!(acked, flows * (2 * HALF + 1) as f64);
}

/// To Prometheus, a counter that falls looks like a reset, and its rate like a burst that did not happen. So no counter
/// falls, however often the name is swapped and old versions are removed, and whenever it is scraped.
#[test]
fn counters_never_fall_while_versions_come_and_go() {
    const SERIES: &str = r#"hotcc_flows_closed_total{cc="dtcp_gone"}"#;
    const ROUNDS: u32 = 15;
    let Some(_test) = kernel_test("counters_never_fall_while_versions_come_and_go", &["dtcp_gone"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_gone"]);
    let (_process, address) = exporter(&[]);
    let swapping = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = vec![0.0];
            while swapping.load(Relaxed) {
                seen.extend(value(&scrape(address), SERIES));
            }
            seen
        });
        for round in 0..ROUNDS {
            Connection::new("dtcp_gone").send(1000);
            let swap = ["swap", "dtcp_gone", ["westwoodp", "dtcp"][round as usize % 2]];
            ok(if round % 5 == 4 { &["rollback", "dtcp_gone"] } else { &swap });
        }
        swapping.store(false, Relaxed);
        let seen = watcher.join().unwrap();
        assert!(seen.is_sorted(), "it fell: {seen:?}");
        assert!(seen.len() > 20, "only {} looks", seen.len());
    });
    wait_for("all flows to be counted", || (value(&scrape(address), SERIES) == Some(f64::from(ROUNDS))).then_some(()));
}

/// Between the kernel's switch and the end of the command, the version that serves has no time yet.
#[test]
fn a_swap_that_was_killed_has_no_time_until_the_next_command() {
    let test = "a_swap_that_was_killed_has_no_time_until_the_next_command";
    let Some(_test) = kernel_test(test, &["dtcp_half"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_half"]);
    let (_process, address) = exporter(&[]);
    let shown = || {
        let page = scrape(address);
        ["loaded", "serving_since_seconds", "swaps"]
            .map(|what| value(&page, &format!("hotcc_algorithm_{what}{{cc=\"dtcp_half\"}}")))
    };
    let [_, loaded_s, swaps] = shown();
    assert_eq!(swaps, Some(0.0));
    let mut swap = Command::new(hotcc_path());
    swap.args(["swap", "dtcp_half", "westwoodp"]).env("HOTCC_KILL_AT", "switched").stdout(Stdio::null());
    assert!(!swap.status().unwrap().success());
    assert_eq!(shown(), [Some(1.0), None, None]);
    ok(&["set", "dtcp_half", "min_sample_us=50000"]);
    let [_, swapped_s, swaps] = shown();
    assert!(swapped_s > loaded_s && swaps == Some(1.0), "{swapped_s:?} {swaps:?}");
}

/// Slot of the first link, which has a reading. The second link has no reading.
const SLOT: u32 = 65_000;

/// Two links with documentation addresses in the real radio maps, which are removed when the value is dropped.
struct RadioLinks(MapHandle, [IndexKey; 2]);

impl RadioLinks {
    fn new() -> Self {
        let open = |name| MapHandle::from_pinned_path(pins::signal(name)).unwrap();
        let keys = [1, 2].map(|n| IndexKey::prefix([203, 0, 113, n].into(), 32).unwrap());
        let links = Self(open(pins::RADIO_INDEX), keys);
        let slots = RadioSlots::writable(open(pins::RADIO_SLOTS)).unwrap();
        for (key, number) in links.1.iter().zip(SLOT..) {
            let slot = slots.slot(number).unwrap();
            slot.sinr.store(0, Relaxed);
            slot.capacity.store(0, Relaxed);
            slot.owner_pid.store(0, Relaxed);
            links.0.update(bytemuck::bytes_of(key), &number.to_ne_bytes(), MapFlags::ANY).unwrap();
        }
        let slot = slots.slot(SLOT).unwrap();
        let time_ms = clock::monotonic_ms32();
        let sinr = PackedSinr { sinr_q8_db: sinr_to_q8(12.5), average_q8_db: sinr_to_q8(10.0), time_ms };
        slot.max_age_ms.store(10_000, Relaxed);
        slot.sinr.store(sinr.pack(), Relaxed);
        slot.capacity.store(Capacity::new(20e6, false, time_ms).unwrap().pack(), Relaxed);
        links
    }

    /// Makes a process the owner of the second link, as if it fed the link; 0 for none, as after its clean end.
    fn feed_second(&self, process: u32) {
        let slots =
            RadioSlots::writable(MapHandle::from_pinned_path(pins::signal(pins::RADIO_SLOTS)).unwrap()).unwrap();
        slots.slot(SLOT + 1).unwrap().owner_pid.store(process, Relaxed);
    }
}

impl Drop for RadioLinks {
    fn drop(&mut self) {
        for key in &self.1 {
            let _ = self.0.delete(bytemuck::bytes_of(key));
        }
    }
}

#[test]
fn radio_links_are_shown_up_to_the_limit() {
    let Some(_test) = kernel_test("radio_links_are_shown_up_to_the_limit", &["dtcp_radio"]) else { return };
    ok(&["load", "dtcp", "--as", "dtcp_radio"]); // creates the maps
    let links = RadioLinks::new();
    let (_all, address) = exporter(&[]);
    let page = scrape(address);
    assert_eq!(value(&page, r#"hotcc_radio_sinr_db{link="203.0.113.1/32"}"#), Some(12.5));
    assert_eq!(value(&page, r#"hotcc_radio_sinr_average_db{link="203.0.113.1/32"}"#), Some(10.0));
    assert_eq!(value(&page, r#"hotcc_radio_fresh{link="203.0.113.1/32"}"#), Some(1.0));
    assert_eq!(value(&page, r#"hotcc_radio_sinr_db{link="203.0.113.2/32"}"#), None);
    // a link whose feeder has shut down is not reported as stale
    let is_fresh = |page: &str| value(page, r#"hotcc_radio_fresh{link="203.0.113.2/32"}"#);
    assert_eq!(is_fresh(&page), None);
    links.feed_second(std::process::id());
    assert_eq!(is_fresh(&scrape(address)), Some(0.0));
    let (_first, address) = exporter(&["--max-links", "1"]);
    let page = scrape(address);
    assert_eq!(page.matches("hotcc_radio_fresh{").count(), 1);
    let (links, omitted) = (value(&page, "hotcc_radio_links"), value(&page, "hotcc_radio_links_omitted"));
    assert!(links >= Some(2.0) && omitted == links.map(|n| n - 1.0), "{links:?} {omitted:?}");
}

#[test]
fn promtool_accepts_the_page() {
    const NAME: &str = "promtool_accepts_the_page";
    let Some(_test) = kernel_test(NAME, &["crest_lint"]) else { return };
    if !installed(NAME, PROMTOOL) {
        return;
    }
    ok(&["load", "crest", "--as", "crest_lint"]);
    let _open = Connection::new("crest_lint");
    let _links = RadioLinks::new();
    let (_process, address) = exporter(&[]);
    metrics::check(address).unwrap();
}

#[test]
fn each_alert_fires_and_ends_when_it_should() {
    if !installed("each_alert_fires_and_ends_when_it_should", PROMTOOL) {
        return;
    }
    for (verb, file) in [("check", "../deploy/prometheus-rules.yml"), ("test", "tests/alerts.yml")] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        succeed(Command::new(PROMTOOL).args([verb, "rules"]).arg(file));
    }
}

/// Calls `ask` again and again until it returns a value.
#[track_caller]
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "waited 60 s for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A Prometheus server that scrapes an exporter each second.
struct Prometheus {
    _process: Process,
    address: SocketAddr,
}

impl Prometheus {
    fn start(test: &KernelTest, exporter: SocketAddr, options: &[&str]) -> Self {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/prometheus-rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n  - job_name: \
             hotcc\n    static_configs: [{{targets: ['{exporter}']}}]\n",
            rules.canonicalize().unwrap().display()
        );
        let config = test.file("prometheus.yml", config.as_bytes());
        let address = (Ipv4Addr::LOCALHOST, ports::free().unwrap()).into();
        let log = std::fs::File::create(test.dir.path().join("log")).unwrap();
        let process = Process::start(
            Command::new(PROMETHEUS)
                .arg(format!("--config.file={config}"))
                .arg(format!("--storage.tsdb.path={}", test.dir.path().join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .args(options)
                .stdout(log.try_clone().unwrap())
                .stderr(log),
        );
        Self { _process: process, address }
    }

    /// Returns labels and value of the first series in the result.
    fn query(&self, expression: &str) -> Option<(serde_json::Value, String)> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (_, body) = get(self.address, &format!("/api/v1/query?query={encoded}")).ok()?;
        let answer: serde_json::Value = serde_json::from_str(&body).ok()?;
        let first = answer["data"]["result"].get(0)?;
        Some((first["metric"].clone(), first["value"][1].as_str()?.to_owned()))
    }

    /// Returns the first value in the result.
    fn number(&self, expression: &str) -> Option<f64> {
        self.query(expression)?.1.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// A Prometheus that accepts native histograms asks for protobuf, and computes quantiles from one series instead of one
/// for each bucket.
#[test]
fn a_prometheus_with_native_histograms_scrapes_them() {
    const NAME: &str = "a_prometheus_with_native_histograms_scrapes_them";
    const FLOWS: usize = 20;
    let Some(test) = kernel_test(NAME, &["dtcp_native"]) else { return };
    if !installed(NAME, PROMETHEUS) {
        return;
    }
    ok(&["load", "dtcp", "--as", "dtcp_native"]);
    let (_exporter, address) = exporter(&[]);
    let prometheus = Prometheus::start(&test, address, &["--enable-feature=native-histograms"]);
    let number = |expression: &str| prometheus.number(expression);
    let duration = r#"hotcc_flow_duration_seconds{cc="dtcp_native"}"#;
    let count = format!("histogram_count({duration})");
    wait_for("an empty native histogram", || number(&count).filter(|n| *n == 0.0));
    std::thread::scope(|scope| {
        for _ in 0..FLOWS {
            scope.spawn(|| {
                let mut flow = Connection::new("dtcp_native");
                flow.send(10_000);
                std::thread::sleep(Duration::from_millis(700));
            });
        }
    });
    wait_for("all flows to be counted", || number(&count).filter(|n| *n == FLOWS as f64));
    let page = scrape(address);
    let of_text = |series: &str| value(&page, &format!("hotcc_flow_duration_seconds_{series}{{cc=\"dtcp_native\"}}"));
    assert_eq!(of_text("count"), Some(FLOWS as f64));
    // all flows took about as long, so their mean, which is exact, is about their median
    let mean = of_text("sum").unwrap() / FLOWS as f64;
    let median = wait_for("a median", || number(&format!("histogram_quantile(0.5, rate({duration}[1m]))")));
    assert!((0.85..1.15).contains(&(median / mean)), "{median} s, mean {mean} s");
    assert_eq!(number("hotcc_flow_duration_seconds_bucket"), None, "only the native histogram");
    assert_eq!(number("hotcc_loads_total"), value(&page, "hotcc_loads_total"));
    let quantiles = dashboard().into_iter().filter(|(_, query)| query.contains("rate(hotcc_flow_"));
    let panels = quantiles.map(|(panel, query)| (panel, query.replace("[10s]", "[1m]")));
    let shown: Vec<f64> = panels.map(|(panel, query)| wait_for(&panel, || number(&query))).collect();
    assert_eq!(shown.len(), 2);
}

#[test]
fn a_real_prometheus_scrapes_it() {
    const NAME: &str = "a_real_prometheus_scrapes_it";
    let Some(test) = kernel_test(NAME, &["dtcp_prom", "crest_prom"]) else { return };
    if !installed(NAME, PROMETHEUS) {
        return;
    }
    ok(&["load", "dtcp", "--as", "dtcp_prom"]);
    ok(&["load", "crest", "--as", "crest_prom"]);
    let (_exporter, address) = exporter(&[]);
    let prometheus = Prometheus::start(&test, address, &[]);
    let query = |expression: &str| prometheus.query(expression);
    wait_for("up == 1", || query("up").filter(|(_, value)| value == "1"));
    let (labels, one) = wait_for("the first samples", || query("hotcc_build_info"));
    assert_eq!((labels["version"].as_str(), one.as_str()), (Some(env!("CARGO_PKG_VERSION")), "1"));
    let (labels, _) = wait_for("the algorithm", || query("hotcc_algorithm_info{cc=\"dtcp_prom\"}"));
    assert_eq!(labels["object"], "builtin:dtcp");
    for name in ["hotcc_flow_duration_seconds_bucket", "hotcc_acked_bytes_total", "hotcc_sockets", "hotcc_swaps_total"]
    {
        assert!(query(name).is_some(), "{name}");
    }
    let links = RadioLinks::new();
    // a link without readings raises an alert while its feeder runs, or if it was killed; not after it has ended
    links.feed_second(std::process::id());
    let alert = r#"ALERTS{alertname="HotccRadioLinkStale",link="203.0.113.2/32"}"#;
    wait_for("the alert", || query(alert));
    links.feed_second(0);
    wait_for("the end of the alert", || query("up").filter(|_| query(alert).is_none()));
    let _open = Connection::new("dtcp_prom");
    let _with_state = Connection::new("crest_prom");
    for (panel, expression) in dashboard() {
        wait_for(&format!("data for {panel}: {expression}"), || {
            Connection::new("dtcp_prom").send(1000);
            query(&expression).filter(|(_, value)| value.parse::<f64>().is_ok_and(f64::is_finite))
        });
    }
}

/// Returns title and query of each panel of the dashboard, with values in place of Grafana's variables.
fn dashboard() -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
    let queries: Vec<(String, String)> = panels
        .flat_map(|panel| {
            let title = panel["title"].as_str().unwrap();
            panel["targets"].as_array().unwrap().iter().map(move |target| (title, target["expr"].as_str().unwrap()))
        })
        .map(|(title, query)| (title, query.replace("$instance", ".*").replace("$__rate_interval", "10s")))
        .map(|(title, query)| (title.to_owned(), query))
        .collect();
    assert!(queries.len() >= 16 && queries.iter().all(|(_, query)| !query.contains('$')), "{queries:?}");
    queries
}

#[test]
fn namespaces_beyond_the_soft_limit_of_open_files_are_counted() {
    const NAMESPACES: usize = 80;
    let Some(_test) = kernel_test("namespaces_beyond_the_soft_limit_of_open_files_are_counted", &[]) else { return };
    let lab = Lab::new("hotcc-many").unwrap();
    let hosts: Vec<_> = (0..NAMESPACES).map(|n| lab.namespace(&format!("n{n}")).unwrap()).collect();
    let listen = || {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        setsockopt(&listener, TcpCongestion, &std::ffi::OsString::from("reno")).unwrap();
        listener
    };
    let _listeners: Vec<_> = hosts.iter().map(|host| host.enter(listen).unwrap()).collect();
    let mut limited = Command::new("prlimit");
    limited.args(["--nofile=64:4096", hotcc_path()]);
    let (_process, address) = started_by(&mut limited, &[]);
    let listeners = value(&scrape(address), r#"hotcc_listeners{cc="reno",version="kernel"}"#);
    assert!(listeners >= Some(NAMESPACES as f64), "{listeners:?}");
}
