/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The tunables of `dtcp`, and the state of a flow.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/path.h>
#include <hotcc/radio.h>
#include <hotcc/stats.h>
#include <hotcc/tags.h>

#include "dtcp_base.h"
#include "link_rate.h"
#include "sinr_weight.h"

/* Choices are macros, because the tags also contain their values. */
#define FILTER_EQ5 0
#define FILTER_EQ4 1
#define SINR_SHANNON 0
#define SINR_LITERAL 1
#define SINR_OFF 2
#define RULE_EQ10 0
#define RULE_ALG1 1
#define RULE_EQ10_PRINT 2
#define QUEUE_BANDWIDTH 0
#define QUEUE_RTT 1
#define QUEUE_MAX 2
#define RTO_KERNEL 0
#define RTO_KEEP 1
#define START_HYSTART 0
#define START_FULL 1

TUNABLE(u32, epoch_us, 0, 500000, 0, 10000000, "us", "time between bandwidth samples; 0: one smoothed RTT");
TUNABLE_CHOICE(filter, FILTER_EQ5, FILTER_EQ5, "eq5,eq4", "low-pass filter of the bandwidth samples");
TUNABLE(u32, filter_permille, 900, 900, 0, 999, "permille", "weight of the old value in that filter");
TUNABLE(u32, g_permille, 500, 500, 0, 1000, "permille", "g of eq 7");
TUNABLE_CHOICE(sinr_term, SINR_SHANNON, SINR_LITERAL, "shannon,literal,off", "how the SINR enters eq 7");
TUNABLE(u32, sinr_gain_kbps, 1, 1, 0, 1000000, "kbit/s per dB", "weight of one dB where sinr_term is literal");
CHOICE_WARNING(n_rule, "alg1", "N never falls until more than loss_permille of the segments are lost");
TUNABLE_CHOICE(n_rule, RULE_EQ10, RULE_EQ10_PRINT, "eq10,alg1,eq10_print",
	       "how N follows the estimate; alg1 never lowers N until losses exceed loss_permille");
TUNABLE(u32, alpha_permille, 200, 200, 1, 1000, "permille", "alpha of eq 10: share of W wanted in the queue");
TUNABLE_CHOICE(queue, QUEUE_MAX, QUEUE_BANDWIDTH, "bandwidth,rtt,max", "which queue eq 10 sees");
TUNABLE(u32, n_max, 0, 0, 0, 1048576, "segments per RTT", "upper limit of N; 0: only W");
TUNABLE(u32, loss_permille, 15, 0, 0, 1000, "permille", "share of lost segments above which a loss halves N; 0: never");
TUNABLE(u32, eta, 2, 2, 1, 16, "", "eta of the decrease after a loss");
TUNABLE(u32, initial_windows, 1, 2, 1, 2, "", "initial windows that a new flow starts with");
TUNABLE(u32, initial_ssthresh_bytes, 0, 65535, 0, 1073741824, "bytes", "ssthresh of a new flow; 0: the kernel's");
TUNABLE_CHOICE(slow_start, START_HYSTART, START_FULL, "hystart,full",
	       "what ends slow start: a rising RTT, or only a loss");
TUNABLE(u32, base_window_s, 10, 0, 0, 3600, "s", "how long the least RTT holds; 0: for the connection's life");
TUNABLE_CHOICE(rto_ssthresh, RTO_KERNEL, RTO_KEEP, "kernel,keep",
	       "ssthresh after a timeout: by the kernel's rule, or as it was");

#define EPOCH_MIN_US 20000
#define EPOCH_START_MIN_US 5000	/* slow start doubles W in each RTT */
#define LOSS_SEGMENTS 2048	/* with fewer, random losses of 0.5 % would sometimes look like 1 % */
#define ACKS_MIN 8		/* RTT samples that HyStart++ needs per round */
#define CSS_ROUNDS 5

struct dtcp {
	struct flow_account account;
	u64 bandwidth_q8 FIELD("byte/s / 256", "B_I, the filtered bandwidth; 0: no sample yet");
	u64 sample_rate FIELD("byte/s", "B_(i-1), the previous raw sample");
	u64 n_q16 FIELD("segments per RTT / 65536", "N");
	u64 growth_q16 FIELD("segments^2 / 65536", "growth credit: N per segment acknowledged, W makes one");
	u32 epoch_start_us FIELD("us", "when the running epoch began");
	u32 epoch_delivered FIELD("segments", "delivered at that time");
	u32 prior_ssthresh FIELD("segments", "ssthresh before a timeout");
	struct radio_ref radio;
	struct path_ref path;
	s8 forecast FIELD("1/64", "change of the bandwidth that the signal foretold, 0: none to be judged");
	u8 css_rounds : 3;	  /* epochs of slow start in a row with a longer RTT */
	u8 epoch_app_limited : 1; /* the application limited the running epoch at its start */
	u8 hold : 1;		  /* no growth: there is a queue, or the signal predicts one */
	u8 room : 1;		  /* the signal raised the last epoch's N */
	struct rtt_base base;
	struct link_rate link;
	struct sinr_weight weight;
	u16 epoch_lost FIELD("segments", "lost at the start of the running epoch, modulo 65536");
	u16 loss_q16 FIELD("1/65536", "share of lost segments, a mean over some 2048 segments");
	u16 initial_window FIELD("segments", "the kernel's window for a new flow");
	u16 epochs_fresh FIELD("", "epochs with a fresh SINR, not yet counted");
	u16 epochs_stale FIELD("", "epochs with one that was too old, not yet counted");
	u16 epochs_absent FIELD("", "epochs with none, not yet counted");
};
FLOW_STATE(struct dtcp);
