/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The congestion control's table of operations, and all differences between kernels about it. Every algorithm includes
 * it.
 *
 *   difference                                       since   can be dropped when the oldest kernel is
 *   cong_control(sk, ack, flag, rs), was (sk, rs)    6.10    6.10
 *   cwnd_event_tx_start, was cwnd_event(TX_START)    7.2     7.2
 *   in-place update (links)                          6.4     6.4 (the loader's business)
 */
#pragma once
#include <hotcc/kernel.h>

#define TCP_CONG_NON_RESTRICTED 1	/* unprivileged programs and other namespaces' defaults may use it */

/*
 * Only the members in use. The loader matches them with the kernel's by name, and clears those that the running kernel
 * lacks.
 */
struct tcp_congestion_ops___hotcc {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cwnd_event_tx_start)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
	u32 flags;
};

/* Flavours that only probe the kernel's BTF. */
struct tcp_congestion_ops___v610 {
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
} __core;

#define CONG_CONTROL_TAKES_ACK() core_type_matches(struct tcp_congestion_ops___v610)

/*
 * CONG_CONTROL(name, sk, ack, flag, rs) { body }: one program for both signatures. Before 6.10 the kernel passes
 * neither the acknowledged sequence number nor the flags; the body then sees ack = 0 and flag = -1.
 */
#define CONG_CONTROL(name, sk, ack, flag, rs)                                                            \
	static __always_inline void body_##name(struct sock *sk, u32 ack, int flag,                      \
						const struct rate_sample *rs);                           \
	SEC("struct_ops") int name(u64 *ctx)                                                             \
	{                                                                                                \
		if (CONG_CONTROL_TAKES_ACK())                                                            \
			body_##name((void *)ctx[0], ctx[1], ctx[2], (void *)ctx[3]);                     \
		else                                                                                     \
			body_##name((void *)ctx[0], 0, -1, (void *)ctx[1]);                              \
		return 0;                                                                                \
	}                                                                                                \
	static __always_inline void body_##name(struct sock *sk, u32 ack, int flag,                      \
						const struct rate_sample *rs)
