//! Modems: AT commands over a pseudo terminal, and ModemManager on a separate D-Bus.

use crate::sandbox::sandbox;
use crate::tools::{Process, free_port, has, local, metrics, rejected, wait};
use hotcc_testbed::kernel::skipped;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{OpenptyResult, openpty};
use nix::unistd::ttyname;
use serde_json::json;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

/// A modem behind a pseudo terminal. Its device is at `path` while it lives.
struct Modem {
    answer: Arc<Mutex<String>>,
    path: PathBuf,
    /// Closed to unplug it.
    terminal: Arc<Mutex<Option<File>>>,
}

impl Modem {
    fn plug_in(path: &Path, answer: &str) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let _ = fs::remove_file(path);
        symlink(ttyname(&slave).unwrap(), path).unwrap();
        let answer = Arc::new(Mutex::new(answer.to_owned()));
        let mut input = File::from(master.try_clone().unwrap());
        let terminal = Arc::new(Mutex::new(Some(File::from(master))));
        let (says, output) = (Arc::clone(&answer), Arc::clone(&terminal));
        std::thread::spawn(move || {
            let mut line = Vec::new();
            let mut byte = [0];
            let _slave = slave; // reading fails unless some process has it open
            while output.lock().unwrap().is_some() {
                match input.read(&mut byte) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        sleep(Duration::from_millis(2));
                        continue;
                    }
                    Err(_) => break,
                    Ok(_) => {}
                }
                if byte != *b"\r" {
                    line.push(byte[0]);
                    continue;
                }
                let asked = String::from_utf8(std::mem::take(&mut line)).unwrap();
                let answered = match asked.trim() {
                    "ATE0" => "\r\nOK\r\n".to_owned(),
                    "AT+CESQ" | "AT+QENG=\"servingcell\"" => says.lock().unwrap().clone(),
                    _ => "\r\nERROR\r\n".to_owned(),
                };
                if let Some(output) = &mut *output.lock().unwrap() {
                    let _ = output.write_all(answered.as_bytes());
                }
            }
        });
        Self { answer, path: path.to_owned(), terminal }
    }

    fn answers(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }
}

impl Drop for Modem {
    fn drop(&mut self) {
        *self.terminal.lock().unwrap() = None;
        let _ = fs::remove_file(&self.path);
    }
}

fn cesq(ss_sinr: u8) -> String {
    format!("\r\n+CESQ: 99,99,255,255,255,255,65,80,{ss_sinr}\r\n\r\nOK\r\n")
}

#[test]
fn a_serial_modem_with_all_its_faults() {
    let Some(sandbox) = sandbox("a_serial_modem_with_all_its_faults") else { return };
    let path = sandbox.files.path().join("ttyUSB2");
    let http = free_port();
    let source = format!("at:{},period_ms=50", path.display());
    let feeder =
        Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.1", "--listen", &local(http).to_string()]);
    feeder.wait_to_say("retrying every 0.5 s");
    let modem = Modem::plug_in(&path, &cesq(70));
    let seen = sandbox.wait_for(|l| l["state"] == "fresh");
    let values = ["sinr_db", "rsrp_dbm", "rsrq_db", "source"].map(|key| seen[key].clone());
    assert_eq!(values, [json!(12.0), json!(-76.0), json!(-10.5), json!("at")], "{}", feeder.all_said());

    let count = |reason: &str| rejected(http).get(reason).copied().unwrap_or(0);
    for (answer, reason) in [
        ("\r\n+CESQ: 99,99,255,255,255,255,255,255,255\r\n\r\nOK\r\n", "nothing"),
        ("\r\n+CME ERROR: 10\r\n", "nothing"),
        ("\u{7f}\u{1}@@garbage@@\r\nOK\r\n", "nothing"),
        ("\r\n+CESQ: 99,99,255", "malformed"),
    ] {
        let before = count(reason);
        modem.answers(answer);
        wait(answer, || count(reason) > before, || feeder.all_said());
        assert_eq!(sandbox.links()[0]["sinr_db"], 12.0);
    }
    modem.answers(&cesq(60));
    sandbox.wait_for(|l| l["state"] == "fresh" && l["sinr_db"] == 7.0);

    drop(modem); // unplugged
    sandbox.wait_for(|l| l["state"] == "stale");
    let _again = Modem::plug_in(&path, &cesq(50));
    sandbox.wait_for(|l| l["state"] == "fresh" && l["sinr_db"] == 2.0);
}

