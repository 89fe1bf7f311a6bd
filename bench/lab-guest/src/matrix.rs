//! The steps of the kernel matrix, with the same command that users have.

use super::run;
use anyhow::{Context, Result, bail, ensure};
use hotcc_lab_proto::job::{POLICY_ROW, RECEIVERS_ROW, Row, Step, Subject};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::process::{Command, Stdio};
use std::time::Duration;

const RULES: &str = "/tmp/hotcc.toml";
const CANARY_LOG: &str = "/tmp/canary.log";

fn hotcc(arguments: &[&str]) -> Result<()> {
    run("/bin/hotcc", arguments).map(drop)
}

/// Records a step. Returns whether it worked.
fn try_step(steps: &mut Vec<Step>, what: &str, work: &mut dyn FnMut() -> Result<()>) -> bool {
    let error = work().err().map(|e| format!("{e:#}"));
    let worked = error.is_none();
    steps.push(Step { what: what.to_owned(), error });
    worked
}

/// Loads an algorithm, carries traffic, swaps it for the next one, rolls back and unloads.
pub fn row(subject: &Subject, next: &Subject, bytes: u64) -> Row {
    let cc = &*subject.cc;
    let mut steps = Vec::new();
    let mut connection = None;
    let mut step = |what: &str, work: &mut dyn FnMut() -> Result<()>| try_step(&mut steps, what, work);
    let send = |connection: &mut Option<Connection>| -> Result<()> {
        if connection.is_none() {
            *connection = Some(Connection::new(Some(cc))?);
        }
        connection.as_mut().context("the connection is not open")?.send(bytes)
    };
    let _ = step("load", &mut || hotcc(&["load", &subject.object]))
        && step("traffic", &mut || send(&mut connection))
        && step("swap", &mut || hotcc(&["swap", cc, &next.object, "--live"]))
        && step("traffic after the swap", &mut || send(&mut connection))
        && step("rollback", &mut || hotcc(&["rollback", cc, "--live"]))
        && step("traffic after the rollback", &mut || send(&mut connection))
        && step("unload", &mut || hotcc(&["unload", cc]))
        && step("traffic after it is gone", &mut || send(&mut connection));
    Row { algorithm: cc.to_owned(), steps }
}

/// Applies a policy rule, carries traffic under it, reads its figures, traces its ACKs, moves an open connection by
/// another rule, runs a canary until its time limit, and removes the rules.
pub fn policy_row(bytes: u64) -> Row {
    let mut steps = Vec::new();
    let mut open = None;
    let mut step = |what: &str, work: &mut dyn FnMut() -> Result<()>| try_step(&mut steps, what, work);
    let apply = |command: &[&str], text: &str| {
        fs::write(RULES, text).context("cannot write the rules")?;
        hotcc(&[command, &[RULES]].concat())
    };
    let rule = |cc: &str| {
        format!("[[algorithm]]\nobject = 'dtcp'\n[[policy]]\nremote = '127.0.0.1'\ncongestion_control = '{cc}'\n")
    };
    let _ = step("apply", &mut || apply(&["apply"], &rule("dtcp")))
        && step("traffic under a rule", &mut || {
            let mut connection = Connection::new(None)?;
            connection.runs("dtcp")?;
            connection.send(bytes)
        })
        && step("figures", &mut || {
            let figures = run("/bin/hotcc", &["policy", "stats", "--json"])?;
            let rules: serde_json::Value = serde_json::from_str(&figures)?;
            let rule = &rules["rules"][0];
            ensure!(rule["connections"] == 2 && rule["acked_bytes"].as_u64() >= Some(bytes), "{rule}");
            Ok(())
        })
        && step("trace", &mut || {
            let arguments = ["trace", "--out", "-", "--cc", "dtcp", "--for", "1s"];
            let trace =
                Command::new("/bin/hotcc").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut trace = trace.context("cannot trace")?;
            let said = trace.stderr.as_mut().context("no stderr")?;
            ensure!(BufReader::new(said).lines().next().is_some_and(|line| line.is_ok()), "the trace did not begin");
            Connection::new(None)?.send(bytes)?;
            let rows = String::from_utf8(trace.wait_with_output()?.stdout)?;
            ensure!(rows.lines().skip(1).any(|row| row.contains(",dtcp,open,")), "no ACK was recorded: {rows}");
            Ok(())
        })
        && step("a rule for open connections", &mut || {
            let connection = open.insert(Connection::new(None)?);
            connection.runs("dtcp")?;
            apply(&["policy", "apply", "--live"], &rule("cubic"))?;
            connection.runs("cubic")?;
            connection.send(bytes)
        })
        && step("migrate", &mut || {
            hotcc(&["migrate", "cubic", "dtcp", "--to-prefix", "127.0.0.1"])?;
            open.as_ref().context("the connection is not open")?.runs("dtcp")
        })
        && step("canary", &mut || {
            let matching = ["--share", "50%", "--match", "remote=127.0.0.1", "--for", "2s", "--log", CANARY_LOG];
            let arguments = ["canary", "start", "--from", "cubic", "--to", "dtcp"];
            let mut canary =
                Command::new("/bin/hotcc").args(arguments).args(matching).stdout(Stdio::piped()).spawn()?;
            while !run("/bin/hotcc", &["canary", "status"])?.contains("running") {
                ensure!(canary.try_wait()?.is_none(), "the canary did not start");
                std::thread::sleep(Duration::from_millis(10));
            }
            for _ in 0..20 {
                Connection::new(None)?.send(1000)?;
            }
            let said = canary.wait_with_output()?.stdout;
            let said = String::from_utf8_lossy(&said);
            let (_, seen) =
                said.split_once("after 2 s, ").with_context(|| format!("the canary ended otherwise: {said}"))?;
            ensure!(!seen.starts_with("0 ") && !seen.contains("and 0 of"), "no connection was compared: {seen}");
            Ok(())
        })
        && step("remove", &mut || {
            apply(&["apply"], "")?;
            let cubic = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
            Connection::new(None)?.runs(cubic.trim())
        });
    Row { algorithm: POLICY_ROW.to_owned(), steps }
}

