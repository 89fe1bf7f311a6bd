//! The HTTP server of every daemon: `/metrics` for Prometheus, `/healthz` for whoever restarts it.

use crate::error::{Result, Tried};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a daemon serves.
pub trait Pages: Send + 'static {
    /// The program's name, for the index page.
    const NAME: &'static str;
    /// What a healthy `/healthz` means, for the index page.
    const HEALTHY: &'static str;

    /// The OpenMetrics page, or why it cannot be made. May block; runs on a thread of its own.
    fn metrics(&mut self) -> std::result::Result<String, String>;

    /// The text of `/healthz`: `Ok` is served with status 200, `Err` with 503.
    fn health(&mut self) -> std::result::Result<String, String>;
}

/// Listens, so that the port is known before the daemon serves.
///
/// # Errors
/// The address is in use or not this host's.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener> {
    let bound = TcpListener::bind(listen).await;
    bound.tried(|| format!("cannot listen on {listen} (--listen ADDRESS:PORT takes another)"))
}

/// Prints on stdout where the server listens.
///
/// # Errors
/// Stdout is closed.
pub fn announce(listener: &TcpListener) -> Result<()> {
    let address = listener.local_addr().tried(|| "cannot listen".to_owned())?;
    writeln!(io::stdout(), "listening on http://{address}").tried(|| "cannot write to stdout".to_owned())
}

/// Serves until the runtime ends.
///
/// # Errors
/// The HTTP server fails.
pub async fn serve<P: Pages>(listener: TcpListener, pages: P) -> Result<()> {
    let index = format!("{}\n\n/metrics  OpenMetrics\n/healthz  200 while {}\n", P::NAME, P::HEALTHY);
    let router = Router::new()
        .route("/", get(|| async { index }))
        .route("/healthz", get(healthz::<P>))
        .route("/metrics", get(metrics::<P>))
        .with_state(Arc::new(Mutex::new(pages)));
    axum::serve(listener, router).await.tried(|| "cannot serve HTTP".to_owned())
}

/// One page is made at a time: the lock moves to the thread that makes it, so that a client that hangs up does not let the
/// next one start beside it.
async fn make<P: Pages, T: Send + 'static>(
    pages: Arc<Mutex<P>>,
    page: impl FnOnce(&mut P) -> std::result::Result<T, String> + Send + 'static,
) -> std::result::Result<T, String> {
    let mut pages = pages.lock_owned().await;
    let made = tokio::task::spawn_blocking(move || page(&mut pages)).await;
    made.unwrap_or_else(|_| Err("gathering panicked; the log says why".to_owned()))
}

async fn metrics<P: Pages>(State(pages): State<Arc<Mutex<P>>>) -> Response {
    match make(pages, P::metrics).await {
        Ok(page) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response(),
    }
}

async fn healthz<P: Pages>(State(pages): State<Arc<Mutex<P>>>) -> (StatusCode, String) {
    match make(pages, P::health).await {
        Ok(text) => (StatusCode::OK, text),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}
