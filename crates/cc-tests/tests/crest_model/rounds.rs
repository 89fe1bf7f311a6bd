//! crest's least RTT, and its rules per round, against the f64 model: each step from the flow's own state before it.

use super::{COMPETE, CRUISE, CWR, Connection};
use hotcc_cc_tests::models::crest::Slice;
use hotcc_cc_tests::models::crest_rounds::{
    Competitor, Longer, Losses, Outcome, Policer, Probe, Round, base_after, burst_after, least_target_s, trial_s,
};

const PROBE: f64 = 2.0;
const REFILL: f64 = 3.0;
const RECHECK: f64 = 5.0;
/// Rounds for which a queue stands before a probe is a test.
const STAND_ROUNDS: f64 = 25.0;
/// `peak` of a flow that competes and does not follow CUBIC's curve yet.
const PEAK_UNKNOWN: f64 = 30.0 * 1024.0;
/// Error of the logarithms in which W is stored during a probe.
const STORED_ERROR: f64 = 0.025;
/// Loss shares are whole numbers of permille in the algorithm.
const SHARE_ERROR: f64 = 0.002;
/// `room` is a whole number of 1/255.
const ROOM_ERROR: f64 = 1.5 / 255.0;
/// `policed` counts limits in this unit, and rounds below it.
const LIMIT_ONE: u32 = 51;

fn is_probe(phase: f64) -> bool {
    phase == PROBE || phase == RECHECK
}

/// A flow's state that its rounds change.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    base_s: f64,
    least_rtt_s: Option<f64>,
    losses: Losses,
    burst: f64,
    policer: Policer,
    empty_rtts: f64,
    phase: f64,
    delivered: u32,
    lost: u32,
    waits: bool,
    longer: Longer,
    probe: Probe,
    competitor: Competitor,
    stored: f64,
}

/// Returns the number of segments that were lost after another number was; the flow keeps 24 bits of it.
fn since(lost: u32, earlier: u32) -> u32 {
    lost.wrapping_sub(earlier) & 0xff_ffff
}

/// A slice as the test made it.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Least RTT, without the time that ACKs waited.
    pub rtt_s: f64,
    /// Its error.
    pub error_s: f64,
    pub flight_rate: f64,
    pub own_rate: f64,
}

impl Rounds {
    /// Returns the average share of segments lost.
    pub fn lost(&self) -> f64 {
        self.losses.share
    }

    /// Returns whether more segments were lost than are ignored.
    pub fn is_lossy(&self) -> bool {
        self.losses.share > self.policer.ignored()
    }

    /// Returns the least RTT of the round, given another slice of it, s.
    fn least_rtt_with(&self, slice: Measured) -> f64 {
        self.least_rtt_s.map_or(slice.rtt_s, |least_s| least_s.min(slice.rtt_s))
    }
}

/// Counts of the checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundCounts {
    bases: u32,
    /// Slices that lowered the least RTT.
    shorter: u32,
    marks: u32,
    rounds: u32,
    /// Rounds with too many losses.
    lossy: u32,
    bursts: u32,
    policers: u32,
    /// New limits, by the number of limits on end.
    limits: [u32; 4],
    /// Ends of limits, by a queue or after random losses.
    ends: u32,
    /// Beginnings of probes, and of those that are tests.
    probes: [u32; 2],
    /// Ends of probes, by what follows.
    restored: u32,
    competed: u32,
    /// Those that end the competition because the queue is never full.
    never_full: u32,
    /// Rounds that could be a sign of a longer path, and those that were.
    possible: u32,
    signs: u32,
    /// Probes that found a longer path.
    longer: u32,
    /// Rounds of competition by CUBIC's curve, and by an eighth per round; and slices in which W was too large.
    curves: u32,
    eighths: u32,
    cut: u32,
    /// Losses of flows that compete.
    rival_losses: u32,
}

