//! Counters of datagrams and records by result.

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
            /// All variants, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns its label in metrics.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),* }
            }
        }
    };
}

fates! {
    /// The result of a datagram.
    DatagramFate {
        /// Its reports were processed.
        Accepted => "accepted",
        /// An answer to an outstanding probe.
        Echo => "echo",
        /// Its border or its source has no quota left.
        RateLimited => "rate_limited",
        /// Shorter than its fields say.
        Truncated => "truncated",
        /// Longer than its fields say.
        Oversized => "oversized",
        /// Not of this protocol.
        NotOurs => "not_ours",
        /// Of another version of the protocol.
        Version => "version",
        /// A field has an invalid value.
        Malformed => "malformed",
        /// There is no key with its number, or that key is not for all the servers of its reports.
        UnknownKey => "unknown_key",
        /// Not signed with a key of its number.
        WrongCode => "wrong_code",
        /// Its run of a border has not answered a probe yet.
        Unauthenticated => "unproven",
        /// It already arrived.
        Replayed => "replayed",
        /// An answer to a probe that is not outstanding.
        NotOutstanding => "unasked",
        /// The table of borders is full.
        TooManyBorders => "too_many_borders",
    }
}

fates! {
    /// The result of a record; from `Written` on, the result that the kernel program returned.
    RecordFate {
        /// Older than the maximum age.
        TooOld => "too_old",
        /// It could not be passed to the kernel.
        Failed => "failed",
        /// Written to the socket.
        Written => "written",
        /// Written to the socket, and the sender clocked.
        Clocked => "clocked",
        /// Its flow belongs to the control cohort, which gets no records, for comparison.
        Control => "control",
        /// There is no such connection.
        UnknownFlow => "unknown_flow",
        /// The connection is in a state that sends nothing any more.
        NotSending => "not_sending",
        /// It reports data that was never sent, or that cannot be in flight any more.
        Outside => "outside",
        /// Its ranges are invalid.
        Shape => "shape",
        /// Older than the last record of its flow from the same border.
        Older => "older",
        /// Another record of the flow was being written, or the socket was locked and may have been sending the
        /// reported data.
        Busy => "busy",
        /// The kernel could not create the socket's storage.
        NoStorage => "no_storage",
        /// A record of the same flow reported data that was never sent, a few seconds ago.
        Distrusted => "distrusted",
    }
}

impl RecordFate {
    /// Returns the result for a number that the kernel program returned.
    #[must_use]
    pub fn of_verdict(verdict: u32) -> Self {
        let kernels = &Self::ALL[Self::Written as usize..];
        kernels.get(verdict as usize).copied().unwrap_or(Self::Failed)
    }

    /// Whether the kernel program found nothing wrong with it.
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
    /// Shortest round trip to any of them, microseconds; 0 if there is none.
    pub rtt_us: AtomicU64,
    /// In-band reports dropped because the ring was full.
    pub inband_dropped: AtomicU64,
    /// Flows that ended, by cohort: with the PEP, then without it.
    pub cohorts: [CohortCounters; 2],
}

/// Counters of a cohort, as in [`hotcc_abi::pep::Cohort`].
#[derive(Debug, Default)]
pub struct CohortCounters {
    /// Number of flows.
    pub flows: AtomicU64,
    /// Bytes acknowledged.
    pub acked_bytes: AtomicU64,
    /// Time between their reports without long pauses, nanoseconds.
    pub active_ns: AtomicU64,
    /// Segments retransmitted.
    pub retransmits: AtomicU64,
}

/// Names of the cohorts in metrics.
pub const COHORTS: [&str; 2] = ["pep", "control"];

impl Counters {
    /// Counts a datagram.
    pub fn datagram(&self, fate: DatagramFate) {
        self.datagrams[fate as usize].fetch_add(1, Relaxed);
    }

    /// Counts a record.
    pub fn record(&self, fate: RecordFate) {
        self.records[fate as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of datagrams so far.
    #[must_use]
    pub fn datagrams(&self, fate: DatagramFate) -> u64 {
        self.datagrams[fate as usize].load(Relaxed)
    }

    /// Returns the number of records so far.
    #[must_use]
    pub fn records(&self, fate: RecordFate) -> u64 {
        self.records[fate as usize].load(Relaxed)
    }
}

/// Registers the counters as metrics.
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
        match counters.rtt_us.load(Relaxed) {
            0 => Ok(()), // no border has answered
            rtt_us => gauge(
                "hotcc_pep_server_rtt_seconds",
                "Minimum round-trip time to any border in the last 10 to 20 seconds",
                rtt_us as f64 / 1e6,
            ),
        }
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
        assert!(!text.contains("hotcc_pep_server_rtt_seconds"), "no border has answered: {text}");
    }
}
