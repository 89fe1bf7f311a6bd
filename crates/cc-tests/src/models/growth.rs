//! Growth in fractions of a segment (Hamamreh 2020, eqs 2 and 7): growth that is due but below a whole segment is kept
//! as credit.

use super::named::counters;
use super::rate_ca::{Q16, Rates};
use super::show;
use hotcc_host_algo::View;

/// Greatest error of the model's own account, segments; greater ones are counted and added up.
const TOLERANCE: f64 = 0.05;

counters! {
    /// ACKs that grow W.
    GrowthCounts {
        slow_start: "slow start ACKs",
        at_ssthresh: "ACKs that reached ssthresh",
        slow_start_clamped: "slow start ACKs that reached the clamp",
        avoidance: "congestion avoidance ACKs",
        clamped: "congestion avoidance ACKs that reached the clamp",
        jumps: "ACKs that grew W by more than one",
        unlimited: "ACKs while not limited by the window",
        cleared: "fractions cleared",
    }
}

counters! {
    /// How often rounding made a difference.
    GrowthRounding {
        ties: "W rounded the other way",
        clamped_ties: "growth at the clamp rounded the other way",
        fractions: "growth beyond 0.05 segments",
        windows: "W beyond a segment",
    }
}

/// Growth added by acknowledged segments: by the equation (`exact`), and its bounds by the algorithm's own rate.
#[derive(Clone, Copy, Debug)]
struct Added {
    exact: f64,
    low: f64,
    high: f64,
}

impl Added {
    /// Returns `permille` of `exact` per segment; the bounds are from the algorithm's rate `own`, a multiple of 2^-16.
    fn new(permille: u32, exact: f64, own: f64, acked: u32) -> Self {
        let (permille, acked) = (f64::from(permille) / 1000.0, f64::from(acked));
        // a whole multiple is exact; any other factor may be rounded for each segment
        let rounding = if permille.fract() == 0.0 { 0.0 } else { (acked + 1.0) * Q16 };
        let own = permille * own * acked;
        Self { exact: permille * exact * acked, low: own - rounding, high: own + rounding }
    }
}

/// Credit: growth that is due and not yet in W. `exact` follows from the equation; `low` and `high` bound the
/// algorithm's own credit, which follows from its rates and its W so far.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    exact: f64,
    low: f64,
    high: f64,
}

impl Credit {
    fn add(&mut self, added: Added) {
        self.exact += added.exact;
        self.low += added.low;
        self.high += added.high;
    }

    /// Deducts the growth of the algorithm's W, `whole` segments at `divisor` each.
    fn pay(&mut self, whole: f64, divisor: f64) -> Result<(), String> {
        if self.high < whole * divisor || self.low >= (whole + 1.0) * divisor {
            return Err(format!("W grew by {whole}, {self:?} at {divisor} each"));
        }
        self.low = (self.low - whole * divisor).max(0.0);
        self.high = (self.high - whole * divisor).min(divisor);
        self.exact -= whole * divisor;
        Ok(())
    }
}

/// The part of the equation that the hook just called applied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    SlowStart,
    Avoidance,
}

/// The credits of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Growth {
    /// In segments.
    slow_start: Credit,
    /// In segments x W.
    avoidance: Credit,
    /// The part that the hook just called applied, and W before it.
    step: Option<(Part, u32)>,
    /// Segments by which W would be off now if the model's account had not been set to the algorithm's on the way.
    off: f64,
    pub counts: GrowthCounts,
    pub rounding: GrowthRounding,
}

impl Growth {
    /// Drops all growth added.
    pub fn clear(&mut self) {
        self.counts.cleared += u64::from(self.slow_start.exact != 0.0 || self.avoidance.exact != 0.0);
        (self.slow_start, self.avoidance) = (Credit::default(), Credit::default());
        self.off = 0.0;
    }

    /// Applies `cong_avoid`, with the factors of the two parts of eq 2 or 7, permille.
    pub fn ack(&mut self, sock: &mut View, acked: u32, rates: &Rates, factors_permille: [u32; 2]) {
        if !sock.cwnd_limited() {
            self.counts.unlimited += 1;
            return;
        }
        let [slow_start_permille, avoidance_permille] = factors_permille;
        let window = f64::from(sock.snd_cwnd);
        if sock.in_slow_start() {
            self.counts.slow_start += 1;
            self.step = Some((Part::SlowStart, sock.snd_cwnd));
            self.slow_start.add(Added::new(slow_start_permille, rates.rate, rates.algo_rate, acked));
            let limit = sock.snd_ssthresh.min(sock.snd_cwnd_clamp);
            sock.snd_cwnd = (window + self.slow_start.exact.floor()).min(f64::from(limit)) as u32;
            let reached = sock.snd_cwnd == limit;
            self.counts.at_ssthresh += u64::from(reached && limit == sock.snd_ssthresh);
            self.counts.slow_start_clamped += u64::from(reached && limit != sock.snd_ssthresh);
        } else {
            self.counts.avoidance += 1;
            self.step = Some((Part::Avoidance, sock.snd_cwnd));
            self.avoidance.add(Added::new(avoidance_permille, 1.0 / rates.rate, rates.algo_inverse, acked));
            let whole = (self.avoidance.exact / window).floor();
            sock.snd_cwnd = (window + whole).min(f64::from(sock.snd_cwnd_clamp)) as u32;
            self.counts.jumps += u64::from(whole > 1.0);
            self.counts.clamped += u64::from(whole > 0.0 && sock.snd_cwnd == sock.snd_cwnd_clamp);
        }
    }

