//! Compares the algorithm with the model, and with what the model does if a rounding goes the other way.

use super::rows::{self, SEVERE};
use super::{Fbtcp, Hypothesis};
use crate::models::show;
use hotcc_host_algo::{Flow, View};

/// In rows whose count of rounds decides nothing, the count is compared only below this value.
const REPEAT_COUNTED: u64 = 255;

impl Hypothesis {
    /// Returns the first difference between the algorithm and this hypothesis, or `None` if they agree.
    fn misfit(&self, fbtcp: &Fbtcp, got: &View, flow: &Flow<'_>) -> Option<String> {
        if (self.sock.snd_cwnd, self.sock.snd_ssthresh) != (got.snd_cwnd, got.snd_ssthresh) {
            return Some(format!("{}; the model has {}", show(got), show(&self.sock)));
        }
        let state = &self.state;
        let mut fields = vec![
            ("base_us", state.base.map_or(0, |b| b.rtt_us)),
            ("max_cwnd", state.max.map_or(0, |m| m.segments)),
            ("rule", state.rule),
            ("step_left", state.step_left()),
        ];
        let row = state.rule % SEVERE;
        let counts = rows::patience(&fbtcp.tunables, row).is_some();
        if counts || row != 0 && u64::from(state.repeat) < REPEAT_COUNTED {
            fields.push(("repeat", state.repeat));
        }
        if let Some(csi) = state.csi_q16 {
            fields.push(("csi_q16", csi as u32));
        }
        fields.into_iter().find_map(|(name, want)| {
            let got = flow.private(name);
            (got != u64::from(want)).then(|| format!("{name} {got}, the model has {want} ({state:?})"))
        })
    }
}

impl Fbtcp {
    pub(super) fn compare(&mut self, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.compared = true;
        let misfit = self.own.misfit(self, got, flow);
        let mut rounded = std::mem::take(&mut self.rounded);
        rounded.retain(|h| h.misfit(self, got, flow).is_none());
        if let Some(misfit) = misfit {
            if rounded.is_empty() {
                return Err(misfit);
            }
            self.own = rounded.remove(0);
            self.bounds_rounded += 1;
        }
        let mut kept: Vec<Hypothesis> = Vec::new();
        for other in rounded {
            let known = std::iter::once(&self.own).chain(&kept).any(|h| h.state.same(&other.state));
            if !known {
                kept.push(other);
            }
        }
        self.rounded = kept;
        Ok(())
    }
}
