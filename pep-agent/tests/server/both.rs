//! Both commands, started as a service manager starts them, and a flow between them.

use crate::common::{capabilities, metric};
use crate::host::*;
use hotcc_testbed::kernel::skipped;
use hotcc_testbed::netlab::{Namespace, Process};
use hotcc_testbed::programs::system_program;
use hotcc_testbed::{http, metrics};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const BPF: u64 = 1 << 39;

/// A running agent, stopped when dropped.
pub struct Running {
    pub process: Process,
    host: Namespace,
    http: SocketAddr,
    log: std::path::PathBuf,
}

impl Running {
    pub fn start(host: &Namespace, arguments: &[&str], log: &Path) -> Self {
        let manager = UnixDatagram::bind(log.with_extension("notify")).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let stdout = log.with_extension("stdout");
        let mut command = host.command(env!("CARGO_BIN_EXE_pep-agent"));
        command.args(arguments).args(["--listen", "127.0.0.1:0"]).env_remove("RUST_LOG");
        command.env("NOTIFY_SOCKET", log.with_extension("notify"));
        command.stdout(std::fs::File::create(&stdout).unwrap()).stderr(std::fs::File::create(log).unwrap());
        let process = Process::start(command.stdin(Stdio::null())).unwrap();
        let mut message = [0; 100];
        let length = manager.recv(&mut message).unwrap_or_else(|_| panic!("{}", std::fs::read_to_string(log).unwrap()));
        assert_eq!(String::from_utf8_lossy(&message[..length]).trim(), "READY=1");
        let mut line = String::new();
        BufReader::new(std::fs::File::open(stdout).unwrap()).read_line(&mut line).unwrap();
        let http = line.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
        Self { process, host: host.clone(), http, log: log.to_owned() }
    }

    pub fn page(&self) -> String {
        self.host.enter(|| http::get(self.http, "/metrics")).unwrap().unwrap().1
    }

    /// Returns the value of a series, with its labels written as on the page.
    pub fn metric(&self, series: &str) -> f64 {
        metric(&self.page(), series)
    }

