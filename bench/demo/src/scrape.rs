//! The exporter, scraped as Prometheus does it.

use super::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use hotcc_testbed::metrics;
use hotcc_testbed::netlab::{Process, pause};
use std::fs;
use std::net::SocketAddr;
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
    /// Starts an exporter on a free port.
    pub fn start(tools: &Tools, files: &Path) -> Result<Self> {
        let mut process = tools.background("hotcc exporter --listen 127.0.0.1:0", files, OUT)?;
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(files.join(OUT)).context("cannot read the exporter's output")?;
            // only a complete line: the port may not be fully written yet
            if let Some(line) = said.split_inclusive('\n').find(|l| l.starts_with(SAYS) && l.ends_with('\n')) {
                tools.say.line(format!("  {}", line.trim()));
                let address =
                    line.trim().trim_start_matches(SAYS).parse().context("cannot parse the exporter's address")?;
                return Ok(Self { _process: process, address });
            }
            if let Some(status) = process.ended()? {
                bail!("hotcc exporter ended unexpectedly ({status})");
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "hotcc exporter did not print its address within {} s",
                PATIENCE.as_secs()
            );
            pause(Duration::from_millis(20))?;
        }
    }

    /// Returns the URL of the metrics.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Scrapes once, and returns all lines that are not comments.
    pub fn scrape(&self) -> Result<Vec<String>> {
        let tried = || format!("cannot get {}", self.url());
        let page = metrics::open_metrics(self.address).with_context(tried)?;
        Ok(page.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect())
    }
}
