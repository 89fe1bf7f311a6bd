//! The Prometheus exporter: gathers a snapshot when it is asked for one, and serves it over HTTP.

pub mod metrics;
mod scrape;

pub use scrape::Scraper;

use crate::registry::{self, Algo};
use caps::Capability;
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Result, Tried, need_root};
use hotcc_host::metrics_server::{self, Pages};
use hotcc_host::service::{self, Stop};
use metrics::page;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Builder;

/// What it keeps of root's powers: to load socket iterators, to open maps by their id and enter network namespaces, and to
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

/// Serves until SIGTERM or SIGINT. Prints the address that it listens on.
pub fn serve(options: Options) -> Result<()> {
    need_root("hotcc exporter")?;
    // one thread for connections; gathering has its own
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.tried(|| "cannot start the exporter".to_owned())?.block_on(run(options))
}

async fn run(options: Options) -> Result<()> {
    let mut stop = Stop::catch()?;
    let listener = metrics_server::bind(options.listen).await?;
    let left = drop_all_but(&CAPABILITIES)?;
    eprintln!(
        "reading /sys/fs/bpf/hotcc and the sockets of all network namespaces; writing nothing; running as {left}"
    );
    metrics_server::announce(&listener)?;
    service::ready();
    tokio::select! {
        served = metrics_server::serve(listener, Machine(Mutex::new(Scraper::new(options.max_links)))) => served,
        _ = stop.requested() => {
            service::stopping();
            Ok(())
        }
    }
}

/// This machine, as its pages show it.
struct Machine(Mutex<Scraper>);

impl Pages for Machine {
    const NAME: &'static str = "hotcc exporter";
    const HEALTHY: &'static str = "the state of this machine can be read";

    fn metrics(&self) -> std::result::Result<String, String> {
        let mut scraper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        page(scraper.scrape()).map_err(|error| format!("{error:#}"))
    }

    fn health(&self) -> std::result::Result<String, String> {
        match registry::need_bpffs().and_then(|()| Algo::all()) {
            Ok(_) => Ok("ok\n".to_owned()),
            Err(error) => Err(format!("{error:#}\n")),
        }
    }
}
