//! The events of a connection, and counts of them.

use crate::reports::{Report, Stretch};

/// An event of a connection. One that is not possible in the connection's present state is skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An ACK, `after_us` after the last event.
    Ack {
        /// Microseconds since the last event.
        after_us: u64,
        /// Segments newly delivered.
        acked: u32,
        /// RTT sample, microseconds.
        rtt_us: Option<u32>,
    },
    /// A duplicate ACK, `after_us` after the last event.
    Duplicate {
        /// Microseconds since the last event.
        after_us: u64,
    },
    /// This many segments are found lost in the current recovery.
    Lost(u32),
    /// From now on, the window holds the sender back (`true`) or not.
    CwndLimited(bool),
    /// The application runs dry (`true`) or has data again.
    AppLimited(bool),
    /// The segment size changes, bytes.
    Mss(u32),
    /// First duplicate ACK.
    Disorder,
    /// Back to the open state from disorder, or from a timeout's loss state.
    Open,
    /// Fast recovery starts.
    Recovery,
    /// An ECN mark.
    Cwr,
    /// Fast recovery or the reduction after an ECN mark ends.
    Complete,
    /// The loss proves spurious.
    Undo,
    /// Retransmission timeout. `ssthresh`: whether the kernel asks for a new ssthresh; it does not if the timeout
    /// interrupts a recovery or follows another one.
    Timeout {
        /// Whether `ssthresh()` and `CA_EVENT_LOSS` are called.
        ssthresh: bool,
    },
    /// The path takes smaller segments from now on: what is in flight is sent again, as many segments as W. The state
    /// becomes that of a loss, and nothing is reduced (`tcp_simple_retransmit`).
    Oversized,
    /// Nothing is in flight for a while, then there is a transmission.
    Idle {
        /// Duration, microseconds.
        for_us: u64,
        /// Whether the kernel restarts the window (`tcp_slow_start_after_idle`).
        restart: bool,
    },
    /// The connection changes to another algorithm and back.
    Return,
    /// The tunables change; [`Model::retune`](crate::models::Model::retune) chooses them.
    Retune(u64),
    /// The radio map holds this reading from now on.
    Radio {
        /// SINR, 1/256 dB.
        sinr_q8: i16,
        /// Average SINR, 1/256 dB.
        average_q8: i16,
        /// Its age now, ms; negative: in the future.
        age_ms: i32,
        /// Age at which it becomes stale, ms, 0: default.
        max_age_ms: u32,
    },
    /// From now on, the radio map has an entry that was never written (`true`), or no entry.
    RadioGone(bool),
    /// The path map holds this generation for the peer from now on, 0: no entry.
    Path(u32),
    /// A PEP reports this of the flow.
    Pep(Report),
    /// From now on, the flow's storage for a PEP's reports is empty, or does not exist.
    NoPep {
        /// Whether it exists.
        storage: bool,
    },
    /// The SACK blocks of the last ACK; empty ones are left out.
    Sack([Stretch; 4]),
    /// The receiver's hint in the flow's storage is this from now on.
    Hint {
        /// The hint.
        hint: u8,
        /// Its age now, ms; negative: in the future.
        age_ms: i32,
        /// Whether its sequence number has changed, which is a writer's last store.
        new: bool,
    },
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Hooks called and compared.
    pub hooks: u64,
    /// ACKs.
    pub acks: u64,
    /// Duplicate ACKs.
    pub duplicates: u64,
    /// Wraps of the sequence number.
    pub sequence_wraps: u64,
    /// ACKs at W of one or two segments.
    pub small_windows: u64,
    /// ACKs at W of 100,000 segments and more.
    pub large_windows: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Reductions by ECN.
    pub marks: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that segments were too large for the path.
    pub oversized: u64,
    /// Undone reductions.
    pub undos: u64,
    /// Times that the algorithm took over a connection that it had before.
    pub returns: u64,
    /// Idle periods.
    pub idles: u64,
    /// Idle periods, and gaps between two ACKs, of 2^31 us (36 minutes) to 2^32 us.
    pub long_gaps: u64,
    /// Idle periods, and gaps between two ACKs, of 2^32 us and more.
    pub very_long_gaps: u64,
    /// Crossings of a multiple of 2^32 us, or of 2^32 ms.
    pub clock_wraps: u64,
    /// Wraps of the delivered count.
    pub delivered_wraps: u64,
    /// ACKs at the same time as the event before.
    pub zero_intervals: u64,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
}
