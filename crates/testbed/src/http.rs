//! Pages over HTTP.

use anyhow::Result;
use std::net::SocketAddr;

/// Time that a server has to answer, in seconds.
const PATIENCE_S: u64 = 20;

/// Returns the head (status and fields, one per line) and the body of a page.
///
/// # Errors
/// No server answers at `address`, or not in HTTP, or not in time.
pub fn get(address: SocketAddr, path: &str) -> Result<(String, String)> {
    get_with(address, path, &[])
}

/// Does the same as [`get`], with these fields in the request.
///
/// # Errors
/// As [`get`].
pub fn get_with(address: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Result<(String, String)> {
    let request = minreq::get(format!("http://{address}{path}")).with_timeout(PATIENCE_S);
    let response = request.with_headers(fields.iter().copied()).send()?;
    let mut head = format!("{} {}\n", response.status_code, response.reason_phrase);
    head.extend(response.headers.iter().map(|(name, value)| format!("{name}: {value}\n")));
    Ok((head, response.as_str()?.to_owned()))
}
