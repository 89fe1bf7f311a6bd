//! A daemon's interface to the service manager: readiness, the watchdog, and the signals that end it.

use crate::error::{Result, Tried};
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Reports that the daemon serves, if a service manager started it.
pub fn ready() {
    notify(NotifyState::Ready);
}

/// Reports that the daemon is shutting down.
pub fn stopping() {
    notify(NotifyState::Stopping);
}

/// Reports that the daemon is alive.
pub fn alive() {
    notify(NotifyState::Watchdog);
}

/// Returns the period within which the service manager expects a call of [`alive`], if its watchdog is enabled.
#[must_use]
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// SIGTERM and SIGINT, which end a daemon. Once caught, they stay pending until [`Stop::requested`].
#[derive(Debug)]
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Catches both signals from now on. Needs a tokio runtime.
    ///
    /// # Errors
    /// Fails if the kernel refuses the handler.
    pub fn catch() -> Result<Self> {
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    /// Waits for one of them and returns its name.
    pub async fn requested(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Catches one kind of signal from now on.
///
/// # Errors
/// Fails if the kernel refuses the handler.
pub fn catch(kind: SignalKind) -> Result<Signal> {
    signal(kind).tried(|| "cannot catch signals".to_owned())
}
