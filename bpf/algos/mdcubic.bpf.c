// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multi-domain CUBIC (`mdcubic`): CUBIC for the Internet up to a proxy at the border of an access network, which says
 * what it saw. Losses beyond it are not congestion, and W is clocked by what arrives at it.
 *
 * Paper: A. Mihaly, S. Nadas, S. Molnar, Z. Kramer, R. Skog, M. Ihlar, "Supporting Multi-Domain Congestion Control by a
 * Lightweight PEP", sections II and III. Domain 1 is from the sender to the proxy (PEP), domain 2 from there to the client.
 *
 *   place of a loss   the PEP saw the bytes, the client did not: domain 2; else domain 1                          (II.B)
 *   domain 1 loss     CUBIC                                                                                        (III)
 *   domain 2 loss     no reduction, until 10 within an RTT make it CUBIC's                                         (III)
 *   clocking          W = W1 + D2: W1 is CUBIC's and grows by what arrives at the PEP, so slow start doubles it per
 *                     RTT of domain 1; D2 is what the PEP saw and the client has not acknowledged                  (II.C)
 *   retransmission    the client's ACKs and the kernel decide, as ever                                             (II.C)
 *   without a PEP     a loss is domain 1's; `without_pep` = domain2 takes it for domain 2's, as scenario 2 has it   (III)
 *   type a or b       a (domain 2 retransmits itself, `reliable`): 1 loss makes it CUBIC's; b (`lossy`): 10        (II.A)
 *
 * CUBIC itself is the kernel's, called as kfuncs ("the delegate"), with W1 in place of W. Without a PEP the two are equal
 * and every call is handed through.
 *
 * Hooks: `pkts_acked` reads the PEP's record. While data are in flight the kernel calls it once per ACK, duplicates too,
 * which are all there is while the client waits for a lost segment, and it leaves PRR alone. `ssthresh` tells the domains
 * apart, once per recovery (it reads the record again); holes that show later are looked at per ACK of such a recovery.
 *
 * Deviations from the paper, and why:
 *  - The authors tagged losses in their simulator. Here the PEP's record is compared with snd_una and the SACK blocks of
 *    the last ACK: all of what is missing must have been seen by the PEP, else the loss is domain 1's.
 *  - A "loss event" is a segment marked as lost, and the one that starts a recovery; an RTT is a round of snd_una.
 *  - Ten losses: while the PEP is the clock, W1 is a rate, and CUBIC's share of it lets the queue of domain 2 that dropped
 *    them run dry. Where domain 2 has a queue, W1 gives up as many segments as were lost, and not more than CUBIC would
 *    (`d2_reduction`; `paper`: CUBIC). It has one where D2 takes longer than the least RTT and the record's leave for it, by
 *    three sixteenths of the RTT at least: at an eighth a PEP that lies takes too much, at a quarter queues are missed.
 *  - A long queue of domain 2's, of seven sixteenths of the RTT at least, drops what is too much for it: the first loss there is
 *    congestion. W gives up half of that queue, and not more than CUBIC would; slow start ends with what the rate fills. In a
 *    shorter one a loss of the radio's is as likely: three sixteenths left links half empty.
 *  - Ten losses are many for a small W, and what a PEP that lies takes from others grows with them: of a W under 160 it is
 *    one for 16 segments, and three at least (`d2_segments_per_loss`; `paper`: ten).
 *  - A recovery that was taken for domain 2's becomes CUBIC's once, when a hole shows that the PEP did not see, the tenth
 *    loss comes, or the record is of no use any more: then the threshold is set, and PRR follows.
 *  - In domain 2's recoveries ssthresh() answers W, so that PRR conserves packets; at the end ssthresh is again what it was,
 *    for ssthresh = W would end slow start. A loss that is hidden from CUBIC does not pause CUBIC's growth either: the W
 *    to which the recovery returns grows as in congestion avoidance.
 *  - Of what the PEP saw D2 leaves out what lies below the client's last SACK block: that arrived or was lost, and the kernel
 *    counts neither as in flight. With it W would be more than what is in flight as a recovery begins, and PRR would send
 *    the difference.
 *  - D2 counts whole segments, and changes in the open and the disorder state, and as a reduction ends: else W is PRR's.
 *  - The paper bounds neither D2 nor slow start, which sends far more than a slow domain 2 holds before the client's first ACK.
 *    `d2_bound_kb` (`paper`: none): D2 counts as no more than what domain 2 delivers in one and a half times the time it takes
 *    without a queue, or as the bound, while W is small or no rate is known. W1 is then at most twice what domain 1 holds at
 *    that rate; slow start keeps to the sum of both. A queue of domain 1's is not counted: W1 alone has no bound.
 *  - While PEP-clocked, CUBIC gets no RTT samples: HyStart would take domain 2's queue for domain 1's.
 * Undo: the kernel's, W as before the loss; after a timeout, less D2, which the timeout cleared. Timeout: the delegate's
 * rule for W1, D2 = 0, and slow start by the client's ACKs until the loss state ends; one that interrupts a recovery, for
 * which the kernel asks no ssthresh(), leaves the same ssthresh. ECN: a mark is domain 1's. Application-limited: W1 does
 * not grow. Idle: everything was acknowledged, D2 is 0, and the delegate moves its epoch.
 *
 * The PEP's record (abi/pep.h) is not trusted. Absent, being written, or older than `pep_max_age_ms`: CUBIC, by the client's
 * ACKs. Bytes outside snd_una..snd_nxt do not count. Client ahead of the PEP for an RTT: CUBIC, until the PEP is level again
 * (II.B: it failed, or lies). What cannot be seen here is a PEP that acknowledges what never reached it: then the losses
 * of domain 1 are taken for domain 2's, and W1 has no bound but the receiver's window and ten losses per RTT. So only
 * authentic records may get into the storage; who cannot tell sets `pep_clock` to 0.
 */
