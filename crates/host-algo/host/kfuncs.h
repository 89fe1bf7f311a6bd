/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel functions that algorithms call, for host builds. The functions of net/ipv4/tcp_cong.c return the same
 * values as in the kernel.
 */
#pragma once
#include <hotcc/kernel.h>

u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(((struct tcp_sock *)sk)->snd_cwnd >> 1U, 2U);
}

u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return max(tp->snd_cwnd, tp->prior_cwnd);
}

/* Grows cwnd by the acknowledged segments, up to ssthresh; returns the number left for congestion avoidance. */
u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= cwnd - tp->snd_cwnd;
	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return acked;
}

/* Grows cwnd by one segment for every w acknowledged segments. */
void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		u32 whole = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= whole * w;
		tp->snd_cwnd += whole;
	}
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/*
 * The kernel's CUBIC: the program's own (host_delegate_cubic), or a stand-in, Reno that reduces cwnd to 7/10. The calls
 * of each function are counted.
 */
enum { CUBIC_INIT, CUBIC_RECALC, CUBIC_CONG_AVOID, CUBIC_STATE, CUBIC_ACKED, CUBIC_EVENT, CUBIC_CALLS };

struct cubic_window {
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
};

typedef u32 (*cubic_delegate)(void *context, struct cubic_window *window, u32 function, u32 argument, s32 rtt_us);

static u32 cubic_calls[CUBIC_CALLS];
static cubic_delegate cubic_of_program;
static void *cubic_context;

static u32 cubic_stand_in(struct sock *sk, u32 function, u32 argument)
{
	if (function == CUBIC_RECALC)
		return max((u32)((u64)((struct tcp_sock *)sk)->snd_cwnd * 7 / 10), 2U);
	if (function == CUBIC_CONG_AVOID)
		tcp_reno_cong_avoid(sk, 0, argument);
	return 0;
}

static u32 cubic(struct sock *sk, u32 function, u32 argument, s32 rtt_us)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct cubic_window window = { tp->snd_cwnd, tp->snd_cwnd_cnt, tp->snd_ssthresh };
	u32 result;

	cubic_calls[function]++;
	if (!cubic_of_program)
		return cubic_stand_in(sk, function, argument);
	result = cubic_of_program(cubic_context, &window, function, argument, rtt_us);
	tp->snd_cwnd = window.snd_cwnd;
	tp->snd_cwnd_cnt = window.snd_cwnd_cnt;
	tp->snd_ssthresh = window.snd_ssthresh;
	return result;
}

void cubictcp_init(struct sock *sk)
{
	cubic(sk, CUBIC_INIT, 0, -1);
}

u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	return cubic(sk, CUBIC_RECALC, 0, -1);
}

void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	(void)ack;
	cubic(sk, CUBIC_CONG_AVOID, acked, -1);
}

void cubictcp_state(struct sock *sk, u8 new_state)
{
	cubic(sk, CUBIC_STATE, new_state, -1);
}

void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
	cubic(sk, CUBIC_ACKED, sample->pkts_acked, sample->rtt_us);
}

void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	cubic(sk, CUBIC_EVENT, event, -1);
}

void cubictcp_cwnd_event_tx_start(struct sock *sk)
{
	cubictcp_cwnd_event(sk, CA_EVENT_TX_START);
}
