//! What both agents share as daemons: /metrics and /healthz, signals, the service manager, capabilities, a file of options.

use crate::error::{Error, Result, Tried};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const INDEX: &str = "pep-agent\n\n/metrics  OpenMetrics\n/healthz  200 while everything is in its place\n";

/// Reads options from a TOML file.
///
/// # Errors
/// It cannot be read, or says something that is no option.
pub fn read_options<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).tried(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))
}

/// That there is a BPF file system where `path` is, or is to be.
///
/// # Errors
/// There is none.
pub fn need_bpffs(path: &Path) -> Result<()> {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(path);
    if statfs(existing).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC) {
        return Ok(());
    }
    Err(Error::KernelLacks(format!(
        "cannot use {}: no BPF file system there; mount it: mount -t bpf bpf /sys/fs/bpf (inside `ip netns exec`, which \
         hides it, do not: use nsenter --net=/run/netns/NAME)",
        path.display()
    )))
}

/// Gives up all capabilities of this thread, and of those it starts from now on, but `keep`: for ever.
///
/// # Errors
/// The kernel refuses.
pub fn drop_capabilities(keep: &[Capability]) -> Result<()> {
    let tried = || "cannot give up capabilities".to_owned();
    let held = caps::read(None, CapSet::Permitted).tried(tried)?;
    let kept: CapsHashSet = keep.iter().copied().filter(|c| held.contains(c)).collect();
    caps::clear(None, CapSet::Ambient).tried(tried)?;
    if held.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::all().difference(&kept) {
            // what this kernel does not know it cannot drop, and nobody can have
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    caps::set(None, CapSet::Effective, &kept).tried(tried)?;
    caps::set(None, CapSet::Permitted, &kept).tried(tried)?;
    caps::clear(None, CapSet::Inheritable).tried(tried)
}

/// Tells the service manager, if one started this.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot tell the service manager: {error}");
    }
}

/// Why a daemon stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to: the signal's name.
    Signal(&'static str),
    /// It cannot do its work any more: why.
    Problem(String),
}

/// Listens, and is about to serve.
#[derive(Debug)]
pub struct Daemon {
    runtime: Runtime,
    listener: TcpListener,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a page is made from. The lock keeps scrapes from running at the same time.
struct Pages {
    registry: Mutex<Registry>,
    problem: Mutex<Option<String>>,
}

impl Daemon {
    /// Opens the port, while it still may. From now on signals wait for [`Daemon::serve`].
    ///
    /// # Errors
    /// It is taken, say.
    pub fn start(listen: SocketAddr) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().tried(|| "cannot start".to_owned())?;
        let (listener, [terminate, interrupt, hangup]) = runtime.block_on(async {
            let catch = |kind| signal(kind).tried(|| "cannot catch signals".to_owned());
            let tried = || format!("cannot listen on {listen} (--listen ADDRESS:PORT takes another)");
            let listener = TcpListener::bind(listen).await.tried(tried)?;
            let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
            let [terminate, interrupt, hangup] = kinds.map(catch);
            Ok::<_, Error>((listener, [terminate?, interrupt?, hangup?]))
        })?;
        Ok(Self { runtime, listener, terminate, interrupt, hangup })
    }

    /// Says on stdout where it listens.
    ///
    /// # Errors
    /// Nobody listens to that.
    pub fn announce(&self) -> Result<()> {
        let address = self.listener.local_addr().tried(|| "cannot listen".to_owned())?;
        writeln!(std::io::stdout(), "listening on http://{address}").tried(|| "cannot write to stdout".to_owned())
    }

    /// Serves until SIGTERM, SIGINT, or `look` finds a problem, which it is asked for again and again; calls `reload` at
    /// SIGHUP. Tells the service manager that all is ready.
    ///
    /// # Errors
    /// The HTTP server fails.
    pub fn serve(
        self,
        registry: Registry,
        look_every: Duration,
        mut reload: impl FnMut(),
        mut look: impl FnMut() -> Option<String>,
    ) -> Result<Stopped> {
        let Self { runtime, listener, mut terminate, mut interrupt, mut hangup } = self;
        let pages = Arc::new(Pages { registry: Mutex::new(registry), problem: Mutex::new(None) });
        let router = Router::new()
            .route("/", get(INDEX))
            .route("/healthz", get(healthz))
            .route("/metrics", get(metrics))
            .with_state(Arc::clone(&pages));
        let stopped = runtime.block_on(async {
            notify(NotifyState::Ready);
            let looking = async {
                loop {
                    tokio::time::sleep(look_every).await;
                    if let Some(problem) = look() {
                        *pages.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem.clone());
                        return problem;
                    }
                }
            };
            let reloading = async {
                while hangup.recv().await.is_some() {
                    reload();
                }
            };
            tokio::select! {
                served = axum::serve(listener, router) => {
                    served.tried(|| "cannot serve HTTP".to_owned())?;
                    Ok(Stopped::Problem("the HTTP server ended".to_owned()))
                }
                problem = looking => Ok(Stopped::Problem(problem)),
                () = reloading => Ok(Stopped::Problem("signals are not delivered any more".to_owned())),
                _ = terminate.recv() => Ok(Stopped::Signal("SIGTERM")),
                _ = interrupt.recv() => Ok(Stopped::Signal("SIGINT")),
            }
        });
        notify(NotifyState::Stopping);
        runtime.shutdown_timeout(Duration::from_secs(1));
        stopped
    }
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    let page = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        encode(&mut text, &pages.registry.lock().unwrap_or_else(PoisonError::into_inner)).map(|()| text)
    });
    match page.await {
        Ok(Ok(page)) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "the log says why\n").into_response(),
    }
}

async fn healthz(State(pages): State<Arc<Pages>>) -> (StatusCode, String) {
    match &*pages.problem.lock().unwrap_or_else(PoisonError::into_inner) {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
    }
}
