//! Connections of the HTTP server. Each serves one request; their number, size and duration are bounded.

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Maximum number of open connections. A further one closes the oldest that waits for its client, so that idle clients
/// do not block others.
const MAX_CONNECTIONS: usize = 64;
/// Maximum size of request line and fields, bytes; the minimum that hyper allows. Prometheus sends a few hundred bytes.
const MAX_HEADER_BYTES: usize = 8 << 10;
/// Maximum time for a client to send the header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum duration of a connection: gathering a large page takes some seconds, sending it over a poor path more.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Time to wait after an error that the client did not cause: the process may have no free descriptors.
const PAUSE: Duration = Duration::from_secs(1);

struct Connection {
    task: JoinHandle<()>,
    /// Whether its page is being made; if not, the connection waits for its client.
    is_busy: Arc<AtomicBool>,
}

/// Serves until the runtime ends.
pub(super) async fn serve(listener: TcpListener, router: Router) -> ! {
    let mut open: VecDeque<Connection> = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => continue,
            Err(error) => {
                tracing::error!("cannot accept a connection: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= MAX_CONNECTIONS {
            let idle = open.iter().position(|connection| !connection.is_busy.load(Relaxed));
            let Some(oldest) = idle.and_then(|i| open.remove(i)) else { continue };
            oldest.task.abort();
        }
        let is_busy = Arc::<AtomicBool>::default();
        let task = tokio::spawn(serve_one(stream, router.clone(), Arc::clone(&is_busy)));
        open.push_back(Connection { task, is_busy });
    }
}

async fn serve_one(stream: TcpStream, router: Router, is_busy: Arc<AtomicBool>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        is_busy.store(true, Relaxed);
        let answer = router.call(request.map(Body::new));
        let is_busy = Arc::clone(&is_busy);
        async move {
            let answer = answer.await;
            is_busy.store(false, Relaxed);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    http.keep_alive(false).max_buf_size(MAX_HEADER_BYTES);
    match timeout(CONNECTION_TIMEOUT, http.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("connection ended: {error}"),
        Err(_) => tracing::debug!("connection closed after {} s", CONNECTION_TIMEOUT.as_secs()),
    }
}
