//! The receive window of Linux's TCP (net/ipv4/tcp_input.c, tcp_output.c, 6.12): how it grows, and how the kernel tunes
//! the buffer behind it. The application reads all data as soon as they are in order.

/// `TCP_RMEM_TO_WIN_SCALE`: `scaling_ratio`, the part of the buffer that is window, is in 256ths.
const RATIO_SHIFT: u32 = 8;
/// `TCP_DEFAULT_SCALING_RATIO`.
const FIRST_RATIO: u64 = 128;
/// Memory that a received bundle takes beside its payload, which is in page fragments: `SKB_TRUESIZE(MAX_TCP_HEADER)` on
/// x86-64. Linux 6.12 offers at most 647,168 of 1,048,576 bytes for segments of 1448 bytes: 158 of 256.
const OVERHEAD_BYTES: u64 = 896;
/// Shorter bundles do not let the window grow (`tcp_event_data_recv`).
const MIN_BUNDLE: u64 = 128;
/// `TCP_INIT_CWND`.
const INITIAL_WINDOW: u64 = 10;
/// `U16_MAX`: limit of the window in a SYN, which has no scale.
const MAX_UNSCALED_BYTES: u64 = 65_535;

/// The window that a receiver offers.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Bytes that are offered (`rcv_ssthresh`).
    bytes: u64,
    /// `None` if the window is fixed.
    tuning: Option<Tuning>,
}

/// The buffer, and what the kernel measures to tune it.
#[derive(Clone, Debug)]
struct Tuning {
    mss: u64,
    /// `sk_rcvbuf`.
    buffer: u64,
    /// The last value of `tcp_rmem`.
    most_buffer: u64,
    /// `scaling_ratio`.
    ratio: u64,
    /// `window_clamp`: upper bound of the window.
    clamp: u64,
    /// Most bytes that were read in a round trip so far (`rcvq_space.space`).
    space: u64,
    /// Time and sequence number at which the current round trip began (`rcvq_space.time`, `rcvq_space.seq`).
    began: Option<(u64, u64)>,
    /// Eight times the smoothed RTT (`rcv_rtt_est.rtt_us`).
    rtt_8us: u64,
    /// Latest timestamp that gave a sample of the RTT (`rcv_rtt_last_tsecr`).
    echo_ms: u32,
}

impl ReceiveWindow {
    /// Returns a window of always this many bytes.
    pub fn fixed(bytes: u64) -> Self {
        Self { bytes, tuning: None }
    }

    /// Returns a window whose buffer is tuned between the last two values of `tcp_rmem`, for segments of `mss` bytes
    /// (`tcp_select_initial_window`, `tcp_init_buffer_space`).
    ///
    /// The first sample of the RTT is `rtt_ns`, that of an idle path, because the first flight echoes the timestamp of the
    /// SYN-ACK.
    pub fn tuned(buffer: u64, most_buffer: u64, mss: u32, rtt_ns: u64) -> Self {
        let mss = u64::from(mss);
        let full = (buffer * FIRST_RATIO) >> RATIO_SHIFT;
        let clamp = if full > 2 * mss { (full - mss).max(2 * mss) } else { full };
        let bytes = clamp.min(if full > mss { full - full % mss } else { full });
        let tuning = Tuning {
            mss,
            buffer,
            most_buffer,
            ratio: FIRST_RATIO,
            clamp,
            space: bytes.min(INITIAL_WINDOW * mss),
            began: None,
            rtt_8us: (rtt_ns / 1000).max(1) << 3,
            echo_ms: 0,
        };
        Self { bytes, tuning: Some(tuning) }
    }

    /// Returns the number of bytes that the receiver offers now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the window in the SYN-ACK.
    pub fn in_syn_ack(&self) -> u64 {
        self.bytes.min(MAX_UNSCALED_BYTES)
    }

    /// Takes the timestamp that arriving data echo, as a sample of the RTT (`tcp_rcv_rtt_measure_ts`).
    ///
    /// `tcp_rcv_rtt_measure`, which takes the time in which a whole window arrives, has no counterpart: that time is
    /// never shorter than the RTT.
    pub fn measure_rtt(&mut self, now_ms: u32, echo_ms: u32) {
        let Some(tuning) = &mut self.tuning else { return };
        if echo_ms != tuning.echo_ms {
            tuning.echo_ms = echo_ms;
            let sample_us = u64::from(now_ms.wrapping_sub(echo_ms).max(1)) * 1000;
            tuning.rtt_8us = tuning.rtt_8us - (tuning.rtt_8us >> 3) + sample_us;
        }
    }

