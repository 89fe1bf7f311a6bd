//! Multi-domain CUBIC against its model, and both against examples worked by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mdcubic/invariants.rs"]
mod invariants;

use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::mdcubic::{Mdcubic, Tunables};
use hotcc_cc_tests::models::watched::Watched;
use hotcc_cc_tests::random::{self, Conditions, Random, Timeouts, Totals};
use hotcc_cc_tests::reports::At::Una;
use hotcc_cc_tests::reports::{At, Report, Stretch};
use hotcc_cc_tests::signals::Signals;
use hotcc_host_algo::{Cubic, HostAlgo, View};
use invariants::{Bounds, Plain};

const CONDITIONS: Conditions = Conditions { timeouts: Timeouts::Mixed, signals: Signals::Pep };

/// Ten losses are forgiven, however small W is.
const TEN: Tunables = Tunables { d2_segments_per_loss: 0, ..Tunables::DEFAULT };

/// Function that starts a connection: on the model by itself, or on algorithm and model together.
type Start<'a> = dyn Fn(Tunables, View) -> Kernel<'a, Mdcubic> + 'a;

/// Makes two tests of each example: on the model by itself, and on algorithm and model together.
macro_rules! examples {
    ($($name:ident)*) => {
        mod by_the_model {
            use super::*;
            $(#[test] fn $name() { super::$name(&|t, view| Kernel::alone(Mdcubic::new(t), view).unwrap()); })*
        }
        mod by_the_algorithm {
            use super::*;
            $(#[test] fn $name() {
                let algo = HostAlgo::load("mdcubic");
                super::$name(&|t, view| Kernel::start(&algo, Mdcubic::new(t), view).unwrap());
            })*
        }
    };
}

#[path = "mdcubic_examples/belief.rs"]
mod belief;
#[path = "mdcubic_examples/growth.rs"]
mod growth;
#[path = "mdcubic_examples/losses.rs"]
mod losses;

/// Returns a connection at 1 s with segments of 1000 bytes, whose sequence numbers wrap within the first window.
fn connection(snd_cwnd: u32, snd_ssthresh: u32) -> View {
    View {
        now_us: 1_000_000,
        snd_cwnd,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh,
        mss: 1000,
        delivered: 5000,
        data_segs_out: 5000,
        max_packets_out: snd_cwnd,
        is_cwnd_limited: 1,
        snd_una: u32::MAX - 4999,
        snd_nxt: u32::MAX - 4999,
        ..View::default()
    }
}

fn apply(kernel: &mut Kernel<'_, Mdcubic>, events: &[Event]) {
    for event in events {
        kernel.apply(*event).unwrap();
    }
}

/// A duplicate ACK, 1 ms later, like the one that accompanies a PEP's report.
const DUPLICATE: Event = Event::Duplicate { after_us: 1000 };

/// Delivers a report that the PEP has all up to here, and these ranges.
fn reports(kernel: &mut Kernel<'_, Mdcubic>, in_order: At, ranges: &[Stretch]) {
    apply(kernel, &[Event::Pep(Report::up_to(in_order).with(ranges)), DUPLICATE]);
}

/// Delivers an ACK of the client for segments, 1 ms later, with an RTT of 100 ms.
fn client(kernel: &mut Kernel<'_, Mdcubic>, acked: u32) {
    apply(kernel, &[Event::Ack { after_us: 1000, acked, rtt_us: Some(100_000) }]);
}

fn sack(blocks: &[Stretch]) -> Event {
    let mut all = [(Una(0), Una(0)); 4];
    all[..blocks.len()].copy_from_slice(blocks);
    Event::Sack(all)
}

/// Returns W and ssthresh.
fn window(kernel: &Kernel<'_, Mdcubic>) -> (u32, u32) {
    (kernel.sock.snd_cwnd, kernel.sock.snd_ssthresh)
}

/// Returns a connection with W1 = 16 in congestion avoidance (ssthresh 8); 8 of the 16 segments in flight are past the
/// PEP: W = 24.
fn clocked<'a>(start: &Start<'a>, tunables: Tunables) -> Kernel<'a, Mdcubic> {
    let mut kernel = start(tunables, connection(16, 8));
    reports(&mut kernel, Una(8000), &[]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((24, 8), 8));
    kernel
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("mdcubic");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

fn any_tunables(random: &mut Random) -> Tunables {
    if random.once_in(3) {
        return Tunables::DEFAULT;
    }
    Tunables {
        kind: random.pick(&[0, 0, 0, 1]),
        d2_loss_events: random.pick(&[0, 0, 1, 2, 10, 100, 1000, 1000]),
        d2_segments_per_loss: random.pick(&[16, 16, 0, 1, 1000]),
        d2_reduction: random.pick(&[0, 0, 1]),
        d2_bound_kb: random.pick(&[1000, 1000, 0, 1, 100, 1_000_000]),
        without_pep: random.pick(&[0, 0, 0, 1]),
        pep_max_age_ms: random.pick(&[1000, 1000, 1, 100, 30_000]),
        pep_clock: random.pick(&[1, 1, 1, 0]),
    }
}

fn any_model(random: &mut Random) -> Mdcubic {
    let mut model = Mdcubic::new(any_tunables(random));
    if random.once_in(4) {
        model.others = (0..3).map(|_| any_tunables(random)).collect();
    }
    model
}

fn require_all_branches(totals: &Totals) {
    totals.require_variety();
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
}

#[test]
fn no_report_leads_the_model_out_of_bounds() {
    let totals = random::check_under(CONDITIONS, None, 1, 3000, 400, |random| Watched {
        model: any_model(random),
        invariants: Bounds::default(),
    });
    require_all_branches(&totals);
}

#[test]
fn the_model_without_a_pep_is_its_delegate() {
    let conditions = Conditions { signals: Signals::Radio, ..CONDITIONS };
    let totals = random::check_under(conditions, None, 1, 1000, 400, |random| {
        let mut model = any_model(random);
        for tunables in model.others.iter_mut().chain([&mut model.tunables]) {
            tunables.without_pep = 0;
        }
        Watched { model, invariants: Plain }
    });
    totals.require(1000, &["ACKs without a PEP", "growth by the client's ACKs", "reductions for domain 1"]);
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("mdcubic");
    let totals = random::check_under(CONDITIONS, Some(&algo), 1, 4000, 400, any_model);
    require_all_branches(&totals);
    totals.require_accounted(&algo);
    // the calls that the kernel's CUBIC gets
    let calls = [(Cubic::Init, "delegate init"), (Cubic::State, "delegate state"), (Cubic::Acked, "delegate acked")];
    for (function, branch) in calls {
        assert_eq!(u64::from(algo.cubic_calls(function)), totals.covered(branch), "{branch}");
    }
}
