//! The Prometheus exporter: gathers a snapshot when it is asked for one, and serves it over HTTP.

pub mod metrics;
mod scrape;

pub use scrape::Scraper;

use crate::error::{Error, Result, Tried, need_root};
use crate::registry::{self, Algo};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics::page;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
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
