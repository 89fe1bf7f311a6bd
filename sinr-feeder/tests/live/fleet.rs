//! Readings from other hosts: through a NATS server, and by authenticated datagrams.

use crate::sandbox::{Sandbox, key, sandbox};
use crate::tools::{Process, Sender, free_port, has, local, metrics, rejected, wait};
use hotcc_abi::clock::monotonic_ms32;
use hotcc_abi::radio::q8_to_db;
use hotcc_radio_map::{Freshness, RadioView};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

/// Each user may publish only on its own subject, and only the server may read.
const CONFIG: &str = r#"
listen: "127.0.0.1:PORT"
authorization {
  users = [
    { user: car-1, password: one, permissions: { publish: "hotcc.radio.car-1", subscribe: { deny: ">" } } }
    { user: car-2, password: two, permissions: { publish: "hotcc.radio.car-2", subscribe: { deny: ">" } } }
    { user: server, password: srv, permissions: { publish: { deny: ">" }, subscribe: "hotcc.radio.*" } }
  ]
}
"#;

pub struct Nats {
    pub port: u16,
    config: PathBuf,
    server: Process,
}

impl Nats {
    /// Starts a server with this configuration, in which `PORT` stands for its port.
    pub fn start(sandbox: &Sandbox, config: &str) -> Self {
        let (port, file) = (free_port(), sandbox.files.path().join("nats.conf"));
        fs::write(&file, config.replace("PORT", &port.to_string())).unwrap();
        Self { port, server: Self::run(port, &file), config: file }
    }

    fn run(port: u16, config: &std::path::Path) -> Process {
        let server = Process::start(Command::new("nats-server").arg("-c").arg(config).stdout(Stdio::null()));
        wait("the NATS server", || TcpStream::connect(local(port)).is_ok(), || server.all_said());
        server
    }

    fn kill(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.server = Self::run(self.port, &self.config);
    }

    /// Returns the server's address with a login of `USER:PASSWORD`.
    fn url(&self, sandbox: &Sandbox, login: &str) -> String {
        let (user, password) = login.split_once(':').unwrap();
        let file = secret_file(sandbox, &format!("{user}.password"), &format!("{password}\n"));
        format!("nats://{user}@{},password={file}", local(self.port))
    }

    fn car(&self, sandbox: &Sandbox, login: &str, name: &str) -> (Process, Sender) {
        car(sandbox, &self.url(sandbox, login), name)
    }

    fn subscriber(&self, sandbox: &Sandbox, http: u16) -> Process {
        let (url, listen) = (self.url(sandbox, "server:srv"), local(http).to_string());
        let ues = ["--ue", "car-1=10.0.0.1", "--ue", "car-2=192.0.2.1:4096/6"];
        Process::feeder(sandbox, &[&["--subscribe", &url, "--listen", &listen], &ues[..]].concat())
    }
}

/// Creates a sandbox and a server with this configuration. If the test cannot run, prints a line that says so and
/// returns `None`.
pub fn nats(test: &str, config: &str) -> Option<(Sandbox, Nats)> {
    let sandbox = sandbox(test)?;
    has(test, "nats-server").then(|| {
        let nats = Nats::start(&sandbox, config);
        (sandbox, nats)
    })
}

/// Starts a feeder on a car's host, which has no radio map: it publishes what it reads.
pub fn car(sandbox: &Sandbox, to: &str, name: &str) -> (Process, Sender) {
    let port = free_port();
    let source = format!("udp:{}", local(port));
    let feeder = Process::feeder(sandbox, &["--source", &source, "--publish", to, "--as", name]);
    (feeder, Sender::new(port))
}

pub fn sinr_of(sandbox: &Sandbox, link: &str) -> Option<f64> {
    let links = sandbox.links();
    let link = links.iter().find(|l| l["link"] == link && l["state"] == "fresh")?;
    link["sinr_db"].as_f64()
}

