//! The HTTP server of every daemon: `/metrics` for Prometheus, `/healthz` for health checks; for people, a page at `/`, if
//! the daemon has one.

mod connections;
mod format;
mod page;

pub use page::Html;

use crate::error::{Result, Tried};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use format::Format;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The pages that a daemon serves.
pub trait Pages: Send + Sync + 'static {
    /// Name of the program, for the index page.
    const NAME: &'static str;
    /// Meaning of status 200 of `/healthz`, for the index page.
    const HEALTHY: &'static str;

    /// Makes the page of metrics, as encoded by `prometheus-client`; an error is the reason why it cannot be made. May
    /// block; one page is made at a time.
    fn metrics(&self) -> std::result::Result<String, String>;

    /// Whether the daemon makes its metrics also as protobuf.
    const PROTOBUF: bool = false;

    /// Makes the page of metrics as Prometheus' protobuf messages, each after its length; like `metrics`.
    fn protobuf(&self) -> std::result::Result<Vec<u8>, String> {
        Err("there are no metrics as protobuf".to_owned())
    }

    /// Returns the text of `/healthz`: `Ok` is served with status 200, `Err` with 503. May block; does not wait for a
    /// page of metrics.
    fn health(&self) -> std::result::Result<String, String>;

    /// Returns the page at `/`, which may poll `/live.json`. Without one, `/` lists the other pages, and `/live.json` does
    /// not exist.
    fn html(&self) -> Option<Html> {
        None
    }

    /// Makes `/live.json`; an error is the reason why it cannot be made. May block; one is made at a time.
    fn live(&self) -> std::result::Result<String, String> {
        Err("there is no live view".to_owned())
    }
}

/// Starts to listen, so that the port is known before the daemon serves.
///
/// # Errors
/// Fails if the address is in use or is not one of this host's.
pub fn bind(listen: SocketAddr) -> Result<TcpListener> {
    let bound = TcpListener::bind(listen).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.tried(|| format!("cannot listen on {listen} (--listen ADDRESS:PORT takes another)"))
}

/// Prints the server's address on stdout.
///
/// # Errors
/// Fails if stdout is closed.
pub fn announce(listener: &TcpListener) -> Result<()> {
    let address = listener.local_addr().tried(|| "cannot listen".to_owned())?;
    writeln!(io::stdout(), "listening on http://{address}").tried(|| "cannot write to stdout".to_owned())
}

/// Serves until the runtime ends. Each connection serves one request; the number, size and duration of connections are
/// bounded.
///
/// # Errors
/// Fails if the runtime does not accept the listener.
pub async fn serve<P: Pages>(listener: TcpListener, pages: P) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener).tried(|| "cannot serve HTTP".to_owned())?;
    let index = format!("{}\n\n/metrics  for Prometheus\n/healthz  200 while {}\n", P::NAME, P::HEALTHY);
    let router = match pages.html() {
        Some(html) => Router::new().route("/", get(move || page::html(html))).route("/live.json", get(page::live::<P>)),
        None => Router::new().route("/", get(|| async { index })),
    };
    let router = router.route("/healthz", get(healthz::<P>)).route("/metrics", get(metrics::<P>));
    let server = Server { pages, scrape: Arc::default(), live: Arc::default() };
    connections::serve(listener, router.with_state(Arc::new(server))).await
}

struct Server<P> {
    pages: P,
    /// Lock that is held while a page of metrics is made.
    scrape: Arc<Mutex<()>>,
    /// The same for the live view.
    live: Arc<Mutex<()>>,
}

/// Makes a page on a separate thread. `turn` moves to that thread, so that the next page waits for this one even if the
/// client hangs up.
async fn make<P: Pages, T: Send + 'static>(
    server: Arc<Server<P>>,
    turn: Option<OwnedMutexGuard<()>>,
    page: fn(&P) -> std::result::Result<T, String>,
) -> std::result::Result<T, String> {
    let made = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        page(&server.pages)
    });
    made.await.unwrap_or_else(|_| Err("collecting the page panicked; see the log".to_owned()))
}

async fn metrics<P: Pages>(State(server): State<Arc<Server<P>>>, fields: HeaderMap) -> Response {
    let accept = || fields.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let turn = Some(Arc::clone(&server.scrape).lock_owned().await);
    let made = if P::PROTOBUF && format::prefers_protobuf(accept()) {
        make(server, turn, P::protobuf).await.map(|page| (format::PROTOBUF, page))
    } else {
        let format = Format::accepted(accept());
        let made = make(server, turn, P::metrics).await;
        made.map(|page| (format.content_type(), format.render(&page).into_bytes()))
    };
    match made {
        Ok((media_type, page)) => {
            ([(header::CONTENT_TYPE, media_type), (header::VARY, "Accept")], page).into_response()
        }
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response(),
    }
}

async fn healthz<P: Pages>(State(server): State<Arc<Server<P>>>) -> (StatusCode, String) {
    match make(server, None, P::health).await {
        Ok(text) => (StatusCode::OK, text),
        Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}