/// Root may open a port that another process holds, so the feeder runs as `nobody`; it only publishes, because it has
/// no map.
#[test]
fn a_port_that_another_holds_is_waited_for() {
    let Some(sandbox) = sandbox("a_port_that_another_holds_is_waited_for") else { return };
    let (path, command, keys) =
        (sandbox.files.path().join("tty"), sandbox.files.path().join("sinr-feeder"), sandbox.files.path().join("keys"));
    let _modem = Modem::plug_in(&path, &cesq(70));
    let holder = serialport::new(path.display().to_string(), 115_200).open().unwrap();
    fs::copy(env!("CARGO_BIN_EXE_sinr-feeder"), &command).unwrap();
    fs::write(&keys, format!("1 {}", "0a".repeat(32))).unwrap();
    for (file, mode) in [(sandbox.files.path(), 0o755), (&path, 0o666), (&keys, 0o600)] {
        fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }
    chown(&keys, Some(65_534), Some(65_534)).unwrap();
    let http = free_port();
    let feeder = Process::start(
        Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(command).args([
            "run",
            "--source",
            &format!("at:{},period_ms=50", path.display()),
            "--publish",
            &format!("peer:{},keys={}", local(free_port()), keys.display()),
            "--as",
            "me",
            "--listen",
            &local(http).to_string(),
        ]),
    );
    feeder.wait_to_say("busy");
    let readings = format!("hotcc_feeder_readings_total{{source=\"at:{}\"}}", path.display());
    wait("the page", || metrics(http).contains_key(&readings), || feeder.all_said());
    assert_eq!(metrics(http)[&readings], 0.0);
    drop(holder);
    wait("readings", || metrics(http)[&readings] > 0.0, || feeder.all_said());
    assert_eq!(feeder.said("busy"), 1, "told once: {}", feeder.all_said());
}

#[test]
fn a_serving_cell_over_qeng() {
    let Some(sandbox) = sandbox("a_serving_cell_over_qeng") else { return };
    let path = sandbox.files.path().join("ttyUSB2");
    let lte = "\r\n+QENG: \"servingcell\",\"NOCONN\",\"LTE\",\"FDD\",262,01,1A2D001,123,1300,3,5,5,2B5F,-95,-10,-66,175,12,0,36\r\n\r\nOK\r\n";
    let modem = Modem::plug_in(&path, lte);
    let source = format!("at:{},period_ms=50,qeng", path.display());
    let _feeder = Process::feeder(&sandbox, &["--source", &source, "--link", "10.0.0.1"]);
    let seen = sandbox.wait_for(|l| l["state"] == "fresh");
    assert_eq!((&seen["sinr_db"], &seen["cqi"], &seen["rsrp_dbm"]), (&json!(15.0), &json!(12), &json!(-95.0)));
    modem.answers("\r\n+QENG: \"servingcell\",\"NOCONN\"\r\n+QENG: \"LTE\",\"FDD\",262,01,1A2D001,123,1300,3,5,5,2B5F,-95,-10,-66,175,12,0,36\r\n+QENG: \"NR5G-NSA\",262,01,501,-88,18,-11,627264,78,12,1\r\n\r\nOK\r\n");
    sandbox.wait_for(|l| l["state"] == "fresh" && l["sinr_db"] == 18.0 && l["rsrp_dbm"] == -88.0);
}

