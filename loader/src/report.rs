//! A support bundle: the state of hotcc on this machine, without keys, passwords or configuration.

use crate::declared::{self, Difference};
use crate::doctor;
use crate::paths::maps::{self, Paths};
use crate::rx;
use crate::status::{self, Status};
use hotcc_host::error::{Error, Result, Tried};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The systemd units in `deploy`.
const UNITS: [&str; 5] = ["hotcc", "hotcc-exporter", "pep-border", "pep-server", "sinr-feeder"];

/// Schema of `hotcc report`; fields are only ever added.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of hotcc.
    pub version: &'static str,
    /// Distribution.
    pub distribution: Part<String>,
    /// Same as `hotcc doctor --json`.
    pub doctor: doctor::Report,
    /// Same as `hotcc status --json`.
    pub status: Part<Status>,
    /// Same as `hotcc rx status --json`.
    pub receivers: Part<rx::Status>,
    /// Same as `hotcc paths show --json`.
    pub paths: Part<Paths>,
    /// Same as `hotcc diff --json`.
    pub difference: Part<Difference>,
    /// The latest lines of each unit's log.
    pub logs: BTreeMap<&'static str, Part<Vec<String>>>,
}

/// A part of the report, or the reason why it is missing.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Part<T> {
    /// The part could be read.
    Known(T),
    /// The part could not be read.
    Missing {
        /// The reason.
        error: String,
    },
}

impl<T> From<Result<T>> for Part<T> {
    fn from(read: Result<T>) -> Self {
        read.map_or_else(|error| Self::Missing { error: format!("{error:#}") }, Self::Known)
    }
}

/// Reads everything that can be read.
#[must_use]
pub fn report() -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION"),
        distribution: distribution().into(),
        doctor: doctor::report(),
        status: status::status().into(),
        receivers: rx::status().into(),
        paths: maps::paths().into(),
        difference: declared::diff(Path::new(declared::FILE)).into(),
        logs: UNITS.into_iter().map(|unit| (unit, log(unit).into())).collect(),
    }
}

fn distribution() -> Result<String> {
    let file = "/etc/os-release";
    let text = std::fs::read_to_string(file).tried(|| format!("cannot read {file}"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Ok(name.unwrap_or_default().trim_matches('"').to_owned())
}

fn log(unit: &str) -> Result<Vec<String>> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args(["--unit", unit, "--lines=200", "--output=short-iso", "--no-pager", "--quiet"]);
    let output = journalctl.output().tried(|| "cannot run journalctl".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::failed(format!("journalctl fails: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(without_password).collect())
}

/// Replaces user names and passwords in URLs by `…`.
fn without_password(line: &str) -> String {
    let mut parts = line.split("://");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let authority = rest.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
        let secret = authority.rfind('@').unwrap_or(0);
        kept += "://";
        if secret > 0 {
            kept.push('…');
        }
        kept += &rest[secret..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_those_of_every_unit() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let files = std::fs::read_dir(deploy).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut units: Vec<String> =
            files.filter_map(|file| file.strip_suffix(".service").map(str::to_owned)).collect();
        units.sort();
        assert_eq!(units, UNITS);
    }

    #[test]
    fn passwords_are_left_out() {
        for (line, kept) in [
            ("reads nats://car:s3cret@nats.example:4222, and more", "reads nats://…@nats.example:4222, and more"),
            ("nats://s3@cret@a b http://127.0.0.1/x@y", "nats://…@a b http://127.0.0.1/x@y"),
            ("no URL @ all", "no URL @ all"),
            ("ends with ://", "ends with ://"),
        ] {
            assert_eq!(without_password(line), kept);
        }
    }
}