    /// Measures how much of the buffer is window, by a bundle of segments that are longer than all before
    /// (`tcp_measure_rcv_mss`).
    pub fn measure_ratio(&mut self, bundle: u32) {
        let Some(tuning) = &mut self.tuning else { return };
        let bundle = u64::from(bundle);
        let ratio = ((bundle << RATIO_SHIFT) / (bundle + OVERHEAD_BYTES)).max(1);
        if ratio != tuning.ratio {
            tuning.ratio = ratio;
            tuning.clamp = tuning.window_of(tuning.buffer);
            tuning.space = tuning.space.min(tuning.clamp);
            self.bytes = self.bytes.min(tuning.clamp);
        }
    }

    /// Grows the window when a bundle arrives while the buffer holds `held` bytes that are out of order
    /// (`tcp_grow_window`). Returns whether it grew.
    ///
    /// The kernel's check of the memory that a bundle takes always passes, because the payload is in page fragments.
    pub fn grow(&mut self, bundle: u32, held: impl FnOnce() -> u64) -> bool {
        let Some(tuning) = &self.tuning else { return false };
        let bundle = u64::from(bundle);
        if bundle < MIN_BUNDLE || self.bytes >= tuning.clamp {
            return false;
        }
        let free = tuning.buffer.saturating_sub(held() + bundle + OVERHEAD_BYTES);
        let room = tuning.clamp.min(tuning.window_of(free)).saturating_sub(self.bytes);
        self.bytes += room.min(2 * bundle.max(tuning.mss));
        room > 0
    }

    /// Enlarges the buffer once per round trip if the application read more than in any round trip before, up to `next`
    /// (`tcp_rcv_space_adjust`).
    pub fn tune(&mut self, now_ns: u64, next: u64) {
        let Some(tuning) = &mut self.tuning else { return };
        let (began_ns, began) = *tuning.began.get_or_insert((now_ns, 0));
        if (now_ns - began_ns) / 1000 < tuning.rtt_8us >> 3 {
            return;
        }
        tuning.began = Some((now_ns, next));
        let (read, before) = (next - began, tuning.space);
        if read > before {
            tuning.space = read;
            // twice the data, for losses, and more for slow start: an ACK allows the flight of the next round trip
            let least = 2 * read + 16 * tuning.mss;
            let window = least + 2 * (least * (read - before) / before);
            let buffer = ((window << RATIO_SHIFT) / tuning.ratio).min(tuning.most_buffer);
            if buffer > tuning.buffer {
                tuning.buffer = buffer;
                tuning.clamp = tuning.window_of(buffer);
            }
        }
    }
}

