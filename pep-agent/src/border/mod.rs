//! `pep-agent border`: watches the segments that pass a router towards its access network, and reports them to their
//! senders.
//!
//! The kernel program (bpf/progs/pep_border.bpf.c) does the work per packet. The agent attaches it, takes its reports
//! out of the ring, and hands them to a [`Transport`]. Packets pass whether the agent runs or not.

pub mod config;
pub mod kernel;
pub mod metrics;
pub mod print;
pub mod records;
pub mod report_sender;
pub mod ring;
pub mod urgent;

use crate::daemon::Daemon;
use crate::report::{Sent, Transport};
use caps::Capability;
use config::{Config, Way};
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Error, Result, Tried};
use kernel::{Kernel, View};
use metrics::Metrics;
use prometheus_client::registry::Registry;
use report_sender::Delivered;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use urgent::Urgent;

/// Returns the capabilities that the agent keeps: to read maps, to remove filters from interfaces, and, for in-band
/// reports, to send packets with other hosts' addresses.
fn capabilities(way: Way) -> &'static [Capability] {
    match way {
        Way::Udp => &[Capability::CAP_BPF, Capability::CAP_NET_ADMIN],
        Way::Inband => &[Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW],
    }
}

/// Warn if reports were sent for this long and no server has sent an authentic probe.
const UNANSWERED: Duration = Duration::from_secs(3);
/// Warn after this many packets if none was data of a cooperating server.
const UNTRACKED_PACKETS: u64 = 1000;
/// How often the agent checks for problems.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT, then detaches and removes everything. `start` starts the transport after unneeded
/// capabilities are dropped; `reload` is called at SIGHUP.
///
/// # Errors
/// It cannot start, or an interface is gone; everything is removed then, too.
pub fn run(
    config: &Config,
    pins: &Path,
    start: impl FnOnce() -> Result<Box<dyn Transport + Send>>,
    reload: impl FnMut(),
) -> Result<()> {
    let daemon = Daemon::start(config.listen)?;
    let mut kernel = Kernel::attach(config, pins)?;
    for attachment in &kernel.attachments {
        let (hook, method) = (attachment.hook(), attachment.method());
        let adopted = if attachment.is_adopted { ", replaces the one that an earlier process left" } else { "" };
        tracing::info!("attached the {} program to {} ({method}{adopted})", hook.role, hook.interface);
    }
    let servers: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
    tracing::info!("tracking flows of servers in {}", servers.join(", "));
    let mut ring = kernel.reports.take().ok_or_else(|| Error::failed("the ring of reports is already in use"))?;
    let (stop, delivered) = (&AtomicBool::new(false), &Arc::<Delivered>::default());
    let Kernel { view, .. } = &kernel;
    let served = std::thread::scope(|scope| {
        // an agent that was killed while it polled left a queue, maybe a full one, that no timer empties
        ring.end_poll()?;
        daemon.announce()?;
        // before the capability for it is dropped, and before the transport starts its threads, which are not urgent
        let urgent = Urgent::begin();
        let left = drop_all_but(capabilities(config.transport))?;
        let (give, take) = mpsc::channel::<Box<dyn Transport + Send>>();
        let sender = std::thread::Builder::new().name("reports".to_owned());
        let thread = sender
            .spawn_scoped(scope, move || {
                let Ok(mut transport) = take.recv() else { return };
                let handed_over = report_sender::run(&mut ring, transport.as_mut(), delivered, stop);
                handed_over.unwrap_or_else(|error| tracing::error!("{error:#}"));
            })
            .tried(|| "cannot start the thread that sends reports".to_owned())?;
        drop(urgent);
        let transport = start()?;
        tracing::info!("running as {left}");
        let sent = transport.sent();
        let pump_ended = || Error::failed("the thread that sends reports ended unexpectedly");
        give.send(transport).map_err(|_| pump_ended())?;
        let mut registry = Registry::default();
        let metrics = Metrics::new(Arc::clone(view), Arc::clone(delivered), Arc::clone(&sent));
        registry.register_collector(Box::new(metrics));
        let mut warnings = Warnings::from_now_on(view);
        let check = || {
            warnings.look_at_kernel(view);
            warnings.look_at_servers(&sent, config.transport);
            if thread.is_finished() {
                return Some(pump_ended());
            }
            Kernel::problem(&kernel.attachments)
        };
        let served = daemon.serve(registry, CHECK_INTERVAL, reload, check);
        stop.store(true, Relaxed);
        served
    });
    stop.store(true, Relaxed);
    let detached = kernel.detach();
    served?.into_result()?;
    detached
}

