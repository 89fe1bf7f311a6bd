//! The algorithm and its model on one connection: the path drives both with the same events, and they are compared
//! after each. Before each event, the model takes the algorithm's state, so that rounding does not add up.

use super::path::{Flight, MSS, Path};
use hotcc_cc_tests::models::bbr3::{AckPhase, Bbr3, Chance, Connection, NONE, RateSample, State};
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::{EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, RateSample as Sample, View, ca_state};

const BW_UNIT: f64 = 16.0;
const STATES: [State; 7] =
    [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, State::ProbeRtt];
const PHASES: [AckPhase; 5] =
    [AckPhase::Init, AckPhase::Refilling, AckPhase::Starting, AckPhase::Feedback, AckPhase::Stopping];

type LostSince = unsafe extern "C" fn(*const std::ffi::c_void, u32) -> u32;

/// Counts of what was compared.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub hooks: u32,
    /// Events in which rounding decided.
    pub near: u32,
    pub states: [u32; 7],
    pub timeouts: u32,
    pub marks: u32,
    pub restarts: u32,
    pub undone_startup: u32,
    pub undone_up: u32,
    pub left_startup_by_loss: u32,
    pub too_high: u32,
    pub precautionary: u32,
    pub longterm_raised: u32,
    pub flights: f64,
    pub lost_off: f64,
    pub flight_off: f64,
    /// Segments during whose flight at most one ACK reported losses.
    pub few: u32,
    pub few_off: u32,
    /// Waits drawn with 0 rounds, and with 1.
    pub waits_ms: [Vec<u64>; 2],
}

impl Counts {
    pub fn add(&mut self, of: &Self) {
        let counts = |counts: &mut Self, of: &Self| {
            counts.hooks += of.hooks;
            counts.near += of.near;
            counts.timeouts += of.timeouts;
            counts.marks += of.marks;
            counts.restarts += of.restarts;
            counts.undone_startup += of.undone_startup;
            counts.undone_up += of.undone_up;
            counts.left_startup_by_loss += of.left_startup_by_loss;
            counts.too_high += of.too_high;
            counts.precautionary += of.precautionary;
            counts.longterm_raised += of.longterm_raised;
            counts.flights += of.flights;
            counts.lost_off += of.lost_off;
            counts.flight_off += of.flight_off;
            counts.few += of.few;
            counts.few_off += of.few_off;
        };
        counts(self, of);
        self.waits_ms.iter_mut().zip(&of.waits_ms).for_each(|(all, more)| all.extend(more));
        self.states.iter_mut().zip(of.states).for_each(|(sum, one)| *sum += one);
    }

    /// Returns the counts that must not be 0.
    pub fn seen(&self) -> [(&'static str, u32); 9] {
        [
            ("timeouts", self.timeouts),
            ("marks", self.marks),
            ("restarts", self.restarts),
            ("undone ends of Startup", self.undone_startup),
            ("undone ends of UP", self.undone_up),
            ("ends of Startup by loss", self.left_startup_by_loss),
            ("flights too high", self.too_high),
            ("precautionary ends of UP", self.precautionary),
            ("rises of inflight_longterm", self.longterm_raised),
        ]
    }
}

/// A connection under both algorithm and model.
pub struct Sides<'a> {
    flow: Flow<'a>,
    view: View,
    model: Bbr3,
    path: Path,
    flight: Flight,
    next_send_us: u64,
    idle_until_us: u64,
    recovery_end: u32,
    pub counts: Counts,
}

impl<'a> Sides<'a> {
    pub fn new(algo: &'a HostAlgo, random: &mut Random) -> Self {
        let path = Path::draw(random);
        let view = View {
            now_us: 1_000_000 + random.between(0, 10_000_000),
            snd_cwnd: 10,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            srtt_us: if random.once_in(4) { 0 } else { 8 * path.base_us as u32 },
            mss: MSS,
            delivered: random.bits() as u32 & 0xfff,
            sack_ok: u32::from(!random.once_in(8)),
            is_cwnd_limited: 1,
            ..View::default()
        };
        let mut flow = Flow::new(algo);
        flow.set(&view);
        flow.init();
        let view = flow.get(&view);
        let mut connection = connection(&view);
        let model = Bbr3::new(&mut connection);
        assert!((view.pacing_rate as f64 - connection.pacing_rate).abs() <= connection.pacing_rate * 1e-3);
        let next_send_us = view.now_us;
        let counts = Counts::default();
        let flight = Flight::default();
        Self { flow, view, model, path, flight, next_send_us, idle_until_us: 0, recovery_end: 0, counts }
    }

