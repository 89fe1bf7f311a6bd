//! Start and stop: clean stops, starts after kill -9, and what the command needs from the system.

use crate::common::{bounded_as, capabilities};
use crate::packet::Packet;
use crate::router::{Border, Network, write_seq};
use aya::maps::{Map, MapData, Queue};
use aya::programs::{SchedClassifier, TcAttachType};
use hotcc_testbed::kernel::skipped;
use nix::net::if_::if_nametoindex;
use nix::sys::signal::Signal;
use pep_agent::netlink::filters;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// Returns how many of our programs are attached at a place, by TCX and by clsact.
fn attached(network: &Network, interface: &str, direction: TcAttachType) -> (usize, usize) {
    network.enter("r", || {
        let ours = |name: &str| name.starts_with("border_");
        let (_, tcx) = SchedClassifier::query_tcx(interface, direction).unwrap();
        let ifindex = if_nametoindex(interface).unwrap();
        let filters = filters(ifindex, direction).unwrap();
        let tcx = tcx.iter().filter(|p| p.name_as_str().is_some_and(ours)).count();
        (tcx, filters.iter().filter(|f| ours(&f.name)).count())
    })
}

fn both(network: &Network) -> [(usize, usize); 2] {
    ["wan", "lan"].map(|interface| attached(network, interface, TcAttachType::Ingress))
}