#include "account_map.h"
#include "cubic.h"
#include "domains.h"
#include "mdcubic_window.h"
#include <hotcc/kernel.h>
#include "abi/pep.h"
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

#define TYPE_LOSSY 0
#define TYPE_RELIABLE 1
#define BY_LOSSES 0
#define BY_CUBIC 1
#define DOMAIN_1 0
#define DOMAIN_2 1

TUNABLE_CHOICE(type, TYPE_LOSSY, TYPE_LOSSY, "lossy,reliable",
	       "what domain 2 is like: its losses are not congestion, or are");
TUNABLE(u32, d2_loss_events, 0, 0, 0, 1000, "per RTT",
	"domain 2 losses from which CUBIC reacts; 0: by type, lossy 10, reliable 1");
TUNABLE(u32, d2_segments_per_loss, 16, 0, 0, 1000, "segments",
	"lossy and by type: of a smaller W one loss per so many, 3 at least; 0: always 10");
TUNABLE_CHOICE(
	d2_reduction, BY_LOSSES, BY_CUBIC, "losses,cubic",
	"PEP-clocked, and where a lossy domain 2 has a queue: W gives up what was lost, and half of a long one; or as CUBIC");
TUNABLE(u32, pep_max_age_ms, 1000, 1000, 1, 30000, "ms", "older records of the PEP are not used");
TUNABLE_CHOICE(without_pep, DOMAIN_1, DOMAIN_1, "domain1,domain2", "which domain's a loss is where no PEP tells");
TUNABLE(u32, pep_clock, 1, 1, 0, 1, "", "1: W grows by what the PEP saw; 0: by the client's ACKs alone");

#define LOSSY_EVENTS 10U
#define LEAST_LOSSY_EVENTS 3U
#define RELIABLE_EVENTS 1
#define U16_MAX 0xffffU
/* sixteenths of the RTT */
#define ANY_QUEUE 3
#define LONG_QUEUE 7

/* d2_segments (bits 0 to 31), events, and flags (from FLAGS_BIT on) in a single load, for what runs at every ACK. */
static __always_inline u64 state_word(const struct sock *sk)
{
	_Static_assert(__builtin_offsetof(struct mdcubic, d2_segments) == CUBIC_STATE_SIZE, "first in the word");
	_Static_assert(__builtin_offsetof(struct mdcubic, flags) == CUBIC_STATE_SIZE + FLAGS_BIT / 8, "its byte");
	return READ_ONCE(((const struct inet_connection_sock *)sk)->icsk_ca_priv[CUBIC_STATE_SIZE / 8]);
}

static __always_inline bool nothing_but_cubic(const struct sock *sk)
{
	return !(state_word(sk) & ((1ULL << (FLAGS_BIT + 8)) - 1));
}

/* CUBIC's threshold for W1 of a window. */
static __always_inline u32 domain1_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 kept = tp->snd_cwnd, ssthresh;

	tp->snd_cwnd = domain1_window(f, window);
	ssthresh = delegate_ssthresh(sk);
	tp->snd_cwnd = kept;
	return ssthresh;
}

