//! hotcc's own algorithms in the simulator: their C files, compiled for the host.

use crate::congestion::{CaEvent, CaState, CongestionControl, RateSample, SACK_BLOCKS, Sock};
use crate::cubic::Cubic;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::radio::{Capacity, PackedSinr, sinr_to_q8};
use hotcc_host_algo::{CubicCall, CubicWindow, EVENT_TX_START, Flow, Group, HostAlgo, RadioLine, View, ca_state};
use hotcc_lab_proto::plan::PlannedReading;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// The algorithms' clock at the start of the simulation. In a kernel, the clock is never 0 when a connection begins,
/// and algorithms use a time of 0 for "never".
const CLOCK_START_NS: u64 = 100_000_000_000;

/// The kernel's CUBIC for an algorithm that calls it.
#[derive(Default)]
struct Delegate {
    cubic: Cubic,
    /// The connection at the hook in which the algorithm calls.
    sock: Sock,
}

impl Delegate {
    fn call(&mut self, window: &mut CubicWindow, call: CubicCall) -> u32 {
        let Self { cubic, sock } = self;
        CubicWindow { snd_cwnd: sock.snd_cwnd, snd_cwnd_cnt: sock.snd_cwnd_cnt, snd_ssthresh: sock.snd_ssthresh } =
            *window;
        let mut ssthresh = 0;
        match call.function {
            hotcc_host_algo::Cubic::Init => cubic.init(sock),
            hotcc_host_algo::Cubic::RecalcSsthresh => ssthresh = cubic.ssthresh(sock),
            hotcc_host_algo::Cubic::CongAvoid => cubic.cong_avoid(sock, call.argument),
            hotcc_host_algo::Cubic::State if call.argument == u32::from(ca_state::LOSS) => {
                cubic.set_state(sock, CaState::Loss);
            }
            hotcc_host_algo::Cubic::Event if call.argument == EVENT_TX_START => {
                cubic.cwnd_event(sock, CaEvent::TxStart);
            }
            hotcc_host_algo::Cubic::State | hotcc_host_algo::Cubic::Event => {} // of no interest to CUBIC
            hotcc_host_algo::Cubic::Acked => cubic.pkts_acked(sock, call.argument, call.rtt_us),
        }
        *window =
            CubicWindow { snd_cwnd: sock.snd_cwnd, snd_cwnd_cnt: sock.snd_cwnd_cnt, snd_ssthresh: sock.snd_ssthresh };
        ssthresh
    }
}

/// One connection under one of hotcc's algorithms, with its own tunables and radio map.
pub struct HostControl {
    flow: Flow<'static>,
    delegate: Rc<RefCell<Delegate>>,
    path_generation: u32,
    /// The radio map's line after the latest readings.
    radio: RadioLine,
    /// The SACK blocks that the algorithm sees.
    sack: [(u32, u32); SACK_BLOCKS],
}

impl HostControl {
    /// Creates the built-in algorithm `name`, with these values of its tunables, for a flow of `group`.
    ///
    /// # Errors
    /// If there is no such algorithm or tunable.
    pub fn new(name: &str, tunables: &[(String, u32)], group: &Group) -> io::Result<Self> {
        let mut algo = HostAlgo::open(name)?;
        algo.join(group);
        let delegate = Rc::new(RefCell::new(Delegate::default()));
        let called = Rc::clone(&delegate);
        algo.delegate_cubic(Box::new(move |window, call| called.borrow_mut().call(window, call)));
        let flow = Flow::with_own(algo);
        let mut control =
            Self { flow, delegate, path_generation: 0, radio: RadioLine::default(), sack: Default::default() };
        for (tunable, value) in tunables {
            if !control.set_tunable(tunable, *value) {
                return Err(io::Error::other(format!("{name} has no tunable `{tunable}`")));
            }
        }
        Ok(control)
    }

    fn show(&mut self, sock: &Sock) -> View {
        let view = View {
            now_us: (CLOCK_START_NS + sock.now_ns) / 1000,
            bytes_acked: sock.bytes_acked,
            pacing_rate: sock.pacing_rate,
            snd_cwnd: sock.snd_cwnd,
            snd_cwnd_cnt: sock.snd_cwnd_cnt,
            snd_cwnd_clamp: sock.snd_cwnd_clamp,
            snd_ssthresh: sock.snd_ssthresh,
            prior_cwnd: sock.prior_cwnd,
            srtt_us: sock.srtt_us,
            min_rtt_us: sock.min_rtt_us,
            mss: sock.mss,
            delivered: sock.delivered,
            app_limited: sock.app_limited,
            data_segs_out: sock.data_segs_out,
            total_retrans: sock.total_retrans,
            max_packets_out: sock.max_packets_out,
            ca_state: sock.ca_state as u32,
            is_cwnd_limited: sock.is_cwnd_limited.into(),
            snd_una: sock.snd_una,
            snd_nxt: sock.snd_nxt,
            lost: sock.lost,
            packets_out: sock.packets_out,
            sacked_out: sock.sacked_out,
            lost_out: sock.lost_out,
            retrans_out: sock.retrans_out,
            sack_ok: 1,
            rcv_tsval: sock.rcv_tsval,
            rate_delivered: sock.rate_delivered,
            rate_interval_us: sock.rate_interval_us,
            ..View::default()
        };
        self.delegate.borrow_mut().sock.clone_from(sock);
        self.flow.set(&view);
        if self.sack != sock.sack {
            self.sack = sock.sack;
            self.flow.set_sack(&self.sack);
        }
        view
    }

