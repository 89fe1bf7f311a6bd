/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's CUBIC as a delegate. Its functions keep their state in the first bytes of icsk_ca_priv. For `mdcubic`
 * and the test object cubic_bpf.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

#define CUBIC_STATE_SIZE 64

extern void cubictcp_init(struct sock *sk) __ksym;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, u8 new_state) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
/* Linux 7.2 renamed the first to the second */
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym __weak;

struct tcp_congestion_ops___v72 {
	void (*cwnd_event_tx_start)(struct sock *sk);
} __core;

#define CUBIC_TAKES_EVENTS() (!core_field_exists(struct tcp_congestion_ops___v72, cwnd_event_tx_start))

struct bictcp {
	u32 curr_rtt; /* tcp_bic's structure of the same name lacks this field */
} __core;

struct cpuinfo_x86 {
	u8 x86;
} __core;

/* The loader knows the results of these checks, so the verifier removes the other branch. */
#define CUBIC_FITS() \
	(core_field_exists(struct bictcp, curr_rtt) && core_type_size(struct bictcp, curr_rtt) <= CUBIC_STATE_SIZE)
/* Before 6.10, the verifier refuses calls to CUBIC's functions, except on x86. */
#define CUBIC_MAY_BE_CALLED() (core_field_exists(struct cpuinfo_x86, x86) || CONG_CONTROL_TAKES_ACK())
#define CUBIC_SERVES() (CUBIC_MAY_BE_CALLED() && CUBIC_FITS())