static __always_inline u32 event_limit(u32 window)
{
	if (d2_loss_events)
		return d2_loss_events;
	if (type == TYPE_RELIABLE)
		return RELIABLE_EVENTS;
	if (!d2_segments_per_loss)
		return LOSSY_EVENTS;
	return min(max(window / d2_segments_per_loss, LEAST_LOSSY_EVENTS), LOSSY_EVENTS);
}

/* The PEP, once the client was ahead of it for an RTT, is used no more until it is level again. */
static __always_inline void watch_for_fallback(const struct tcp_sock *tp, struct mdcubic *f,
					       const struct pep_seen *seen)
{
	if (!seen->is_behind) {
		if (!(f->flags & FALLEN_BACK) || (u16)seen->updates != f->behind_updates) {
			f->flags &= ~FALLEN_BACK;
			f->marks &= ~CLIENT_AHEAD;
		}
		return;
	}
	if (!(f->marks & CLIENT_AHEAD)) {
		f->marks |= CLIENT_AHEAD;
		f->behind_since_us = tp->tcp_mstamp;
	}
	f->behind_updates = seen->updates;
	if ((u32)tp->tcp_mstamp - f->behind_since_us >= tp->srtt_us >> 3)
		f->flags |= FALLEN_BACK;
}

/* ssthresh for all of a window: that of W1, and D2, which the loss says nothing about. A loss never raises W. */
static __always_inline u32 whole_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window)
{
	return min(domain1_ssthresh(sk, f, window) + f->d2_segments, max(window, 2U));
}

/* What of W waits in domain 2, where its losses may be congestion. */
static __always_inline u32 waiting_segments(const struct tcp_sock *tp, const struct mdcubic *f, u32 window,
					    const struct pep_seen *seen, u32 sixteenths)
{
	if (d2_reduction != BY_LOSSES || type != TYPE_LOSSY || !(f->flags & PEP_CLOCKED))
		return 0;
	return domain2_queue(tp, window, seen, sixteenths);
}

/* The same after too many losses in domain 2. */
static __always_inline u32 excess_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window,
					   const struct pep_seen *seen)
{
	u32 ssthresh = whole_ssthresh(sk, f, window);

	/* at U16_MAX it is not known how many there were */
	if (f->events >= min(window, U16_MAX) || !waiting_segments(tcp_sk(sk), f, window, seen, ANY_QUEUE))
		return ssthresh;
	return max(ssthresh, window - f->events);
}

/*
 * The same after a loss of a long queue in domain 2, of which W gives up half. Slow start has gone far beyond the queue by
 * then: what the rate fills is left of W.
 */
static __always_inline u32 queue_ssthresh(struct sock *sk, struct mdcubic *f, u32 window, u32 queue,
					  const struct pep_seen *seen)
{
	u32 ssthresh = max(whole_ssthresh(sk, f, window), window - min(queue / 2, window)), limit;

	f->marks |= D2_WAS_FULL;
	if (domain1_window(f, window) >= f->prior_ssthresh)
		return ssthresh;
	limit = domain2_limit(tcp_sk(sk), seen, TCP_INIT_CWND);
	return min(ssthresh, limit + domain1_limit(tcp_sk(sk), seen, limit));
}

/* A recovery that was taken for domain 2's is no more. */
static __always_inline void give_up_domain_2(struct sock *sk, struct mdcubic *f, u32 ssthresh)
{
	tcp_sk(sk)->snd_ssthresh = ssthresh;
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
}

/* After an undo the kernel makes ssthresh three quarters of W at least, D2 included: W1 would slow-start far beyond itself. */
static __always_inline void settle_undo(struct tcp_sock *tp, struct mdcubic *f)
{
	if (!(f->marks & UNDONE))
		return;
	f->marks &= ~UNDONE;
	tp->snd_ssthresh = f->prior_ssthresh;
}

/* What an ACK adds to a recovery. */
static __always_inline void follow_recovery(struct sock *sk, struct mdcubic *f, bool use_pep,
					    const struct pep_seen *seen)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - f->lost_mark;

	f->lost_mark = tp->lost;
	if (!(f->flags & TAKEN_FOR_DOMAIN_2))
		return;
	f->events = min(f->events + min(lost, U16_MAX), U16_MAX);
	if (use_pep ? !pep_saw_holes(tp, seen) : without_pep == DOMAIN_1)
		give_up_domain_2(sk, f, whole_ssthresh(sk, f, f->prior_window));
	else if (f->events >= event_limit(f->prior_window))
		give_up_domain_2(sk, f, excess_ssthresh(sk, f, f->prior_window, seen));
}

