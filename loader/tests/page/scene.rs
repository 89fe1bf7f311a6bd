//! What the page shows in its test: real connections over a slow link with a radio signal, a rule, and many idle ones.

use crate::common::*;
use crate::exported::Process;
use crate::fed::Fed;
use hotcc_testbed::netlab::{Lab, Namespace};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const SERVER: &str = "10.249.7.2";
const PORTS: [u16; 3] = [443, 5201, 5202];
const TICK: Duration = Duration::from_millis(50);
/// Idle connections; both ends of each are listed.
pub const IDLE_PAIRS: usize = 500;

/// Ends when the value is dropped; nothing of it remains.
pub struct Scene {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// One of the connections that send.
    pub sending: TcpStream,
    idle: Vec<Connection>,
    a: Namespace,
    _lab: Lab,
    test: KernelTest, // last, so that the lock is released after everything else
}

impl Scene {
    /// Starts connections that send without an end, from a network namespace whose name ends in `from`.
    pub fn new(name: &str, from: &str) -> Option<Self> {
        let test = kernel_test(name, &["cc_page", "cc_pep"])?;
        let lab = Lab::new("hotcc-page").unwrap();
        let [a, b] = [from, "server"].map(|name| lab.namespace(name).unwrap());
        lab.veth(&a, "10.249.7.1/24", &b, &format!("{SERVER}/24")).unwrap();
        a.tc("qdisc add dev server root tbf rate 60mbit burst 32kb latency 60ms").unwrap();
        let rules = "[[algorithm]]\nobject = 'dtcp'\nname = 'cc_page'\n\
                     [[policy]]\nremote = '10.249.7.2'\nport = 443\ncongestion_control = 'reno'\n\
                     [[policy]]\nremote = '10.249.7.2'\ncongestion_control = 'cc_page'\n";
        ok(&["apply", &test.file("page.toml", rules.as_bytes())]);
        let ended = Arc::new(AtomicBool::new(false));
        let senders = PORTS.iter().zip(1..).map(|(port, weight)| sender(&a, &b, *port, weight, Arc::clone(&ended)));
        let (mut clients, mut threads): (Vec<_>, Vec<_>) = senders.unzip();
        threads.push(feeder(Arc::clone(&ended)));
        Some(Self { ended, threads, sending: clients.remove(0), idle: Vec::new(), a, _lab: lab, test })
    }

    /// Opens many more connections, which do not send.
    pub fn add_idle(&mut self) {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most.min(1 << 20), most).unwrap();
        let open = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (0..IDLE_PAIRS).map(|_| Connection::to(&listener, None)).collect()
        };
        self.idle = self.a.enter(open).unwrap();
    }
}

impl Scene {
    /// Starts a canary from the congestion control of the first rule to that of the second.
    pub fn canary(&self) -> Process {
        let log = self.test.dir.path().join("canary.log");
        let mut command = Command::new(hotcc_path());
        command.args(["canary", "start", "--from", "reno", "--to", "cc_page", "--share", "50%", "--for", "1h"]);
        command.args(["--match", "remote=10.249.7.2", "--json", "--log"]).arg(log).stdout(Stdio::null());
        Process::start(&mut command)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = hotcc(&["canary", "abort"]); // fails if none runs, which is the usual case
        self.ended.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        let _ = hotcc(&["apply", &self.test.file("nothing.toml", b"")]);
    }
}

/// A value that moves between -1 and 1.
fn swing(began: Instant) -> f64 {
    (began.elapsed().as_secs_f64() / 9.0).sin()
}

/// Sends to a server that reads everything, at a rate that follows the signal. Returns the socket, too.
fn sender(a: &Namespace, b: &Namespace, port: u16, weight: u32, ended: Arc<AtomicBool>) -> (TcpStream, JoinHandle<()>) {
    let listener = b.enter(|| TcpListener::bind((SERVER, port)).unwrap()).unwrap();
    let mut client = a.enter(|| TcpStream::connect((SERVER, port)).unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    spawn(move || while server.read(&mut [0; 1 << 16]).is_ok_and(|length| length > 0) {});
    let socket = client.try_clone().unwrap();
    let thread = spawn(move || {
        let began = Instant::now();
        while !ended.load(Relaxed) {
            let bytes = 45e3 * f64::from(weight) * 2_f64.powf(swing(began));
            client.write_all(&vec![7; bytes as usize]).unwrap();
            sleep(TICK);
        }
    });
    (socket, thread)
}

fn feeder(ended: Arc<AtomicBool>) -> JoinHandle<()> {
    let link = Fed::new("10.249.7.0/24", 500);
    spawn(move || {
        let began = Instant::now();
        while !ended.load(Relaxed) {
            let sinr_db = 12.0 + 7.0 * swing(began);
            link.publish(sinr_db, 12.0, 0);
            sleep(TICK);
        }
    })
}
