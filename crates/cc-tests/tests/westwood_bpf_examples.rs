//! Westwood against its model, and against examples worked by hand, which hold for the model too.

use hotcc_cc_tests::examples::Example;
use hotcc_cc_tests::examples::westwood::a_timeout_within_a_recovery_is_like_any;
use hotcc_cc_tests::models::westwood_bpf::{Tunables, WestwoodBpf};
use hotcc_cc_tests::on_model_and_algorithm;
use hotcc_cc_tests::random::{self, Random, Timeouts};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, HostAlgo};

type Connection<'a> = Example<'a, WestwoodBpf>;

const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

on_model_and_algorithm! {
    "westwood_bpf", WestwoodBpf;
    each_ack_is_a_sample: Tunables::PAPER;
    silence_is_sampled_as_zeros: Tunables::PAPER;
    a_long_silence_starts_again: Tunables::PAPER;
    tau_scales_the_filter: Tunables { tau_ms: 10, ..Tunables::PAPER };
    acks_at_the_same_time_count_as_one: Tunables::PAPER;
    a_loss_never_raises_the_window_and_its_end_sets_eq_4: Tunables::PAPER;
    the_first_sample_spans_an_rtt: Tunables::PAPER;
    a_timeout_sets_eq_4_of_that_moment: Tunables::PAPER;
    a_timeout_within_a_recovery_is_like_any: Tunables::DEFAULT;
    an_undo_forgets_eq_4: Tunables::PAPER;
    never_less_than_two_segments_and_reno_before_the_first_sample: Tunables::PAPER;
    growth_is_reno: Tunables::PAPER;
    arithmetic_does_not_overflow_at_400_gbit_per_s: Tunables::PAPER;
    a_takeover_starts_again: Tunables::PAPER;
}

fn each_ack_is_a_sample(c: &mut Connection) {
    // 100 segments of 1000 bytes in 100 ms: 1,000,000 bytes/s (eq 3) starts the filter
    c.ack(100_000, 100, Some(100_000));
    c.assert_field("bandwidth_q8", 1e6);
    c.assert_field("base_us", 100_000.0);
    assert_eq!(c.ssthresh(), 100); // eq 4: 1,000,000 * 0.1 s / 1000
    // 200 in 100 ms: 2,000,000. alpha = (1000 - 100)/(1000 + 100) = 9/11:
    // 9/11 * 1,000,000 + 2/11 * (2,000,000 + 1,000,000)/2 = 1,090,909.09
    c.ack(100_000, 200, Some(120_000));
    c.assert_field("bandwidth_q8", 12e6 / 11.0);
    assert_eq!(c.ssthresh(), 109); // 109.09
    // 25 in 50 ms: 500,000. alpha = 950/1050 = 19/21:
    // 19/21 * 1,090,909.09 + 2/21 * (500,000 + 2,000,000)/2 = 987,012.99 + 119,047.62 = 1,106,060.61
    c.ack(50_000, 25, Some(80_000));
    c.assert_field("bandwidth_q8", 36.5e6 / 33.0);
    assert_eq!(c.ssthresh(), 88); // RTTmin is 80 ms now: 88.48
}

/// 2 segments in 40 us would be 50,000,000 bytes/s, and BWE at once.
fn the_first_sample_spans_an_rtt(c: &mut Connection) {
    c.sock.srtt_us = 8 * 100_000;
    c.ack(40, 2, Some(100_000));
    c.assert_field("bandwidth_q8", 0.0);
    c.ack(99_959, 97, Some(100_000));
    c.assert_field("bandwidth_q8", 0.0);
    c.ack(1, 1, Some(100_000)); // 100 segments in 100 ms
    c.assert_field("bandwidth_q8", 1e6);
}