/// A separate D-Bus, and a ModemManager on it.
struct ModemManager {
    daemon: Child,
    mock: Child,
    address: String,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ModemManager {
    fn start(dir: &Path) -> Self {
        let address = format!("unix:path={}", dir.join("bus").display());
        let daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--address", &address])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait("the bus", || dir.join("bus").exists(), String::new);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/modem_manager.py");
        let mut mock = Command::new("/usr/bin/python3")
            .arg(script)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = mock.stdin.take().unwrap();
        let answers = BufReader::new(mock.stdout.take().unwrap());
        let mut manager = Self { daemon, mock, address, commands, answers };
        assert_eq!(manager.answer(), "ready");
        manager
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }
}

impl Drop for ModemManager {
    fn drop(&mut self) {
        let _ = self.daemon.kill(); // dbusmock ends with its bus, the script with its standard input
        let _ = self.daemon.wait();
        let _ = self.mock.kill();
        let _ = self.mock.wait();
    }
}

fn can_mock(test: &str) -> bool {
    let found = Command::new("/usr/bin/python3").args(["-c", "import dbusmock"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        skipped(test, "python3-dbusmock is not installed (./setup.sh installs it)");
        return false;
    }
    has(test, "dbus-daemon")
}

#[test]
fn a_modem_of_modem_manager_comes_and_goes() {
    const NAME: &str = "a_modem_of_modem_manager_comes_and_goes";
    let Some(sandbox) = sandbox(NAME) else { return };
    if !can_mock(NAME) {
        return;
    }
    let mut manager = ModemManager::start(sandbox.files.path());
    let http = free_port();
    let mut command =
        sandbox.command(&["run", "--source", "mm", "--link", "10.0.0.1", "--listen", &local(http).to_string()]);
    let feeder = Process::start(command.env("DBUS_SYSTEM_BUS_ADDRESS", &manager.address));
    feeder.wait_to_say("ModemManager: no modem has the interface Modem.Signal (extended signal quality)");
    manager.tell("modem");
    manager.tell("Lte snr=8.4 rsrp=-95 rsrq=-11");
    let seen = sandbox.wait_for(|l| l["state"] == "fresh");
    let values = ["rsrp_dbm", "rsrq_db", "source"].map(|key| seen[key].clone());
    assert_eq!(values, [json!(-95.0), json!(-11.0), json!("mm")], "{}", feeder.all_said());
    assert!((seen["sinr_db"].as_f64().unwrap() - 8.4).abs() < 0.01, "{seen}");
    manager.tell("rate");
    assert_eq!(manager.answer(), "1", "extended signal quality was asked for, in whole seconds");
    // NR has precedence over LTE, and a value that no radio can have means "not known".
    manager.tell("Nr5g snr=21.0 rsrp=-80 rsrq=-32768");
    let nr = sandbox.wait_for(|l| l["sinr_db"] == 21.0);
    assert_eq!((&nr["rsrp_dbm"], &nr["rsrq_db"]), (&json!(-80.0), &json!(null)));
    manager.tell("Nr5g snr=-32768");
    sandbox.wait_for(|l| l["sinr_db"].as_f64().is_some_and(|db| (db - 8.4).abs() < 0.01));
    manager.tell("Lte");
    manager.tell("Nr5g");
    wait("no value", || rejected(http).contains_key("nothing"), || feeder.all_said());
    manager.tell("gone");
    sandbox.wait_for(|l| l["state"] == "stale");
    manager.tell("modem");
    manager.tell("Lte snr=3.0");
    sandbox.wait_for(|l| l["state"] == "fresh" && l["sinr_db"] == 3.0);
    // The whole service disappears, with its bus.
    drop(manager);
    sandbox.wait_for(|l| l["state"] == "stale");
    sleep(Duration::from_millis(50));
    let _manager = {
        let mut manager = ModemManager::start(sandbox.files.path());
        manager.tell("modem");
        manager.tell("Lte snr=4.0");
        manager
    };
    sandbox.wait_for(|l| l["state"] == "fresh" && l["sinr_db"] == 4.0);
}