fn killed_and_started_again(test: &str, method: &str, one_each: (usize, usize)) {
    let Some(network) = Network::new(test) else { return };
    let border = network.border(&["--attach", method]);
    assert_eq!(both(&network), [one_each; 2]);
    let mut flow = network.connect(0);
    network.transfer(&mut flow, 100_000);
    border.wait_for(&flow, |r| r.in_order == write_seq(&flow.0));
    border.stop(Signal::SIGKILL);

    // the agent is gone, the programs are attached, and flows run
    assert_eq!(both(&network), [one_each; 2]);
    network.transfer(&mut flow, 100_000);

    let border = network.border(&["--attach", method]);
    assert_eq!(both(&network), [one_each; 2], "no second copy");
    assert!(border.metric(&network, "hotcc_border_flows") >= 1.0, "the flow is known still");
    assert_eq!(border.metric(&network, "hotcc_border_flows_new_total"), 1.0);
    let refused =
        network.command(&["--internet", "wan", "--access", "lan", "--server", "10.0.0.0/8"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("another `pep-agent border` runs"), "{said}");
    let mode = fs::metadata(&network.pins).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "whoever can open the directory can lock it and keep the agent from starting");
    network.transfer(&mut flow, 100_000);
    border.wait_for(&flow, |r| r.in_order == write_seq(&flow.0) && r.ranges.is_empty());

    let (status, said) = border.stop(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{said}");
    assert_eq!(said.matches("replaces the one that an earlier process left").count(), 2, "{said}");
    assert_eq!(both(&network), [(0, 0); 2]);
    assert!(!network.pins.exists());
    network.transfer(&mut flow, 100_000);
}

#[test]
fn a_killed_border_is_replaced_with_tcx() {
    killed_and_started_again("tcx", "tcx", (1, 0));
}

#[test]
fn a_killed_border_is_replaced_with_clsact() {
    killed_and_started_again("clsact", "clsact", (0, 1));
}

/// While an agent polls, the kernel generates no reports by itself: the next agent must handle what was waiting when
/// the agent was killed.
#[test]
fn a_border_killed_while_it_polled_is_replaced() {
    const ROOM: usize = 1024;
    const PATIENCE: Duration = Duration::from_secs(20);
    let Some(network) = Network::new("polling") else { return };
    let started = Instant::now();
    // on a busy machine the agent may end polling before it is killed, and the timer then empties the queue: try again
    let mut flow = loop {
        let border = network.border(&[]);
        let (mut sender, mut receiver) = network.connect(0);
        let kept = sender.try_clone().unwrap();
        let busy =
            [
                std::thread::spawn(move || {
                    while started.elapsed() < 2 * PATIENCE && sender.write_all(&[0; 1 << 16]).is_ok() {}
                }),
                std::thread::spawn(move || drop(io::copy(&mut receiver, &mut io::sink()))),
            ];
        let polls = || border.metric(&network, "hotcc_border_looks_total");
        while polls() == polls() {
            assert!(started.elapsed() < PATIENCE, "it never polls when it is killed");
        }
        border.stop(Signal::SIGKILL);
        kept.shutdown(Shutdown::Both).unwrap();
        busy.into_iter().for_each(|thread| thread.join().unwrap());

        let mut flow = network.connect(0);
        for _ in 0..=ROOM {
            network.transfer(&mut flow, 1);
            std::thread::sleep(Duration::from_millis(1));
        }
        let waiting = MapData::from_pin(network.pins.join("waiting")).unwrap();
        let mut waiting: Queue<_, [u8; 64]> = Map::Queue(waiting).try_into().unwrap();
        if waiting.push([0; 64], 0).is_err() {
            break flow;
        }
    };

    let border = network.border(&[]);
    border.wait_for(&flow, |_| true);
    network.transfer(&mut flow, 1);
    border.wait_for(&flow, |r| r.in_order == write_seq(&flow.0));
}

#[test]
fn a_new_border_replaces_programs_attached_by_the_other_method() {
    let Some(network) = Network::new("other-way") else { return };
    let mut flow = network.connect(0);
    for (method, other, one) in [("clsact", "tcx", (1, 0)), ("tcx", "clsact", (0, 1))] {
        network.border(&["--attach", method]).stop(Signal::SIGKILL);
        let border = network.border(&["--attach", other]);
        assert_eq!(both(&network), [one; 2], "{other} after {method}");
        network.transfer(&mut flow, 100_000);
        border.wait_for(&flow, |r| r.in_order == write_seq(&flow.0));
        assert_eq!(border.stop(Signal::SIGTERM).0.code(), Some(0));
        assert_eq!(both(&network), [(0, 0); 2]);
    }
}

/// The interfaces have the same indices in both namespaces, as in containers.
#[test]
fn what_was_left_in_another_network_namespace_is_not_taken_for_this_ones() {
    let Some(there) = Network::new("elsewhere") else { return };
    let mut here = Network::new("here").unwrap();
    here.pins.clone_from(&there.pins);
    for (method, one) in [("tcx", (1, 0)), ("clsact", (0, 1))] {
        there.border(&["--attach", method]).stop(Signal::SIGKILL);
        let border = here.border(&["--attach", method]);
        assert_eq!(both(&here), [one; 2]);
        let (status, said) = border.stop(Signal::SIGTERM);
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("another network namespace") && !said.contains("replaces the one"), "{said}");
        // a link ends with its pin; a filter must be removed in its own namespace
        let left = if method == "tcx" { (0, 0) } else { one };
        assert_eq!(both(&there), [left; 2], "{said}");
    }
}

#[test]
fn programs_that_a_new_border_does_not_need_are_detached() {
    for (method, one) in [("tcx", (1, 0)), ("clsact", (0, 1))] {
        let Some(network) = Network::new(&format!("unwanted-{method}")) else { return };
        network.border(&["--attach", method]).stop(Signal::SIGKILL);
        assert_eq!(both(&network), [one; 2]);
        // the router translates addresses now: ACKs are observed where they leave; and the flow table has another size
        let border = network.border(&["--attach", method, "--nat", "--flows", "1000"]);
        assert_eq!(both(&network), [one, (0, 0)]);
        assert_eq!(attached(&network, "wan", TcAttachType::Egress), one);
        let mut flow = network.connect(1);
        network.transfer(&mut flow, 100_000);
        border.wait_for(&flow, |r| r.in_order == write_seq(&flow.0));
        assert_eq!(border.stop(Signal::SIGINT).0.code(), Some(0));
        assert_eq!(attached(&network, "wan", TcAttachType::Egress), (0, 0));
    }
}