impl RoundCounts {
    pub fn add(&mut self, other: Self) {
        let Self {
            bases,
            shorter,
            marks,
            rounds,
            lossy,
            bursts,
            policers,
            limits,
            ends,
            probes,
            restored,
            competed,
            never_full,
            possible,
            signs,
            longer,
            curves,
            eighths,
            cut,
            rival_losses,
        } = other;
        self.bases += bases;
        self.shorter += shorter;
        self.marks += marks;
        self.rounds += rounds;
        self.lossy += lossy;
        self.bursts += bursts;
        self.policers += policers;
        for (sum, limits) in self.limits.iter_mut().zip(limits) {
            *sum += limits;
        }
        self.ends += ends;
        for (sum, probes) in self.probes.iter_mut().zip(probes) {
            *sum += probes;
        }
        self.restored += restored;
        self.competed += competed;
        self.never_full += never_full;
        self.possible += possible;
        self.signs += signs;
        self.longer += longer;
        self.curves += curves;
        self.eighths += eighths;
        self.cut += cut;
        self.rival_losses += rival_losses;
    }

    pub fn assert_enough(&self) {
        assert!(self.bases > 20_000 && self.shorter > 100 && self.marks > 1000, "{self:?}");
        assert!(self.rounds > 3000 && self.lossy > 500, "{self:?}");
        assert!(self.bursts > 1000 && self.policers > 1000, "{self:?}");
        assert!(self.limits.iter().all(|limits| *limits > 5) && self.ends > 5, "{self:?}");
        assert!(self.probes.iter().all(|probes| *probes > 20) && self.restored > 100, "{self:?}");
        assert!(self.competed > 50 && self.never_full > 2, "{self:?}");
        assert!(self.possible > 1000 && self.signs > 50 && self.longer > 5, "{self:?}");
        assert!(self.curves > 200 && self.eighths > 200 && self.cut > 20 && self.rival_losses > 50, "{self:?}");
    }
}

