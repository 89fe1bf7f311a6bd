//! The Prometheus exporter: gathers a snapshot on each request. A process without privileges serves it over HTTP, and
//! a page with a live view.

mod front;
mod live;
pub mod metrics;
mod page;
mod scrape;

pub use scrape::Scraper;

use crate::registry::{self, Algo};
use caps::Capability;
use front::Front;
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Result, Tried, need_root};
use hotcc_host::metrics_server;
use hotcc_host::service::{self, Stop};
use live::Live;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::net::{SocketAddr, TcpListener};
use tokio::runtime::Builder;

/// Capabilities that the collector keeps: to load socket iterators, to open maps by id, to enter network namespaces,
/// and to find network namespaces through the processes of all users.
const CAPABILITIES: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_PTRACE,
];

/// When the page at `/` is served. It shows the addresses of connections, which the metrics do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PageOn {
    /// If the exporter listens on a loopback address
    Loopback,
    /// Always: every host that reaches the address sees all connections
    Always,
    /// Never
    Never,
}

/// Options of the exporter.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Address to listen on; with port 0, the kernel chooses a free port.
    pub listen: SocketAddr,
    /// Maximum number of radio links to show.
    pub max_links: usize,
    /// When to serve the page.
    pub page: PageOn,
}

impl Options {
    fn serves_page(&self) -> bool {
        match self.page {
            PageOn::Loopback => self.listen.ip().to_canonical().is_loopback(),
            PageOn::Always => true,
            PageOn::Never => false,
        }
    }
}

/// Serves until SIGTERM or SIGINT. Prints the address that it listens on. Call it while the process has a single
/// thread.
///
/// # Errors
/// Fails if the address is in use, if a privilege is missing, or if the process that serves HTTP ends.
pub fn serve(options: Options) -> Result<()> {
    need_root("hotcc exporter")?;
    let listener = metrics_server::bind(options.listen)?;
    let copy = listener.try_clone().tried(|| "cannot start the exporter".to_owned())?;
    let front = Front::start(copy, options.serves_page().then(page::html))?;
    // a walk over the sockets holds every network namespace open
    let tried = || "cannot raise the limit of open files".to_owned();
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).tried(tried)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).tried(tried)?;
    let left = drop_all_but(&CAPABILITIES)?;
    eprintln!(
        "reading /sys/fs/bpf/hotcc and the sockets of all network namespaces; writing nothing; running as {left}; \
         serving HTTP as {}",
        front.identity
    );
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.tried(|| "cannot start the exporter".to_owned())?.block_on(run(front, listener, options.max_links))
}

async fn run(front: Front, listener: TcpListener, max_links: usize) -> Result<()> {
    let Front { child, metrics, health, live, identity: _, life: _life } = front;
    let mut stop = Stop::catch()?;
    metrics_server::announce(&listener)?;
    drop(listener); // the HTTP process has its own copy
    let mut scraper = Scraper::new(max_links);
    std::thread::spawn(move || {
        front::answer(metrics, |is_protobuf| {
            let found = scraper.scrape();
            let page =
                if is_protobuf { metrics::protobuf(found) } else { metrics::page(found).map(String::into_bytes) };
            page.map_err(|error| format!("{error:#}"))
        });
    });
    std::thread::spawn(move || front::answer(health, |_| check().map(String::into_bytes)));
    let mut view = Live::new(max_links);
    std::thread::spawn(move || {
        front::answer(live, |_| view.json().map(String::into_bytes).map_err(|error| format!("{error:#}")));
    });
    service::ready();
    tokio::select! {
        why = front::ended(child) => Err(why?),
        _ = stop.requested() => {
            service::stopping();
            Ok(())
        }
    }
}

/// Returns the text of `/healthz`.
fn check() -> std::result::Result<String, String> {
    match registry::need_bpffs().and_then(|()| Algo::all()) {
        Ok(_) => Ok("ok\n".to_owned()),
        Err(error) => Err(format!("{error:#}\n")),
    }
}
