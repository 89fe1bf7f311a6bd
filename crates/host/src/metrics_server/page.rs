//! The HTML page of a daemon, and the data that it polls.

use super::{Pages, Server, make};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An HTML page.
#[derive(Clone, Copy, Debug)]
pub struct Html {
    /// The whole document.
    pub document: &'static str,
    /// Value of the field `Content-Security-Policy`.
    pub policy: &'static str,
}

/// Fields of every answer: nothing is stored, guessed, shown in another site's frame, or read by another site.
const STRICT: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) async fn html(page: Html) -> Response {
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    (STRICT, [kind, (header::CONTENT_SECURITY_POLICY, page.policy)], page.document).into_response()
}

pub(super) async fn live<P: Pages>(State(server): State<Arc<Server<P>>>, fields: HeaderMap) -> Response {
    let host = fields.get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_own) {
        let why = "open the page by the exporter's IP address or as localhost: another name may be another site's\n";
        return (StatusCode::FORBIDDEN, STRICT, why).into_response();
    }
    let turn = Arc::clone(&server.live).lock_owned().await;
    match make(server, Some(turn), P::live).await {
        Ok(json) => (STRICT, [(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, STRICT, format!("{why}\n")).into_response(),
    }
}

/// Returns whether a `Host` field is an IP address or `localhost`, with or without a port. A site that a browser shows
/// can make its own name resolve to this server, and would then be allowed to read what the server answers.
fn is_own(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    host.parse::<SocketAddr>().is_ok()
        || host.parse::<IpAddr>().is_ok()
        || host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|ip| ip.parse::<IpAddr>().is_ok())
        || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn only_addresses_and_localhost_are_accepted_as_host() {
        for host in ["127.0.0.1", "127.0.0.1:9717", "[::1]", "[::1]:9717", "localhost", "LOCALHOST:9717"] {
            assert!(is_own(host), "{host}");
        }
        for host in ["", "site.example", "site.example:9717", "127.0.0.1.site.example:9717", "localhost.example", "[a]"]
        {
            assert!(!is_own(host), "{host}");
        }
    }
}