    /// Checks its page with promtool.
    fn check_page(&self) {
        self.host.enter(|| metrics::check(self.http)).unwrap().unwrap();
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Returns its effective, permitted and bounding capabilities.
    fn capabilities(&self) -> [u64; 3] {
        ["CapEff", "CapPrm", "CapBnd"].map(|set| capabilities(self.process.id(), set))
    }
}

/// The pin directory of a border of this test, removed when dropped.
struct Pins(&'static str);

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

const PINS: &str = "/sys/fs/bpf/hotcc-test-both";

fn border(hosts: &Hosts, keys: &Path, transport: &str, log: &Path) -> Running {
    let keys = keys.to_str().unwrap();
    let mut arguments = vec!["border", "--internet", "server", "--access", "client", "--server", "10.248.1.0/24"];
    arguments.extend(["--key-file", keys, "--pins", PINS, "--transport", transport]);
    Running::start(&hosts.router, &arguments, log)
}

fn server(hosts: &Hosts, keys: &Path, log: &Path) -> Running {
    Running::start(&hosts.server, &["server", "--key-file", keys.to_str().unwrap(), "--inband", "router"], log)
}

/// Sends data until a condition holds. This may take a few seconds: an agent checks for problems once a second, and
/// some warnings take three.
fn send_until(flow: &Flow, what: &str, told: impl Fn() -> String, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < 5 * PATIENCE, "{what} does not come; {}", told());
        flow.fill();
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn reports_reach_the_flow_whichever_way_they_travel() {
    let (name, cc) = ("reports_reach_the_flow_whichever_way_they_travel", "mdcubic_both");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let (hosts, _pins) = (Hosts::new(), Pins(PINS));
    hosts.server.sysctl("net.ipv6.bindv6only", "1").unwrap(); // the server's socket is for both families nevertheless
    let keys = test.key_file(&[(1, "a5")]);
    let log = |name: &str| test.dir.path().join(name);
    for (transport, more) in [("udp", 0), ("inband", NET_RAW)] {
        let server = server(&hosts, &keys, &log(&format!("server-{transport}")));
        let border = border(&hosts, &keys, transport, &log(&format!("border-{transport}")));
        assert_eq!(server.capabilities(), [0; 3]);
        assert_eq!(border.capabilities(), [NET_ADMIN | BPF | more; 3], "{transport}");
        let both = server.said() + &border.said();
        for line in ["running as user 0, with no capability", "running as user 0, with CAP_BPF, CAP_NET_ADMIN"] {
            assert!(both.contains(line), "{both}");
        }
        assert_eq!(both.matches(&format!(", with keys from {}\n", keys.display())).count(), 2, "{both}");
        let flow = Flow::open(&hosts, SERVER, cc);
        let reader = flow.read_at_client();
        let clocked = || server.metric(r#"hotcc_pep_server_records_total{result="clocked"}"#);
        send_until(&flow, "clocked records", || server.page(), || clocked() > 20.0);
        let seen = flow.connection().pep.expect("what the border saw");
        assert!(seen.segments > 0, "{seen:?}");
        assert!(border.metric("hotcc_border_datagrams_total") > 0.0);
        assert_eq!(border.metric(r#"hotcc_border_reports_dropped_total{reason="no_key"}"#), 0.0);
        // the server probes only borders that send UDP datagrams
        let answered = || border.metric("hotcc_border_probes_answered_total");
        if transport == "udp" {
            send_until(&flow, "an answer", || border.page(), || answered() > 0.0);
            send_until(
                &flow,
                "its time",
                || server.page(),
                || server.page().contains("\nhotcc_pep_server_rtt_seconds "),
            );
        } else {
            assert_eq!(answered(), 0.0);
        }
        if system_program("promtool").is_ok() {
            border.check_page();
            server.check_page();
        } else {
            skipped(name, "promtool is not installed (./setup.sh installs it)");
        }
        let said = border.said() + &server.said();
        assert!(!said.contains("WARN"), "{said}");
        // a new key, which both read without the capabilities that they started with
        test.key_file(&[(2, "b6")]);
        for agent in [&border, &server] {
            kill(Pid::from_raw(agent.process.id() as i32), Signal::SIGHUP).unwrap();
        }
        let is_read = || [&border, &server].iter().all(|agent| agent.said().contains("now using the keys of"));
        wait("the new key", || border.said() + &server.said(), is_read);
        let accepted = || server.metric(r#"hotcc_pep_server_datagrams_total{result="accepted"}"#);
        let before = accepted();
        send_until(&flow, "reports with the new key", || server.page(), || accepted() > before + 20.0);
        test.key_file(&[(1, "a5")]);
        flow.end();
        assert!(reader.join().unwrap() > 100_000);
        let outside = server.metric(r#"hotcc_pep_server_records_total{result="outside"}"#);
        assert_eq!(outside, 0.0, "of an honest border: {}", server.page());
    }
}

/// Whether a test that needs nft can run. If not, says so.
fn has_nft(test: &str) -> bool {
    let found = system_program("nft").is_ok();
    if !found {
        skipped(test, "nft is not installed (./setup.sh installs it)");
    }
    found
}

/// Gives the router these rules.
fn nft(hosts: &Hosts, rules: &[&str]) {
    for rule in rules {
        let status = hosts.router.command("nft").args(rule.split(' ')).status().unwrap();
        assert!(status.success(), "nft {rule}");
    }
}

#[test]
fn reports_in_the_flow_pass_a_border_that_translates_addresses() {
    let (name, cc) = ("reports_in_the_flow_pass_a_border_that_translates_addresses", "mdcubic_nat");
    if !has_nft(name) {
        return;
    }
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let (hosts, _pins) = (Hosts::new(), Pins(PINS));
    nft(
        &hosts,
        &[
            "add table ip nat",
            "add chain ip nat leaving { type nat hook postrouting priority 100 ; }",
            "add rule ip nat leaving oifname server masquerade",
            "add table inet hotcc",
            "add chain inet hotcc reports { type filter hook output priority raw ; }",
            "add rule inet hotcc reports meta mark 0x5045 notrack",
        ],
    );
    let keys = test.key_file(&[(1, "a5")]);
    let server = server(&hosts, &keys, &test.dir.path().join("server"));
    let mut arguments = vec!["border", "--internet", "server", "--access", "client", "--server", "10.248.1.0/24"];
    arguments.extend(["--nat", "--key-file", keys.to_str().unwrap(), "--pins", PINS, "--transport", "inband"]);
    let border = Running::start(&hosts.router, &arguments, &test.dir.path().join("border"));
    let flow = Flow::open(&hosts, SERVER, cc);
    let reader = flow.read_at_client();
    let clocked = || server.metric(r#"hotcc_pep_server_records_total{result="clocked"}"#);
    send_until(&flow, "clocked records", || border.page() + &server.page(), || clocked() > 20.0);
    flow.end();
    reader.join().unwrap();
}

#[test]
fn keys_that_do_not_fit_are_told_at_both_ends() {
    let (name, cc) = ("keys_that_do_not_fit_are_told_at_both_ends", "mdcubic_keys");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let (hosts, _pins) = (Hosts::new(), Pins(PINS));
    let log = |name: &str| test.dir.path().join(name);
    let server = server(&hosts, &test.key_file(&[(1, "a5")]), &log("server"));
    let flow = Flow::open(&hosts, SERVER, cc);
    let _reader = flow.read_at_client();
    {
        let border = border(&hosts, &test.key_file(&[(1, "b6")]), "udp", &log("border-other"));
        let is_told = || border.said().contains("no server has accepted a report so far");
        send_until(&flow, "a warning of the border's", || border.said() + &border.page(), is_told);
        send_until(
            &flow,
            "one of the server's",
            || server.said(),
            || server.said().contains("check that the border has the same key file"),
        );
    }
    let keys = test.key_file(&[(1, "a5")]);
    let for_others = std::fs::read_to_string(&keys).unwrap().trim_end().to_owned() + " 192.0.2.0/24\n";
    std::fs::write(&keys, for_others).unwrap();
    let border = border(&hosts, &keys, "udp", &log("border-none"));
    let is_told = || border.said().contains("because the key file has no key for their servers");
    send_until(&flow, "a warning", || border.said() + &border.page(), is_told);
    assert!(border.metric(r#"hotcc_border_reports_dropped_total{reason="no_key"}"#) > 0.0);
    assert_eq!(border.metric("hotcc_border_datagrams_total"), 0.0);
    flow.end();
}

#[test]
fn a_border_that_changes_its_key_alone_is_told() {
    let (name, cc) = ("a_border_that_changes_its_key_alone_is_told", "mdcubic_alone");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let (hosts, _pins) = (Hosts::new(), Pins(PINS));
    let (keys, log) = (test.key_file(&[(1, "a5")]), |name: &str| test.dir.path().join(name));
    let _server = server(&hosts, &keys, &log("server"));
    let border = border(&hosts, &keys, "udp", &log("border"));
    let flow = Flow::open(&hosts, SERVER, cc);
    let _reader = flow.read_at_client();
    let answered = || border.metric("hotcc_border_probes_answered_total") > 0.0;
    send_until(&flow, "an answer", || border.page(), answered);
    test.key_file(&[(1, "b6")]);
    kill(Pid::from_raw(border.process.id() as i32), Signal::SIGHUP).unwrap();
    let is_told = || border.said().contains("no server has probed this border");
    send_until(&flow, "a warning", || border.said(), is_told);
    flow.end();
}

#[test]
fn a_firewall_that_lets_no_report_out_is_told() {
    let (name, cc) = ("a_firewall_that_lets_no_report_out_is_told", "mdcubic_unsent");
    if !has_nft(name) {
        return;
    }
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let (hosts, _pins) = (Hosts::new(), Pins(PINS));
    nft(
        &hosts,
        &[
            "add table inet out",
            "add chain inet out output { type filter hook output priority 0 ; }",
            "add rule inet out output udp dport 4713 drop",
        ],
    );
    let border = border(&hosts, &test.key_file(&[(1, "a5")]), "udp", &test.dir.path().join("border"));
    let flow = Flow::open(&hosts, SERVER, cc);
    let _reader = flow.read_at_client();
    send_until(&flow, "a warning", || border.said(), || border.said().contains("reports could not be sent"));
    flow.end();
}