#[test]
fn the_last_reading_is_published_before_the_end() {
    let Some((sandbox, mut nats)) = nats("the_last_reading_is_published_before_the_end", CONFIG) else { return };
    let server = nats.subscriber(&sandbox, free_port());
    let url = nats.url(&sandbox, "car-1:one");
    {
        let (_car, to_car) = nats.car(&sandbox, "car-1:one", "car-1");
        let seen = || (to_car.sinr(3.0), sinr_of(&sandbox, "10.0.0.1/32")).1 == Some(3.0);
        wait("a subscriber", seen, || server.all_said());
    }
    let once = || {
        let mut car = sandbox.command(&["run", "--source", "stdin", "--publish", &url, "--as", "car-1"]);
        let mut child = car.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\"sinr_db\": 17.5}\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!once().contains("not sent"));
    wait("17.5 dB", || sinr_of(&sandbox, "10.0.0.1/32") == Some(17.5), || server.all_said());
    nats.kill();
    server.wait_to_say("connection lost");
    let said = once();
    assert!(said.contains("1 readings were not sent"), "{said}");
}

#[test]
fn a_fleet_over_a_nats_server_that_is_killed() {
    let Some((sandbox, mut nats)) = nats("a_fleet_over_a_nats_server_that_is_killed", CONFIG) else { return };
    let http = free_port();
    let server = nats.subscriber(&sandbox, http);
    let (first, to_first) = nats.car(&sandbox, "car-1:one", "car-1");
    let (_second, to_second) = nats.car(&sandbox, "car-2:two", "car-2");
    // Both cars read `value` 50 times a second until the end.
    let (value, sent, done) = (AtomicI32::new(10), AtomicU32::new(0), AtomicBool::new(false));
    let view = || RadioView::open(&sandbox.root).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                let db = f64::from(value.load(SeqCst));
                to_first.sinr(db);
                to_second.sinr(db + 1.0);
                sent.fetch_add(1, SeqCst);
                sleep(Duration::from_millis(20));
            }
        });
        let _stop = StopAtEnd(&done);
        let both = |db: f64| {
            let seen = || (sinr_of(&sandbox, "10.0.0.1/32"), sinr_of(&sandbox, "192.0.2.1:4096/6"));
            wait(
                &format!("{db}"),
                || seen() == (Some(db), Some(db + 1.0)),
                || format!("{}\n{}", server.all_said(), first.all_said()),
            );
        };
        both(10.0);
        nats.kill();
        sandbox.wait_for(|l| l["state"] == "stale");
        // Readings made while nothing can be sent must never be applied, however they are queued.
        value.store(0, SeqCst);
        sleep(Duration::from_millis(1500));
        value.store(20, SeqCst);
        sleep(Duration::from_millis(1500));
        let view = view();
        let slot = view.slot_of("10.0.0.1:1".parse().unwrap()).unwrap().unwrap();
        // learned from the readings so far: the outage, and the readings after it, change it
        let max_age_ms = view.snapshot(slot).unwrap().max_age_ms;
        let seen = scope.spawn({
            let done = &done;
            move || {
                let mut seen = BTreeMap::new();
                while !done.load(SeqCst) {
                    let reading = view.snapshot(slot).unwrap().sinr.unwrap();
                    seen.entry(q8_to_db(reading.sinr_q8_db.into()) as i32).or_insert(reading.time_ms);
                    sleep(Duration::from_micros(200));
                }
                seen
            }
        });
        let restart_ms = monotonic_ms32(); // the server may work well before the test notices
        nats.restart();
        let before = sent.load(SeqCst);
        both(20.0);
        let missed = sent.load(SeqCst) - before;
        println!("readings again {missed} of their periods after the NATS server was back");
        assert!(missed <= 100, "2 s of a source with 50 readings a second: {missed} periods");
        done.store(true, SeqCst);
        let seen = seen.join().unwrap();
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [10, 20], "{seen:?}");
        // The first applied reading was made after the restart, or before it by no more than the maximum age.
        let early_ms = restart_ms.wrapping_sub(seen[&20]) as i32;
        assert!(early_ms <= max_age_ms as i32, "made {early_ms} ms before the restart, of {max_age_ms} allowed");
    });
    assert!(first.said("dropping readings until then") >= 1, "{}", first.all_said());
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_ue_publishes_its_own_readings_only() {
    let Some((sandbox, nats)) = nats("a_ue_publishes_its_own_readings_only", CONFIG) else { return };
    let http = free_port();
    let server = nats.subscriber(&sandbox, http);
    let (forger, to_forger) = nats.car(&sandbox, "car-1:one", "car-2");
    let refused = || {
        to_forger.sinr(40.0);
        forger.said("Permissions Violation") > 0
    };
    wait("a refusal", refused, || forger.all_said());
    let (_car, to_car) = nats.car(&sandbox, "car-1:one", "car-1");
    let own = || {
        to_car.sinr(7.0);
        sinr_of(&sandbox, "10.0.0.1/32") == Some(7.0)
    };
    wait("its own", own, || server.all_said());
    // A message on its own subject with another UE's name: the NATS server forwards it, the feeder rejects it.
    let mut raw = TcpStream::connect(local(nats.port)).unwrap();
    let login = r#"CONNECT {"user":"car-1","pass":"one","verbose":false,"pedantic":false}"#;
    let texts = [
        r#"{"sinr_db":40,"ue":"car-2"}"#,
        r#"{"sinr_db":40,"link":"192.0.2.1:4096/6"}"#,
        r#"{"sinr_db":"x"}"#,
        r#"{"sinr_db":999}"#,
    ];
    write!(raw, "{login}\r\n").unwrap();
    for text in texts {
        write!(raw, "PUB hotcc.radio.car-1 {}\r\n{text}\r\n", text.len()).unwrap();
    }
    write!(raw, "PING\r\n").unwrap();
    let last = || rejected(http).contains_key("range");
    wait("all of them", last, || format!("{:?} {}", rejected(http), server.all_said()));
    let counts = rejected(http);
    assert_eq!((counts["forbidden"], counts["malformed"], counts["range"]), (2, 1, 1), "{counts:?}");
    assert!(sandbox.links().iter().all(|l| l["link"] != "192.0.2.1:4096/6" || l["state"] == "never"));
}