/* D2 is gone, and so is its share of ssthresh. */
static __always_inline void end_reduction_by_timeout(struct sock *sk, struct mdcubic *f, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->flags & TAKEN_FOR_DOMAIN_2)
		tp->snd_ssthresh = domain1_ssthresh(sk, f, window);
	else if (f->marks & REDUCING)
		tp->snd_ssthresh = domain1_window(f, tp->snd_ssthresh);
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
	f->marks &= ~REDUCING;
}

/*
 * The kernel has made W the threshold, with the D2 of when the reduction began. What left domain 2 since then would be
 * sent at once, into the very queue that was too long. Slow start that a queue ended left a W of what the rate fills: D2's
 * share of that is no more than the bound.
 */
static __always_inline void end_reduction(struct sock *sk, struct mdcubic *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pep_seen seen;
	bool is_renewed = f->flags & PEP_CLOCKED && pep_read(sk, pep_max_age_ms, &seen) == PEP_FRESH;

	if (f->flags & TAKEN_FOR_DOMAIN_2) {
		tp->snd_cwnd = min(max(tp->snd_cwnd, f->prior_window), tp->snd_cwnd_clamp);
		tp->snd_ssthresh = f->prior_ssthresh;
	} else {
		if (is_renewed && f->marks & D2_WAS_FULL)
			f->d2_segments = min(f->d2_segments, domain2_limit(tp, &seen, TCP_INIT_CWND));
		tp->snd_ssthresh = domain1_window(f, tp->snd_ssthresh);
	}
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
	f->marks &= ~REDUCING;
	if (is_renewed) {
		renew_d2(tp, f, &seen);
		bound_d2(tp, f, &seen);
	}
}

SEC("struct_ops") void BPF_PROG(mdcubic_init, struct sock *sk)
{
	struct mdcubic *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	f->round_end = tcp_sk(sk)->snd_nxt; /* 0 may be 2 GB ahead */
	if (CUBIC_FITS())
		cubictcp_init(sk);
	else
		f->flags = NO_DELEGATE;
	mapped_account_open(sk);
	f->prior_window = ~0U;
}

SEC("struct_ops") void BPF_PROG(mdcubic_release, struct sock *sk)
{
	mapped_account_close(sk);
}

/* An ACK of a flow that may have a PEP, or is in a reduction. */
static __noinline void follow_pep(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mdcubic *f = flow_state(sk);
	u8 state = tcp_ca_state(sk);
	struct pep_seen seen;
	enum pep_answer answer = pep_read(sk, pep_max_age_ms, &seen);
	bool use_pep;

	settle_undo(tp, f);
	if (answer != PEP_ABSENT)
		watch_for_fallback(tp, f, &seen);
	use_pep = answer == PEP_FRESH && !(f->flags & FALLEN_BACK);
	if ((use_pep && !(f->flags & PEP_USED)) || (s32)(tp->snd_una - f->round_end) >= 0) {
		f->round_end = tp->snd_nxt;
		f->events = 0;
		f->lost_mark = tp->lost;
	}
	f->flags = use_pep ? f->flags | PEP_USED : f->flags & ~PEP_USED;
	if (use_pep && pep_clock)
		clock_by_pep(sk, f, &seen, state);
	else
		clock_by_client(sk, f, state);
	if (state == TCP_CA_Recovery)
		follow_recovery(sk, f, use_pep, &seen);
}

SEC("struct_ops") void BPF_PROG(mdcubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	if (nothing_but_cubic(sk) && !pep_is_possible(sk)) {
		cubictcp_acked(sk, sample);
		return;
	}
	follow_pep(sk);
	if (!(state_word(sk) & (u64)(PEP_CLOCKED | NO_DELEGATE) << FLAGS_BIT))
		cubictcp_acked(sk, sample);
}

/* PEP-clocked, the growth was in pkts_acked; but in the loss state W is the client's. */
static __noinline void grow_beside_pep(struct sock *sk, u32 ack, u32 acked)
{
	struct mdcubic *f = flow_state(sk);

	if (!(f->flags & PEP_CLOCKED) || tcp_ca_state(sk) == TCP_CA_Loss)
		domain1_grow(sk, f, ack, acked);
}

SEC("struct_ops") void BPF_PROG(mdcubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	if (nothing_but_cubic(sk))
		cubictcp_cong_avoid(sk, ack, acked);
	else
		grow_beside_pep(sk, ack, acked);
}

