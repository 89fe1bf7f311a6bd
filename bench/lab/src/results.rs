//! The results of a scenario's runs, as files and as types.
//!
//! ```text
//! DIR/manifest.json                    what ran: scenario, kernel, QEMU, objects, and summaries' hashes (see Manifest)
//! DIR/scenario.toml                    a copy of the scenario
//! DIR/CASE/seed-N/summary.json         one run (see RunSummary); written last, so a run that has it is complete
//! DIR/CASE/seed-N/flows.csv            series of each flow (see FLOW_COLUMNS)
//! DIR/CASE/seed-N/links.csv            series of each link with a rate (see LINK_COLUMNS)
//! DIR/report.html                      a page with all results
//! ```
//! CASE is `all` if nothing is swept, otherwise `key=value,key=value`. Times count from the start of the measurement.

mod expected;
mod summary;

pub use expected::{Expected, Gate, Missed, Of, Wanted, equal};
pub use summary::{Distribution, FlowSummary, LinkSummary, METRICS, RunSummary};

use anyhow::{Context, Result, bail, ensure};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The simulator as a backend, in manifests and as the name of the directory of its results.
pub const SIMULATOR: &str = "simulator";

/// Columns of `flows.csv`. A cell is empty if the value is not known at that time. There is one row per flow and
/// sampling period with ACKs.
///
/// `delivery_rate_bps` is the rate at which cumulative ACKs reported data to the sender in the period. Windows are in
/// segments. `state` is the kernel's congestion avoidance state (0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss).
/// `sinr_db` is the link's true SINR. `detail` is the watched field of the algorithm's state, if one is watched.
pub const FLOW_COLUMNS: [&str; 13] = [
    "t_s",
    "flow",
    "cwnd",
    "ssthresh",
    "srtt_us",
    "rtt_us",
    "min_rtt_us",
    "rto_ms",
    "in_flight",
    "delivery_rate_bps",
    "state",
    "sinr_db",
    "detail",
];
/// Columns of `links.csv`. `queue_bytes` is the longest queue in the period; counts are sums over the period.
pub const LINK_COLUMNS: [&str; 10] = [
    "t_s",
    "link",
    "capacity_bps",
    "sinr_db",
    "queue_bytes",
    "sent_bytes",
    "queue_drops",
    "losses",
    "ce_marks",
    "police_drops",
];

/// The setup of the runs. In virtual time, two runs with the same manifest have the same results, byte for byte.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Manifest {
    /// The scenario's name.
    pub scenario: String,
    /// SHA-256 of the scenario file.
    pub scenario_sha256: String,
    /// SHA-256 of every file that the scenario names: traces and object files.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// `vm`, `native` or `simulator`.
    pub backend: String,
    /// Release of the kernel.
    pub kernel: String,
    /// SHA-256 of the kernel image; empty for `native` and `simulator`.
    pub kernel_sha256: String,
    /// QEMU's version line; empty for `native` and `simulator`.
    pub qemu: String,
    /// The CPU that the guest sees, or that of this machine; empty for `simulator`.
    pub cpu: String,
    /// SHA-256 of every BPF object and program that is used, by name, and of the kernel's package, as `package NAME`.
    pub objects: BTreeMap<String, String>,
    /// All planned runs, in order.
    pub runs: Vec<RunId>,
    /// SHA-256 of each complete run's `summary.json`, by its path in the directory. Also empty if an earlier version of
    /// the lab wrote the manifest.
    #[serde(default)]
    pub results: BTreeMap<String, String>,
}

impl Manifest {
    /// Returns whether the runs were simulated, without a kernel.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.backend == SIMULATOR
    }
}

/// One run of a scenario.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct RunId {
    /// The swept values, by key.
    pub case: BTreeMap<String, String>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl RunId {
    /// Returns the case as text: `cc=dtcp,loss=0.01`; `all` if nothing is swept.
    #[must_use]
    pub fn case_name(&self) -> String {
        if self.case.is_empty() {
            return "all".to_owned();
        }
        self.case.iter().map(|(k, v)| format!("{k}={}", v.replace('/', "_"))).collect::<Vec<_>>().join(",")
    }

    /// Returns the run's directory, relative to the result directory.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(&self.case_name()).join(format!("seed-{}", self.seed))
    }

    /// Returns the path of the run's summary, relative to the result directory.
    #[must_use]
    pub fn summary(&self) -> String {
        self.path().join("summary.json").display().to_string()
    }
}

/// A result directory that was read.
#[derive(Debug)]
pub struct Results {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The complete runs, in the manifest's order.
    pub runs: Vec<RunSummary>,
}

/// Returns the result directory for `path`: `path` itself, or the only result directory in OUT or OUT/NAME.
pub fn locate(path: &Path) -> Result<PathBuf> {
    let has_results = |directory: &Path| directory.join("manifest.json").exists();
    if has_results(path) {
        return Ok(path.to_owned());
    }
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = below(path).flat_map(|child| below(&child).chain([child])).collect();
    found.retain(|directory| has_results(directory));
    found.sort();
    match found.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            bail!("cannot read {}/manifest.json: not a result directory, expected OUT/NAME/KERNEL", path.display())
        }
        several => {
            let several: Vec<String> = several.iter().map(|directory| directory.display().to_string()).collect();
            bail!("{} contains several results: name one of {}", path.display(), several.join(", "))
        }
    }
}

impl Results {
    /// Reads `manifest.json` and every existing summary. Fails if a summary is not the one that its run wrote.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join("manifest.json");
        let mut manifest: Manifest = parse(&path, &read(&path)?)?;
        let mut texts = Vec::new();
        for run in &manifest.runs {
            let path = directory.join(run.summary());
            if path.exists() {
                texts.push((run.summary(), read(&path)?));
            }
        }
        // after the summaries: a lab that is running adds the hash of a summary before the summary appears
        manifest.results = parse::<Manifest>(&path, &read(&path)?)?.results;
        let mut runs = Vec::new();
        for (summary, text) in texts {
            let path = directory.join(&summary);
            ensure!(
                manifest.results.is_empty() || manifest.results.get(&summary) == Some(&sha256(&text)),
                "cannot use {}: its SHA-256 is not the one in manifest.json, so it has changed since the run; run \
                 `hotcc-bench lab` again to repeat that run",
                path.display()
            );
            runs.push(parse(&path, &text)?);
        }
        Ok(Self { directory: directory.to_owned(), manifest, runs })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text)
        .with_context(|| format!("cannot read {}: another version of the lab wrote it", path.display()))
}

pub(super) fn sha256(content: impl AsRef<[u8]>) -> String {
    HEXLOWER.encode(&Sha256::digest(content))
}
