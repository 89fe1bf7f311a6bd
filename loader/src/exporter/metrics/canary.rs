//! The metrics of `hotcc canary`.

use super::{Page, labels};
use crate::canary::{State, Status};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

impl Page<'_> {
    pub(super) fn canary(&mut self, status: &Status) -> fmt::Result {
        let states = State::ALL.map(|state| (labels([("state", state.name())]), u64::from(state == status.state)));
        self.gauges("hotcc_canary_state", "1 for the state of the latest canary", states)?;
        if status.state == State::None {
            return Ok(());
        }
        self.gauges(
            "hotcc_canary_share_ratio",
            "Share of new connections that get the canary's congestion control",
            [(Vec::new(), status.share_percent / 100.0)],
        )?;
        self.gauges("hotcc_canary_step", "Step of the canary, from 1", [(Vec::new(), u64::from(status.step))])?;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.gauges(
            "hotcc_canary_expires_seconds",
            "Time at which the share expires unless it is renewed, Unix time",
            status.expires_in_s.map(|seconds| (Vec::new(), now_s + seconds)),
        )?;
        let counts = status.connections;
        self.counters(
            "hotcc_canary_ended_connections",
            "Connections that ended while the canary ran",
            [("canary", counts.canary), ("control", counts.control)].map(|(of, n)| (labels([("cohort", of)]), n)),
        )?;
        let dropped = [(Vec::new(), status.dropped_records)];
        self.counters("hotcc_canary_dropped_records", "Ended connections that were not compared", dropped)
    }
}