impl Connection<'_> {
    pub fn rounds(&self) -> Rounds {
        let (policed, least_us) = (self.state("policed") as u32, self.state("round_rtt_us"));
        let (phase, stored) = (self.state("phase"), (self.state("resume") / 1024.0).exp2() / 256.0);
        let competed = phase == RECHECK;
        let probe = Probe {
            base_s: self.state("base_us") / 1e6,
            before_s: self.state("probe_rtt") * 64e-6,
            rtt_s: 0.0,
            is_test: competed || self.state("stood") >= STAND_ROUNDS,
            competed,
            rivals: self.state("rivals") as u32,
            filled: self.state("filled") > 0.0,
        };
        Rounds {
            base_s: self.state("base_us") / 1e6,
            least_rtt_s: (least_us > 0.0).then_some(least_us / 1e6),
            losses: Losses { share: self.state("loss") / 1e3, room: self.state("room") / 255.0 },
            burst: self.state("burst") / 1e2,
            policer: Policer { tries: policed / LIMIT_ONE, rounds: policed % LIMIT_ONE, limit: stored },
            empty_rtts: self.state("empty") / 8.0,
            phase,
            delivered: self.state("round_delivered") as u32,
            lost: self.state("round_lost") as u32 + ((self.state("round_lost_high") as u32) << 16),
            waits: self.state("wait") > 0.0,
            longer: Longer {
                signs: (self.state("probes") as u32).saturating_sub(4),
                rtt_s: self.state("same_rtt") * 64e-6,
                window: stored,
                rounds: self.state("stood") as u32,
            },
            probe,
            competitor: self.competitor(),
            stored,
        }
    }

    pub fn is_probing(&self) -> bool {
        is_probe(self.state("phase"))
    }

    /// Marks a packet, and compares what the mark leaves.
    pub fn mark(&mut self, counts: &mut RoundCounts) {
        let before = self.rounds();
        self.flow.set_state(CWR);
        let (got, expected) = (self.rounds(), before.losses.after_mark());
        assert!(
            (got.losses.room - expected.room).abs() <= ROOM_ERROR,
            "{got:?}, by the model {expected:?}; {before:?}"
        );
        assert_eq!(since(before.lost, got.lost), 1, "a mark counts as a loss");
        counts.marks += 1;
    }

    fn competitor(&self) -> Competitor {
        let peak = self.state("peak");
        Competitor {
            window: self.state("window") / 256.0,
            plateau: (peak != PEAK_UNKNOWN).then_some((peak / 1024.0).exp2() / 256.0),
            rounds: self.state("stood") as u32,
        }
    }

    /// Loses a segment while the flow competes, and compares W and its plateau.
    pub fn lose(&mut self, counts: &mut RoundCounts) {
        let before = self.competitor();
        assert_eq!(self.flow.ssthresh(), self.view.snd_ssthresh, "the kernel does not move W");
        let (got, expected) = (self.competitor(), before.after_loss());
        if before.plateau.is_some_and(|plateau| (before.window / plateau - 1.0).abs() < STORED_ERROR) {
            return; // whether W had reached the plateau is a matter of rounding
        }
        let is_close = |got: f64, expected: f64| (got / expected - 1.0).abs() < STORED_ERROR;
        assert!(is_close(got.window, expected.window), "{got:?}, by the model {expected:?}; {before:?}");
        assert_eq!(got.plateau.is_some(), expected.plateau.is_some(), "{before:?}");
        let plateaus = got.plateau.zip(expected.plateau);
        assert!(plateaus.is_none_or(|(got, expected)| is_close(got, expected)), "{got:?} {expected:?}; {before:?}");
        assert_eq!(got.rounds, 0);
        counts.rival_losses += 1;
    }

    /// Returns whether the segment acknowledged last was sent in the round.
    fn is_over(&self, before: &Rounds) -> bool {
        self.prior_delivered.wrapping_sub(before.delivered) as i32 >= 0
    }

    /// Compares W of a flow that competes after a slice, and at the end of a round.
    pub fn judge_competition(&self, before: &Rounds, slice: Slice, error_s: f64, counts: &mut RoundCounts) {
        let (queue_s, target_s) = (slice.rtt_s - slice.base_s, slice.target_s());
        if (queue_s - target_s).abs() <= error_s + 1e-6 {
            return;
        }
        let trial_s = trial_s(slice.base_s, target_s, before.longer.rtt_s, before.probe.filled);
        let most = Slice { trial_s: Some(trial_s), ..slice }.window_after();
        let cut = if queue_s > target_s { slice.window.min(most) } else { slice.window };
        let is_over = self.is_over(before);
        let competitor = Competitor { window: cut, ..before.competitor };
        let rtt_s = (f64::from(self.view.srtt_us) / 8e6).min(8.0 * slice.base_s);
        let expected = if is_over { competitor.after_round(rtt_s) } else { cut };
        let got = self.state("window") / 256.0;
        let is_close = (got / expected - 1.0).abs() < STORED_ERROR;
        assert!(is_close, "W {got}, by the model {expected}; {before:?} {slice:?}");
        counts.cut += u32::from(cut < 0.95 * slice.window);
        counts.curves += u32::from(is_over && competitor.plateau.is_some());
        counts.eighths += u32::from(is_over && competitor.plateau.is_none());
    }

    /// Compares the flow's state after a slice with the model's.
    pub fn judge_rounds(&self, before: &Rounds, slice: Measured, counts: &mut RoundCounts) {
        let after = self.rounds();
        let known = (before.base_s > 0.0).then_some(before.base_s);
        let base_s = base_after(known, slice.rtt_s);
        if after.base_s > before.base_s + slice.error_s && known.is_some() {
            assert!(before.phase == PROBE && !before.probe.is_test, "the least RTT rose: {before:?} {after:?}");
        } else {
            let is_close = (after.base_s - base_s).abs() <= slice.error_s + 2e-6;
            assert!(is_close, "least RTT {}, by the model {base_s}; {before:?} {slice:?}", after.base_s);
            counts.bases += 1;
            counts.shorter += u32::from(known.is_some_and(|known| base_s < known));
        }
        let is_over = self.is_over(before);
        if is_over && before.phase == CRUISE as f64 && after.phase == CRUISE as f64 {
            self.judge_round(before, &after, slice, counts);
        }
        if is_over && before.phase == CRUISE as f64 && (after.phase == CRUISE as f64 || after.phase == PROBE) {
            self.judge_sign(before, &after, slice, counts);
        }
        if is_probe(after.phase) && !is_probe(before.phase) {
            let flight = slice.own_rate * after.base_s;
            let expected = after.probe.window(after.stored, flight);
            let got = self.state("window") / 256.0;
            let is_close = (got / expected - 1.0).abs() < STORED_ERROR;
            // under a limit, `stored` is the limit, which W may be below
            let is_less = (1..4).contains(&after.policer.tries) && got < expected;
            assert!(is_close || is_less, "W of the probe {got}, by the model {expected}; {after:?} {slice:?}");
            counts.probes[usize::from(after.probe.is_test)] += 1;
        } else if is_probe(before.phase) && (after.phase == REFILL || after.phase == COMPETE as f64) {
            let least_s = before.least_rtt_with(slice);
            let is_base = slice.rtt_s <= base_s * 65.0 / 64.0;
            let probe = Probe { base_s, rtt_s: if is_base { slice.rtt_s } else { least_s }, ..before.probe };
            if !probe.is_test && judge_longer(before, &after, probe, slice.error_s, counts) {
                return;
            }
            self.judge_end_of_probe(probe, &after, slice.error_s, counts);
        }
    }

    fn judge_sign(&self, before: &Rounds, after: &Rounds, slice: Measured, counts: &mut RoundCounts) {
        let rtt_s = before.least_rtt_with(slice);
        let (queue_s, target_s) = (rtt_s - after.base_s, least_target_s(after.base_s));
        let (window, error_s) = (self.state("window") / 256.0, slice.error_s + 130e-6);
        let window = if after.phase == PROBE { after.stored } else { window };
        let ratio = window / before.longer.window;
        let is_unclear = [queue_s - target_s, Longer::sameness_s(before.longer.rtt_s, rtt_s, after.waits)]
            .iter()
            .any(|margin_s| margin_s.abs() < error_s)
            || [1.0, 0.75].iter().any(|limit| (ratio / limit - 1.0).abs() < STORED_ERROR);
        let random = after.policer.tries == 4;
        if is_unclear || !random && (after.policer.tries > 0 || after.policer.rounds > 0) {
            return;
        }
        let expected = before.longer.after_round((queue_s > target_s).then_some(rtt_s), window, after.waits);
        assert_eq!(after.longer.signs, expected.signs, "{before:?} {after:?} {slice:?}");
        if after.phase == CRUISE as f64 {
            assert_eq!(after.longer.rounds, expected.rounds, "{before:?} {after:?} {slice:?}");
            assert!((after.longer.rtt_s - expected.rtt_s).abs() <= error_s, "{before:?} {after:?} {slice:?}");
            assert!((after.longer.window / expected.window - 1.0).abs() < STORED_ERROR, "{before:?} {after:?}");
        }
        counts.possible += u32::from(queue_s > target_s);
        counts.signs += u32::from(expected.signs > before.longer.signs);
    }

    fn judge_end_of_probe(&self, probe: Probe, after: &Rounds, error_s: f64, counts: &mut RoundCounts) {
        if probe.clear_s().abs() <= error_s + 100e-6 {
            return; // a tick of 64 us decides
        }
        if probe.outcome() == Outcome::Compete {
            assert_eq!(after.phase, COMPETE as f64, "{probe:?} {after:?}");
            counts.competed += 1;
            return;
        }
        assert_eq!(after.phase, REFILL, "{probe:?} {after:?}");
        let got = self.state("window") / 256.0;
        let is_close = (got / after.stored.max(4.0) - 1.0).abs() < STORED_ERROR;
        assert!(is_close, "W after the probe {got}, before it {}", after.stored);
        counts.restored += 1;
        counts.never_full += u32::from(probe.competed && probe.clear_s() < 0.0);
    }

    fn judge_round(&self, before: &Rounds, after: &Rounds, slice: Measured, counts: &mut RoundCounts) {
        let lost = f64::from(since(self.view.lost, before.lost));
        let delivered = self.view.delivered.wrapping_sub(before.delivered);
        let lost = Losses::of_round(lost, f64::from(delivered));
        let ignored = before.policer.ignored();
        let expected = before.losses.after_round(lost, ignored);
        let is_close = (after.losses.share - expected.share).abs() <= SHARE_ERROR;
        assert!(is_close, "losses {}, by the model {expected:?}; {lost} in {before:?}", after.losses.share);
        let share = after.losses.share;
        if (share - ignored).abs() > SHARE_ERROR {
            let is_close = (after.losses.room - expected.room).abs() <= ROOM_ERROR;
            assert!(is_close, "room {}, by the model {expected:?}; {before:?}", after.losses.room);
            counts.rounds += 1;
            counts.lossy += u32::from(share > ignored);
        }
        let queue_s = before.least_rtt_with(slice) - after.base_s;
        let target_s = least_target_s(after.base_s);
        let is_clear = |limit_s: f64| (queue_s - limit_s).abs() > slice.error_s + 130e-6;
        if is_clear(target_s / 4.0) && share != ignored {
            let expected = burst_after(before.burst, after.base_s, queue_s, share > ignored);
            assert!(
                (after.burst - expected).abs() < 1e-6,
                "burst {}, by the model {expected}; {before:?}",
                after.burst
            );
            counts.bursts += 1;
        }
        let limits = [before.policer.too_many(), ignored];
        let is_unclear = |share: f64| limits.iter().any(|limit| (share - limit).abs() <= SHARE_ERROR);
        if is_clear(target_s) && !is_unclear(lost) && !is_unclear(share) {
            let arrives = slice.flight_rate * (after.base_s + self.state("wait") * 64e-6);
            let (empty_rtts, base_s) = (after.empty_rtts, after.base_s);
            let round = Round { arrives, lost, share, empty_rtts, queue: queue_s > target_s, base_s };
            let expected = before.policer.after_round(round);
            let got = after.policer;
            assert_eq!((got.tries, got.rounds), (expected.tries, expected.rounds), "{round:?} {before:?}");
            if (1..4).contains(&got.tries) {
                let is_close = (got.limit / expected.limit - 1.0).abs() < 0.03;
                assert!(is_close, "limit {}, by the model {}; {round:?} {before:?}", got.limit, expected.limit);
            }
            counts.policers += 1;
            counts.ends += u32::from(before.policer.tries > 0 && got.tries == 0);
            if got.rounds == 0 && got.tries > 0 {
                counts.limits[got.tries as usize - 1] += 1;
            }
        }
    }
}

/// Judges what a probe that is no test says of a longer path. Returns whether it is one, or may be.
fn judge_longer(before: &Rounds, after: &Rounds, probe: Probe, error_s: f64, counts: &mut RoundCounts) -> bool {
    let margin = |earlier_s| Longer::sameness_s(earlier_s, probe.rtt_s, after.waits);
    if [probe.before_s, before.longer.rtt_s].iter().any(|earlier_s| margin(*earlier_s).abs() < error_s + 200e-6) {
        return true;
    }
    let signs = before.longer.after_probe(probe.before_s, probe.rtt_s, after.waits);
    let is_longer = signs >= Longer::SIGNS;
    assert_eq!(after.longer.signs, if is_longer { 0 } else { signs }, "{before:?} {after:?} {probe:?}");
    if is_longer {
        let is_close = (after.base_s - probe.rtt_s).abs() <= error_s + 2e-6;
        assert!(is_close && after.phase == REFILL, "a longer path: {before:?} {after:?} {probe:?}");
        counts.longer += 1;
    } else {
        assert!(after.base_s <= before.base_s + error_s, "the least RTT rose: {before:?} {after:?} {probe:?}");
    }
    is_longer
}
