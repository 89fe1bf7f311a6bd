//! Pages over HTTP.

use anyhow::Result;
use std::net::SocketAddr;

/// How long a server may take to answer.
const PATIENCE_S: u64 = 20;

/// Head (status and fields, a line each) and body of a page.
///
/// # Errors
/// Nobody answers there, or not in HTTP, or not in time.
pub fn get(address: SocketAddr, path: &str) -> Result<(String, String)> {
    get_with(address, path, &[])
}

/// The same, with these fields in the request.
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