fn silence_is_sampled_as_zeros(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000)); // 1,000,000 bytes/s
    // 600 ms: two zeros over tau/2 = 250 ms, alpha = (1000 - 250)/(1000 + 250) = 0.6 each:
    // 0.6 * 1,000,000 + 0.4 * (0 + 1,000,000)/2 = 800,000; 0.6 * 800,000 = 480,000.
    // The ACK's 100 segments then came in the 100 ms that are left, 1,000,000 bytes/s, alpha = 9/11:
    // 9/11 * 480,000 + 2/11 * (1,000,000 + 0)/2 = 392,727.27 + 90,909.09
    c.ack(600_000, 100, None);
    c.assert_field("bandwidth_q8", 5.32e6 / 11.0);
    // exactly tau/2 does not count as silence. 500 segments, 2,000,000 bytes/s:
    // 0.6 * 483,636.36 + 0.4 * (2,000,000 + 1,000,000)/2 = 290,181.82 + 600,000
    c.ack(250_000, 500, None);
    c.assert_field("bandwidth_q8", 890_181.82);
    // a microsecond more does: 0.6 * 890,181.82 + 0.4 * (0 + 2,000,000)/2 = 934,109.09; then one segment in 1 us,
    // 10^9 bytes/s, alpha = 999,999/1,000,001: 934,109.09 - 1.87 + 2/1,000,001 * (10^9 + 0)/2 = 934,107.22 + 1000.00
    c.ack(250_001, 1, None);
    c.assert_field("bandwidth_q8", 935_107.22);
}

fn a_long_silence_starts_again(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000)); // 1,000,000 bytes/s
    // 33 * 250 ms: 32 zeros. The first gives 800,000, as above, the others 800,000 * 0.6^31 = 0.106.
    // Then 500 segments in the 250 ms that are left, 2,000,000: 0.6 * 0.106 + 0.4 * (2,000,000 + 0)/2
    c.ack(8_250_000, 500, None);
    c.assert_field("bandwidth_q8", 400_000.06);
    // 1 us more exceeds what 32 zeros cover: a first sample over the whole time, 8250 segments in 8.250001 s
    c.ack(8_250_001, 8250, None);
    c.assert_field("bandwidth_q8", 999_999.88);
    // it is also the previous sample. 200 in 100 ms: 9/11 * 999,999.88 + 2/11 * (2,000,000 + 999,999.88)/2
    c.ack(100_000, 200, None);
    c.assert_field("bandwidth_q8", 1_090_908.98);
    // 2^32 us and 100 ms count as 100 ms. 100 segments: 9/11 * 1,090,908.98 + 2/11 * (1,000,000 + 2,000,000)/2
    c.ack((1 << 32) + 100_000, 100, None);
    c.assert_field("bandwidth_q8", 1_165_289.17);
}

fn tau_scales_the_filter(c: &mut Connection) {
    c.ack(2000, 2, Some(100_000)); // 1,000,000 bytes/s
    // 4 segments in 2 ms, 2,000,000: alpha = (20 - 2)/(20 + 2) = 9/11 with tau = 10 ms, as above
    c.ack(2000, 4, None);
    c.assert_field("bandwidth_q8", 12e6 / 11.0);
    // 7 ms: a zero over 5 ms, 0.6 * 1,090,909.09 + 0.4 * (0 + 2,000,000)/2 = 1,054,545.45, then 2 segments in 2 ms:
    // 9/11 * 1,054,545.45 + 2/11 * (1,000,000 + 0)/2 = 862,809.92 + 90,909.09
    c.ack(7000, 2, None);
    c.assert_field("bandwidth_q8", 953_719.01);
}

fn acks_at_the_same_time_count_as_one(c: &mut Connection) {
    c.ack(0, 30, Some(100_000));
    c.assert_field("bandwidth_q8", 0.0);
    assert_eq!(c.ssthresh(), 75); // W/2
    c.ack(100_000, 70, Some(100_000)); // 100 segments in 100 ms
    c.assert_field("bandwidth_q8", 1e6);
    c.ack(0, 150, None);
    c.assert_field("bandwidth_q8", 1e6);
    c.ack(100_000, 50, None); // 200 in 100 ms, as above
    c.assert_field("bandwidth_q8", 12e6 / 11.0);
}

fn a_loss_never_raises_the_window_and_its_end_sets_eq_4(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000)); // eq 4: 100 segments
    c.sock.snd_cwnd = 60;
    assert_eq!(c.ssthresh(), 60);
    c.assert_field("loss_ssthresh", 100.0);
    c.sock.snd_ssthresh = 60;
    c.enter(RECOVERY);
    c.ack(100_000, 200, Some(100_000)); // eq 4 would be 109 now, but the value at the loss counts
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (60, 100));
    c.assert_field("loss_ssthresh", 0.0);
    // once only
    c.sock.snd_ssthresh = 77;
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (60, 77));
}