    /// Copies the algorithm's changes to `sock`.
    fn take(&self, before: &View, sock: &mut Sock) {
        let after = self.flow.get(before);
        sock.snd_cwnd = after.snd_cwnd;
        sock.snd_cwnd_cnt = after.snd_cwnd_cnt;
        sock.snd_ssthresh = after.snd_ssthresh;
        sock.pacing_rate = after.pacing_rate;
        sock.app_limited = after.app_limited;
    }

    fn call(&mut self, sock: &mut Sock, hook: impl FnOnce(&mut Flow<'static>)) {
        let before = self.show(sock);
        hook(&mut self.flow);
        self.take(&before, sock);
    }
}

impl CongestionControl for HostControl {
    fn init(&mut self, sock: &mut Sock) {
        sock.needs_pacing |= self.has_cong_control(); // crest and bbr3, which have this hook, turn pacing on
        self.call(sock, Flow::init);
    }

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        let before = self.show(sock);
        let ssthresh = self.flow.ssthresh();
        self.take(&before, sock);
        ssthresh
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        self.call(sock, |flow| flow.cong_avoid(acked));
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample) -> bool {
        if !self.has_cong_control() {
            return false;
        }
        let sample = hotcc_host_algo::RateSample {
            prior_mstamp: (CLOCK_START_NS + sample.prior_ns) / 1000,
            prior_delivered: sample.prior_delivered,
            delivered: sample.delivered,
            interval_us: sample.interval_us,
            rtt_us: sample.rtt_us,
            losses: sample.losses as i32,
            acked_sacked: sample.acked_sacked,
            is_app_limited: sample.is_app_limited,
            is_retrans: sample.is_retrans,
        };
        self.call(sock, |flow| flow.cong_control(&sample));
        true
    }

    fn has_cong_control(&self) -> bool {
        self.flow.algo().has_cong_control()
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        let before = self.show(sock);
        let window = self.flow.undo_cwnd();
        self.take(&before, sock);
        window
    }

    fn set_state(&mut self, sock: &mut Sock, state: CaState) {
        self.call(sock, |flow| flow.set_state(state as u8));
    }

    fn cwnd_event(&mut self, sock: &mut Sock, event: CaEvent) {
        self.call(sock, |flow| flow.cwnd_event(event as u32));
    }

    fn pkts_acked(&mut self, sock: &mut Sock, acked: u32, rtt_us: Option<u32>) {
        self.call(sock, |flow| flow.pkts_acked(acked, rtt_us));
    }

    fn detail(&self, name: &str) -> u32 {
        if self.flow.algo().has_field(name) { self.flow.private(name) as u32 } else { 0 }
    }

    fn field_at(&self, offset: u32) -> Option<String> {
        self.flow.algo().field_at(offset as usize).map(ToOwned::to_owned)
    }

    fn set_tunable(&mut self, name: &str, value: u32) -> bool {
        let known = self.flow.algo().has_tunable(name);
        if known {
            self.flow.algo().set_tunable(name, value);
        }
        known
    }

    fn tunable(&self, name: &str) -> Option<u32> {
        self.flow.algo().has_tunable(name).then(|| self.flow.algo().tunable(name))
    }

    fn set_radio(&mut self, reading: Option<&PlannedReading>, max_age_ms: u32) {
        let mut line = RadioLine { max_age_ms, ..self.radio };
        if let Some(reading) = reading {
            let time_ms = hotcc_abi::clock::ms32(CLOCK_START_NS + reading.made_ns);
            if let Some(sinr_db) = reading.sinr_db.map(f64::from) {
                let average_db = reading.average_db.map_or(sinr_db, f64::from);
                let (sinr_q8_db, average_q8_db) = (sinr_to_q8(sinr_db), sinr_to_q8(average_db));
                line.sinr = PackedSinr { sinr_q8_db, average_q8_db, time_ms }.pack();
            }
            if let Some(bps) = reading.capacity_bps {
                line.capacity = Capacity::new(bps as f64, false, time_ms).map_or(0, Capacity::pack);
            }
            line.cell = reading.cell;
        }
        self.radio = line;
        self.flow.algo().set_radio_line(Some(line));
    }

    fn set_pep(&mut self, record: Option<&PepFlow>) {
        let dated = record.map(|record| PepFlow { time_ns: CLOCK_START_NS + record.time_ns, ..*record });
        self.flow.algo().set_pep(dated);
    }

    fn change_path(&mut self) {
        self.path_generation += 1;
        self.flow.algo().set_path(self.path_generation);
    }
}
