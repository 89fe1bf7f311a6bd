//! crest and losses behind a border PEP, which saw the lost segments pass.

use super::{Connection, MSS};
use bytemuck::Zeroable as _;
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::{HostAlgo, RateSample, View};

/// What the PEP reported before a loss.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// Segments that it saw, of those in flight.
    segments: u32,
    age_us: u64,
}

const SAW_ALL: Report = Report { segments: 100, age_us: 0 };

/// A round in which `lost` of 100 segments are lost, and the client has the next ones.
#[derive(Clone, Copy, Debug)]
struct Round {
    lost: u32,
    rtt_us: i64,
    report: Option<Report>,
}

impl Connection<'_> {
    fn lossy_round(&mut self, algo: &HostAlgo, round: Round) {
        let missing = round.lost * MSS;
        algo.set_pep(round.report.map(|report| PepFlow {
            updates: 2,
            in_order: self.view.snd_una + report.segments * MSS,
            time_ns: (self.view.now_us - report.age_us) * 1000,
            ..PepFlow::zeroed()
        }));
        self.flow.set_sack(&[(self.view.snd_una + missing, self.view.snd_una + 2 * missing)]);
        self.view.lost += round.lost;
        self.flow.set(&View { lost_out: round.lost, ..self.view });
        let sample = RateSample { losses: round.lost as i32, rtt_us: -1, ..RateSample::default() };
        self.flow.cong_control(&sample);
        self.view.srtt_us = 8 * round.rtt_us as u32;
        self.ack(50_000, 100, 100, round.rtt_us);
    }

    /// Returns the share of losses, in permille, and what losses leave of the queue wanted, after many such rounds.
    fn after_lossy_rounds(algo: &HostAlgo, round: Round) -> (u64, u64) {
        let mut connection = Connection::cruising(algo);
        for _ in 0..40 {
            connection.lossy_round(algo, round);
        }
        algo.set_pep(None);
        (connection.state("loss"), connection.state("room"))
    }
}

#[test]
fn losses_that_a_border_saw_pass_do_not_count() {
    let algo = HostAlgo::load("crest");
    let seen = Round { lost: 8, rtt_us: 42_000, report: Some(SAW_ALL) };
    assert_eq!(Connection::after_lossy_rounds(&algo, seen), (0, 255));
    let with = |segments, age_us| Some(Report { segments, age_us });
    for report in [None, with(0, 0), with(4, 0), with(100, 1_001_000)] {
        let (loss, room) = Connection::after_lossy_rounds(&algo, Round { report, ..seen });
        assert!(loss > 50 && room <= 3, "{loss} per mille, {room}, {report:?}");
    }
    algo.set_tunable("border_loss_permille", 0);
    let (loss, room) = Connection::after_lossy_rounds(&algo, seen);
    assert!(loss > 50 && room <= 3, "{loss} per mille, {room}");
}

#[test]
fn losses_behind_a_border_count_if_there_is_a_queue() {
    let algo = HostAlgo::load("crest");
    let queued = Round { lost: 8, rtt_us: 90_000, report: Some(SAW_ALL) };
    assert!(Connection::after_lossy_rounds(&algo, queued).0 > 50);
}

/// Such as a policer's.
#[test]
fn many_losses_behind_a_border_count() {
    let algo = HostAlgo::load("crest");
    let many = Round { lost: 20, rtt_us: 42_000, report: Some(SAW_ALL) };
    assert!(Connection::after_lossy_rounds(&algo, many).0 > 100);
}

/// A tenth of a window of four segments is less than one; two segments more do not count.
#[test]
fn two_losses_behind_a_border_do_not_count_in_a_small_window() {
    let algo = HostAlgo::load("crest");
    for lost in [2, 3] {
        let mut connection = Connection::cruising(&algo);
        while connection.view.snd_cwnd >= 10 {
            connection.ack(50_000, 4, 4, 42_000);
        }
        connection.lossy_round(&algo, Round { lost, rtt_us: 42_000, report: Some(SAW_ALL) });
        assert_eq!(connection.state("loss") > 0, lost == 3, "{lost} lost");
    }
    algo.set_pep(None);
}
