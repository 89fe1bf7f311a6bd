//! The feeder's metrics for Prometheus: `/metrics` and `/healthz`.

use hotcc_abi::clock::monotonic_ns;
use hotcc_host::metrics_server::Pages;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sinr_feeder::feed::sink::SharedFeed;
use sinr_feeder::feed::{Feed, SourceState};
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Source {
    source: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Rejected {
    source: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct To {
    to: String,
}

/// The HTTP pages of a running feed.
pub struct FeedPages(pub SharedFeed);

impl Pages for FeedPages {
    const NAME: &'static str = "sinr-feeder";
    const HEALTHY: &'static str = "any source has a fresh reading";

    fn metrics(&self) -> Result<String, String> {
        let registry = gather(&self.0.lock(), monotonic_ns());
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &registry).map_err(|e| e.to_string())?;
        Ok(page)
    }

    /// Healthy while any source is up: precedence covers the failure of the others.
    fn health(&self) -> Result<String, String> {
        let (feed, now_ns) = (self.0.lock(), monotonic_ns());
        let line = |source: &SourceState| {
            format!("{}: {}\n", source.name, if source.is_up(now_ns) { "readings" } else { "silent" })
        };
        let text = feed.sources().iter().map(line).collect();
        if feed.sources().iter().any(|source| source.is_up(now_ns)) { Ok(text) } else { Err(text) }
    }
}

fn gather(feed: &Feed, now_ns: u64) -> Registry {
    let mut registry = Registry::with_prefix("hotcc_feeder");
    let applied = Family::<Source, Counter>::default();
    let rejected = Family::<Rejected, Counter>::default();
    let up = Family::<Source, Gauge>::default();
    let age = Family::<Source, Gauge<f64, AtomicU64>>::default();
    for state in feed.sources() {
        let source = || Source { source: state.name.clone() };
        applied.get_or_create(&source()).inc_by(state.applied);
        up.get_or_create(&source()).set(state.is_up(now_ns).into());
        if let Some((made_ns, _)) = state.latest {
            age.get_or_create(&source()).set(now_ns.saturating_sub(made_ns) as f64 / 1e9);
        }
        for (reason, count) in state.rejections.counts() {
            let labels = Rejected { source: state.name.clone(), reason: reason.label() };
            rejected.get_or_create(&labels).inc_by(count);
        }
    }
    let (sent, dropped) = (Family::<To, Counter>::default(), Family::<To, Counter>::default());
    for publisher in feed.publishers() {
        let (to, counts) = (To { to: publisher.name() }, publisher.counts());
        sent.get_or_create(&to).inc_by(counts.0);
        dropped.get_or_create(&to).inc_by(counts.1);
    }
    let links = Gauge::<i64>::default();
    links.set(feed.link_count() as i64);
    registry.register("readings", "Readings applied", applied);
    registry.register("rejected", "Readings not applied, by reason", rejected);
    registry.register("source_up", "1 while readers use the source's latest reading, else 0", up);
    registry.register("source_age_seconds", "Age of the source's latest reading", age);
    registry.register("sent", "Readings sent to another host", sent);
    registry.register("dropped", "Readings dropped because they could not be sent immediately", dropped);
    registry.register("links", "Links being fed", links);
    registry
}
