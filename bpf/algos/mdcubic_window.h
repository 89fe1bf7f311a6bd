/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of `mdcubic`, and the clock of its window W = W1 + D2: the PEP or the client's ACKs, within what domain 2
 * should hold.
 */
#pragma once
#include "cubic.h"
#include "domains.h"
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

TUNABLE(u32, d2_bound_kb, 400, 0, 0, 1000000, "kB",
	"D2 counts up to this, or to what domain 2 holds with a short queue if that is more; 0: no bound");

#define FLAGS_BIT 48 /* of the word that holds `flags` */

enum mdcubic_flag {
	/* the low byte: 0, as are D2 and `events`, in a flow that is plain CUBIC */
	PEP_USED = 1 << 0,	     /* the last ACK found a usable record */
	PEP_CLOCKED = 1 << 1,	     /* and it is W's clock */
	TAKEN_FOR_DOMAIN_2 = 1 << 2, /* the running reduction is attributed to domain 2 */
	FALLEN_BACK = 1 << 3,	     /* the client was ahead of the PEP for an RTT */
	NO_DELEGATE = 1 << 7,	     /* this kernel's CUBIC needs more room, or may not be called: Reno */
	/* the high byte: of no concern to plain CUBIC */
	CLIENT_AHEAD = 1 << 8, /* of the PEP, since behind_since_us */
	REDUCING = 1 << 9,     /* ssthresh is a reduction's, and includes D2 */
	UNDONE = 1 << 10,      /* ssthresh is the kernel's after an undo, and includes D2 */
	D2_WAS_FULL = 1 << 11, /* a long queue of domain 2 dropped something since the PEP became the clock */
};

struct mdcubic {
	u8 delegate[CUBIC_STATE_SIZE]; /* CUBIC's own */
	u32 d2_segments FIELD("segments", "D2, the part of W that is beyond the PEP");
	u16 events FIELD("", "domain 2 losses in this round");
	u16 flags FIELD("", "1: a record is used, 2: PEP-clocked, 4: reduction taken for domain 2's, 8: fallen back, "
			    "128: Reno in CUBIC's place, which does not serve here, 256: client ahead of the PEP, "
			    "512: a reduction goes on, 1024: it was undone, 2048: a long queue of domain 2 dropped "
			    "something");

	u32 covered_to FIELD("", "sequence number up to which client and PEP, taken in all, have bytes");
	u32 round_end FIELD("", "sequence number at which the running round ends");
	u32 lost_mark FIELD("segments", "losses of the connection up to which `events` has counted");
	u32 prior_window FIELD("segments", "W at the last ssthresh(), less what an undo must not bring back");
	u32 prior_ssthresh FIELD("segments", "ssthresh at that time");
	u32 behind_since_us FIELD("us", "since when the client is ahead of the PEP");
	u16 behind_updates FIELD("", "number of the PEP's record then, modulo 65536");
	u16 remainder_bytes FIELD("bytes", "seen by the PEP, and no whole segment of growth yet");
	u16 losses_d1 FIELD("", "recoveries that began as domain 1's");
	u16 losses_d2 FIELD("", "recoveries that began as domain 2's");
};
FLOW_STATE(struct mdcubic);

/* The delegate; Reno if CUBIC's state does not fit, or if BPF may not call CUBIC. */
static __always_inline void delegate_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	if (CUBIC_SERVES())
		cubictcp_cong_avoid(sk, ack, acked);
	else
		tcp_reno_cong_avoid(sk, ack, acked);
}

static __always_inline u32 delegate_ssthresh(struct sock *sk)
{
	return CUBIC_SERVES() ? cubictcp_recalc_ssthresh(sk) : tcp_reno_ssthresh(sk);
}

/* -- Clock: II.C -- */

/* W1 of a window: what CUBIC sees of it. */
static __always_inline u32 domain1_window(const struct mdcubic *f, u32 window)
{
	if (!f->d2_segments)
		return window;
	return window > f->d2_segments + 2 ? window - f->d2_segments : 2;
}

/* CUBIC's growth of W1 by that many segments. */
static __always_inline void domain1_grow(struct sock *sk, const struct mdcubic *f, u32 ack, u32 segments)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = domain1_window(f, tp->snd_cwnd);
	delegate_cong_avoid(sk, ack, segments);
	tp->snd_cwnd = min(tp->snd_cwnd + f->d2_segments, tp->snd_cwnd_clamp);
}

/*
 * A loss that does not reduce W does not pause its growth. The W that follows the recovery grows, and with it ssthresh,
 * up to which PRR sends.
 */
static __always_inline void grow_through_recovery(struct sock *sk, struct mdcubic *f, u32 segments)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 kept = tp->snd_cwnd;

	if (domain1_window(f, f->prior_window) < f->prior_ssthresh)
		return; /* the growth of slow start would be sent at once at the end */
	tp->snd_cwnd = f->prior_window;
	tp->snd_ssthresh = f->prior_ssthresh;
	domain1_grow(sk, f, tp->snd_una, segments);
	f->prior_window = tp->snd_cwnd;
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
	tp->snd_cwnd = kept;
}