/* Entry to a recovery, a reduction after an ECN mark, or loss state; which of them is told afterwards. */
SEC("struct_ops") u32 BPF_PROG(mdcubic_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mdcubic *f = flow_state(sk);
	struct pep_seen seen;
	bool domain_2;
	u32 queue = 0;

	settle_undo(tp, f);
	f->prior_window = tp->snd_cwnd;
	f->prior_ssthresh = tp->snd_ssthresh;
	f->marks |= REDUCING;
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
	if (!(f->flags & PEP_CLOCKED)) { /* what there was before grew W in cong_avoid */
		f->covered_to = tp->snd_una;
		f->remainder_bytes = 0;
	}
	if (pep_read(sk, pep_max_age_ms, &seen) == PEP_FRESH && !(f->flags & FALLEN_BACK)) {
		domain_2 = pep_saw_first(tp, &seen) && pep_saw_holes(tp, &seen);
		queue = waiting_segments(tp, f, tp->snd_cwnd, &seen, LONG_QUEUE);
	} else {
		domain_2 = without_pep == DOMAIN_2;
	}
	if (!domain_2)
		return whole_ssthresh(sk, f, tp->snd_cwnd);
	f->events += f->events < U16_MAX;
	if (queue)
		return queue_ssthresh(sk, f, tp->snd_cwnd, queue, &seen);
	if (f->events >= event_limit(tp->snd_cwnd))
		return excess_ssthresh(sk, f, tp->snd_cwnd, &seen);
	f->flags |= TAKEN_FOR_DOMAIN_2;
	return max(tp->snd_cwnd, 2U);
}

SEC("struct_ops") void BPF_PROG(mdcubic_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mdcubic *f = flow_state(sk);
	bool domain_2 = f->flags & TAKEN_FOR_DOMAIN_2;

	if (new_state == TCP_CA_CWR && domain_2) {
		give_up_domain_2(sk, f, whole_ssthresh(sk, f, tp->snd_cwnd));
	} else if (new_state == TCP_CA_Recovery) {
		if (domain_2)
			f->losses_d2 += f->losses_d2 < U16_MAX;
		else
			f->losses_d1 += f->losses_d1 < U16_MAX;
		mapped_account_loss(sk);
	} else if (new_state == TCP_CA_Loss) {
		end_reduction_by_timeout(sk, f, f->prior_window);
		mapped_account_timeout(sk);
	}
	if (CUBIC_FITS())
		cubictcp_state(sk, new_state);
	if (new_state == TCP_CA_Loss) {
		f->prior_window = domain1_window(f, f->prior_window);
		f->d2_segments = 0;
		f->covered_to = tp->snd_una;
	}
}

SEC("struct_ops") void BPF_PROG(mdcubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct mdcubic *f = flow_state(sk);

	if (event == CA_EVENT_COMPLETE_CWR)
		end_reduction(sk, f);
	else if (event == CA_EVENT_LOSS)
		end_reduction_by_timeout(sk, f, tcp_sk(sk)->snd_cwnd);
	else if (event == CA_EVENT_TX_START && CUBIC_FITS() && CUBIC_TAKES_EVENTS())
		cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops") void BPF_PROG(mdcubic_tx_start, struct sock *sk)
{
	if (CUBIC_FITS())
		cubictcp_cwnd_event_tx_start(sk);
}

SEC("struct_ops") u32 BPF_PROG(mdcubic_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mdcubic *f = flow_state(sk);

	if (f->flags & TAKEN_FOR_DOMAIN_2 || f->d2_segments)
		f->marks |= UNDONE;
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
	f->marks &= ~REDUCING;
	if (tcp_ca_state(sk) == TCP_CA_Loss)
		return max(tp->snd_cwnd, min(tp->prior_cwnd, f->prior_window));
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc mdcubic ALGORITHM(
	"CUBIC up to a border PEP; losses behind it cost no window",
	"Mihaly et al. 2017: Supporting Multi-Domain Congestion Control by a Lightweight PEP, sections II and III") = {
	.init = (void *)mdcubic_init,
	.release = (void *)mdcubic_release,
	.pkts_acked = (void *)mdcubic_pkts_acked,
	.cong_avoid = (void *)mdcubic_cong_avoid,
	.ssthresh = (void *)mdcubic_ssthresh,
	.set_state = (void *)mdcubic_set_state,
	.cwnd_event = (void *)mdcubic_cwnd_event,
	.cwnd_event_tx_start = (void *)mdcubic_tx_start,
	.undo_cwnd = (void *)mdcubic_undo_cwnd,
	.name = "mdcubic",
	.flags = TCP_CONG_NON_RESTRICTED,
};
