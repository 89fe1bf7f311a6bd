//! Tests limited receive windows, which keep the queue on the path short.

use crate::common::{fails, kernel_test, ok};
use crate::path::*;
use nix::libc;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::net::TcpStream;
use std::time::Duration;

const FLOOR_BYTES: u32 = 6000;

#[test]
fn granted_windows_keep_the_queue_short_whatever_the_sender_runs() {
    let name = "granted_windows_keep_the_queue_short_whatever_the_sender_runs";
    let Some(_test) = kernel_test(name, &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let observe = |cc: &str, to: &str| {
        let flow = Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, to, cc);
        let transfer = Transfer::start(flow, cc);
        std::thread::sleep(Duration::from_secs(1));
        transfer.observe(15)
    };
    for (cc, to) in [("reno", RECEIVER_V4), ("cubic", RECEIVER_V6)] {
        let plain = observe(cc, to);
        let _loaded = Loaded::new("drwa", &["--cgroup", cgroup.path()]);
        let before = Before::now();
        let steered = observe(cc, to);
        println!("{cc}: without {plain:?}, with {steered:?}");
        assert_eq!(before.added("flows_clamped"), 1);
        assert!(before.added("clamps_set") > 10);
        assert_eq!(before.added("clamps_refused"), 0);
        assert!(steered.0 * 4 < plain.0, "{cc}: {} us, {} us without", steered.0, plain.0);
        assert!(steered.1 > plain.1 * 0.5, "{cc}: {} bytes/s, {} without", steered.1, plain.1);
    }
}

/// Without scaling, windows are at most 64 KiB, which is 13 ms here.
#[test]
fn windows_that_are_not_scaled_are_granted_as_well() {
    let Some(_test) = kernel_test("windows_that_are_not_scaled_are_granted_as_well", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    path.sender.sh("sysctl -qw net.ipv4.tcp_window_scaling=0");
    let observe = || {
        let flow = Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, "cubic");
        assert!(!flow.scales_windows());
        let transfer = Transfer::start(flow, "cubic");
        std::thread::sleep(Duration::from_secs(1));
        transfer.observe(15)
    };
    let plain = observe();
    let _loaded = Loaded::new("drwa", &["--cgroup", cgroup.path()]);
    let before = Before::now();
    let steered = observe();
    println!("without {plain:?}, with {steered:?}");
    assert!(before.added("clamps_set") > 10 && before.added("clamps_refused") == 0);
    assert!(steered.0 * 2 < plain.0 && steered.1 > plain.1 * 0.5);
}

#[test]
fn granted_windows_stay_between_the_floor_and_the_buffer() {
    let Some(_test) = kernel_test("granted_windows_stay_between_the_floor_and_the_buffer", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    // a clamp of 100 times what the sender uses, which grows to the buffer; and of 1 time, which shrinks to the floor
    for (lambda, is_low) in [("lambda_permille=100000", false), ("lambda_permille=1000", true)] {
        let floor = format!("floor_bytes={FLOOR_BYTES}");
        let _loaded = Loaded::new("drwa", &["--cgroup", cgroup.path(), "--set", lambda, "--set", &floor]);
        let before = Before::now();
        let flow = Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, "cubic");
        setsockopt(&flow.server, sockopt::RcvBuf, &20_000).unwrap();
        let buffer_bytes = u32::try_from(getsockopt(&flow.server, sockopt::RcvBuf).unwrap()).unwrap();
        let transfer = Transfer::start(flow, "cubic");
        wait("a clamp", || before.added("clamps_set") > 0);
        let bound = if is_low { FLOOR_BYTES } else { buffer_bytes };
        let (mut least, mut most, mut reached) = (u32::MAX, 0, 0);
        // until the clamp was at the bound several times: by then it would have exceeded an ineffective bound
        wait(&format!("a clamp of {bound}"), || {
            let clamp = socket_option::<u32>(&transfer.flow.server, libc::TCP_WINDOW_CLAMP);
            (least, most) = (least.min(clamp), most.max(clamp));
            reached += u32::from(clamp == bound);
            reached == 10
        });
        println!("{lambda}: {least}..{most} bytes, of a buffer of {buffer_bytes}");
        assert!(least >= FLOOR_BYTES && most <= buffer_bytes);
        let received = transfer.received();
        wait("more data", || transfer.received() > received + (1 << 20));
    }
}