/* W = W1 + D2, with D2 measured again. */
static __always_inline void renew_d2(struct tcp_sock *tp, struct mdcubic *f, const struct pep_seen *seen)
{
	u32 window = max(domain1_window(f, tp->snd_cwnd), 2U);

	f->d2_segments = domain2_segments(tp, seen);
	tp->snd_cwnd = max(min(window + f->d2_segments, tp->snd_cwnd_clamp), 2U);
}

/*
 * Bounds W if domain 2 fills up: D2 counts as no more than domain 2 should hold, and W1 is no more than domain 1 needs
 * for domain 2's rate. Slow start is bounded earlier, because all that it sends is in domain 2 an RTT of domain 1
 * later. Once domain 2's queue has dropped something, only the rate bounds D2, and losses bound W1.
 */
static __always_inline void bound_d2(struct tcp_sock *tp, struct mdcubic *f, const struct pep_seen *seen)
{
	u32 w1 = domain1_window(f, tp->snd_cwnd), d2 = f->d2_segments;
	bool was_full = f->flags & D2_WAS_FULL, is_starting = w1 < tp->snd_ssthresh;
	u32 least = d2_bound_kb * 1000 / (tp->mss_cache ?: 1), limit;

	if (was_full)
		least = min(least, TCP_INIT_CWND);
	if (!d2_bound_kb || (d2 <= least && (!is_starting || tp->snd_cwnd <= least)))
		return;
	limit = domain2_limit(tp, seen, least);
	f->d2_segments = min(d2, limit);
	if (is_starting || (d2 > limit && !was_full))
		w1 = min(w1, domain1_limit(tp, seen, limit) + limit - f->d2_segments);
	tp->snd_cwnd = min(w1 + f->d2_segments, tp->snd_cwnd);
}

/* If the client is ahead of the PEP for an RTT, the PEP is ignored until a record shows that it is level again. */
static __always_inline void watch_for_fallback(const struct tcp_sock *tp, struct mdcubic *f,
					       const struct pep_seen *seen)
{
	if (!seen->is_behind) {
		if (!(f->flags & FALLEN_BACK) || (u16)seen->updates != f->behind_updates)
			f->flags &= ~(FALLEN_BACK | CLIENT_AHEAD);
		return;
	}
	if (!(f->flags & CLIENT_AHEAD)) {
		f->flags |= CLIENT_AHEAD;
		f->behind_since_us = tp->tcp_mstamp;
	}
	f->behind_updates = seen->updates;
	if ((u32)tp->tcp_mstamp - f->behind_since_us >= tp->srtt_us >> 3)
		f->flags |= FALLEN_BACK;
}

/* The whole segments among the bytes that are new since the last ACK; 0 if W did not limit the sender. */
static __always_inline u32 segments_to_grow_by(struct sock *sk, struct mdcubic *f, u32 news)
{
	u32 mss = tcp_sk(sk)->mss_cache ?: 1;

	news += f->remainder_bytes;
	f->remainder_bytes = news % mss;
	return tcp_is_cwnd_limited(sk) ? news / mss : 0;
}

/* W1 grows by the bytes that are new since the last ACK, at the PEP or the client. */
static __always_inline void clock_by_pep(struct sock *sk, struct mdcubic *f, const struct pep_seen *seen, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_open = state <= TCP_CA_Disorder;
	u32 covered_to = tp->snd_una + seen->bytes;
	u32 news = covered_to - f->covered_to, segments;

	if (f->flags & PEP_CLOCKED && (s32)news < 0) {
		covered_to = f->covered_to; /* the PEP reports less than before: nothing is new */
		news = 0;
	}
	if (!(f->flags & PEP_CLOCKED)) /* bytes from before the PEP was the clock do not count */
		news = f->remainder_bytes = 0;
	f->flags |= PEP_CLOCKED;
	f->covered_to = covered_to;
	if (!is_open && !(state == TCP_CA_Recovery && f->flags & TAKEN_FOR_DOMAIN_2))
		return;
	if (is_open)
		renew_d2(tp, f, seen);
	segments = segments_to_grow_by(sk, f, news);
	if (segments && is_open)
		domain1_grow(sk, f, tp->snd_una, segments);
	else if (segments)
		grow_through_recovery(sk, f, segments);
	if (is_open)
		bound_d2(tp, f, seen);
}

/* W = W1, clocked by the client's ACKs. Outside recoveries, cong_avoid grows W. */
static __always_inline void clock_by_client(struct sock *sk, struct mdcubic *f, u8 state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	s32 news = tp->snd_una - f->covered_to;
	u32 segments;

	f->flags &= ~(PEP_CLOCKED | D2_WAS_FULL);
	f->covered_to = tp->snd_una;
	if (state == TCP_CA_Recovery && f->flags & TAKEN_FOR_DOMAIN_2) {
		segments = segments_to_grow_by(sk, f, max(news, 0));
		if (segments)
			grow_through_recovery(sk, f, segments);
	}
	if (state > TCP_CA_Disorder || !f->d2_segments)
		return;
	tp->snd_cwnd = domain1_window(f, tp->snd_cwnd);
	f->d2_segments = 0;
}
