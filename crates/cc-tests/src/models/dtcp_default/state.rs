//! A possible state of the connection.

use super::base::Base;
use super::link::Link;
use super::weight::Weight;
use crate::models::dtcp::Tunables;
use crate::models::interval::Interval;
use crate::models::named::counters;
use hotcc_host_algo::View;

/// Window of a connection that was taken over when it had sent data already (RFC 6928).
const USUAL_INITIAL_WINDOW: u32 = 10;

counters! {
    /// Branches taken.
    Coverage {
        epochs: "epochs",
        app_limited_ignored: "application-limited epochs ignored",
        app_limited_filtered: "application-limited epochs filtered",
        slow_start_epochs: "epochs in slow start",
        recovery_epochs: "epochs in recovery",
        first_samples: "first samples",
        updates: "updates of N",
        no_bandwidth: "updates without a bandwidth",
        fresh: "fresh signals",
        stale: "stale signals",
        absent: "absent signals",
        averages_started: "averages of the SINR started",
        links_full: "bandwidths of a full link",
        links_settled: "bandwidths of a link after a mark",
        noise: "changes taken for noise",
        forecasts: "forecasts",
        judged: "forecasts judged",
        judged_idle: "forecasts judged without a queue",
        not_judged: "forecasts that a rate of the sender's own says nothing of",
        believed: "forecasts believed",
        room: "epochs with room",
        full_room: "epochs with room of alpha",
        rooms_lost: "room withheld after a loss",
        rooms_queued: "room withheld from a queue",
        rooms_losing: "room withheld while much is lost",
        falls: "epochs with a fall",
        falls_idle: "falls without a queue",
        windows_lowered: "W lowered to a forecast",
        windows_raised: "W raised to a forecast",
        held: "growth held",
        held_acks: "ACKs while growth was held",
        n_grew: "N grew",
        n_fell: "N fell",
        n_at_one: "N at one",
        n_at_limit: "N at its limit",
        losing: "epochs that lost much",
        base_idle: "least RTTs restarted after idling",
        base_changes: "least RTTs restarted by a change of the path",
        base_probes: "least RTTs looked for",
        css_entered: "slow starts that saw a longer RTT",
        css_left: "slow starts that saw a shorter one again",
        css_exits: "slow starts ended",
        css_acks: "ACKs of a slow start by a quarter",
        slow_start_acks: "slow start ACKs",
        avoidance_acks: "congestion avoidance ACKs",
        unlimited_acks: "ACKs while not limited by the window",
        jumps: "ACKs that grew W by more than one",
        decreases: "decreases",
        rooms_taken_back: "decreases that took room back",
        halved: "decreases that halved N",
        timeouts: "timeouts",
        restarts: "epochs restarted after idling",
        takeovers: "takeovers",
        retuned: "tunables changed",
    }
}

/// The algorithm's inputs other than the connection.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub tunables: Tunables,
    pub radio: Option<(u64, u32)>,
    pub path: u32,
}

/// Outcomes of comparisons that rounding decides, used one after another.
#[derive(Debug, Default)]
pub(super) struct Choices {
    pub answers: u32,
    pub asked: u32,
}

impl Choices {
    pub fn decide(&mut self, comparison: Option<bool>) -> bool {
        comparison.unwrap_or_else(|| {
            self.asked += 1;
            self.answers >> (self.asked - 1) & 1 == 1
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Epoch {
    pub start_us: u64,
    pub delivered: u32,
    pub lost: u32,
    pub app_limited: bool,
}

/// A possible state of the connection.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// W in segments, as the kernel has it before each hook.
    pub window: Interval,
    pub ssthresh: Interval,
    /// Result of `ssthresh()`.
    pub answer: Interval,
    /// B_I and B_i, bytes/s.
    pub filtered: Interval,
    pub sample: Interval,
    pub n: Interval,
    /// Growth not paid out, segments^2.
    pub growth: Interval,
    pub loss_share: Interval,
    pub link: Link,
    pub weight: Weight,
    pub base: Base,
    pub epoch: Epoch,
    pub css_rounds: u32,
    /// Whether there is a queue, or the signal predicts one.
    pub hold: bool,
    /// Whether the last epoch's N includes room that the signal predicted.
    pub room: bool,
    pub initial_window: u32,
    pub ssthresh_before: u32,
    pub path: Option<u32>,
    pub coverage: Coverage,
}

impl State {
    pub fn new(sock: &View) -> Self {
        Self {
            window: Interval::ZERO,
            ssthresh: Interval::ZERO,
            answer: Interval::ZERO,
            filtered: Interval::ZERO,
            sample: Interval::ZERO,
            n: Interval::point(1.0),
            growth: Interval::ZERO,
            loss_share: Interval::ZERO,
            link: Link::default(),
            weight: Weight::default(),
            base: Base::new(sock.now_us),
            epoch: Epoch::default(),
            css_rounds: 0,
            hold: false,
            room: false,
            initial_window: USUAL_INITIAL_WINDOW,
            ssthresh_before: sock.snd_ssthresh,
            path: None,
            coverage: Coverage::default(),
        }
    }

    pub fn begin(&mut self, world: &World, sock: &View) {
        *self = Self {
            window: self.window,
            ssthresh: self.ssthresh,
            coverage: std::mem::take(&mut self.coverage),
            ..Self::new(sock)
        };
        self.restart_epoch(sock);
        if sock.data_segs_out != 0 {
            self.coverage.takeovers += 1;
            self.base.take_over(sock);
            return;
        }
        let t = &world.tunables;
        self.initial_window = sock.snd_cwnd.min(65_535);
        self.set_window((t.initial_windows * sock.snd_cwnd).min(sock.snd_cwnd_clamp));
        if t.initial_ssthresh_bytes != 0 {
            self.ssthresh = Interval::point(f64::from((t.initial_ssthresh_bytes / sock.mss).max(2)));
        }
    }

    pub fn restart_epoch(&mut self, sock: &View) {
        self.base.end_epoch(sock.now_us);
        self.epoch = Epoch {
            start_us: sock.now_us,
            delivered: sock.delivered,
            lost: sock.lost,
            app_limited: sock.app_limited != 0,
        };
    }

    pub fn set_window(&mut self, segments: u32) {
        self.window = Interval::point(f64::from(segments));
    }

    /// Handles a timeout: W = 2 initial windows, at most ssthresh; N = 1.
    pub fn time_out(&mut self, world: &World, sock: &View) {
        self.coverage.timeouts += 1;
        let window = (2 * self.initial_window).min(sock.snd_cwnd_clamp);
        if world.tunables.rto_ssthresh == 1 {
            self.ssthresh = Interval::point(f64::from(self.ssthresh_before));
            self.set_window(window);
        } else {
            self.set_window(window.min(sock.snd_ssthresh));
        }
        (self.n, self.growth) = (Interval::point(1.0), Interval::ZERO);
        (self.css_rounds, self.hold, self.room) = (0, false, false);
        self.weight.forecast = Interval::ZERO;
        self.restart_epoch(sock);
    }
}