    /// Continues without an algorithm to compare with: its growth is taken to be the model's.
    pub fn go_on(&mut self, sock: &View) {
        for account in [&mut self.slow_start, &mut self.avoidance] {
            (account.low, account.high) = (account.exact, account.exact);
        }
        if let Err(difference) = self.reconcile(sock, sock) {
            panic!("the model against itself: {difference}");
        }
    }

    /// Compares W after the hook just called, and bounds the algorithm's added growth by its W.
    pub fn reconcile(&mut self, want: &View, got: &View) -> Result<(), String> {
        let different = || format!("{}; the model has {}", show(got), show(want));
        if got.snd_cwnd_cnt != want.snd_cwnd_cnt {
            return Err(different()); // the algorithm has its own accounts and does not use the kernel's count
        }
        let Some((part, before)) = self.step.take() else {
            return if got.snd_cwnd == want.snd_cwnd { Ok(()) } else { Err(different()) };
        };
        let grown = got.snd_cwnd.checked_sub(before).ok_or_else(different)?;
        self.rounding.ties += u64::from(got.snd_cwnd != want.snd_cwnd);
        let reconciled = match part {
            Part::SlowStart => self.reconcile_slow_start(grown, got.snd_ssthresh.min(got.snd_cwnd_clamp) - before),
            Part::Avoidance => self.reconcile_avoidance(grown, got.snd_cwnd_clamp - before, before),
        };
        reconciled.map_err(|e| format!("{}: {e}", different()))
    }

    fn reconcile_slow_start(&mut self, grown: u32, room: u32) -> Result<(), String> {
        let (whole, room) = (f64::from(grown), f64::from(room));
        if whole < room {
            self.slow_start.pay(whole, 1.0)?;
        } else {
            let account = &mut self.slow_start;
            if whole > room || account.high < room {
                return Err(format!("W grew by {whole} of {room}, {account:?}"));
            }
            // growth past the limit is dropped with the fraction; without such growth, the fraction may be dropped, too
            let left = |added: f64| if added >= room + 1.0 { 0.0 } else { (added - room).max(0.0) };
            let high = if account.low >= room + 1.0 { 0.0 } else { (account.high - room).min(1.0) };
            *account = Credit { exact: left(account.exact).min(high), low: 0.0, high };
        }
        Self::follow(&mut self.slow_start, 1.0, &mut self.off, &mut self.rounding);
        Ok(())
    }

    fn reconcile_avoidance(&mut self, grown: u32, room: u32, window: u32) -> Result<(), String> {
        let (whole, divisor) = (f64::from(grown), f64::from(window));
        let account = &mut self.avoidance;
        if grown < room {
            account.pay(whole, divisor)?;
        } else {
            // the clamp cuts off further growth, which is lost: only the account shows how much it was
            if account.high < whole * divisor {
                return Err(format!("W grew by {whole}, {account:?} at {divisor} each"));
            }
            let [exact, low, high] =
                [account.exact, account.low, account.high].map(|a| (a / divisor).floor().max(whole));
            if low == high {
                account.pay(low, divisor)?;
            } else {
                self.rounding.clamped_ties += 1;
                *account = Credit { exact: account.exact - exact * divisor, low: 0.0, high: divisor };
            }
        }
        Self::follow(&mut self.avoidance, divisor, &mut self.off, &mut self.rounding);
        Ok(())
    }

    /// Keeps the model's own account near the algorithm's, and counts how often that was necessary.
    fn follow(account: &mut Credit, divisor: f64, off: &mut f64, rounding: &mut GrowthRounding) {
        let own = account.exact.clamp(account.low, account.high);
        let distance = (account.exact - own) / divisor;
        if distance.abs() > TOLERANCE {
            rounding.fractions += 1;
            account.exact = own;
            *off += distance;
            if off.abs() > 1.0 {
                rounding.windows += 1;
                *off = 0.0;
            }
        }
    }
}
