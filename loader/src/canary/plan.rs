//! What a canary is going to do.

use crate::object::kernel::kernel;
use crate::policy::canary::{Pair, conditions};
use crate::policy::parse_share;
use crate::registry::{Algo, runs};
use crate::sysctl;
use hotcc_canary::{Guard, Metric};
use hotcc_host::error::{Error, Result};
use serde::Serialize;
use std::time::Duration;

/// Shares after the first, per cent.
const LADDER: [u64; 3] = [5, 25, 100];
/// All connections: one more than the largest hash.
const ALL: u64 = 1 << 32;

/// What is asked of `hotcc canary start`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The congestion control that the connections have.
    pub from: String,
    /// The congestion control to try.
    pub to: String,
    /// The first share, like `5%`.
    pub share: String,
    /// Conditions of policy rules, `KEY=VALUE`.
    pub matches: Vec<String>,
    /// Time limit.
    pub limit: Duration,
    /// Connections that each cohort needs in each step.
    pub min_connections: u64,
    /// What must hold.
    pub guards: Vec<Guard>,
}

/// What a canary is going to do. Part of the schema of `hotcc canary start --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The congestion control that the connections have.
    pub from: String,
    /// The congestion control to try.
    pub to: String,
    /// Conditions of its rules.
    pub conditions: toml::Table,
    /// Share of each step, per cent; the last is 100.
    pub shares_percent: Vec<f64>,
    /// What must hold to go on.
    pub guards: Vec<String>,
    /// Connections that each cohort needs in each step.
    pub min_connections: u64,
    /// Time limit, seconds.
    pub for_s: f64,
    /// Conditions that match nothing now.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// For each step before the last, the limit below which a connection's hash must be.
    #[serde(skip)]
    pub(super) shares: Vec<u32>,
}

impl Plan {
    /// Validates a request. Returns also its rules.
    pub(super) fn new(request: &Request) -> Result<(Self, Pair)> {
        let Request { from, to, share, matches, limit, min_connections, guards } = request;
        let conditions = conditions(matches)?;
        if guards.iter().any(|guard| guard.metric == Metric::TimeoutRatio) && !kernel()?.counts_timeouts {
            return Err(Error::kernel_lacks(
                "this kernel does not count the timeouts of a connection, which the guard `timeout_ratio` compares",
            )
            .and("boot a kernel from 6.7 on, or use other guards"));
        }
        let first = parse_share(share).map_err(|e| Error::usage(e.to_string()))?;
        if first >= ALL {
            return Err(Error::usage(format!("invalid share `{share}`: nothing would be left to compare with")));
        }
        let available = sysctl::available()?;
        for name in [from, to] {
            if !available.contains(name) {
                return Err(Error::failed(sysctl::unregistered(name, &available)));
            }
            if runs::is_for_runs(&Algo::named(name)) {
                let message = format!("cannot compare {name}: it was loaded for a `hotcc run`, whose end unloads it");
                return Err(Error::failed(message).and("load it with `hotcc load` when the run has ended"));
            }
        }
        let later = LADDER.iter().map(|percent| percent * ALL / 100).filter(|share| *share > first);
        let shares: Vec<u64> = std::iter::once(first).chain(later).collect();
        let pair = Pair::new(&conditions, from, to)?;
        let mut conditions = pair.keys()?;
        conditions.remove("congestion_control");
        let plan = Self {
            from: from.clone(),
            to: to.clone(),
            conditions,
            shares_percent: shares.iter().map(|share| percent(*share)).collect(),
            guards: guards.iter().map(Guard::to_string).collect(),
            min_connections: *min_connections,
            for_s: limit.as_secs_f64(),
            warnings: pair.warnings().to_vec(),
            shares: shares.iter().filter_map(|share| u32::try_from(*share).ok()).collect(),
        };
        Ok((plan, pair))
    }

    /// Returns the share of a step, numbered from 1, or `None` after the last comparison.
    pub(super) fn share_of(&self, step: u32) -> Option<u32> {
        self.shares.get(step as usize - 1).copied()
    }
}

/// Returns a share of connections in per cent, rounded to a thousandth.
pub(super) fn percent(share: u64) -> f64 {
    (share as f64 * 100_000.0 / ALL as f64).round() / 1000.0
}
