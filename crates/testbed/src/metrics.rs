//! A daemon's page of metrics: in both of its formats, and checked by promtool.

use crate::http;
use crate::programs::system_program;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Returns the page in OpenMetrics, whose last line shows that it is complete.
///
/// # Errors
/// The daemon does not answer, or answers with something else.
pub fn open_metrics(address: SocketAddr) -> Result<String> {
    let accept = [("Accept", "application/openmetrics-text; version=1.0.0, text/plain; version=0.0.4; q=0.5")];
    let page = page(address, &accept, "application/openmetrics-text; version=1.0.0; charset=utf-8")?;
    ensure!(page.ends_with("# EOF\n"), "the page of metrics is truncated: it lacks `# EOF`");
    Ok(page)
}

/// Returns the page that a client without a preference receives.
///
/// # Errors
/// The daemon does not answer, or answers with something else.
pub fn plain(address: SocketAddr) -> Result<String> {
    page(address, &[], "text/plain; version=0.0.4; charset=utf-8")
}

fn page(address: SocketAddr, fields: &[(&str, &str)], content_type: &str) -> Result<String> {
    let (head, page) = http::get_with(address, "/metrics", fields).context("cannot read the page of metrics")?;
    ensure!(head.starts_with("200 ") && head.contains(&format!(": {content_type}\n")), "unexpected answer: {head}");
    Ok(page)
}

/// Fails if `promtool check metrics` finds a problem in the plain page.
///
/// # Errors
/// promtool is not installed, or rejects the page; or the daemon has no page in one of the formats.
pub fn check(address: SocketAddr) -> Result<()> {
    open_metrics(address)?;
    let page = plain(address)?;
    let mut command = Command::new(system_program("promtool")?);
    let (reader, mut writer) = std::io::pipe()?;
    let child =
        command.args(["check", "metrics"]).stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(command); // it holds a copy of the pipe's read end
    writer.write_all(page.as_bytes())?;
    drop(writer);
    let output = child.wait_with_output()?;
    let said = String::from_utf8(output.stderr)? + std::str::from_utf8(&output.stdout)?;
    ensure!(output.status.success(), "promtool rejects the page ({}): {said}\n{page}", output.status);
    Ok(())
}
