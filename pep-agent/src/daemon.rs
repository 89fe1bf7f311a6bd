//! The common part of both agents: the HTTP server for /metrics and /healthz, signals, and a periodic check for
//! problems.

use hotcc_host::error::{Error, Kind, Result, Tried};
use hotcc_host::metrics_server::{self, Pages};
use hotcc_host::service::{self, Stop};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind};

/// Why a daemon stopped.
#[derive(Debug)]
pub enum Stopped {
    /// It received a signal of this name.
    Signal(&'static str),
    /// It cannot continue, for this reason.
    Problem(Error),
}

impl Stopped {
    /// Logs a signal; returns a problem as an error.
    ///
    /// # Errors
    /// The problem.
    pub fn into_result(self) -> Result<()> {
        match self {
            Self::Signal(name) => tracing::info!("stopped by {name}"),
            Self::Problem(problem) => return Err(problem.during("stopped").as_kind(Kind::Failed)),
        }
        Ok(())
    }
}

/// A daemon that listens and is ready to serve.
#[derive(Debug)]
pub struct Daemon {
    runtime: Runtime,
    listener: TcpListener,
    stop: Stop,
    hangup: Signal,
}

/// What the pages show.
struct Shown {
    registry: Registry,
    problem: Arc<Mutex<Option<String>>>,
}

impl Pages for Shown {
    const NAME: &'static str = "pep-agent";
    const HEALTHY: &'static str = "every thread runs and every program is attached";

    fn metrics(&self) -> std::result::Result<String, String> {
        let mut text = String::new();
        let encoded = encode(&mut text, &self.registry).map(|()| text);
        encoded.map_err(|_| "cannot read the metrics: see the log for the reason".to_owned())
    }

    fn health(&self) -> std::result::Result<String, String> {
        match &*self.problem.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok("ok\n".to_owned()),
            Some(problem) => Err(format!("{problem}\n")),
        }
    }
}

impl Daemon {
    /// Opens the port, which may need privileges that are dropped later. From now on, signals are held for
    /// [`Daemon::serve`].
    ///
    /// # Errors
    /// The port cannot be opened, e.g. because it is in use.
    pub fn start(listen: SocketAddr) -> Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().build().tried(|| "cannot start the async runtime".to_owned())?;
        let listener = metrics_server::bind(listen)?;
        let (stop, hangup) =
            runtime.block_on(async { Ok::<_, Error>((Stop::catch()?, service::catch(SignalKind::hangup())?)) })?;
        Ok(Self { runtime, listener, stop, hangup })
    }

    /// Prints the listening address to stdout.
    ///
    /// # Errors
    /// Stdout is closed.
    pub fn announce(&self) -> Result<()> {
        metrics_server::announce(&self.listener)
    }

    /// Serves until SIGTERM, SIGINT, or a problem that `check` returns. Calls `check` once per `check_interval`, and `reload`
    /// at SIGHUP. Notifies the service manager when it is ready.
    ///
    /// # Errors
    /// The HTTP server fails.
    pub fn serve(
        self,
        registry: Registry,
        check_interval: Duration,
        mut reload: impl FnMut(),
        mut check: impl FnMut() -> Option<Error>,
    ) -> Result<Stopped> {
        let Self { runtime, listener, mut stop, mut hangup } = self;
        let shown = Arc::new(Mutex::new(None));
        let pages = Shown { registry, problem: Arc::clone(&shown) };
        let stopped = runtime.block_on(async {
            service::ready();
            let looking = async {
                loop {
                    tokio::time::sleep(check_interval).await;
                    if let Some(problem) = check() {
                        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{problem:#}"));
                        return problem;
                    }
                }
            };
            let reloading = async {
                while hangup.recv().await.is_some() {
                    reload();
                }
            };
            let problem = |text: &str| Stopped::Problem(Error::failed(text));
            tokio::select! {
                served = metrics_server::serve(listener, pages) => served.map(|()| problem("the HTTP server stopped")),
                found = looking => Ok(Stopped::Problem(found)),
                () = reloading => Ok(problem("SIGHUP can no longer be received")),
                name = stop.requested() => Ok(Stopped::Signal(name)),
            }
        });
        service::stopping();
        runtime.shutdown_timeout(Duration::from_secs(1));
        stopped
    }
}
