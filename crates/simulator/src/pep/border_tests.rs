//! When the border reports. The delay is 250 us, and the agent pauses for 375 us.

use super::*;

const MSS: u64 = 1000;
const US: u64 = 1000;

fn border() -> Border {
    Border::start(None, None)
}

/// Lets segments `numbers` pass one by one.
fn pass(border: &mut Border, at_us: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        bundle(border, at_us, number, 1);
    }
}

fn bundle(border: &mut Border, at_us: u64, number: u64, segments: u32) {
    let data = Data {
        seq: number * MSS,
        len: segments * MSS as u32,
        segments,
        stamp_ms: 0,
        echo_ms: 0,
        push: false,
        cwr: false,
        is_retransmission: false,
    };
    border.data(at_us * US, 0, &data);
}

/// Returns the segments in order, the segments seen, and the time of the last one, of each report.
fn reports(border: &mut Border, at_us: u64) -> Vec<(u64, u32, u64)> {
    let made = border.wake(at_us * US);
    made.iter().map(|report| (report.in_order / MSS, report.segments, report.seen_ns / US)).collect()
}

/// Lets the border work until then. Returns the time of each report, with the report.
fn run(border: &mut Border, until_us: u64) -> Vec<(u64, (u64, u32, u64))> {
    let mut made = Vec::new();
    while let Some(at_us) = border.next_ns().map(|at_ns| at_ns / US).filter(|at_us| *at_us <= until_us) {
        made.extend(reports(border, at_us).into_iter().map(|report| (at_us, report)));
    }
    made
}

#[test]
fn a_segment_that_comes_alone_is_reported_after_the_delay() {
    let mut border = border();
    pass(&mut border, 1000, 0..1);
    assert_eq!(run(&mut border, 10_000), [(1250, (1, 1, 1000))]);
    assert_eq!(border.next_ns(), None, "the agent waits, and no timer runs");
}

/// The first report has the state at the first segment, the second one that at its own time.
#[test]
fn a_burst_causes_two_reports() {
    let mut border = border();
    pass(&mut border, 1000, 0..1);
    pass(&mut border, 1100, 1..4);
    assert_eq!(run(&mut border, 1250), [(1250, (1, 1, 1000))]);
    // the timer of 1350 makes the report, while the agent pauses until 1625
    assert_eq!(run(&mut border, 10_000), [(1625, (4, 4, 1100))]);
}

#[test]
fn many_segments_are_reported_at_once_and_a_bundle_counts_each() {
    let mut border = border();
    pass(&mut border, 1000, 0..15);
    assert_eq!(reports(&mut border, 1000), []);
    pass(&mut border, 1000, 15..17); // the first one had a report of its own
    assert_eq!(reports(&mut border, 1000), [(16, 16, 1000)]);
    let mut border = self::border();
    bundle(&mut border, 1000, 0, 16);
    assert_eq!(reports(&mut border, 1000), [(16, 16, 1000)]);
}

#[test]
fn a_gap_is_reported_when_it_appears_and_when_it_closes() {
    let mut border = border();
    pass(&mut border, 0, 0..1);
    pass(&mut border, 100, 2..3);
    let gap = border.wake(100 * US);
    assert_eq!((gap[0].in_order, gap[0].ranges()), (MSS, &[(2 * MSS, 3 * MSS)][..]));
    run(&mut border, 4000);
    pass(&mut border, 5000, 3..4);
    assert_eq!(reports(&mut border, 5000), [], "the range grows");
    pass(&mut border, 5100, 1..2);
    assert_eq!(reports(&mut border, 5100), [(4, 4, 5100)]);
}

#[test]
fn a_flow_begins_with_the_first_segment_after_the_clients_syn() {
    let mut border = border();
    border.begin(0, 0);
    border.end(0);
    pass(&mut border, 1000, 3..4);
    assert_eq!(run(&mut border, 1250), [(1250, (4, 1, 1000))]);
}

/// Of several reports of a flow, the newest is sent. After four batches in a row, the agent polls, and the kernel's
/// timer makes no reports; after four polls without reports, it waits again.
#[test]
fn a_busy_agent_polls() {
    let mut border = border();
    let mut made = Vec::new();
    for step in 0..100 {
        pass(&mut border, 1000 + step * 50, step * 16..(step + 1) * 16);
        made.extend(reports(&mut border, 1000 + step * 50).into_iter().map(|report| (report.0 / 16, report.2)));
    }
    assert_eq!(made[..3], [(1, 1000), (9, 1400), (17, 1800)], "pauses of 375 us, and segments every 50 us");
    assert!(border.is_polling);
    let last_us = 1000 + 99 * 50;
    assert_eq!(run(&mut border, last_us + 10_000).last().map(|(_, report)| report.0), Some(1600));
    assert!(!border.is_polling && border.next_ns().is_none());
}

#[test]
fn flows_are_kept_while_the_agent_is_dead() {
    let mut border = border();
    pass(&mut border, 1000, 0..16);
    border.set_running(false);
    pass(&mut border, 2000, 16..32);
    assert_eq!((border.run(), reports(&mut border, 2000)), (None, Vec::new()));
    border.set_running(true);
    assert_eq!(border.run(), Some(2));
    pass(&mut border, 3000, 32..33);
    assert_eq!(run(&mut border, 3250), [(3250, (33, 33, 3000))]);
}
