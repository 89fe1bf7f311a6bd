//! Tests `hotcc top` in a pseudo-terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/fed.rs"]
mod fed;
use common::*;
use fed::Fed;
use hotcc_testbed::soak;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const ROWS: NonZero<u16> = NonZero::new(30).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(120).unwrap();
const PATIENCE: Duration = Duration::from_secs(60);

/// `hotcc top` in a terminal of its own.
struct Top {
    child: Child,
    keyboard: File,
    terminal: OwnedFd,
    before: Termios,
    screen: vt100::Parser,
}

impl Top {
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let side = || pty.slave.try_clone().unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        // as session leader of its terminal; setsid replaces itself by the command, so the process is hotcc
        let mut command = Command::new("setsid");
        command.args(["--ctty", hotcc_path(), "top"]).args(arguments).envs(variables.iter().copied());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        Self { child, keyboard: File::from(pty.master), terminal: pty.slave, before, screen }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Takes over what the program has written; waits at most a moment for it.
    fn read(&mut self) -> bool {
        let mut ready = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::from(50_u8)).unwrap() == 0 {
            return false;
        }
        let mut buffer = [0; 1 << 16];
        let length = self.keyboard.read(&mut buffer).unwrap();
        self.screen.process(&buffer[..length]);
        true
    }

    fn wait(&mut self, text: &str) {
        let began = Instant::now();
        while !self.screen.screen().contents().contains(text) {
            self.read();
            let ended = self.child.try_wait().unwrap();
            let shown = self.screen.screen().contents();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "`{text}` does not appear ({ended:?}):\n{shown}");
        }
    }

    /// Waits for the end of the program, and checks that the terminal is as before. Returns the status, and what is on
    /// the screen then.
    fn end(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "hotcc top does not end");
        };
        while self.read() {}
        assert_eq!(tcgetattr(&self.terminal).unwrap(), self.before, "echo and lines are back");
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        (status, screen.contents())
    }

    /// Returns the CPU time that the program has used so far.
    fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = [fields[11], fields[12]].map(|ticks| ticks.parse::<u64>().unwrap()).iter().sum();
        let hertz = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap();
        Duration::from_secs_f64(ticks as f64 / hertz as f64)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails if it has ended
        let _ = self.child.wait();
    }
}

#[test]
fn a_live_flow_is_watched_and_its_algorithm_changed() {
    let Some(_test) = kernel_test("a_live_flow_is_watched_and_its_algorithm_changed", &["cc_top"]) else { return };
    ok(&["load", "dtcp", "--as", "cc_top"]);
    let mut connection = Connection::new("cc_top");
    connection.send(200_000);
    let link = Fed::new("127.0.0.1/32", 600_000);
    link.publish(12.5, 11.0, 0);
    let mut top = Top::start(&["--interval", "0.2"], &[]);
    top.wait("cc_top");
    top.press("/CC_TOP\r");
    top.wait("  1 of ");
    top.wait(&connection.client.local_addr().unwrap().to_string());
    top.wait("Mbit/s▼");
    top.press("s");
    top.wait("RTT ms▼");
    top.press("S");
    top.wait("RTT ms▲");
    top.press("\r");
    top.wait("rate, Mbit/s: ");
    top.wait("SINR, dB: 12.5 ");
    top.wait("window, segments: ");
    top.press("\u{1b}");
    top.wait("Enter open");
    top.press(" ");
    top.wait("PAUSED");
    top.press(" ");
    let swaps = || status_of("cc_top").unwrap()["swaps"].as_u64();
    top.press("wwestwoodp\r");
    top.wait("Swap cc_top to westwoodp? y: ");
    top.press("n");
    top.wait("Enter open");
    assert_eq!(swaps(), Some(0), "it was not asked for");
    top.press("wwestwoodp\rl");
    top.wait("cc_top swapped: builtin:westwoodp now serves");
    top.press("ry");
    top.wait("cc_top rolled back: builtin:dtcp now serves");
    assert_eq!(swaps(), Some(2));
    top.press("mcc_none\ry");
    top.wait("no congestion control `cc_none` is registered");
    top.press("mreno\ry");
    top.wait("cc_top to reno: open sockets moved: 1");
    assert_eq!(connection.cc(), "reno");
    top.press("2");
    top.wait("builtin:dtcp (default)");
    top.press("3");
    top.wait("average dB");
    top.wait("127.0.0.1/32");
    top.wait("11.0");
    top.wait("fresh");
    top.press("q");
    assert!(top.end().0.success());
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let Some(_test) = kernel_test("the_terminal_is_restored_however_it_ends", &[]) else { return };
    for keys in ["q", "\u{1b}", "\u{3}"] {
        let mut top = Top::start(&[], &[]);
        top.wait("1 flows");
        top.press(keys);
        assert!(top.end().0.success(), "{keys:?}");
    }
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut top = Top::start(&[], &[]);
        top.wait("1 flows");
        kill(Pid::from_raw(top.child.id().cast_signed()), signal).unwrap();
        assert!(top.end().0.success(), "{signal}");
    }
    let (status, text) = Top::start(&[], &[("HOTCC_PANIC_AT", "top"), ("RUST_BACKTRACE", "0")]).end();
    assert!(!status.success() && text.contains("told to panic"), "{text}");
}

#[test]
fn without_a_terminal_it_names_the_command_for_programs() {
    let message = fails(2, &["top"]);
    assert!(message.contains("`hotcc top` needs a terminal; without one, use `hotcc flows --json`"), "{message}");
    assert!(fails(2, &["top", "--interval", "0"]).contains("between 0.1 and 3600"));
}

/// A soak with 20 rounds has 10,000 flows.
#[test]
fn many_flows_cost_less_than_a_twentieth_of_a_core() {
    let Some(_test) = kernel_test("many_flows_cost_less_than_a_twentieth_of_a_core", &[]) else { return };
    let (pairs, length) = (soak::times(250), Duration::from_secs(soak::times(1)));
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most.min(1 << 20), most).unwrap();
    let netns = NetNs::new("hotcc-top");
    let _connections: Vec<Connection> = netns.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (0..pairs).map(|_| Connection::to(&listener, None)).collect()
    });
    let mut top = Top::start(&[], &[]);
    top.wait("1 flows");
    top.press("/hotcc-top\r");
    top.wait(&format!("  {} of ", 2 * pairs));
    let (began, before) = (Instant::now(), top.cpu_time());
    while began.elapsed() < length {
        top.read();
    }
    let share = (top.cpu_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let text = top.screen.screen().contents();
    let every = text.split_once("every ").unwrap().1.split_once(" s").unwrap().0;
    let flows = 2 * pairs;
    let figure = format!("{flows} flows, a sample every {every} s: {:.1} % of a core", share * 100.0);
    println!("{figure}");
    soak::report(&figure);
    assert!(share < 0.05 || length < Duration::from_secs(20), "{share}");
    top.press("q");
    assert!(top.end().0.success());
}