/// Creates a self-signed certificate for 127.0.0.1 and its key.
fn certificate(sandbox: &Sandbox, name: &str) -> [String; 2] {
    let [cert, key] =
        ["pem", "key"].map(|end| sandbox.files.path().join(format!("{name}.{end}")).display().to_string());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=nats", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &cert])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    [cert, key]
}

#[test]
fn tls_with_a_root_of_ones_own() {
    const NAME: &str = "tls_with_a_root_of_ones_own";
    let Some(sandbox) = sandbox(NAME) else { return };
    if !has(NAME, "nats-server") || !has(NAME, "openssl") {
        return;
    }
    let ([cert, key], [other, _]) = (certificate(&sandbox, "server"), certificate(&sandbox, "other"));
    let config = format!("listen: \"127.0.0.1:PORT\"\ntls {{ cert_file: \"{cert}\", key_file: \"{key}\" }}\n");
    let nats = Nats::start(&sandbox, &config);
    let url = |ca: &str| format!("nats://{},ca={ca}", local(nats.port));
    let ue = ["--ue", "car-1=10.0.0.1"];
    let server = Process::feeder(&sandbox, &[&["--subscribe", &url(&cert)], &ue[..]].concat());
    for wrong in [url(&other), format!("nats://{},tls", local(nats.port))] {
        let (feeder, _) = car(&sandbox, &wrong, "car-1");
        feeder.wait_to_say("certificate");
        assert!(feeder.said("dropping readings until then") > 0, "{}", feeder.all_said());
    }
    let (feeder, sender) = car(&sandbox, &url(&cert), "car-1");
    let seen = || {
        sender.sinr(6.0);
        sinr_of(&sandbox, "10.0.0.1/32") == Some(6.0)
    };
    wait("a reading", seen, || format!("{}\n{}", server.all_said(), feeder.all_said()));
}

