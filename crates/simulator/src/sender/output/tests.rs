//! What is sent, and when, against figures worked out by hand from Linux's rules.

use super::super::state::Config;
use super::super::testing::{CONFIG, MS, MSS, START_MS, ack, sender, sender_with};
use super::*;
use crate::packet::Ack;

/// Returns the number of segments of each bundle that was sent since the last call.
fn bundles(sender: &mut Sender) -> Vec<u32> {
    let segments = |content| if let Content::Data(data) = content { Some(data.segments) } else { None };
    sender.out.drain(..).filter_map(segments).collect()
}

/// Returns a sender of endless data that has just sent its first ten segments, which `bundles` does not return.
fn opened(config: Config) -> Sender {
    let mut sender = sender_with(config, 10, None);
    bundles(&mut sender);
    sender
}

/// Returns the bundles of a burst of 190 segments, with bundles of up to `most` segments.
fn burst(rate: u64, min_rtt_us: u32, most: u32) -> Vec<u32> {
    let mut sender = opened(CONFIG);
    sender.config.offload_segments = most;
    sender.sock.pacing_rate = rate;
    sender.sock.min_rtt_us = min_rtt_us;
    sender.sock.snd_cwnd = 200;
    sender.push();
    bundles(&mut sender)
}

/// Returns 190 segments in bundles of `size`. The last one has the rest.
fn in_bundles_of(size: u32) -> Vec<u32> {
    (0..190).step_by(size as usize).map(|at| size.min(190 - at)).collect()
}

/// `tcp_tso_autosize`: the pacing rate >> 10 in whole segments of 1000 bytes, at least two (`tcp_min_tso_segs`), and
/// less than 64 KiB (`sk_gso_max_size`). An RTT of 100 ms gives no allowance.
#[test]
fn a_bundle_is_what_leaves_in_a_millisecond() {
    for (rate, most, size) in [
        (10_240_000, 64, 10),
        (11_263_999, 64, 10), // 10,999 bytes
        (11_264_000, 64, 11),
        (3_071_999, 64, 2),
        (1000, 64, 2),
        (10_240_000, 4, 4),
        (10_240_000, 1, 1),
        (102_400_000, 40, 40),
        (102_400_000, 100, 65), // 100,000 bytes
        (u64::MAX, 100, 65),
    ] {
        assert_eq!(burst(rate, 100_000, most), in_bundles_of(size), "{rate}, {most}");
    }
}

/// `tcp_tso_autosize`: 64 KiB, halved for each 512 us of the least RTT (`tcp_tso_rtt_log`). The pacing rate adds 1000
/// bytes.
#[test]
fn a_bundle_is_larger_if_the_rtt_is_short() {
    for (min_rtt_us, size) in [(511, 65), (512, 33), (1024, 17), (2048, 5), (100_000, 2)] {
        assert_eq!(burst(1_024_000, min_rtt_us, 100), in_bundles_of(size), "{min_rtt_us}");
    }
}

/// `tcp_cwnd_test`: so that at least two bundles are in flight.
#[test]
fn a_bundle_is_at_most_half_the_window() {
    let mut sender = opened(CONFIG);
    sender.config.offload_segments = 64;
    sender.sock.pacing_rate = u64::MAX;
    sender.sock.snd_cwnd = 31;
    sender.push();
    assert_eq!(bundles(&mut sender), [15, 6]);
}

/// Returns a paced sender that has just sent its first ten segments, and has room for 90 more.
fn paced() -> Sender {
    let mut sender = opened(Config { paced: true, ..CONFIG });
    sender.sock.snd_cwnd = 100;
    sender
}

/// Returns what leaves at this time, and the time until the next bundle may leave.
fn leaving(sender: &mut Sender, at_ns: u64) -> (Vec<u32>, u64) {
    sender.timer(at_ns);
    (bundles(sender), sender.timers.pacing_ns.unwrap() - at_ns)
}

