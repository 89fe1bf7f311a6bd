//! The process that serves HTTP. It has no privileges. It asks the collector, which has some, for each page over a
//! socket pair.
//!
//! A client that takes over the HTTP server through a defect therefore gains only the privileges of any local user.

use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::metrics_server::{self, Html, Pages};
use hotcc_host::service::catch;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, setgroups, setresgid, setresuid};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Builder;
use tokio::signal::unix::SignalKind;

/// User and group id of `nobody`, the same on every distribution.
const NOBODY: u32 = 65534;
/// Limit of open files: for connections, the runtime and the log.
const MAX_FILES: u64 = 256;

/// A page, or the error that prevented it.
type Page = std::result::Result<String, String>;
/// The same, as it is sent: not all pages are text.
pub(super) type Bytes = std::result::Result<Vec<u8>, String>;

/// Requests to the collector: one byte each.
const DEFAULT: u8 = 0;
/// Metrics as protobuf; other pages have one form.
const PROTOBUF: u8 = 1;

/// The collector's side of the HTTP process.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) child: Pid,
    /// Carries requests for metrics.
    pub(super) metrics: UnixStream,
    /// Carries requests for the health check, which does not wait for metrics.
    pub(super) health: UnixStream,
    /// Carries requests for the live view, which does not wait for metrics either.
    pub(super) live: UnixStream,
    /// User and capabilities of the process, as text.
    pub(super) identity: String,
    /// The process serves while this socket is open.
    pub(super) life: UnixStream,
}

impl Front {
    /// Starts the process, which serves on `listener`; `html` is the page at `/`. Call it while this process has a single
    /// thread, and has the capabilities to change its user and groups.
    pub(super) fn start(listener: TcpListener, html: Option<Html>) -> Result<Self> {
        let tried = || "cannot start the HTTP process".to_owned();
        let (metrics, asks_metrics) = UnixStream::pair().tried(tried)?;
        let (health, asks_health) = UnixStream::pair().tried(tried)?;
        let (live, asks_live) = UnixStream::pair().tried(tried)?;
        let (mut life, parents_life) = UnixStream::pair().tried(tried)?;
        // SAFETY: this process has a single thread, so no lock is held in the child.
        let forked = unsafe { fork() }.tried(tried)?;
        let ForkResult::Parent { child } = forked else {
            drop((metrics, health, live, life));
            let [metrics, health, live] = [asks_metrics, asks_health, asks_live].map(Mutex::new);
            let collector = Collector { metrics, health, live, html };
            let served = catch_unwind(AssertUnwindSafe(|| serve(listener, collector, parents_life)));
            // SAFETY: this ends the child without running the exit handlers that the parent registered.
            unsafe { nix::libc::_exit(i32::from(!matches!(served, Ok(Ok(()))))) }
        };
        drop((asks_metrics, asks_health, asks_live, parents_life));
        let started = receive(&mut life).unwrap_or_else(|_| Err("it ended".to_owned()));
        let identity = started.and_then(|left| String::from_utf8(left).map_err(|e| e.to_string()));
        let identity = identity.map_err(|why| Error::failed(format!("{}: {why}", tried())))?;
        Ok(Self { child, metrics, health, live, identity, life })
    }
}

/// Waits until the process ends, and returns an error that says how it ended. Needs a tokio runtime.
pub(super) async fn ended(child: Pid) -> Result<Error> {
    let mut child_signal = catch(SignalKind::child())?;
    let how = loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Signaled(_, signal, _)) => break format!("{signal} killed it"),
            Ok(WaitStatus::Exited(_, status)) => break format!("exit status {status}"),
            Ok(_) | Err(Errno::EINTR) => child_signal.recv().await,
            Err(error) => return Err(error).tried(|| "cannot wait for the HTTP process".to_owned()),
        };
    };
    Ok(Error::failed(format!("the HTTP process ended unexpectedly ({how}); start the exporter again")))
}