/// Loads each receiver, carries traffic, checks what it has counted, and unloads it.
pub fn receivers_row(bytes: u64) -> Row {
    let mut steps = Vec::new();
    let mut step = |what: &str, work: &mut dyn FnMut() -> Result<()>| try_step(&mut steps, what, work);
    for (method, counter) in [("arwa", "flows_agreed"), ("drwa", "clamps_set")] {
        let _ = step(&format!("load {method}"), &mut || hotcc(&["rx", "load", method]))
            && step(&format!("traffic under {method}"), &mut || {
                Connection::new(None)?.send(bytes)?;
                let status: serde_json::Value = serde_json::from_str(&run("/bin/hotcc", &["rx", "status", "--json"])?)?;
                ensure!(status["counters"][counter].as_u64() > Some(0), "{counter} is 0: {status}");
                Ok(())
            })
            && step(&format!("unload {method}"), &mut || hotcc(&["rx", "unload", method]));
    }
    Row { algorithm: RECEIVERS_ROW.to_owned(), steps }
}

/// A connection over loopback, whose client may choose its congestion control.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn new(cc: Option<&str>) -> Result<Self> {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        if let Some(cc) = cc {
            setsockopt(&fd, TcpCongestion, &OsString::from(cc)).with_context(|| format!("cannot choose {cc}"))?;
        }
        let port = listener.local_addr()?.port();
        connect(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)))?;
        // SAFETY: the descriptor was just created, and its ownership is passed on here.
        let client = unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) };
        let (server, _) = listener.accept()?;
        Ok(Self { client, server })
    }

    /// Fails if the client does not run this congestion control.
    fn runs(&self, cc: &str) -> Result<()> {
        let runs = getsockopt(&self.client, TcpCongestion).context("cannot read the congestion control")?;
        ensure!(runs.to_string_lossy() == cc, "the connection runs {}, not {cc}", runs.display());
        Ok(())
    }

    /// Sends `bytes` bytes, and waits until the other side has received them all.
    fn send(&mut self, bytes: u64) -> Result<()> {
        let (client, server) = (&mut self.client, &mut self.server);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || std::io::copy(&mut server.take(bytes), &mut std::io::sink()));
            std::io::copy(&mut std::io::repeat(7).take(bytes), client)?;
            let received = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
            if received != bytes {
                bail!("{received} of {bytes} bytes arrived");
            }
            Ok(())
        })
    }
}
