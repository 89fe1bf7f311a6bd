//! The exporter, asked as Prometheus asks it.

use super::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use hotcc_testbed::netlab::{Process, pause};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const OUT: &str = "exporter.out";
const SAYS: &str = "listening on http://";

/// A running exporter.
#[derive(Debug)]
pub struct Exporter {
    _process: Process,
    address: SocketAddr,
}

impl Exporter {
    /// Starts one on a free port.
    pub fn start(tools: &Tools, files: &Path) -> Result<Self> {
        let mut process = tools.background("hotcc exporter --listen 127.0.0.1:0", files, OUT)?;
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(files.join(OUT)).context("cannot read what the exporter said")?;
            // a whole line: the port may be half written
            if let Some(line) = said.split_inclusive('\n').find(|l| l.starts_with(SAYS) && l.ends_with('\n')) {
                tools.say.line(format!("  {}", line.trim()));
                let address = line.trim().trim_start_matches(SAYS).parse().context("that is no address")?;
                return Ok(Self { _process: process, address });
            }
            if let Some(status) = process.ended()? {
                bail!("hotcc exporter ended by itself ({status})");
            }
            ensure!(begun.elapsed() < PATIENCE, "hotcc exporter does not say where it listens");
            pause(Duration::from_millis(20))?;
        }
    }

    /// Where the metrics are.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// One scrape: all lines that are no comment.
    pub fn scrape(&self) -> Result<Vec<String>> {
        let tried = || format!("cannot get {}", self.url());
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE).with_context(tried)?;
        stream.set_read_timeout(Some(PATIENCE)).with_context(tried)?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).with_context(tried)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(tried)?;
        let (head, page) = answer.split_once("\r\n\r\n").context("the exporter's answer is not HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "the exporter answered: {}", head.lines().next().unwrap_or_default());
        ensure!(page.trim_end().ends_with("# EOF"), "the exporter's page ends too early");
        Ok(page.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect())
    }
}
