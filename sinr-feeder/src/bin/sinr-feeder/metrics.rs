//! What the feeder does, for Prometheus: `/metrics` and `/healthz`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hotcc_abi::clock::monotonic_ns;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sinr_feeder::feed::Feed;
use sinr_feeder::feed::sink::SharedFeed;
use std::io;
use std::sync::atomic::AtomicU64;
use tokio::net::TcpListener;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

/// Serves until the runtime ends.
///
/// # Errors
/// The socket is gone.
pub async fn serve(listener: TcpListener, feed: SharedFeed) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(metrics)).route("/healthz", get(healthz)).with_state(feed);
    axum::serve(listener, router).await
}

async fn metrics(State(feed): State<SharedFeed>) -> Response {
    let registry = gather(&feed.lock(), monotonic_ns());
    let mut page = String::new();
    match prometheus_client::encoding::text::encode(&mut page, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Well while any source is: the others are what precedence is for.
async fn healthz(State(feed): State<SharedFeed>) -> (StatusCode, String) {
    let (feed, now_ns) = (feed.lock(), monotonic_ns());
    let line = |source: &sinr_feeder::feed::SourceState| {
        format!("{}: {}\n", source.name, if source.is_up(now_ns) { "readings" } else { "silent" })
    };
    let any = feed.sources().iter().any(|source| source.is_up(now_ns));
    let status = if any { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, feed.sources().iter().map(line).collect())
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
    for exporter in feed.exporters() {
        let (to, counts) = (To { to: exporter.name() }, exporter.counts());
        sent.get_or_create(&to).inc_by(counts.0);
        dropped.get_or_create(&to).inc_by(counts.1);
    }
    let links = Gauge::<i64>::default();
    links.set(feed.link_count() as i64);
    registry.register("readings", "Readings that were applied", applied);
    registry.register("rejected", "Readings that were not applied, by reason", rejected);
    registry.register("source_up", "Whether the source's latest reading is still used", up);
    registry.register("source_age_seconds", "Age of the source's latest reading", age);
    registry.register("sent", "Readings that were sent to another host", sent);
    registry.register("dropped", "Readings that could not be sent at once", dropped);
    registry.register("links", "Links that are fed", links);
    registry
}
