//! The Prometheus exporter: gathers a snapshot when it is asked for one. A process without rights serves it over HTTP.

mod front;
pub mod metrics;
mod scrape;

pub use scrape::Scraper;

use crate::registry::{self, Algo};
use caps::Capability;
use front::Front;
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Result, Tried, need_root};
use hotcc_host::metrics_server;
use hotcc_host::service::{self, Stop};
use metrics::page;
use std::net::{SocketAddr, TcpListener};
use tokio::runtime::Builder;

/// What the collector keeps of root's powers: to load socket iterators, to open maps by their id and enter network namespaces, and to
/// find these below the processes of all users.
const CAPABILITIES: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_PTRACE,
];

/// How to serve.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Radio links shown at most.
    pub max_links: usize,
}

/// Serves until SIGTERM or SIGINT. Prints the address that it listens on. Call it while the process has one thread.
///
/// # Errors
/// The address is in use, or a right is missing; or the process that serves HTTP ended.
pub fn serve(options: Options) -> Result<()> {
    need_root("hotcc exporter")?;
    let listener = metrics_server::bind(options.listen)?;
    let front = Front::start(listener.try_clone().tried(|| "cannot start the exporter".to_owned())?)?;
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
    let Front { child, metrics, health, identity: _, life: _life } = front;
    let mut stop = Stop::catch()?;
    metrics_server::announce(&listener)?;
    drop(listener); // the HTTP process has its own
    let mut scraper = Scraper::new(max_links);
    std::thread::spawn(move || {
        front::answer(metrics, || page(scraper.scrape()).map_err(|error| format!("{error:#}")));
    });
    std::thread::spawn(move || front::answer(health, check));
    service::ready();
    tokio::select! {
        why = front::ended(child) => Err(why?),
        _ = stop.requested() => {
            service::stopping();
            Ok(())
        }
    }
}

/// The text of `/healthz`.
fn check() -> std::result::Result<String, String> {
    match registry::need_bpffs().and_then(|()| Algo::all()) {
        Ok(_) => Ok("ok\n".to_owned()),
        Err(error) => Err(format!("{error:#}\n")),
    }
}
