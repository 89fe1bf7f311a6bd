//! The border's metrics, which each scrape reads from the kernel and the agent.

use crate::border::kernel::View;
use crate::border::report_sender::Delivered;
use crate::report::Sent;
use hotcc_abi::border::{Counters, REASONS};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The sources of the metrics.
#[derive(Debug)]
pub struct Metrics {
    view: Arc<View>,
    delivered: Arc<Delivered>,
    sent: Arc<Sent>,
    /// The highest value reported so far: flows come and go while they are counted, and a counter must not decrease.
    evicted: AtomicU64,
}

impl Metrics {
    /// Returns the metrics of these sources.
    #[must_use]
    pub fn new(view: Arc<View>, delivered: Arc<Delivered>, sent: Arc<Sent>) -> Self {
        Self { view, delivered, sent, evicted: AtomicU64::new(0) }
    }
}

type Labels<'a> = [(&'static str, &'a str)];

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> Result<(), fmt::Error> {
    ConstCounter::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: &[(&Labels<'_>, u64)],
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in series {
        ConstCounter::new(*value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let c = self.view.counters().map_err(|error| {
            tracing::error!("{error:#}");
            fmt::Error
        })?;
        let e = &mut encoder;
        packets(e, &c)?;
        let present = self.view.flows();
        let gone = c.flows_new.saturating_sub(c.flows_ended).saturating_sub(present);
        let gone = self.evicted.fetch_max(gone, Relaxed).max(gone);
        e.encode_descriptor("hotcc_border_flows", "Tracked flows", None, MetricType::Gauge)
            .and_then(|family| ConstGauge::new(present).encode(family))?;
        counter(e, "hotcc_border_flows_new", "Flows that began to be tracked", c.flows_new)?;
        counter(e, "hotcc_border_flows_ended", "Flows whose end was seen", c.flows_ended)?;
        counter(e, "hotcc_border_flows_evicted", "Flows evicted to make room for others", gone)?;
        counter(e, "hotcc_border_flows_refused", "Flows refused for lack of memory", c.flows_refused)?;
        let help = "Segments ignored because their flow was locked for too long";
        counter(e, "hotcc_border_segments_busy", help, c.segments_busy)?;
        counter(e, "hotcc_border_lost_sight", "Segments far from the known state of their flow", c.lost_sight)?;
        let help = "Ranges evicted from flows with more than four";
        counter(e, "hotcc_border_ranges_forgotten", help, c.ranges_forgotten)?;
        counter(e, "hotcc_border_gap_acks", "Clients' ACKs of flows with gaps", c.acks)?;
        let labels: Vec<[(&str, &str); 1]> = REASONS.iter().map(|r| [("reason", *r)]).collect();
        let reports: Vec<(&Labels<'_>, u64)> = labels.iter().map(|l| &l[..]).zip(c.reports).collect();
        counters(e, "hotcc_border_reports", "Reports that the kernel generated, by reason", &reports)?;
        counter(e, "hotcc_border_reports_lost", "Reports dropped because the ring was full", c.reports_lost)?;
        let d = &self.delivered;
        let superseded = d.superseded.load(Relaxed);
        counter(e, "hotcc_border_reports_superseded", "Reports replaced by a newer one of the same flow", superseded)?;
        let help = "Reports handed over for sending";
        counter(e, "hotcc_border_reports_delivered", help, d.reports.load(Relaxed))?;
        counter(e, "hotcc_border_datagrams", "Datagrams, or in-band segments, sent", d.datagrams.load(Relaxed))?;
        let s = &self.sent;
        let (no_key, unsent) = (s.dropped_no_key.load(Relaxed), s.dropped_unsent.load(Relaxed));
        let dropped: [(&Labels<'_>, u64); 2] = [(&[("reason", "no_key")], no_key), (&[("reason", "unsent")], unsent)];
        counters(e, "hotcc_border_reports_dropped", "Reports not sent, by reason", &dropped)?;
        let answered = s.probes_answered.load(Relaxed);
        counter(e, "hotcc_border_probes_answered", "Probes of servers answered", answered)?;
        let refused = s.probes_refused.load(Relaxed);
        counter(e, "hotcc_border_probes_refused", "Datagrams refused because they are not authentic probes", refused)?;
        let help = "Polls for reports by the agent, which polls while many arrive";
        counter(e, "hotcc_border_looks", help, d.polls.load(Relaxed))?;
        let help = "Seconds from a segment until the first report that covers it was sent or dropped";
        let family = e.encode_descriptor("hotcc_border_report_delay_seconds", help, None, MetricType::Histogram)?;
        d.delay.encode(family)
    }
}

fn packets(e: &mut DescriptorEncoder<'_>, c: &Counters) -> Result<(), fmt::Error> {
    counter(e, "hotcc_border_packets", "Packets from the Internet", c.packets)?;
    let help = "Data segments of cooperating servers; each segment of a super-packet counts";
    counter(e, "hotcc_border_tracked_segments", help, c.tracked)?;
    let why = |reason| [("reason", reason)];
    let help = "Packets that are not tracked, by reason";
    let series: [(&Labels<'_>, u64); 6] = [
        (&why("server"), c.untracked),
        (&why("not_tcp"), c.other),
        (&why("fragment"), c.fragments),
        (&why("ipv6_extension"), c.extensions),
        (&why("malformed"), c.malformed),
        (&why("gtp_u"), c.gtp_u),
    ];
    counters(e, "hotcc_border_untracked_packets", help, &series)
}