    /// Runs the next event.
    pub fn step(&mut self, random: &mut Random) -> Result<(), String> {
        let may_send = self.flight.packets.len() < self.view.snd_cwnd as usize;
        let send_us = may_send.then(|| self.next_send_us.max(self.idle_until_us).max(self.view.now_us));
        match (send_us, self.flight.next_ack_us()) {
            (Some(send_us), Some(ack_us)) if send_us < ack_us => self.send(random, send_us),
            (_, Some(ack_us)) => self.receive(random, ack_us),
            (Some(send_us), None) if self.flight.packets.is_empty() => self.send(random, send_us),
            _ => self.time_out(),
        }
    }

    fn send(&mut self, random: &mut Random, now_us: u64) -> Result<(), String> {
        self.view.now_us = self.view.now_us.max(now_us);
        if self.flight.packets.is_empty() {
            self.counts.restarts += u32::from(self.view.app_limited != 0);
            self.hook(|flow| flow.cwnd_event(EVENT_TX_START), |model, c| model.restart(c))?;
        }
        let acked_us = self.path.forward(random, self.view.now_us);
        let counts = (self.view.delivered, self.view.lost, self.view.app_limited != 0);
        self.flight.send(self.view.now_us, acked_us, counts);
        self.view.packets_out = self.flight.packets.len() as u32;
        let gap_us = u64::from(MSS) * 1_000_000 / self.view.pacing_rate.max(1);
        self.next_send_us = self.next_send_us.max(self.view.now_us) + gap_us;
        if random.once_in(3000) {
            self.idle_until_us = self.view.now_us + random.between(1000, 3_000_000);
            self.view.app_limited = (self.view.delivered + self.view.packets_out).max(1);
        }
        Ok(())
    }

    fn receive(&mut self, random: &mut Random, now_us: u64) -> Result<(), String> {
        self.view.now_us = self.view.now_us.max(now_us);
        let acked = self.flight.acknowledge(self.view.now_us);
        let newest = acked.newest;
        let was_limited = self.view.packets_out >= self.view.snd_cwnd;
        let rtt_us = self.view.now_us - newest.sent_us;
        self.view.delivered += acked.count;
        self.view.lost += acked.lost;
        self.view.packets_out = self.flight.packets.len() as u32;
        self.view.is_cwnd_limited = was_limited.into();
        self.view.srtt_us = 8 * rtt_us as u32;
        if self.view.app_limited != 0 && self.view.delivered > self.view.app_limited {
            self.view.app_limited = 0;
        }
        self.change_state(random, acked.lost, newest.delivered)?;
        let delivered = self.view.delivered - newest.delivered;
        let is_valid = acked.interval_us >= self.path.base_us / 2;
        let sample = Sample {
            prior_delivered: newest.delivered,
            delivered: delivered as i32,
            interval_us: if is_valid { acked.interval_us as i64 } else { -1 },
            rtt_us: if random.once_in(20) { -1 } else { rtt_us as i64 },
            acked_sacked: acked.count,
            is_app_limited: newest.is_app_limited,
            ..Sample::default()
        };
        self.acknowledge(&sample, acked.lost)?;
        let lost = self.lost_since(newest.delivered);
        self.judge_flight(lost, self.view.lost - newest.lost, delivered, newest.tx_in_flight);
        Ok(())
    }

    /// Returns the algorithm's approximation of RS.lost, after the ACK.
    fn lost_since(&self, prior_delivered: u32) -> u32 {
        // SAFETY: the function of the library has this type, and reads the socket's counts and the library's records.
        let lost_since = unsafe { self.flow.algo().library().get::<LostSince>(b"bbr3_lost_since") }.unwrap();
        // SAFETY: as above; the socket is live.
        unsafe { lost_since(self.flow.socket(), prior_delivered) }
    }

    fn judge_flight(&mut self, lost: u32, truly_lost: u32, delivered: u32, tx_in_flight: u32) {
        let counts = &mut self.counts;
        counts.flights += f64::from(tx_in_flight);
        counts.lost_off += f64::from(lost.abs_diff(truly_lost));
        counts.flight_off += f64::from((delivered + lost).abs_diff(tx_in_flight));
        if truly_lost <= 1 {
            counts.few += 1;
            counts.few_off += u32::from(lost != truly_lost);
        }
    }