#[test]
fn filters_of_other_programs_are_kept() {
    let Some(network) = Network::new("foreign") else { return };
    network.on("r", "tc qdisc add dev wan clsact");
    let passes = tempfile::NamedTempFile::new().unwrap();
    fs::write(passes.path(), "1,6 0 0 4294967295").unwrap();
    let file = passes.path().display();
    network.on("r", &format!("tc filter add dev wan ingress pref 4713 handle 1 bpf bytecode-file {file}"));
    let there = || network.enter("r", || filters(if_nametoindex("wan").unwrap(), TcAttachType::Ingress).unwrap());
    let before = there();
    assert_eq!(before.len(), 1, "{before:?}");
    let own = ["--internet", "wan", "--access", "lan", "--server", "10.0.0.0/8", "--attach", "clsact"];
    let refused = network.command(&own).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("of another program") && said.contains("tc filter del dev wan ingress pref 4713"), "{said}");
    assert_eq!(there(), before);
    assert_eq!(attached(&network, "lan", TcAttachType::Ingress), (0, 0));
    // the advice in the message works
    network.on("r", "tc filter del dev wan ingress pref 4713");
    assert_eq!(network.border(&["--attach", "clsact"]).stop(Signal::SIGTERM).0.code(), Some(0));
}

#[test]
fn it_keeps_two_capabilities_and_says_when_it_is_ready() {
    let Some(network) = Network::new("caps") else { return };
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let config = files.path().join("border.toml");
    fs::write(&config, "internet = ['wan']\naccess = ['lan']\nserver = ['10.201.1.0/24']\nsegments = 4\n").unwrap();
    let told = || {
        let mut message = [0; 100];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).trim().to_owned()
    };
    let options = ["--config", config.to_str().unwrap()];
    let border = Border::start_with(&network, &options, |command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    assert_eq!(told(), "READY=1");
    let set = |name: &str| capabilities(border.pid(), name);
    let (net_admin, bpf) = (1 << 12, 1 << 39);
    assert_eq!(["CapEff", "CapPrm", "CapBnd"].map(set), [net_admin | bpf; 3]);
    assert_eq!(["CapInh", "CapAmb"].map(set), [0; 2]);
    assert_eq!(border.get(&network, "/healthz").1, "ok\n");
    assert!(border.get(&network, "/nothing").0.contains("404"));
    assert_eq!(border.stop(Signal::SIGTERM).0.code(), Some(0));
    assert_eq!(told(), "STOPPING=1");
}