/// `tcp_update_skb_after_send`: the tenth segment is the first that others wait for. In slow start, the rate is twice
/// the window of 10,000 bytes per RTT of 100 ms: 200,000 bytes/s, or 5 ms per segment.
#[test]
fn the_first_ten_segments_are_not_paced() {
    let mut sender = paced();
    assert_eq!(sender.sock.pacing_rate, 200_000);
    assert!(sender.sock.needs_pacing, "CUBIC's HyStart asks whether TCP paces");
    assert!((0..10).all(|number| sender.board.get(number).unwrap().sent_ns == START_MS * MS));
    assert_eq!(sender.timers.pacing_ns, Some((START_MS + 5) * MS));
    sender.sock.now_ns = (START_MS + 5) * MS - 1;
    sender.push();
    assert_eq!(bundles(&mut sender), [0; 0]);
    assert_eq!(leaving(&mut sender, (START_MS + 5) * MS), (vec![1], 5 * MS));
    assert_eq!(leaving(&mut sender, (START_MS + 10) * MS), (vec![1], 5 * MS));
}

/// At 8 MB/s, a bundle has 7,812 bytes, which is seven segments. They take 7000 / 8,000,000 s.
#[test]
fn bundles_leave_at_the_pacing_rate() {
    let mut sender = paced();
    sender.config.offload_segments = 64;
    sender.sock.pacing_rate = 8_000_000;
    let start_ns = (START_MS + 5) * MS;
    for bundle in 0..5 {
        assert_eq!(leaving(&mut sender, start_ns + bundle * 875_000), (vec![7], 875_000));
        let last = sender.board.numbers().end - 1;
        assert_eq!(sender.board.get(last).unwrap().sent_ns, start_ns + bundle * 875_000);
    }
}

/// `tcp_update_skb_after_send`: "take into account OS jitter". A delay shortens the next wait by at most a half.
#[test]
fn a_bundle_that_leaves_late_delays_the_next_one_less() {
    let mut sender = paced();
    sender.config.offload_segments = 64;
    sender.sock.pacing_rate = 8_000_000;
    let due_ns = (START_MS + 5) * MS;
    assert_eq!(leaving(&mut sender, due_ns + 300_000), (vec![7], 875_000 - 300_000));
    assert_eq!(leaving(&mut sender, due_ns + 875_000 + 10 * MS), (vec![7], 437_500));
}

#[test]
fn the_congestion_control_can_ask_for_pacing() {
    let mut sender = opened(CONFIG);
    sender.sock.snd_cwnd = 20;
    sender.sock.pacing_rate = 1_000_000;
    sender.sock.needs_pacing = true;
    sender.push();
    assert_eq!((bundles(&mut sender), sender.timers.pacing_ns), (vec![1], Some((START_MS + 1) * MS)));
}

#[test]
fn a_retransmission_is_paced_too() {
    let mut sender = paced();
    sender.mark_lost(0);
    sender.mark_lost(1);
    sender.retransmit();
    assert_eq!(sender.sock.retrans_out, 0, "the tenth segment has yet to leave");
    assert_eq!(leaving(&mut sender, (START_MS + 5) * MS), (vec![1], 5 * MS));
    assert_eq!((sender.sock.retrans_out, sender.next), (1, 10 * MSS), "lost segments go first");
}

#[test]
fn nothing_is_sent_beyond_the_window() {
    let mut sender = opened(CONFIG);
    let mut sent = |cwnd, sacked, lost, retransmitted| {
        sender.sock.snd_cwnd = cwnd;
        sender.sock.sacked_out = sacked;
        sender.sock.lost_out = lost;
        sender.sock.retrans_out = retransmitted;
        sender.push();
        bundles(&mut sender).len()
    };
    assert_eq!(sent(10, 0, 0, 0), 0);
    assert_eq!(sent(9, 0, 0, 0), 0, "a window that has become smaller");
    assert_eq!(sent(13, 0, 0, 0), 3);
    assert_eq!(sent(13, 2, 0, 0), 2, "those that are delivered make room");
    assert_eq!(sent(13, 2, 3, 0), 3, "and those that are lost");
    assert_eq!(sent(13, 2, 3, 3), 0, "until they are sent again");
    assert_eq!(sender.sock.packets_out, 18);
}

/// A segment that does not fit waits (`tcp_snd_wnd_test`).
#[test]
fn nothing_is_sent_beyond_the_window_of_the_receiver() {
    let mut sender = opened(CONFIG);
    sender.sock.snd_cwnd = 100;
    for (window_end, sent, next) in [(9500, 0, 10_000), (10_999, 0, 10_000), (12_500, 2, 12_000), (13_000, 1, 13_000)] {
        sender.window_end = window_end;
        sender.push();
        assert_eq!((bundles(&mut sender).len(), sender.next), (sent, next), "{window_end}");
    }
    let one_more = Ack { window_end: 14_000, ..ack(1, 0..0, START_MS) };
    sender.acknowledge((START_MS + 100) * MS, &one_more);
    assert_eq!((bundles(&mut sender), sender.next), (vec![1], 14_000));
    sender.config.offload_segments = 64;
    sender.sock.pacing_rate = u64::MAX;
    sender.window_end = 21_000;
    sender.push();
    assert_eq!((bundles(&mut sender), sender.next), (vec![7], 21_000), "not a bundle of the usual size");
}