    fn acknowledge(&mut self, sample: &Sample, newly_lost: u32) -> Result<(), String> {
        let (startup, raised) = (self.state() == State::Startup, self.flow.private("inflight_longterm"));
        let rate = if sample.interval_us > 0 {
            sample.delivered as f64 * f64::from(MSS) * 1e6 / sample.interval_us as f64
        } else {
            0.0
        };
        let prior_delivered = sample.prior_delivered;
        let of_ack = sample.delivered as f64;
        let rs = RateSample {
            delivered: of_ack,
            prior_delivered: f64::from(prior_delivered),
            delivery_rate: rate,
            newly_acked: f64::from(sample.acked_sacked),
            newly_lost: f64::from(newly_lost),
            lost: f64::NAN, // known once the algorithm has recorded this ACK's losses
            tx_in_flight: f64::NAN,
            rtt_s: (sample.rtt_us >= 0).then_some(sample.rtt_us as f64 / 1e6),
            is_app_limited: sample.is_app_limited,
        };
        let too_high = self.flow.private("prev_probe_too_high");
        self.hook_with(
            |flow| flow.cong_control(sample),
            |sides, model, c| {
                let lost = f64::from(sides.lost_since(prior_delivered));
                model.ack(c, &RateSample { lost, tx_in_flight: of_ack + lost, ..rs });
            },
        )?;
        let now = |name: &str| self.flow.private(name);
        let counts = &mut self.counts;
        let longterm = now("inflight_longterm");
        counts.left_startup_by_loss += u32::from(startup && longterm != u64::from(u32::MAX));
        counts.longterm_raised += u32::from(longterm > raised);
        counts.too_high += u32::from(now("prev_probe_too_high") > too_high);
        counts.precautionary += u32::from(now("prev_probe_precautionary") == 1);
        Ok(())
    }