/// Returns the nice value and scheduling policy of each thread, with its name.
fn priorities(pid: u32) -> Vec<(String, [i32; 2])> {
    let priority = |stat: String| {
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = rest.split(' ').collect();
        (name.to_owned(), [16, 38].map(|field: usize| fields[field].parse().unwrap()))
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.map(|thread| priority(fs::read_to_string(thread.unwrap().path().join("stat")).unwrap())).collect()
}

#[test]
fn its_unit_leaves_it_what_it_needs() {
    let Some(network) = Network::new("unit") else { return };
    let unit = include_str!("../../../deploy/pep-border.service");
    let options = ["--internet", "wan", "--access", "lan", "--server", "10.201.1.0/24"];
    let border = Border::start_with(&network, &options, |command| bounded_as(unit, command));
    // it answers once everything has started
    assert_eq!(border.get(&network, "/healthz").1, "ok\n");
    let [own, _] = priorities(std::process::id())[0].1;
    // a thread sets its name itself, when it first runs
    let until = Instant::now() + Duration::from_secs(20);
    let threads = loop {
        let threads = priorities(border.pid());
        if threads.iter().any(|(name, _)| name == "reports") {
            break threads;
        }
        assert!(Instant::now() < until, "{threads:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    for (name, priority) in threads {
        let nice = if name == "reports" { -20 } else { own };
        assert_eq!(priority, [nice, nix::libc::SCHED_OTHER], "of the thread {name}");
    }
    assert_eq!(border.stop(Signal::SIGTERM).0.code(), Some(0));
}

#[test]
fn it_ends_when_an_interface_goes() {
    let Some(network) = Network::new("gone") else { return };
    let mut border = network.border(&[]);
    network.on("r", "ip link delete lan");
    let (status, said) = border.wait();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("interface lan is gone"), "{said}");
    assert!(!network.pins.exists());
    assert_eq!(attached(&network, "wan", TcAttachType::Ingress), (0, 0));
}

#[test]
fn invalid_options_leave_nothing_behind() {
    let Some(network) = Network::new("options") else { return };
    let fails = |code, options: &[&str]| {
        let output = network.command(options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(!network.pins.exists());
        said
    };
    let own = ["--internet", "wan", "--access", "lan", "--server"];
    assert!(fails(2, &own[..4]).contains("--server is missing"));
    assert!(fails(2, &[&own[..], &["10.0.0.0/40"]].concat()).contains("at most 32 bits"));
    assert!(fails(1, &["--internet", "wan0", "--access", "lan", "--server", "::/0"]).contains("no such interface"));
    assert!(fails(1, &["--config", "/nowhere.toml"]).contains("cannot read /nowhere.toml"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("border.toml");
    for (text, says) in [("segmets = 4\n", "did you mean `segments`?"), ("segments = 0\n", "expected a number from 1")]
    {
        fs::write(&file, text).unwrap();
        let said = fails(1, &[&own[..], &["10.0.0.0/8", "--config", file.to_str().unwrap()]].concat());
        assert!(said.contains(says) && said.contains("border.toml"), "{said}");
    }
    // a file could have named the keys: then it is no usage error
    fs::write(&file, "").unwrap();
    for (config, code) in [(&[][..], 2), (&["--config", file.to_str().unwrap()], 1)] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pep-agent"));
        let output = command.arg("border").args(own).arg("10.0.0.0/8").args(config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--key-file is missing"), "{said}");
        assert_eq!(output.status.code(), Some(code), "{said}");
    }
}

/// Creates a device whose packets begin with an IP header, like a UPF's towards its subscribers.
fn tun(network: &Network, name: &str) -> File {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    const TUNSETIFF: nix::libc::Ioctl = 0x4004_54ca;
    let mut request = Request { name: [0; 16], flags: 0x1001, rest: [0; 22] }; // IFF_TUN | IFF_NO_PI
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let file = network.enter("r", || {
        let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: the request is as large as the kernel's `struct ifreq`, 40 bytes, and lives beyond the call.
        let result = unsafe { nix::libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        file
    });
    network.on("r", &format!("ip link set {name} up"));
    file
}

#[test]
fn devices_without_a_link_header_are_read_from_their_first_byte() {
    const NAME: &str = "devices_without_a_link_header_are_read_from_their_first_byte";
    if !std::path::Path::new("/dev/net/tun").exists() {
        skipped(NAME, "needs /dev/net/tun");
        return;
    }
    let Some(network) = Network::new("tun") else { return };
    let (mut internet, mut access) = (tun(&network, "tun0"), tun(&network, "tun1"));
    let options = ["--internet", "tun0", "--access", "tun1", "--server", "192.0.2.0/24", "--segments", "1"];
    let border = Border::start(&network, &options);
    let (server, client) = ("192.0.2.1:443".parse().unwrap(), "198.51.100.1:5000".parse().unwrap());
    let mut send = |seq| internet.write_all(&Packet::data(server, client, seq, 100).ip()).unwrap();
    let last = |count: usize| {
        let started = Instant::now();
        loop {
            let reports = border.reports();
            if reports.len() >= count {
                return (reports[count - 1].in_order, reports[count - 1].ranges.clone());
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{reports:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    send(1000);
    assert_eq!(last(1), (1100, String::new()));
    send(1200);
    assert_eq!(last(2), (1100, "1200-1300".to_owned()));
    access.write_all(&Packet::ack(client, server, 1300).ip()).unwrap();
    send(1300);
    assert_eq!(last(3), (1400, String::new()));
}
