//! The border's metrics: read from the kernel when somebody asks.

use crate::border::kernel::View;
use crate::border::pump::Delivered;
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

/// What a scrape reads.
#[derive(Debug)]
pub struct Metrics {
    view: Arc<View>,
    delivered: Arc<Delivered>,
    sent: Arc<Sent>,
    /// As much as was ever told: flows come and go while they are counted, and a counter must not fall.
    evicted: AtomicU64,
}

impl Metrics {
    /// Of these.
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
        e.encode_descriptor("hotcc_border_flows", "Flows that are tracked now", None, MetricType::Gauge)
            .and_then(|family| ConstGauge::new(present).encode(family))?;
        counter(e, "hotcc_border_flows_new", "Flows that came to be tracked", c.flows_new)?;
        counter(e, "hotcc_border_flows_ended", "Flows whose end was seen", c.flows_ended)?;
        counter(e, "hotcc_border_flows_evicted", "Flows that made room for others", gone)?;
        counter(e, "hotcc_border_flows_refused", "Flows that there was no memory for", c.flows_refused)?;
        let help = "Segments left out, as somebody else had their flow for too long";
        counter(e, "hotcc_border_segments_busy", help, c.segments_busy)?;
        counter(e, "hotcc_border_lost_sight", "Segments far from what was known of a flow", c.lost_sight)?;
        let help = "Ranges forgotten, as a flow had more than four";
        counter(e, "hotcc_border_ranges_forgotten", help, c.ranges_forgotten)?;
        counter(e, "hotcc_border_gap_acks", "Clients' ACKs of flows with gaps", c.acks)?;
        let labels: Vec<[(&str, &str); 1]> = REASONS.iter().map(|r| [("reason", *r)]).collect();
        let reports: Vec<(&Labels<'_>, u64)> = labels.iter().map(|l| &l[..]).zip(c.reports).collect();
        counters(e, "hotcc_border_reports", "Reports that the kernel made, by why they were due", &reports)?;
        counter(e, "hotcc_border_reports_lost", "Reports without room in the ring", c.reports_lost)?;
        let d = &self.delivered;
        let superseded = d.superseded.load(Relaxed);
        counter(e, "hotcc_border_reports_superseded", "Reports that a newer one replaced", superseded)?;
        let help = "Reports handed over for sending";
        counter(e, "hotcc_border_reports_delivered", help, d.reports.load(Relaxed))?;
        counter(e, "hotcc_border_datagrams", "Datagrams that left", d.datagrams.load(Relaxed))?;
        let s = &self.sent;
        let (no_key, unsent) = (s.dropped_no_key.load(Relaxed), s.dropped_unsent.load(Relaxed));
        let dropped: [(&Labels<'_>, u64); 2] = [(&[("reason", "no_key")], no_key), (&[("reason", "unsent")], unsent)];
        counters(e, "hotcc_border_reports_dropped", "Reports that were not sent, by why", &dropped)?;
        let answered = s.probes_answered.load(Relaxed);
        counter(e, "hotcc_border_probes_answered", "Servers' questions that were answered", answered)?;
        let refused = s.probes_refused.load(Relaxed);
        counter(e, "hotcc_border_probes_refused", "Datagrams that are no authentic question", refused)?;
        let help = "Times the agent looked for reports by itself, as it does while many come";
        counter(e, "hotcc_border_looks", help, d.looks.load(Relaxed))?;
        let help = "Seconds from a segment until the first report that has it had left or was dropped";
        let family = e.encode_descriptor("hotcc_border_report_delay_seconds", help, None, MetricType::Histogram)?;
        d.delay.encode(family)
    }
}

fn packets(e: &mut DescriptorEncoder<'_>, c: &Counters) -> Result<(), fmt::Error> {
    counter(e, "hotcc_border_packets", "Packets that came from the Internet", c.packets)?;
    let help = "Data segments of cooperating servers, each of a super-packet";
    counter(e, "hotcc_border_tracked_segments", help, c.tracked)?;
    let why = |reason| [("reason", reason)];
    let help = "Packets that are not tracked, by why";
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
