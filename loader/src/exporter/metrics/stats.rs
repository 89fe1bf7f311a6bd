//! The counters of algorithms, with their histograms.

use super::{DURATION, Labels, Page, RTT, Scale, labels};
use hotcc_abi::histogram::{Histogram, NATIVE_SCHEMA, Native, Unit};
use hotcc_abi::stats::AlgoStats;
use prometheus_client::encoding::{NativeHistogram, NativeHistogramBuckets, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::DEFAULT_NATIVE_HISTOGRAM_ZERO_THRESHOLD;
use std::fmt;

impl Page<'_> {
    pub(super) fn stats(&mut self, all: &[(String, AlgoStats)]) -> fmt::Result {
        type Count = fn(&AlgoStats) -> u64;
        let counters: [(&str, &str, Count); 6] = [
            ("hotcc_flows_opened", "Flows that started to use the algorithm", |s| s.flows_opened),
            ("hotcc_flows_closed", "Flows that stopped using the algorithm", |s| s.flows_closed),
            ("hotcc_acked_bytes", "Bytes acknowledged to flows of the algorithm", |s| s.acked_bytes),
            ("hotcc_retransmitted_segments", "Segments retransmitted by flows of the algorithm", |s| {
                s.retransmitted_segments
            }),
            ("hotcc_loss_events", "Fast recoveries entered", |s| s.loss_events),
            ("hotcc_timeouts", "Retransmission timeouts", |s| s.timeouts),
        ];
        for (name, help, count) in counters {
            self.counters(name, help, all.iter().map(|(cc, s)| (labels([("cc", cc)]), count(s))))?;
        }
        let signals = all.iter().flat_map(|(cc, s)| {
            let counts = [("fresh", s.signal_fresh), ("stale", s.signal_stale), ("absent", s.signal_absent)];
            counts.map(|(signal, n)| (labels([("cc", cc), ("signal", signal)]), n))
        });
        self.counters("hotcc_signal_decisions", "Decisions, by state of the radio signal", signals)?;
        type Pick = fn(&AlgoStats) -> Histogram;
        let min_rtt: Pick = |s| s.min_rtt_us;
        let histograms: [(&str, &str, (&Scale, Unit), Pick); 3] = [
            ("hotcc_flow_min_rtt_seconds", "Minimum RTT of each flow, at its end", (&RTT, Unit::Us), min_rtt),
            ("hotcc_flow_final_srtt_seconds", "Smoothed RTT of each flow, at its end", (&RTT, Unit::Us), |s| {
                s.final_srtt_us
            }),
            ("hotcc_flow_duration_seconds", "Time that each flow used the algorithm", (&DURATION, Unit::Ms), |s| {
                s.duration_ms
            }),
        ];
        for (name, help, scale, pick) in histograms {
            let samples = all.iter().map(|(cc, s)| (labels([("cc", cc)]), pick(s)));
            self.histograms(name, help, scale, samples)?;
        }
        Ok(())
    }

    /// Encodes histograms that text shows with classic buckets, and protobuf also with native ones.
    pub(super) fn histograms<'l>(
        &mut self,
        name: &str,
        help: &str,
        (scale, unit): (&Scale, Unit),
        samples: impl IntoIterator<Item = (Labels<'l>, Histogram)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Histogram), samples, |mut e, h| {
            let (log2, Native { zeros, buckets }) = (h.log2(), h.native(unit));
            let (spans, deltas) = spans(&buckets);
            let native = NativeHistogram {
                schema: NATIVE_SCHEMA,
                zero_threshold: DEFAULT_NATIVE_HISTOGRAM_ZERO_THRESHOLD, // 0 would make an empty one classic
                zero_count: zeros,
                negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
                positive: NativeHistogramBuckets { spans: &spans, deltas: &deltas },
                created: None,
            };
            let sum = scale.sum(&log2);
            e.encode_histogram_with_native::<NoLabelSet>(sum, h.count(), &scale.buckets(&log2), None, native)
        })
    }
}

/// Returns the buckets of a native histogram as runs of consecutive indices, each with its distance from the previous
/// run and its length; and the difference of each bucket's count from the previous one's.
fn spans(buckets: &[(i32, u64)]) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = Default::default();
    let (mut next, mut before) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        deltas.push(count.wrapping_sub(before) as i64);
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}