#[test]
fn a_granted_window_has_a_state_that_goes_with_its_socket() {
    let Some(_test) = kernel_test("a_granted_window_has_a_state_that_goes_with_its_socket", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _loaded = Loaded::new("drwa", &["--cgroup", cgroup.path()]);
    let before = Before::now();
    let transfer = Transfer::start(Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, "cubic"), "cubic");
    wait("a clamp", || before.added("clamps_set") > 0);
    assert_eq!(states("drwa_flows"), 1);
    drop(transfer);
    wait("the end of its state", || states("drwa_flows") == 0);
}

/// Connections that send as fast as a small clamp allows.
struct Clamped([Transfer; 2]);

impl Clamped {
    fn new(path: &Path, cgroup: &Cgroup) -> Self {
        let open = || Flow::open(path, cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, "cubic");
        let clamped = Self([(); 2].map(|()| Transfer::start(open(), "cubic")));
        wait("small clamps", || clamped.clamps().into_iter().all(is_small));
        clamped
    }

    fn clamps(&self) -> [u32; 2] {
        self.0.each_ref().map(|transfer| clamp(&transfer.flow.server))
    }

    fn are_lifted(&self) {
        let lifted = self.clamps();
        println!("now {lifted:?}");
        assert!(!lifted.into_iter().any(is_small), "{lifted:?}");
        wait("a window of the kernel's own", || {
            let windows = self.0.each_ref().map(|t| socket_option::<libc::tcp_info>(&t.flow.server, libc::TCP_INFO));
            windows.iter().all(|info| info.tcpi_rcv_ssthresh > 100_000)
        });
    }
}

fn clamp(socket: &TcpStream) -> u32 {
    socket_option(socket, libc::TCP_WINDOW_CLAMP)
}

fn is_small(clamp: u32) -> bool {
    clamp < 16_000
}

const SMALL: [&str; 2] = ["--set", "lambda_permille=1000"];

#[test]
fn a_clamp_is_lifted_when_the_receiver_goes() {
    let Some(_test) = kernel_test("a_clamp_is_lifted_when_the_receiver_goes", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let loaded = Loaded::new("drwa", &[&["--cgroup", cgroup.path()][..], &SMALL].concat());
    // a connection that has not received anything keeps the clamp that its application set
    let idle = Flow::open(&path, &cgroup, Enrolled::ReceiverOnly, RECEIVER_V4, "cubic");
    set_socket_option(&idle.server, libc::TCP_WINDOW_CLAMP, 15_000);
    let clamped = Clamped::new(&path, &cgroup);
    drop(loaded);
    clamped.are_lifted();
    assert_eq!(clamp(&idle.server), 15_000);
}

#[test]
fn the_next_command_completes_a_killed_unload() {
    let Some(_test) = kernel_test("the_next_command_completes_a_killed_unload", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let arguments = [&["--cgroup", cgroup.path()][..], &SMALL].concat();
    let killed = || {
        let clamped = Clamped::new(&path, &cgroup);
        // the first change that `unload` makes
        std::fs::remove_file("/sys/fs/bpf/hotcc/rx/drwa/options").unwrap();
        clamped
    };
    let _loaded = Loaded::new("drwa", &arguments);
    // keep the program attached, as the kernel does for a moment after the pin is removed
    let still_attached = libbpf_rs::Link::open("/sys/fs/bpf/hotcc/rx/drwa/options").unwrap();
    let clamped = killed();
    let says = fails(1, &["rx", "unload", "drwa"]);
    assert!(says.contains("the kernel still has the programs attached after 5 s"), "{says}");
    drop(still_attached);
    let says = fails(1, &["rx", "unload", "drwa"]);
    assert!(says.contains("drwa is not loaded"), "{says}");
    clamped.are_lifted();
    drop(clamped);
    let _loaded = Loaded::new("drwa", &arguments);
    let clamped = killed();
    ok(&[&["rx", "load", "drwa"][..], &arguments[..2]].concat());
    println!("{:?}", clamped.clamps());
    ok(&["rx", "unload", "drwa"]);
    clamped.are_lifted();
}