impl Tuning {
    /// `tcp_win_from_space`.
    fn window_of(&self, buffer: u64) -> u64 {
        (buffer * self.ratio) >> RATIO_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1448;
    const RTT_NS: u64 = 40_000_000;

    /// The lab's default of `tcp_rmem`.
    fn usual() -> ReceiveWindow {
        ReceiveWindow::tuned(1_048_576, 67_108_864, MSS, RTT_NS)
    }

    /// Receives `segments` in the round trip that begins now, and grows the window for each of them. `at` is the time
    /// and the number of bytes so far.
    fn round_trip(window: &mut ReceiveWindow, at: &mut (u64, u64), segments: u64) {
        for _ in 0..segments {
            at.1 += u64::from(MSS);
            window.grow(MSS, || 0);
            window.tune(at.0, at.1);
        }
        at.0 += RTT_NS;
    }

    #[test]
    fn the_first_window_is_half_of_the_buffer_less_a_segment() {
        assert_eq!(usual().bytes(), 524_288 - 1448);
        assert_eq!(usual().in_syn_ack(), 65_535, "without a scale");
        let small = ReceiveWindow::tuned(131_072, 6_291_456, MSS, RTT_NS);
        assert_eq!((small.bytes(), small.in_syn_ack()), (65_536 - 1448, 65_536 - 1448));
        let tiny = ReceiveWindow::tuned(4096, 6_291_456, MSS, RTT_NS);
        assert_eq!(tiny.bytes(), 1448, "whole segments");
    }

    /// The last windows of the lab on Linux 6.12 for slow flows are 647,168 bytes; the kernel rounds up to 2048 bytes.
    #[test]
    fn the_window_grows_by_two_segments_per_segment_up_to_the_part_of_the_buffer_that_is_window() {
        let mut window = usual();
        assert!(!window.grow(MSS, || 0), "before the first segment is measured");
        window.measure_ratio(MSS);
        assert!(window.grow(MSS, || 0));
        assert_eq!(window.bytes(), 524_288 + 1448);
        assert!(!window.grow(100, || 0), "too short a segment");
        assert!(!window.grow(MSS, || 500_000), "data out of order fill the buffer");
        assert!(window.grow(4 * MSS, || 0));
        assert_eq!(window.bytes(), 524_288 + 9 * 1448, "twice the bundle");
        let grew = (0..100).filter(|_| window.grow(MSS, || 0)).count();
        assert_eq!(window.bytes().next_multiple_of(2048), 647_168);
        assert_eq!(grew, 38);
    }

    #[test]
    fn short_segments_leave_less_window() {
        let mut window = usual();
        window.measure_ratio(600);
        assert_eq!(window.bytes(), 1_048_576 * 102 / 256);
    }

    #[test]
    fn a_fixed_window_never_changes() {
        let mut window = ReceiveWindow::fixed(100_000);
        window.measure_ratio(MSS);
        window.measure_rtt(50, 10);
        let mut at = (0, 0);
        for _ in 0..10 {
            round_trip(&mut window, &mut at, 1000);
        }
        assert!(!window.grow(MSS, || 0));
        assert_eq!((window.bytes(), window.in_syn_ack()), (100_000, 65_535));
    }

    #[test]
    fn the_window_stays_ahead_of_slow_start_and_ends_at_the_limit_of_the_buffer() {
        let mut window = usual();
        window.measure_ratio(MSS);
        let (mut at, mut flight) = ((0, 0), 10);
        while flight < 40_000 {
            round_trip(&mut window, &mut at, flight);
            flight *= 2;
            let next = (flight * u64::from(MSS)).min(41_000_000);
            assert!(window.bytes() >= next, "{} for a flight of {next}", window.bytes());
        }
        round_trip(&mut window, &mut at, 40_000);
        let most = 67_108_864 * 158 / 256;
        assert!((most - 2 * u64::from(MSS)..=most).contains(&window.bytes()), "{}", window.bytes());
        assert!(!window.grow(MSS, || 0));
    }

    #[test]
    fn the_buffer_is_tuned_once_per_round_trip_and_only_for_more_data() {
        let mut window = usual();
        window.measure_ratio(MSS);
        let mut at = (0, 0);
        for flight in [10, 20, 40, 80, 160, 320] {
            round_trip(&mut window, &mut at, flight);
        }
        for _ in 0..20 {
            round_trip(&mut window, &mut at, 320);
        }
        let full = window.bytes();
        assert!((6 * 320 * 1448..7 * 320 * 1448).contains(&full), "{full}");
        for _ in 0..20 {
            round_trip(&mut window, &mut at, 320);
            round_trip(&mut window, &mut at, 100);
        }
        assert_eq!(window.bytes(), full);
        at.1 += 1_000_000;
        window.tune(at.0 - 1, at.1);
        assert!(!window.grow(MSS, || 0), "the round trip is not over");
        window.tune(at.0, at.1);
        assert!(window.grow(MSS, || 0));
    }

    #[test]
    fn the_rtt_is_smoothed_over_the_timestamps_that_data_echo() {
        let mut window = usual();
        let rtt_us = |window: &ReceiveWindow| window.tuning.as_ref().map(|tuning| tuning.rtt_8us >> 3);
        window.measure_rtt(100, 0);
        assert_eq!(rtt_us(&window), Some(40_000), "the SYN-ACK's timestamp gives the RTT of the path");
        window.measure_rtt(220, 100);
        assert_eq!(rtt_us(&window), Some(50_000));
        window.measure_rtt(300, 100);
        assert_eq!(rtt_us(&window), Some(50_000), "one sample per timestamp");
        for stamp in 101..400 {
            window.measure_rtt(stamp + 120, stamp);
        }
        assert_eq!(rtt_us(&window), Some(120_000));
    }
}