fn a_timeout_sets_eq_4_of_that_moment(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    c.sock.snd_cwnd = 60;
    assert_eq!(c.ssthresh(), 60);
    c.sock.snd_ssthresh = 60;
    c.ack(100_000, 200, None); // 1,090,909.09 bytes/s, as above
    c.event(EVENT_LOSS);
    assert_eq!(c.window(), (60, 109)); // line 11
    c.assert_field("loss_ssthresh", 0.0);
    c.sock.snd_cwnd = 1; // the kernel does line 12
    c.enter(LOSS);
    assert_eq!(c.window(), (1, 109));
}

fn an_undo_forgets_eq_4(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    assert_eq!(c.ssthresh(), 100);
    (c.sock.snd_cwnd, c.sock.snd_ssthresh, c.sock.prior_cwnd) = (100, 100, 150);
    assert_eq!(c.undo_cwnd(), 150);
    c.assert_field("loss_ssthresh", 0.0);
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (150, 700);
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (150, 700));
}

fn never_less_than_two_segments_and_reno_before_the_first_sample(c: &mut Connection) {
    assert_eq!(c.ssthresh(), 75);
    c.sock.snd_cwnd = 3;
    assert_eq!(c.ssthresh(), 2); // 3/2, but at least 2
    c.sock.snd_cwnd = 150;
    c.ack(1_000_000, 1, None); // 1000 bytes/s, and no RTTmin yet
    assert_eq!(c.ssthresh(), 75);
    c.ack(1_000_000, 1, Some(0)); // an RTT of zero is ignored
    assert_eq!(c.ssthresh(), 75);
    // RTTmin 1 s, two zeros and a rest of 500 ms each second: below 1000 bytes/s, eq 4 below 1
    c.ack(1_000_000, 1, Some(1_000_000));
    assert_eq!(c.ssthresh(), 2);
    c.event(EVENT_LOSS);
    assert_eq!(c.window(), (150, 2));
}

fn growth_is_reno(c: &mut Connection) {
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (60, 100);
    c.grow(50); // 40 take W to ssthresh, 10 are left and count towards W = 101
    assert_eq!((c.window(), c.sock.snd_cwnd_cnt), ((100, 100), 10));
    c.grow(95); // 105: one segment, 5 left
    assert_eq!((c.window(), c.sock.snd_cwnd_cnt), ((101, 100), 5));
    c.sock.is_cwnd_limited = 0;
    c.grow(1000);
    assert_eq!((c.window(), c.sock.snd_cwnd_cnt), ((101, 100), 5));
}

fn arithmetic_does_not_overflow_at_400_gbit_per_s(c: &mut Connection) {
    (c.sock.mss, c.sock.snd_cwnd) = (9000, 80_000_000);
    // 56 segments of 9000 bytes every 10 us: 50,400,000,000 bytes/s
    for _ in 0..1000 {
        c.ack(10, 56, Some(10_000_000));
        c.assert_field("bandwidth_q8", 50.4e9);
    }
    assert_eq!(c.ssthresh(), 56_000_000); // times 10 s by 9000 bytes
}

fn a_takeover_starts_again(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    c.sock.now_us += 50_000;
    assert_eq!(c.ssthresh(), 100);
    let before = c.sock;
    c.init();
    assert_eq!(c.sock, before);
    for field in ["bandwidth_q8", "base_us", "loss_ssthresh"] {
        c.assert_field(field, 0.0);
    }
    c.ack(100_000, 300, Some(200_000)); // a first sample, since the takeover: 3,000,000 bytes/s
    c.assert_field("bandwidth_q8", 3e6);
    c.assert_field("base_us", 200_000.0);
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("westwood_bpf");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

fn any_tunables(random: &mut Random) -> Tunables {
    Tunables {
        tau_ms: random.pick(&[500, 500, 10, 33, 1000, 10_000]),
        base_window_us: random.pick(&[10_000_000, 10_000_000, 0, 1_000_000]),
    }
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("westwood_bpf");
    let totals = random::check(&algo, 1, 6000, 400, Timeouts::Mixed, |random| {
        let others = if random.once_in(3) { (0..3).map(|_| any_tunables(random)).collect() } else { Vec::new() };
        WestwoodBpf::new(any_tunables(random), others)
    });
    totals.require_variety();
    let of = |branch: &str| totals.covered(branch);
    for (kind, per, out_of) in [
        // after a long silence, BWE is close to 0
        ("samples that left a bandwidth beyond 0.1 %", 100, of("samples")),
        ("thresholds rounded the other way", 100, of("losses") + of("timeouts that set ssthresh")),
    ] {
        totals.require_rare(kind, per, out_of);
    }
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
    totals.require_counted(&algo);
}
