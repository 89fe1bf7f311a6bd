//! What became of datagrams and records.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! fates {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident => $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$each])* $variant),* }

        impl $name {
            /// All there are, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As metrics call it.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),* }
            }
        }
    };
}

fates! {
    /// What became of a datagram.
    DatagramFate {
        /// Its reports were looked at.
        Accepted => "accepted",
        /// An answer that was asked for.
        Echo => "echo",
        /// Too many from that source.
        RateLimited => "rate_limited",
        /// Shorter than it says.
        Truncated => "truncated",
        /// Longer than it says.
        Oversized => "oversized",
        /// Not of this protocol.
        NotOurs => "not_ours",
        /// Another version.
        Version => "version",
        /// Values without a meaning.
        Malformed => "malformed",
        /// No key of that number, or not for what it tells of.
        UnknownKey => "unknown_key",
        /// The code is not that key's.
        WrongCode => "wrong_code",
        /// That run of a border has not answered yet.
        Unauthenticated => "unproven",
        /// It came already.
        Replayed => "replayed",
        /// An answer to nothing.
        NotOutstanding => "unasked",
        /// More borders than there can be.
        TooManyBorders => "too_many_borders",
    }
}

fates! {
    /// What became of a record; from `Written` on, what the kernel said.
    RecordFate {
        /// Made too long ago.
        TooOld => "too_old",
        /// The kernel could not be asked.
        Failed => "failed",
        /// To the socket.
        Written => "written",
        /// To the socket, and the sender clocked.
        Clocked => "clocked",
        /// Of a flow that is kept without, for comparison.
        Control => "control",
        /// No such connection.
        UnknownFlow => "unknown_flow",
        /// A connection that sends nothing any more.
        NotSending => "not_sending",
        /// What was never sent.
        Outside => "outside",
        /// Ranges that are none.
        Shape => "shape",
        /// Than the last.
        Older => "older",
        /// Somebody else was writing, or may have been sending it.
        Busy => "busy",
        /// The socket can keep no more.
        NoStorage => "no_storage",
        /// Its border told of what was never sent, a moment ago.
        Distrusted => "distrusted",
    }
}

impl RecordFate {
    /// What the kernel's answer means.
    #[must_use]
    pub fn of_verdict(verdict: u32) -> Self {
        let kernels = &Self::ALL[Self::Written as usize..];
        kernels.get(verdict as usize).copied().unwrap_or(Self::Failed)
    }

    /// Whether the kernel found nothing wrong with it.
    #[must_use]
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Written | Self::Clocked | Self::Control)
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    datagrams: [AtomicU64; DatagramFate::ALL.len()],
    records: [AtomicU64; RecordFate::ALL.len()],
    /// Borders that have answered.
    pub borders: AtomicU64,
    /// Least round trip to any of them, microseconds; 0 without one.
    pub rtt_us: AtomicU64,
    /// Reports in flows without room in the ring.
    pub inband_dropped: AtomicU64,
    /// Flows that ended, by cohort: with the PEP, without.
    pub cohorts: [CohortCounters; 2],
}

/// As in [`hotcc_abi::pep::Cohort`].
#[derive(Debug, Default)]
pub struct CohortCounters {
    /// How many flows.
    pub flows: AtomicU64,
    /// Bytes acknowledged.
    pub acked_bytes: AtomicU64,
    /// Nanoseconds in which they were active.
    pub active_ns: AtomicU64,
    /// Segments sent again.
    pub retransmits: AtomicU64,
}

/// Names of the cohorts in metrics.
pub const COHORTS: [&str; 2] = ["pep", "control"];

impl Counters {
    /// One more datagram.
    pub fn datagram(&self, fate: DatagramFate) {
        self.datagrams[fate as usize].fetch_add(1, Relaxed);
    }

    /// One more record.
    pub fn record(&self, fate: RecordFate) {
        self.records[fate as usize].fetch_add(1, Relaxed);
    }

    /// How many datagrams so far.
    #[must_use]
    pub fn datagrams(&self, fate: DatagramFate) -> u64 {
        self.datagrams[fate as usize].load(Relaxed)
    }