/// RFC 8985, section 7.3, for the window; the receiver's window holds for a probe too.
#[test]
fn a_probe_ignores_the_window_but_not_that_of_the_receiver() {
    let mut sender = opened(CONFIG);
    sender.window_end = 10_999;
    sender.write(true);
    assert_eq!(bundles(&mut sender), [0; 0]);
    sender.window_end = 20_000;
    sender.write(true);
    assert_eq!((bundles(&mut sender), sender.sock.packets_out, sender.sock.snd_cwnd), (vec![1], 11, 10));
}

/// `tcp_nagle_check` with `tcp_minshall_check`: full segments do not wait, and are not waited for.
#[test]
fn a_small_segment_waits_for_the_ack_of_the_last_small_one() {
    let mut sender = sender(10, Some(10));
    sender.sock.snd_cwnd = 20;
    let sent = |sender: &mut Sender, written| {
        sender.written += written;
        sender.push();
        sender.next
    };
    assert_eq!(sent(&mut sender, 300), 10_300);
    assert_eq!(sent(&mut sender, 300), 10_300);
    assert_eq!(sent(&mut sender, 900), 11_300, "a full segment of the 1200 bytes");
    sender.acknowledge((START_MS + 100) * MS, &ack(10, 0..0, START_MS));
    assert_eq!(sender.next, 11_300);
    let small = Ack { cumulative: 10_300, ..ack(0, 0..0, START_MS) };
    sender.acknowledge((START_MS + 101) * MS, &small);
    assert_eq!(sender.next, 11_500);
}

/// `tcp_cwnd_restart` (RFC 2861): halves the window for each timeout of 75 ticks without data, but not below ten
/// segments. ssthresh remembers three quarters of the window.
#[test]
fn the_window_shrinks_while_the_connection_is_idle() {
    let after = |ticks: u64, cwnd| {
        let mut sender = sender(10, Some(10));
        sender.acknowledge((START_MS + 100) * MS, &ack(10, 0..0, START_MS));
        assert_eq!(sender.rtt.rto_ticks, 75);
        sender.sock.snd_cwnd = cwnd;
        sender.sock.snd_ssthresh = 30;
        sender.sock.now_ns = (START_MS + 4 * ticks) * MS;
        sender.restart_after_idle();
        (sender.sock.snd_cwnd, sender.sock.snd_ssthresh)
    };
    assert_eq!(after(75, 80), (80, 30));
    assert_eq!(after(76, 80), (40, 60));
    assert_eq!(after(150, 80), (40, 60));
    assert_eq!(after(151, 80), (20, 60));
    assert_eq!(after(750, 70), (10, 52), "70 / 8 is less than ten; 35 + 17");
    assert_eq!(after(750, 6), (6, 30), "a window that was smaller before");
}

/// `sk_gso_max_size`: 65,215 bytes are 124 segments of 524; 64 KiB would be 125.
#[test]
fn a_bundle_leaves_room_for_headers() {
    let mut sender = opened(CONFIG);
    sender.sock.mss = 524;
    sender.config.offload_segments = 200;
    sender.sock.pacing_rate = u64::MAX;
    assert_eq!(sender.bundle(), 124);
}

/// `tcp_cwnd_application_limited`: 300 ms are the timeout. An endless flow always waits for room in its buffer.
#[test]
fn an_unused_window_shrinks_only_if_the_application_has_no_more_to_write() {
    let after = |segments| {
        let mut sender = sender(10, segments);
        sender.sock.snd_cwnd = 80;
        sender.sock.snd_ssthresh = 30;
        sender.sock.is_cwnd_limited = false;
        sender.sock.now_ns = (START_MS + 300) * MS;
        sender.validate_window(false);
        sender.sock.snd_cwnd
    };
    assert_eq!((after(Some(10)), after(None)), (45, 80));
}