/// Runs in the child: drops its privileges, reports the result to the parent, and serves until the parent ends.
fn serve(listener: TcpListener, collector: Collector, mut parents_life: UnixStream) -> Result<()> {
    let restricted = restrict();
    let report = restricted.as_ref().map(|left| left.clone().into_bytes()).map_err(|error| format!("{error:#}"));
    let tried = || "cannot start the HTTP server".to_owned();
    send(&mut parents_life, &report).tried(tried)?;
    restricted?;
    parents_life.set_nonblocking(true).tried(tried)?;
    let runtime = Builder::new_current_thread().enable_all().build().tried(tried)?;
    runtime.block_on(async {
        // PR_SET_PDEATHSIG would not work: the parent lacks the capability to kill another user's process
        let parents_life = tokio::net::UnixStream::from_std(parents_life).tried(tried)?;
        tokio::select! {
            served = metrics_server::serve(listener, collector) => served,
            ended = parents_life.readable() => ended.tried(tried),
        }
    })
}

/// Becomes an unprivileged user that can gain no privileges. Returns the remaining identity as text.
fn restrict() -> Result<String> {
    let tried = || "cannot restrict it".to_owned();
    // A terminal and systemd send these signals to all processes of the exporter. The parent decides when to end.
    let stop: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    stop.thread_block().tried(tried)?;
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let become_nobody = || format!("cannot become user {NOBODY} (it needs CAP_SETUID and CAP_SETGID)");
    setgroups(&[group]).tried(become_nobody)?;
    setresgid(group, group, group).tried(become_nobody)?;
    setresuid(user, user, user).tried(become_nobody)?;
    prctl::set_no_new_privs().tried(tried)?;
    let left = drop_all_but(&[])?;
    // other processes of the same user cannot trace it
    prctl::set_dumpable(false).tried(tried)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).tried(tried)?;
    setrlimit(Resource::RLIMIT_NOFILE, MAX_FILES, MAX_FILES).tried(tried)?;
    Ok(left)
}

/// The collector, as the HTTP process sees it.
struct Collector {
    metrics: Mutex<UnixStream>,
    health: Mutex<UnixStream>,
    live: Mutex<UnixStream>,
    html: Option<Html>,
}

impl Pages for Collector {
    const NAME: &'static str = "hotcc exporter";
    const HEALTHY: &'static str = "the state of this machine can be read";

    fn metrics(&self) -> Page {
        ask(&self.metrics)
    }

    const PROTOBUF: bool = true;

    fn protobuf(&self) -> Bytes {
        request(&self.metrics, PROTOBUF)
    }

    fn health(&self) -> Page {
        ask(&self.health)
    }

    fn html(&self) -> Option<Html> {
        self.html
    }

    fn live(&self) -> Page {
        ask(&self.live)
    }
}

fn ask(collector: &Mutex<UnixStream>) -> Page {
    let page = request(collector, DEFAULT)?;
    String::from_utf8(page).map_err(|_| "the collector's answer is not text".to_owned())
}

fn request(collector: &Mutex<UnixStream>, form: u8) -> Bytes {
    let mut collector = collector.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = collector.write_all(&[form]).and_then(|()| receive(&mut collector));
    answer.unwrap_or_else(|error| Err(format!("the collector does not answer: {error}")))
}

/// Runs in the collector: makes one page per request, until the HTTP process ends. `make` learns whether it is to be
/// protobuf.
pub(super) fn answer(mut front: UnixStream, mut make: impl FnMut(bool) -> Bytes) {
    // this process parses nothing else that the HTTP process sends
    let mut form = [DEFAULT];
    while front.read_exact(&mut form).is_ok() {
        let page = catch_unwind(AssertUnwindSafe(|| make(form == [PROTOBUF])));
        let page = page.unwrap_or_else(|_| Err("collecting the page panicked; see the log".to_owned()));
        if send(&mut front, &page).is_err() {
            return;
        }
    }
}

fn send(to: &mut UnixStream, page: &Bytes) -> io::Result<()> {
    let (is_page, content) = match page {
        Ok(content) => (1, content.as_slice()),
        Err(why) => (0, why.as_bytes()),
    };
    let mut message = vec![is_page];
    message.extend(content.len().to_ne_bytes());
    message.extend(content);
    to.write_all(&message)
}

fn receive(from: &mut UnixStream) -> io::Result<Bytes> {
    let (mut is_page, mut length) = ([0], [0; 8]);
    from.read_exact(&mut is_page)?;
    from.read_exact(&mut length)?;
    let mut content = vec![0; usize::from_ne_bytes(length)];
    from.read_exact(&mut content)?;
    if is_page == [1] {
        return Ok(Ok(content));
    }
    Ok(Err(String::from_utf8(content).map_err(io::Error::other)?))
}
