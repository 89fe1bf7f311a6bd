//! Keeps those of the possible connections whose intervals contain the algorithm's own numbers.

use super::DtcpDefault;
use super::base::Base;
use super::link::{EFFICIENCY, PER_EFFICIENCY};
use super::state::State;
use crate::models::Q8;
use crate::models::interval::{Interval, Q16};
use hotcc_host_algo::{Flow, View};

/// A number whose interval is wider than this is counted.
const COARSE: f64 = 0.01;

fn is_coarse(number: Interval) -> bool {
    number.high - number.low > COARSE * number.high.abs() + 1.0 / 64.0
}

impl State {
    /// Returns the names and intervals of the numbers that the algorithm shows.
    fn shown(&mut self) -> [(&'static str, &mut Interval); 12] {
        [
            ("W", &mut self.window),
            ("ssthresh", &mut self.ssthresh),
            ("B_I", &mut self.filtered),
            ("B_i", &mut self.sample),
            ("N", &mut self.n),
            ("growth", &mut self.growth),
            ("share of lost segments", &mut self.loss_share),
            ("E0^2", &mut self.weight.error_without),
            ("E1^2", &mut self.weight.error_with),
            ("link's bandwidth by efficiency", &mut self.link.per_efficiency),
            ("average efficiency", &mut self.link.average),
            ("forecast", &mut self.weight.forecast),
        ]
    }

    /// Takes over the algorithm's own numbers, if they are possible.
    fn take(&mut self, own: &[f64; 12], base_us: Option<u32>) -> Result<(), String> {
        if self.base.us != base_us {
            return Err(format!("base {base_us:?} us, the model has {:?}", self.base.us));
        }
        for ((what, number), own) in self.shown().into_iter().zip(own) {
            if !number.contains(*own) {
                return Err(format!("{what} {own}, the model has {} to {}", number.low, number.high));
            }
            *number = Interval::point(*own);
        }
        Ok(())
    }

    /// Returns the state that no number shows yet.
    fn hidden(&self) -> (bool, bool, u32, &Base) {
        (self.hold, self.room, self.css_rounds, &self.base)
    }
}

impl DtcpDefault {
    fn keep(&mut self, mut agrees: impl FnMut(&mut State) -> Result<(), String>) -> Result<(), String> {
        let mut difference = None;
        let mut kept: Vec<State> = Vec::new();
        for mut state in std::mem::take(&mut self.possible) {
            match agrees(&mut state) {
                Ok(()) if kept.iter().all(|other| other.hidden() != state.hidden()) => kept.push(state),
                Ok(()) => {}
                Err(e) => difference = difference.or(Some(e)),
            }
        }
        self.possible = kept;
        match difference {
            Some(difference) if self.possible.is_empty() => Err(difference),
            _ => Ok(()),
        }
    }

    pub(super) fn compare(&mut self, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        let number = |name: &str, unit: f64| flow.private(name) as f64 * unit;
        let own = [
            f64::from(got.snd_cwnd),
            f64::from(got.snd_ssthresh),
            number("bandwidth_q8", Q8),
            number("sample_rate", 1.0),
            number("n_q16", Q16),
            number("growth_q16", Q16),
            number("loss_q16", Q16),
            number("weight.error_without", 1.0 / 16_384.0),
            number("weight.error_with", 1.0 / 16_384.0),
            number("link.per_efficiency", PER_EFFICIENCY),
            number("link.average_q12", EFFICIENCY),
            f64::from(flow.private("forecast") as i8) / 64.0,
        ];
        let base_us = Some(flow.private("base.us") as u32).filter(|&us| us != 0);
        let first = &self.possible[0];
        self.rounding.coarse_n += u64::from(is_coarse(first.n));
        self.rounding.coarse_windows += u64::from(is_coarse(first.window.down(-1.0)));
        self.keep(|state| state.take(&own, base_us))
    }

    pub(super) fn compare_answer(&mut self, got: u32) -> Result<(), String> {
        self.keep(|state| {
            let Interval { low, high } = state.answer;
            let possible = state.answer.contains(f64::from(got));
            if possible { Ok(()) } else { Err(format!("ssthresh() is {got}, the model's {low} to {high}")) }
        })
    }
}
