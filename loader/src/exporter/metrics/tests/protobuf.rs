//! The protobuf page has the same series as the text, and native histograms beside them.

use super::*;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
    Histogram as Message, Metric, MetricFamily, MetricType,
};
use prost::Message as _;
use std::collections::BTreeMap;

fn families(mut encoded: &[u8]) -> Vec<MetricFamily> {
    let mut families = Vec::new();
    while !encoded.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut encoded).unwrap());
    }
    families
}

/// Name with labels, without a bucket's bound; and the bound.
type Series = (String, Option<String>);

fn bound(le: f64) -> Option<String> {
    Some(format!("{le:e}"))
}

/// The series of a page of text.
fn of_text(page: &str) -> BTreeMap<Series, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let key = match series.split_once("{le=\"") {
            Some((name, rest)) => {
                let (le, rest) = rest.split_once('"').unwrap();
                (format!("{name}{{{}", rest.trim_start_matches(',')), bound(le.parse().unwrap()))
            }
            None => (series.to_owned(), None),
        };
        (key, value.parse().unwrap())
    });
    samples.collect()
}

/// A label's value as text has it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// The series that Prometheus makes of the messages, without native histograms.
fn of_messages(families: &[MetricFamily]) -> BTreeMap<Series, f64> {
    let mut series = BTreeMap::new();
    for family in families {
        for metric in &family.metric {
            let labels: Vec<String> =
                metric.label.iter().map(|l| format!("{}=\"{}\"", l.name, escaped(&l.value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let mut add = |suffix: &str, le, value| {
                assert_eq!(series.insert((format!("{}{suffix}{labels}", family.name), le), value), None);
            };
            match (family.r#type(), metric) {
                (MetricType::Counter, Metric { counter: Some(counter), .. }) => add("", None, counter.value),
                (MetricType::Gauge, Metric { gauge: Some(gauge), .. }) => add("", None, gauge.value),
                (MetricType::Histogram, Metric { histogram: Some(h), .. }) => {
                    add("_count", None, h.sample_count as f64);
                    add("_sum", None, h.sample_sum);
                    for bucket in &h.bucket {
                        add("_bucket", bound(bucket.upper_bound), bucket.cumulative_count as f64);
                    }
                }
                other => panic!("{}: {other:?}", family.name),
            }
        }
    }
    series
}

#[test]
fn every_series_is_in_both() {
    let families = families(&protobuf(full()).unwrap());
    let (mut text, mut messages) = (of_text(&page(full()).unwrap()), of_messages(&families));
    assert!(text.len() > 300, "{}", text.len());
    let expires = ("hotcc_canary_expires_seconds".to_owned(), None); // relative to the time of encoding
    assert!(text.remove(&expires).is_some() && messages.remove(&expires).is_some());
    for series in text.keys().chain(messages.keys()) {
        assert_eq!(messages.get(series), text.get(series), "{series:?}");
    }
    assert!(families.iter().all(|family| !family.help.is_empty()));
}

/// Index and count of each bucket of a native histogram.
fn native(h: &Message) -> Vec<(i32, i64)> {
    let (mut index, mut count, mut deltas) = (0, 0, h.positive_delta.iter());
    let mut buckets = Vec::new();
    for span in &h.positive_span {
        index += span.offset;
        for delta in deltas.by_ref().take(span.length as usize) {
            count += delta;
            buckets.push((index, count));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    buckets
}

#[test]
fn native_histograms_hold_the_same_values() {
    let families = families(&protobuf(full()).unwrap());
    let of = |name: &str| {
        let family = families.iter().find(|f| f.name == name).unwrap();
        family.metric[0].histogram.as_ref().unwrap()
    };
    // 0 us; 4 us; twice 100 us, which are 2^-13.3 s; 2^28 us, which are 2^8.07 s
    let min_rtt = of("hotcc_flow_min_rtt_seconds");
    assert_eq!((min_rtt.schema, min_rtt.zero_count), (3, 1));
    assert_eq!(native(min_rtt), [(-143, 1), (-106, 2), (65, 1)]);
    assert_eq!(min_rtt.sample_count, 5);
    // of a rule: 0.9 ms, which are 2^-10.1 s; 1.1 ms, 2^-9.8 s; 1.25 MB/s, 2^20.25 bytes/s
    assert_eq!(native(of("hotcc_policy_min_rtt_seconds")), [(-80, 1), (-78, 1)]);
    assert_eq!(native(of("hotcc_policy_delivery_bytes_per_second")), [(163, 1)]);
    let none = of("hotcc_flow_duration_seconds");
    assert_eq!((native(none), none.sample_count), (vec![], 0));
    assert!(none.zero_threshold > 0.0, "Prometheus 2.42 takes an empty one for classic without it");
}