/// Logs a warning when a counter shows a problem, without repeating it each time.
#[derive(Default)]
struct Warnings {
    gtp_u_before: u64,
    gtp_u: bool,
    none_tracked: bool,
    reports_lost: u64,
    no_key: u64,
    unsent: u64,
    packets: u64,
    answered: u64,
    unanswered_for: Duration,
}

impl Warnings {
    /// Starts from the kernel's current counters: an earlier process has already warned of what they show.
    fn from_now_on(view: &View) -> Self {
        let (gtp_u_before, reports_lost) = view.counters().map_or((0, 0), |c| (c.gtp_u, c.reports_lost));
        Self { gtp_u_before, reports_lost, ..Self::default() }
    }

    fn look_at_kernel(&mut self, view: &View) {
        let Ok(counters) = view.counters() else { return };
        if counters.gtp_u > self.gtp_u_before && !self.gtp_u {
            self.gtp_u = true;
            tracing::warn!(
                "GTP-U packets (UDP port 2152) pass here, and flows inside them are not tracked: run the border where packets \
                 are plain IP, on the other side of the UPF or P-GW (N6, SGi)"
            );
        }
        if counters.packets >= UNTRACKED_PACKETS && counters.tracked == 0 && !self.none_tracked {
            self.none_tracked = true;
            tracing::warn!(
                "none of the first {} packets from the Internet was data of a cooperating server: check --internet, --access \
                 and --server",
                counters.packets
            );
        }
        if counters.reports_lost >= self.reports_lost.saturating_mul(2).max(1) {
            self.reports_lost = counters.reports_lost;
            tracing::warn!(
                "{} reports dropped so far because the ring was full: increase --ring-kib",
                counters.reports_lost
            );
        }
    }

    fn look_at_servers(&mut self, sent: &Sent, way: Way) {
        let no_key = sent.dropped_no_key.load(Relaxed);
        if no_key >= self.no_key.saturating_mul(2).max(1) {
            self.no_key = no_key;
            tracing::warn!("{no_key} reports dropped so far because the key file has no key for their servers");
        }
        let unsent = sent.dropped_unsent.load(Relaxed);
        if unsent >= self.unsent.saturating_mul(2).max(1) {
            self.unsent = unsent;
            tracing::warn!(
                "{unsent} reports could not be sent so far: check this router's routes to the servers, what its firewall lets \
                 out, and whether a queue is full"
            );
        }
        if way == Way::Udp && self.falls_silent(sent) {
            let since = if self.answered == 0 {
                "no server has accepted a report so far"
            } else {
                "no server has probed this border for 3 s, although it sends reports"
            };
            tracing::warn!(
                "{since}: check that `pep-agent server` runs there, that UDP reaches it, and that both have the same key"
            );
        }
    }

    /// Whether servers have just been silent for too long. A server probes each border whose reports are authentic:
    /// first within a tenth of a second, then once a second.
    fn falls_silent(&mut self, sent: &Sent) -> bool {
        let (packets, answered) = (sent.packets.load(Relaxed), sent.probes_answered.load(Relaxed));
        let before = self.unanswered_for;
        if answered != self.answered {
            self.unanswered_for = Duration::ZERO;
        } else if packets != self.packets || (answered == 0 && packets > 0) {
            self.unanswered_for += CHECK_INTERVAL;
        }
        (self.packets, self.answered) = (packets, answered);
        before < UNANSWERED && self.unanswered_for >= UNANSWERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_fall_silent_are_told_each_time() {
        let (mut warnings, sent) = (Warnings::default(), Sent::default());
        let mut second = |packets, answered| {
            sent.packets.fetch_add(packets, Relaxed);
            sent.probes_answered.fetch_add(answered, Relaxed);
            warnings.falls_silent(&sent)
        };
        assert_eq!([0; 4].map(|_| second(5, 0)), [false, false, true, false]);
        assert_eq!([0; 3].map(|_| second(5, 1)), [false; 3]);
        assert_eq!([0; 4].map(|_| second(0, 0)), [false; 4], "nothing was sent");
        assert_eq!([0; 4].map(|_| second(5, 0)), [false, false, true, false]);
    }
}