    /// How many records so far.
    #[must_use]
    pub fn records(&self, fate: RecordFate) -> u64 {
        self.records[fate as usize].load(Relaxed)
    }
}

/// For a registry of metrics.
#[derive(Debug)]
pub struct Metrics(pub std::sync::Arc<Counters>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counters = &self.0;
        let mut family = |name: &str, help: &str, label: &str, values: &[(&str, f64)]| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            values.iter().try_for_each(|(value, count)| {
                ConstCounter::new(*count).encode(metric.encode_family(&[(label, *value)])?)
            })
        };
        let datagrams: Vec<_> = DatagramFate::ALL.iter().map(|f| (f.label(), counters.datagrams(*f) as f64)).collect();
        family("hotcc_pep_server_datagrams", "Datagrams from borders, by result", "result", &datagrams)?;
        let records: Vec<_> = RecordFate::ALL.iter().map(|f| (f.label(), counters.records(*f) as f64)).collect();
        family("hotcc_pep_server_records", "Reports of flows, by result", "result", &records)?;
        let mut cohorts = |name: &str, help: &str, value: fn(&CohortCounters) -> f64| {
            let values: Vec<_> = COHORTS.iter().zip(&counters.cohorts).map(|(cohort, c)| (*cohort, value(c))).collect();
            family(name, help, "cohort", &values)
        };
        cohorts("hotcc_pep_server_flows", "Flows that ended after a border reported them", |a| {
            a.flows.load(Relaxed) as f64
        })?;
        cohorts("hotcc_pep_server_acked_bytes", "Bytes acknowledged in these flows since their first report", |a| {
            a.acked_bytes.load(Relaxed) as f64
        })?;
        cohorts(
            "hotcc_pep_server_active_seconds",
            "Time between these flows' reports; each pause counts as one second at most",
            |a| a.active_ns.load(Relaxed) as f64 / 1e9,
        )?;
        cohorts(
            "hotcc_pep_server_retransmits",
            "Segments retransmitted in these flows since their first report",
            |a| a.retransmits.load(Relaxed) as f64,
        )?;
        let dropped = encoder.encode_descriptor(
            "hotcc_pep_server_inband_dropped",
            "In-band reports dropped because the queue to the agent was full",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(counters.inband_dropped.load(Relaxed)).encode(dropped)?;
        let mut gauge = |name: &str, help: &str, value: f64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        gauge("hotcc_pep_server_borders", "Borders that have answered", counters.borders.load(Relaxed) as f64)?;
        gauge(
            "hotcc_pep_server_rtt_seconds",
            "Minimum round-trip time to any border in the last 10 to 20 seconds",
            counters.rtt_us.load(Relaxed) as f64 / 1e6,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;
    use std::sync::Arc;

    #[test]
    fn the_kernels_verdicts_are_those_of_the_records() {
        let kernels: Vec<_> = RecordFate::ALL[RecordFate::Written as usize..].iter().map(|f| f.label()).collect();
        assert_eq!(kernels, hotcc_abi::pep::VERDICTS);
        assert_eq!(RecordFate::of_verdict(1), RecordFate::Clocked);
        assert_eq!(RecordFate::of_verdict(99), RecordFate::Failed);
    }

    #[test]
    fn metrics_show_every_fate_and_both_arms() {
        let counters = Arc::new(Counters::default());
        counters.datagram(DatagramFate::WrongCode);
        counters.record(RecordFate::Clocked);
        counters.cohorts[1].active_ns.store(1_500_000_000, Relaxed);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Metrics(counters)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "hotcc_pep_server_datagrams_total{result=\"wrong_code\"} 1",
            "hotcc_pep_server_datagrams_total{result=\"replayed\"} 0",
            "hotcc_pep_server_records_total{result=\"clocked\"} 1",
            "hotcc_pep_server_active_seconds_total{cohort=\"control\"} 1.5",
            "hotcc_pep_server_flows_total{cohort=\"pep\"} 0",
            "hotcc_pep_server_inband_dropped_total 0",
            "hotcc_pep_server_borders 0",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
