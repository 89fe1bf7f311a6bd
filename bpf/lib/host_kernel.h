/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel functions that algorithms call, for the host build: same results as net/ipv4/tcp_cong.c's.
 */
#pragma once

#define core_bitfield(p, field) ((p)->field)

static __always_inline bool tcp_in_slow_start(const struct tcp_sock *tp);
static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk);

static inline u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(((struct tcp_sock *)sk)->snd_cwnd >> 1U, 2U);
}

static inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	return max(tp->snd_cwnd, tp->prior_cwnd);
}

/* Grows by what was acknowledged, up to ssthresh; returns what is left for congestion avoidance. */
static inline u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= cwnd - tp->snd_cwnd;
	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return acked;
}

/* Grows by one for every w acknowledged. */
static inline void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
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

static inline void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
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
