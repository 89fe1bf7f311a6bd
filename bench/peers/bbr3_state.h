/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's constants and state, named as in draft-ietf-ccwg-bbr-06, section 2. Volumes are in segments, where the draft
 * has bytes; bandwidths are in units of 16 bytes/s, so that 32 bits hold up to 550 Gbit/s; times are in milliseconds
 * unless the draft needs a finer resolution.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

#define INFINITY 0xffffffffU
#define BW_UNIT 16 /* bytes/s */

/* Gains in permille. */
#define STARTUP_PACING_GAIN 2770
#define DRAIN_PACING_GAIN 500
#define DOWN_PACING_GAIN 900
#define UP_PACING_GAIN 1250
#define UNITY_GAIN 1000
#define DEFAULT_CWND_GAIN 2000
#define UP_CWND_GAIN 2250
#define PROBE_RTT_CWND_GAIN 500

#define PACING_MARGIN_PERCENT 1
#define LOSS_THRESH_PERCENT 2
#define BETA_PERCENT 70
#define HEADROOM_PERCENT 15
#define MIN_PIPE_CWND 4
#define STARTUP_FULL_LOSS_COUNT 6
#define FULL_BW_GROWTH_PERCENT 125
#define FULL_BW_ROUNDS 3
#define DRAIN_ROUNDS 3
#define EXTRA_ACKED_FILTER_ROUNDS 10
#define MIN_RTT_FILTER_MS 10000
#define PROBE_RTT_INTERVAL_MS 5000
#define PROBE_RTT_DURATION_MS 200
#define PROBE_WAIT_MIN_MS 2000
#define PROBE_WAIT_SPREAD_MS 1000
#define RENO_ROUNDS_MAX 63
#define PROBE_UP_ROUNDS_MAX 30
#define SEND_QUANTUM_PER_S 1000
#define SEND_QUANTUM_MAX 65536 /* bytes */
#define SEND_QUANTUM_MIN 2
#define OFFLOAD_QUANTA 3
#define NOMINAL_RTT_US 1000

enum state { STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT, NO_STATE };

enum ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

struct bbr3 {
	u32 bw FIELD("16 bytes/s", "bandwidth in use: the least of max_bw and bw_shortterm");
	u32 max_bw_now FIELD("16 bytes/s", "highest delivery rate of this ProbeBW cycle");
	u32 max_bw_before FIELD("16 bytes/s", "highest delivery rate of the cycle before");
	u32 bw_latest FIELD("16 bytes/s", "highest delivery rate of the round");
	u32 bw_shortterm FIELD("16 bytes/s", "bandwidth that losses of this cycle leave");
	u32 full_bw FIELD("16 bytes/s", "what the bandwidth has to exceed by a quarter, or the pipe is full");
	u32 inflight_latest FIELD("segments", "most delivered within the flight of one segment, in the round");
	u32 inflight_shortterm FIELD("segments", "flight that losses of this cycle leave");
	u32 inflight_longterm FIELD("segments", "largest flight without too many losses");
	u32 min_rtt_us FIELD("us", "least RTT of ten seconds");
	u32 min_rtt_stamp_ms FIELD("ms", "when min_rtt_us was seen");
	u32 probe_rtt_min_us FIELD("us", "least RTT of five seconds");
	u32 probe_rtt_min_stamp_ms FIELD("ms", "when probe_rtt_min_us was seen");
	u32 probe_rtt_done_ms FIELD("ms", "end of ProbeRTT; 0: the queue has not drained yet");
	u32 next_round_delivered FIELD("segments", "`delivered` of the segment whose ACK ends the round");
	u32 loss_round_delivered FIELD("segments", "the same for the round in which losses are counted");
	u32 round_count FIELD("rounds", "since the start");
	u32 drain_start_round FIELD("rounds", "at which Drain began");
	u32 cycle_stamp_ms FIELD("ms", "when this ProbeBW cycle began");
	u32 prior_cwnd FIELD("segments", "window before the recovery, or ProbeRTT");
	u32 lost_seen FIELD("segments", "lost up to the last ACK");
	u16 bw_probe_wait_ms FIELD("ms", "after which bandwidth is probed again");
	u8 state FIELD("", "0 Startup, 1 Drain, 2 DOWN, 3 CRUISE, 4 REFILL, 5 UP, 6 ProbeRTT");
	u8 ack_phase FIELD("", "0 INIT, 1 REFILLING, 2 PROBE_STARTING, 3 PROBE_FEEDBACK, 4 PROBE_STOPPING");
	u8 undo_state FIELD("", "state to go back to if the losses were none; 7: stay");
	u8 full_bw_count FIELD("rounds", "on end without much growth of the bandwidth");
	u8 full_bw_reached FIELD("", "whether the pipe ever was full");
	u8 full_bw_now FIELD("", "whether it is, since the search last began");
	u8 rounds_since_probe_up FIELD("rounds", "since bandwidth was probed");
	u8 loss_events FIELD("", "ACKs of the round that told of losses");
	u8 is_loss_in_round FIELD("", "whether the round had a loss");
	u8 is_bw_probe_sample FIELD("", "whether what is acknowledged was sent to probe");
	u8 prev_probe_too_high FIELD("", "whether the last probe lost too much");
	u8 prev_probe_precautionary FIELD("", "whether the last probe stopped at inflight_longterm");
	u8 idle_restart FIELD("", "whether the connection starts again after silence");
	u8 probe_rtt_expired FIELD("", "whether probe_rtt_min_us is older than five seconds");
	u8 probe_rtt_round_done FIELD("", "whether a round has passed in ProbeRTT");
};
FLOW_STATE(struct bbr3);

/* A report of losses: `delivered` when it came, and `lost` before it. */
struct loss_record {
	u32 delivered;
	u32 lost_before;
};

#define LOSS_RECORDS 16 /* a power of two, twice the records of a flight */
#define LOSS_RECORDS_PER_FLIGHT 8
#define EXTRA_ACKED_SLOTS 16 /* a power of two above EXTRA_ACKED_FILTER_ROUNDS */

/* The part of the state that does not fit into icsk_ca_priv. */
struct bbr3_more {
	u32 undo_bw_shortterm;
	u32 undo_inflight_shortterm;
	u32 undo_inflight_longterm;
	u32 bw_probe_up_acked;
	u32 bw_probe_up_rounds;
	u32 probe_up_acked_per_inc;
	u32 extra_acked_start_us;
	u32 extra_acked_delivered;
	u32 extra_acked[EXTRA_ACKED_SLOTS]; /* the maximum of each round, indexed by the round's number */
	u32 initial_cwnd;
	u32 loss_newest;
	struct loss_record losses[LOSS_RECORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bbr3_more);
} bbr3_storage SEC(".maps");

static __always_inline struct bbr3_more *more_of(struct sock *sk)
{
	return bpf_sk_storage_get(&bbr3_storage, sk, NULL, 0);
}

static __always_inline struct bbr3_more *more_open(struct sock *sk)
{
	return bpf_sk_storage_get(&bbr3_storage, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline void more_close(struct sock *sk)
{
	bpf_sk_storage_delete(&bbr3_storage, sk);
}

/* RS, the draft's rate sample, and the rounds that the ACK starts. */
struct ack {
	u32 delivery_rate; /* 0: no sample */
	u32 delivered;	   /* 0: nothing was delivered */
	u32 prior_delivered;
	u32 newly_acked;
	u32 lost;
	u32 tx_in_flight;
	s32 rtt_us;
	bool is_app_limited;
	bool round_start;
	bool loss_round_start;
	bool startup_loss; /* the round that ends had too many losses */
};