fn secret_file(sandbox: &Sandbox, name: &str, text: &str) -> String {
    let path = sandbox.files.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn authenticated_datagrams_between_two_hosts() {
    let Some(sandbox) = sandbox("authenticated_datagrams_between_two_hosts") else { return };
    let (port, source_port, http) = (free_port(), free_port(), free_port());
    let secrets = ["0a", "0b", "0c"].map(|byte| byte.repeat(32));
    let known = format!("1 {} 10.0.0.1\n2 {} 192.0.2.1:4096/6\n", secrets[0], secrets[1]);
    let at_server = secret_file(&sandbox, "server.keys", &known);
    let source = format!("peer:{},keys={at_server}", local(port));
    let server = Process::feeder(&sandbox, &["--source", &source, "--listen", &local(http).to_string()]);
    wait("the server", || !metrics(http).is_empty(), || server.all_said());

    // Between the two hosts, a third party reads and changes the datagrams.
    let middle = UdpSocket::bind(local(0)).unwrap();
    middle.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let to = format!("peer:{}", middle.local_addr().unwrap());
    let car = |file: &str, secret: &str, id: u8| {
        let file = secret_file(&sandbox, file, &format!("{id} {secret}\n"));
        let (source, to) = (format!("udp:{}", local(source_port)), format!("{to},keys={file}"));
        Process::feeder(&sandbox, &["--source", &source, "--publish", &to, "--as", "me"])
    };
    let sender = Sender::new(source_port);
    let next = |db: f64| {
        let mut buffer = [0; 2048];
        middle.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        for _ in 0..400 {
            sender.sinr(db); // until its feeder has started
            if let Ok(length) = middle.recv(&mut buffer) {
                return buffer[..length].to_vec();
            }
        }
        panic!("nothing was sent");
    };
    let pass = |datagram: &[u8]| {
        middle.send_to(datagram, local(port)).unwrap();
    };
    let counted = |reason: &str, count: u64| {
        wait(reason, || rejected(http).get(reason).copied().unwrap_or(0) >= count, || format!("{:?}", rejected(http)));
    };
    let honest = car("car.keys", &secrets[1], 2);
    let first = next(9.0);
    pass(&first);
    sandbox.wait_for(|l| l["link"] == "192.0.2.1:4096/6" && l["sinr_db"] == 9.0 && l["source"] == "peer");
    pass(&first);
    counted("replayed", 1);
    let mut forged = next(9.5);
    let at = forged.len() - 20;
    forged[at] ^= 1;
    pass(&forged);
    counted("unauthenticated", 1);
    pass(&[1, 9, 9]);
    counted("malformed", 1);
    drop(honest);
    let _stranger = car("stranger.keys", &secrets[2], 1);
    pass(&next(30.0));
    counted("unauthenticated", 2);
    let links = sandbox.links();
    assert_eq!((links.len(), &links[0]["updates"]), (1, &1.into()), "{links:?}");
    // A restarted server accepts the next reading at once.
    drop(server);
    let source = format!("peer:{},keys={at_server}", local(port));
    let _server = Process::feeder(&sandbox, &["--source", &source, "--listen", &local(http).to_string()]);
    wait("the server", || !metrics(http).is_empty(), String::new);
    drop(_stranger);
    let _honest = car("car.keys", &secrets[1], 2);
    pass(&next(11.0));
    sandbox.wait_for(|l| l["sinr_db"] == 11.0);
    let view = RadioView::open(&sandbox.root).unwrap();
    let link = view.links().unwrap().into_iter().find(|l| l.key == key("192.0.2.1:4096/6")).unwrap();
    assert_ne!(link.snapshot.freshness(monotonic_ms32()), Freshness::Never);
    // A key without a link gives no right to write any.
    let open = secret_file(&sandbox, "open.keys", &format!("1 {}\n", secrets[0]));
    let refused = sandbox.output(&["run", "--source", &format!("peer:{},keys={open}", local(free_port()))]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("key 1 names no link"));
}

#[test]
fn a_host_that_also_publishes_still_feeds_its_own_map() {
    let Some(sandbox) = sandbox("a_host_that_also_publishes_still_feeds_its_own_map") else { return };
    let port = free_port();
    let keys = secret_file(&sandbox, "radio.keys", &format!("1 {} 10.0.0.1\n", "0a".repeat(32)));
    let peer = format!("peer:{},keys={keys}", local(port));
    let onward = format!("peer:{},keys={keys}", local(free_port()));
    let server = Process::feeder(&sandbox, &["--source", &peer, "--publish", &onward, "--as", "car-7"]);
    let (_car, sender) = car(&sandbox, &peer, "me");
    let seen = || {
        sender.sinr(9.0);
        sinr_of(&sandbox, "10.0.0.1/32") == Some(9.0)
    };
    wait("a reading in the map", seen, || server.all_said());
}
