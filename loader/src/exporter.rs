//! The Prometheus exporter: gathers a snapshot when it is asked for one, and serves it over HTTP.

use crate::error::{Error, Result, Tried, need_root};
use crate::flows::{FlowCounter, Group};
use crate::install::text;
use crate::metrics::{Algorithm, Link, Links, MAX_OTHER_NAMES, PARTS, Snapshot, by_label, page};
use crate::registry::{self, Algo};
use crate::rx;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_radio_map::Freshness;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const INDEX: &str = "hotcc exporter\n\n/metrics  OpenMetrics\n/healthz  200 while this machine can be looked at\n";

/// How to serve.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Radio links shown at most.
    pub max_links: usize,
}

/// Serves until SIGTERM or SIGINT. Says on stdout where, once it does.
pub fn serve(options: Options) -> Result<()> {
    need_root("hotcc exporter")?;
    // One thread for connections; gathering has its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.tried(|| "cannot start the exporter".to_owned())?.block_on(run(options))
}

async fn run(options: Options) -> Result<()> {
    let catch = |kind| signal(kind).tried(|| "cannot catch signals".to_owned());
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let tried = || format!("cannot listen on {} (--listen ADDRESS:PORT takes another)", options.listen);
    let listener = TcpListener::bind(options.listen).await.tried(tried)?;
    let address = listener.local_addr().tried(tried)?;
    writeln!(std::io::stdout(), "listening on http://{address}").tried(|| "cannot write to stdout".to_owned())?;
    let scraper = Arc::new(Mutex::new(Scraper::new(options.max_links)));
    let router = Router::new()
        .route("/", get(INDEX))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .with_state(scraper);
    tokio::select! {
        served = axum::serve(listener, router) => served.tried(|| format!("cannot serve on {address}")),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn metrics(State(scraper): State<Arc<Mutex<Scraper>>>) -> Response {
    // The lock goes along, so a client that hangs up does not let the next one gather at the same time.
    let mut scraper = scraper.lock_owned().await;
    let page = tokio::task::spawn_blocking(move || page(scraper.scrape())).await;
    match page.unwrap_or_else(|_| Err(Error::failed("gathering panicked"))) {
        Ok(page) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn healthz() -> (StatusCode, String) {
    match registry::need_bpffs().and_then(|()| Algo::all()) {
        Ok(_) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

/// Gathers snapshots; keeps the socket iterator loaded in between.
#[derive(Debug)]
pub struct Scraper {
    max_links: usize,
    flows: Option<FlowCounter>,
    errors: [u64; PARTS.len()],
}

impl Scraper {
    /// Shows at most `max_links` radio links.
    #[must_use]
    pub fn new(max_links: usize) -> Self {
        Self { max_links, flows: None, errors: [0; PARTS.len()] }
    }

    /// Reads everything now: the sockets, which take the longest, beside the rest.
    pub fn scrape(&mut self) -> Snapshot {
        let started = Instant::now();
        let Self { max_links, flows, errors } = self;
        let (groups, algorithms, stats, radio, commands, rx) = std::thread::scope(|threads| {
            let walk = threads.spawn(|| twice(|| count_sockets(flows)));
            let (algorithms, stats) = (twice(algorithms), twice(stats));
            let (radio, commands) = (twice(|| links(*max_links)), twice(registry::counters));
            let rx = twice(rx::counters);
            let groups = walk.join().unwrap_or_else(|_| Err(Error::failed("counting the sockets panicked")));
            (groups, algorithms, stats, radio, commands, rx)
        });
        let algorithms = kept(errors, 0, algorithms);
        let stats = kept(errors, 1, stats);
        let groups = kept(errors, 2, groups);
        let radio = kept(errors, 3, radio);
        let commands = kept(errors, 4, commands);
        let rx = kept(errors, 5, rx).flatten();
        let sockets = algorithms.as_ref().and_then(|ours| Some(by_label(&groups?, ours, MAX_OTHER_NAMES)));
        Snapshot { algorithms, stats, sockets, radio, commands, rx, errors: *errors, duration: started.elapsed() }
    }
}

/// A command may just have removed what was being read, and a socket iterator may have gone bad.
fn twice<T>(mut gather: impl FnMut() -> Result<T>) -> Result<T> {
    gather().or_else(|_| gather())
}

/// Counts and logs a part that is missing.
fn kept<T>(errors: &mut [u64; PARTS.len()], part: usize, result: Result<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            errors[part] += 1;
            tracing::error!(part = PARTS[part], %error, "left out of this scrape");
        })
        .ok()
}

fn count_sockets(flows: &mut Option<FlowCounter>) -> Result<Vec<Group>> {
    let mut counter = match flows.take() {
        Some(counter) => counter,
        None => FlowCounter::new()?,
    };
    let groups = counter.count()?;
    *flows = Some(counter); // one that failed is not kept
    Ok(groups)
}

fn links(max_shown: usize) -> Result<Links> {
    let mut links = hotcc_radio_map::links(Path::new(pins::ROOT)).map_err(|e| Error::failed(e.to_string()))?;
    links.sort_unstable_by_key(|l| (l.key.addr, l.key.port, l.key.prefix_len));
    let shown = links.iter().take(max_shown).map(link).collect();
    Ok(Links { shown, total: links.len() })
}

fn link(link: &hotcc_radio_map::Link) -> Link {
    let s = &link.snapshot;
    Link {
        key: link.key,
        sinr_db: s.sinr_db(),
        average_db: s.average_db(),
        age_ms: s.age_ms(s.taken_ms),
        fresh: s.freshness(s.taken_ms) == Freshness::Fresh,
        updates: s.updates,
        capacity_bps: s.capacity_bps,
    }
}

fn algorithms() -> Result<Vec<Algorithm>> {
    let mut found = Vec::new();
    for algo in Algo::all()? {
        let Some(current) = algo.current()? else { continue };
        let meta = current.meta()?;
        found.push(Algorithm {
            name: algo.name,
            map_id: current.map_id,
            object: text(&meta.object),
            profile: text(&meta.profile),
            since_unix_ns: meta.since_unix_ns,
            swaps: meta.swaps,
        });
    }
    Ok(found)
}

fn stats() -> Result<Vec<(String, AlgoStats)>> {
    let mut found = Vec::new();
    for algo in Algo::all()? {
        found.extend(algo.stats()?.map(|stats| (algo.name, stats)));
    }
    Ok(found)
}
