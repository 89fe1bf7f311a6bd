//! The demo's network: sender, router, receiver, and between the latter two a link whose rate follows a trace.

use super::unfit::Unfit;
use anyhow::{Context, Result, bail};
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::trace::Trace;
use hotcc_channel_model::trace::replay::{Replay, ReplayOptions};
use hotcc_testbed::netlab::{Lab, Namespace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Address of the sender.
pub const SENDER: &str = "10.249.1.1";
/// Address of the receiver, at the other end of the radio link.
pub const RECEIVER: &str = "10.249.2.2";
/// Size of the link's queue beyond [`BURST_BYTES`], as the time that the link takes to send it (tbf's `latency`).
pub const QUEUE_MS: u32 = 50;
/// Delay of the path from the receiver to the sender, if the kernel has netem.
pub const DELAY_MS: u32 = 20;
/// Prefix of the names of the demo's namespaces.
pub const PREFIX: &str = "hotcc-demo";
/// Bytes that may leave at once: enough to keep a 200 Mbit/s link busy between two ticks of a 250 Hz kernel.
pub const BURST_BYTES: u32 = 100_000;

/// Three hosts in a row.
#[derive(Debug)]
pub struct Network {
    /// Source of the data.
    pub sender: Namespace,
    /// Forwards data, and limits the rate of what it sends to the receiver.
    pub router: Namespace,
    /// Destination of the data.
    pub receiver: Namespace,
    /// Whether the path from the receiver to the sender is delayed.
    pub has_delay: bool,
    // last, so that the namespaces are removed after everything that runs in them
    _lab: Lab,
}

impl Network {
    /// Creates the network.
    pub fn new() -> Result<Self> {
        let lab = Lab::new(PREFIX)?;
        let (sender, router, receiver) =
            (lab.namespace("sender")?, lab.namespace("router")?, lab.namespace("receiver")?);
        lab.veth(&sender, &format!("{SENDER}/24"), &router, "10.249.1.254/24")?;
        lab.veth(&router, "10.249.2.254/24", &receiver, &format!("{RECEIVER}/24"))?;
        sender.ip("route add default via 10.249.1.254")?;
        receiver.ip("route add default via 10.249.2.254")?;
        router.sysctl("net.ipv4.ip_forward", "1")?;
        // On the way back to the sender, so that queue and delay do not share one qdisc's limit.
        let has_delay = router.tc(&format!("qdisc add dev sender root netem delay {DELAY_MS}ms limit 100000")).is_ok();
        Ok(Self { sender, router, receiver, has_delay, _lab: lab })
    }
}

/// Sets the rate of the link to the receiver.
fn limit(router: &Namespace, verb: &str, bps: f64) -> Result<()> {
    router.tc(&format!("qdisc {verb} dev receiver root tbf rate {bps:.0}bit burst {BURST_BYTES} latency {QUEUE_MS}ms"))
}

/// Applies a trace's capacities to the link, until it is dropped.
#[derive(Debug)]
pub struct Shaper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Shaper {
    /// Starts with the trace's first sample, which was due at `start`.
    pub fn start(router: &Namespace, trace: Trace, start: Instant) -> Result<Self> {
        let first = trace.samples().first().and_then(|s| s.capacity_bps).context("the trace has no capacities")?;
        if let Err(error) = limit(router, "add", first) {
            bail!(Unfit::kernel(format!("this kernel cannot limit a link's rate (tbf): {error:#}")));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (router, asked) = (router.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("shaper".to_owned()).spawn(move || {
            let options = ReplayOptions { repeat: true, ..ReplayOptions::default() };
            let (mut set, mut changes) = (first, 0);
            for step in Replay::new(&trace, options) {
                std::thread::park_timeout((start + step.at).saturating_duration_since(Instant::now()));
                if asked.load(Ordering::SeqCst) {
                    break;
                }
                let wanted = step.sample.capacity_bps.filter(|&bps| bps > 0.0 && bps.to_bits() != set.to_bits());
                if let Some(bps) = wanted {
                    limit(&router, "change", bps)?;
                    set = bps;
                    changes += 1;
                }
            }
            Ok(changes)
        });
        Ok(Self { stop, thread: Some(thread.context("cannot start a thread")?) })
    }

    /// Stops the replay, and returns how often the rate changed.
    pub fn finish(mut self) -> Result<u64> {
        self.join()
    }

    fn join(&mut self) -> Result<u64> {
        self.stop.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return Ok(0) };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| bail!("the thread that changes the link's rate panicked"))
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        let _ = self.join(); // to see the error, call `finish` instead
    }
}

/// Returns the link's lowest and highest rate, and the time of the rate's first change.
#[must_use]
pub fn rates(trace: &Trace) -> (f64, f64, Option<Duration>) {
    let all: Vec<(Duration, f64)> =
        trace.samples().iter().filter_map(|s| s.capacity_bps.map(|bps| (s.at, bps))).collect();
    let lowest = all.iter().map(|(_, bps)| *bps).fold(f64::INFINITY, f64::min);
    let highest = all.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
    let change = all.windows(2).find(|w| w[0].1.to_bits() != w[1].1.to_bits()).map(|w| w[1].0);
    (lowest, highest, change)
}

/// Returns the radio link's key in the radio map.
pub(crate) fn link_key() -> Result<IndexKey> {
    let address = RECEIVER.parse().context("cannot parse the receiver's address")?;
    IndexKey::prefix(address, 32).context("cannot form the receiver's prefix")
}