    /// Begins and ends recovery as the kernel does; now and then, recovery is spurious, or there is an ECN mark.
    fn change_state(&mut self, random: &mut Random, lost: u32, prior_delivered: u32) -> Result<(), String> {
        let recovers = self.view.ca_state >= u32::from(ca_state::RECOVERY);
        if lost > 0 && !recovers {
            self.recovery_end = self.view.delivered;
            self.reduce()?;
            return self.enter(ca_state::RECOVERY);
        }
        let is_over = recovers && prior_delivered >= self.recovery_end && lost == 0;
        if recovers && lost == 0 && (is_over || random.once_in(10)) && random.once_in(4) {
            let (undo, before) = (self.flow.private("undo_state"), self.state());
            let view = self.view;
            let undo_cwnd = |flow: &mut Flow<'a>| {
                let snd_cwnd = flow.undo_cwnd();
                flow.set(&View { snd_cwnd, ..flow.get(&view) }); // as the kernel does
            };
            self.hook(undo_cwnd, |model, c| model.undo(c))?;
            self.counts.undone_startup += u32::from(undo == 0 && before != State::Startup);
            self.counts.undone_up += u32::from(undo == 5 && self.state() == State::Refill);
            return self.enter(ca_state::OPEN);
        }
        if is_over {
            return self.enter(ca_state::OPEN);
        }
        if self.view.ca_state == u32::from(ca_state::OPEN) && random.once_in(500) {
            self.counts.marks += 1;
            self.reduce()?;
            self.enter(ca_state::CWR)?;
            return self.enter(ca_state::OPEN);
        }
        Ok(())
    }

    fn reduce(&mut self) -> Result<(), String> {
        self.hook(
            |flow| {
                let _ = flow.ssthresh(); // BBR has none
            },
            |model, c| model.enter_recovery(c),
        )
    }

    fn enter(&mut self, state: u8) -> Result<(), String> {
        let was = self.view.ca_state;
        let lost = f64::from(self.view.lost - self.flow.private("lost_seen") as u32);
        self.hook(
            |flow| flow.set_state(state),
            |model, c| match state {
                ca_state::LOSS => model.time_out(c, lost),
                ca_state::CWR => model.mark(c),
                ca_state::OPEN if was >= u32::from(ca_state::RECOVERY) => model.leave_recovery(c),
                _ => {}
            },
        )?;
        self.view.ca_state = state.into();
        Ok(())
    }

    /// Handles a timeout: no segment in flight will be acknowledged.
    fn time_out(&mut self) -> Result<(), String> {
        self.counts.timeouts += 1;
        self.view.now_us += 300_000;
        self.view.lost += self.flight.packets.len() as u32;
        self.flight.packets.clear();
        self.view.packets_out = 0;
        self.recovery_end = self.view.delivered;
        if self.view.ca_state < u32::from(ca_state::RECOVERY) {
            self.reduce()?;
        }
        self.view.snd_cwnd = 1;
        self.enter(ca_state::LOSS)
    }

    fn state(&self) -> State {
        STATES[self.flow.private("state") as usize]
    }

    fn hook(
        &mut self,
        subject: impl FnOnce(&mut Flow<'a>),
        model: impl FnOnce(&mut Bbr3, &mut Connection),
    ) -> Result<(), String> {
        self.hook_with(subject, |_, m, c| model(m, c))
    }

    /// Calls both with the same connection, and compares the results.
    fn hook_with(
        &mut self,
        subject: impl FnOnce(&mut Flow<'a>),
        on_model: impl FnOnce(&Self, &mut Bbr3, &mut Connection),
    ) -> Result<(), String> {
        self.counts.hooks += 1;
        let mut model = self.model.clone();
        take_state(&mut model, &self.flow);
        model.margin = NONE;
        let (mut c, before) = (connection(&self.view), self.state());
        self.flow.set(&self.view);
        subject(&mut self.flow);
        let after = self.flow.get(&self.view);
        model.chance = Chance {
            rounds: self.flow.private("rounds_since_probe_up") as f64,
            wait_ms: self.flow.private("bw_probe_wait_ms") as f64,
        };
        if before != State::Down && self.state() == State::Down {
            let (rounds, wait_ms) = (model.chance.rounds as usize, self.flow.private("bw_probe_wait_ms"));
            self.counts.waits_ms.get_mut(rounds).ok_or("first round")?.push(wait_ms);
        }
        on_model(self, &mut model, &mut c);
        self.counts.states[self.state() as usize] += 1;
        let agreed = self.compare(&model, &c, &after);
        let near = model.margin < 2e-3;
        self.model = model;
        self.view = after;
        match agreed {
            Err(_) if near => {
                self.counts.near += 1;
                Ok(())
            }
            Err(why) => Err(format!("{why}; margin {}; model {:?}; after {after:?}", self.model.margin, self.model)),
            Ok(()) => Ok(()),
        }
    }

    fn compare(&self, model: &Bbr3, c: &Connection, after: &View) -> Result<(), String> {
        let mut now = model.clone();
        take_state(&mut now, &self.flow);
        let exact = |of: &Bbr3| {
            let flags = [
                of.full_bw_reached,
                of.full_bw_now,
                of.is_loss_in_round,
                of.is_bw_probe_sample,
                of.prev_probe_too_high,
                of.prev_probe_precautionary,
                of.idle_restart,
                of.probe_rtt_expired,
                of.probe_rtt_round_done,
            ];
            let rounds = (of.round_count, of.drain_start_round, of.rounds_since_probe_up.min(255.0) as u32);
            let ends =
                (of.next_round_delivered as u32, of.loss_round_delivered as u32, of.loss_events.min(255.0) as u32);
            let stamps = [of.min_rtt_stamp_ms, of.probe_rtt_min_stamp_ms, of.cycle_stamp_ms, of.bw_probe_wait_ms];
            (of.state, of.ack_phase, of.undo_state, of.full_bw_count, flags, rounds, ends, stamps, of.probe_rtt_done_ms)
        };
        let (want, got) = (exact(model), exact(&now));
        if want != got {
            return Err(format!("{got:?}, by the model {want:?}"));
        }
        let rates = |of: &Bbr3| {
            [of.bw, of.max_bw[0], of.max_bw[1], of.bw_latest, of.bw_shortterm, of.full_bw]
                .map(|rate| (rate, 2.0 * BW_UNIT, 1e-5))
        };
        let volumes = |of: &Bbr3| {
            [of.inflight_latest, of.inflight_shortterm, of.inflight_longterm, of.prior_cwnd].map(|v| (v, 2.01, 0.0))
        };
        let rtts = |of: &Bbr3| [of.min_rtt_s, of.probe_rtt_min_s].map(|rtt| (rtt, 1.1e-6, 0.0));
        let all = |of: &Bbr3| [rates(of).to_vec(), volumes(of).to_vec(), rtts(of).to_vec()].concat();
        for (place, (want, got)) in all(model).into_iter().zip(all(&now)).enumerate() {
            if want.0 != got.0 && (want.0 - got.0).abs() > want.1 + want.2 * want.0 {
                return Err(format!("value {place} is {}, by the model {}", got.0, want.0));
            }
        }
        let (cwnd, pacing_rate) = (f64::from(after.snd_cwnd), after.pacing_rate as f64);
        if (cwnd - c.cwnd).abs() > 3.01 {
            return Err(format!("cwnd {cwnd}, by the model {}", c.cwnd));
        }
        if (pacing_rate - c.pacing_rate).abs() > 1e-3 * c.pacing_rate + 40.0 {
            return Err(format!("pacing rate {pacing_rate}, by the model {}", c.pacing_rate));
        }
        if (after.app_limited != 0) != c.is_app_limited {
            return Err(format!("application limit {}, by the model {}", after.app_limited, c.is_app_limited));
        }
        Ok(())
    }
}

fn connection(view: &View) -> Connection {
    Connection {
        now_s: view.now_us as f64 / 1e6,
        now_ms: (view.now_us / 1000) as f64,
        mss: f64::from(view.mss),
        srtt_s: f64::from(view.srtt_us >> 3) / 1e6,
        delivered: f64::from(view.delivered),
        inflight: f64::from(view.packets_out),
        cwnd: f64::from(view.snd_cwnd),
        pacing_rate: view.pacing_rate as f64,
        is_cwnd_limited: view.is_cwnd_limited != 0,
        is_app_limited: view.app_limited != 0,
        has_selective_acks: view.sack_ok != 0,
        recovers: view.ca_state == u32::from(ca_state::RECOVERY),
        in_loss_recovery: view.ca_state >= u32::from(ca_state::RECOVERY),
    }
}

/// Copies the algorithm's state into the model, as far as it is in `icsk_ca_priv`.
fn take_state(model: &mut Bbr3, flow: &Flow<'_>) {
    let number = |name: &str| flow.private(name) as f64;
    let finite = |name: &str, unit: f64| match flow.private(name) as u32 {
        u32::MAX => NONE,
        value => f64::from(value) * unit,
    };
    let flag = |name: &str| flow.private(name) != 0;
    model.state = STATES[flow.private("state") as usize];
    model.ack_phase = PHASES[flow.private("ack_phase") as usize];
    model.undo_state = STATES.get(flow.private("undo_state") as usize).copied();
    model.bw = finite("bw", BW_UNIT);
    model.max_bw = [finite("max_bw_now", BW_UNIT), finite("max_bw_before", BW_UNIT)];
    model.bw_latest = finite("bw_latest", BW_UNIT);
    model.bw_shortterm = finite("bw_shortterm", BW_UNIT);
    model.full_bw = finite("full_bw", BW_UNIT);
    model.inflight_latest = number("inflight_latest");
    model.inflight_shortterm = finite("inflight_shortterm", 1.0);
    model.inflight_longterm = finite("inflight_longterm", 1.0);
    model.min_rtt_s = finite("min_rtt_us", 1e-6);
    model.probe_rtt_min_s = finite("probe_rtt_min_us", 1e-6);
    model.min_rtt_stamp_ms = number("min_rtt_stamp_ms");
    model.probe_rtt_min_stamp_ms = number("probe_rtt_min_stamp_ms");
    model.probe_rtt_done_ms = flag("probe_rtt_done_ms").then(|| number("probe_rtt_done_ms"));
    model.next_round_delivered = number("next_round_delivered");
    model.loss_round_delivered = number("loss_round_delivered");
    model.round_count = flow.private("round_count");
    model.drain_start_round = flow.private("drain_start_round");
    model.cycle_stamp_ms = number("cycle_stamp_ms");
    model.bw_probe_wait_ms = number("bw_probe_wait_ms");
    model.prior_cwnd = number("prior_cwnd");
    model.full_bw_count = flow.private("full_bw_count") as u32;
    model.full_bw_reached = flag("full_bw_reached");
    model.full_bw_now = flag("full_bw_now");
    model.rounds_since_probe_up = number("rounds_since_probe_up");
    model.loss_events = number("loss_events");
    model.is_loss_in_round = flag("is_loss_in_round");
    model.is_bw_probe_sample = flag("is_bw_probe_sample");
    model.prev_probe_too_high = flag("prev_probe_too_high");
    model.prev_probe_precautionary = flag("prev_probe_precautionary");
    model.idle_restart = flag("idle_restart");
    model.probe_rtt_expired = flag("probe_rtt_expired");
    model.probe_rtt_round_done = flag("probe_rtt_round_done");
}
