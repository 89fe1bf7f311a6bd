//! `pep-agent server`: receives borders' reports, and writes those that are authentic, new and possible to the senders'
//! sockets.

mod clock;
pub mod config;
mod counters;
mod inband;
mod ingest;
mod kernel;
mod limit;
mod sessions;
mod socket;

pub use counters::{CohortCounters, Counters, DatagramFate, Metrics, RecordFate};
pub use inband::Attached;
pub use ingest::{Options, Server};
pub use kernel::{Hand, Kernel};

use crate::auth::Keys;
use crate::daemon::Daemon;
use caps::Capability;
use config::Config;
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Error, Result, Tried};
use prometheus_client::registry::Registry;
use std::time::Duration;
use tokio::runtime::Builder;

/// How often the server checks for problems.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot start, or cannot continue.
pub fn run(config: &Config) -> Result<()> {
    let keys = Keys::read(&config.key_file).tried(|| "cannot use the key file".to_owned())?;
    let daemon = Daemon::start(config.listen)?;
    let runtime =
        Builder::new_current_thread().enable_all().build().tried(|| "cannot start the async runtime".to_owned())?;
    let within = runtime.enter();
    let mut server = Server::start(config.options.clone(), keys)?;
    drop(within);
    daemon.announce()?;
    let attached = server.take_attached();
    let keep: &[Capability] =
        if attached.as_ref().is_some_and(Attached::has_filters) { &[Capability::CAP_NET_ADMIN] } else { &[] };
    let left = drop_all_but(keep)?;
    tracing::info!("receiving reports at {}, with keys from {}", server.address()?, config.key_file.display());
    tracing::info!("writing reports to the sockets of this network namespace");
    tracing::info!("running as {left}");
    let mut registry = Registry::default();
    let counters = server.counters();
    registry.register_collector(Box::new(Metrics(server.counters())));
    let keys = server.keys();
    let mut serving = Some(std::thread::spawn(move || runtime.block_on(server.serve())));
    let (mut warned, mut failed) = (0, 0);
    let check = || {
        warn_of_keys(&counters, &mut warned);
        warn_of_failures(&counters, &mut failed);
        let ended = serving.take_if(|thread| thread.is_finished()).map(|thread| {
            let ended = "the thread that receives reports ended unexpectedly";
            thread.join().ok().and_then(Result::err).map_or_else(|| Error::failed(ended), |why| why.during(ended))
        });
        ended.or_else(|| attached.as_ref().and_then(Attached::problem))
    };
    daemon.serve(registry, CHECK_INTERVAL, || keys.reload(&config.key_file), check)?.into_result()
}

/// Warns that the kernel refuses records: at the first one, and each time their number has doubled.
fn warn_of_failures(counters: &Counters, warned: &mut u64) {
    let failed = counters.records(RecordFate::Failed);
    if failed >= warned.saturating_mul(2).max(1) {
        *warned = failed;
        tracing::warn!(
            "the kernel refused {failed} records so far; before Linux 5.19, the server needs \
             kernel.unprivileged_bpf_disabled=0"
        );
    }
}

/// Warns that a border's keys differ from this server's: at the first rejected datagram, and each time their number has
/// doubled.
fn warn_of_keys(counters: &Counters, warned: &mut u64) {
    let [unknown, wrong] = [DatagramFate::UnknownKey, DatagramFate::WrongCode].map(|fate| counters.datagrams(fate));
    if unknown + wrong >= warned.saturating_mul(2).max(1) {
        *warned = unknown + wrong;
        tracing::warn!(
            "rejected datagrams so far: {unknown} with the number of a key that the key file lacks or that is for other \
             servers, {wrong} not signed with the key of their number: check that the border has the same key file"
        );
    }
}
