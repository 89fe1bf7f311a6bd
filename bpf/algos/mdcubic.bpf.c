// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multi-domain CUBIC (`mdcubic`): CUBIC for the path from the sender to a proxy at the border of an access network. The
 * proxy reports what it saw. Losses beyond the proxy are not congestion, and what arrives at the proxy clocks W.
 *
 * Paper: A. Mihaly, S. Nadas, S. Molnar, Z. Kramer, R. Skog, M. Ihlar, "Supporting Multi-Domain Congestion Control by a
 * Lightweight PEP", sections II and III. Domain 1 is from the sender to the proxy (PEP), domain 2 from the PEP to the
 * client.
 *
 *   place of a loss   the PEP saw the bytes and the client did not: domain 2; otherwise domain 1                 (II.B)
 *   domain 1 loss     CUBIC                                                                                       (III)
 *   domain 2 loss     no reduction; CUBIC after 10 losses within an RTT                                           (III)
 *   clock             W = W1 + D2. W1 is CUBIC's and grows by what arrives at the PEP, so slow start doubles it per
 *                     RTT of domain 1. D2 is what the PEP saw and the client has not acknowledged                (II.C)
 *   retransmission    by the client's ACKs and the kernel, as without a PEP                                      (II.C)
 *   without a PEP     a loss is domain 1's; `without_pep` = domain2 attributes it to domain 2 (scenario 2)        (III)
 *   type a or b       a, domain 2 retransmits by itself (`reliable`): 1 loss makes it CUBIC's; b (`lossy`): 10   (II.A)
 *
 * CUBIC is the kernel's own ("the delegate"), called through kfuncs with W1 in place of W. Without a PEP, W1 is W, and
 * each call goes straight to the delegate.
 *
 * The clock. PEP_CLOCKED and FALLEN_BACK are the states; the loss state is always clocked by the client.
 *
 *                   fresh record, and `pep_clock` = 1
 *      CLIENT  ------------------------------------->  PEP_CLOCKED
 *      W = W1  <-------------------------------------  W = W1 + D2
 *         ^        record absent, torn or too old           |
 *         |                                                 |  client ahead of the PEP for an RTT
 *         |   newer record, and the PEP is level again      v
 *         +-------------------------------------------  FALLEN_BACK: W = W1
 *
 * Reductions. REDUCING holds in both states below, TAKEN_FOR_DOMAIN_2 in one.
 *
 *        ssthresh(): the PEP saw all that is missing
 *      OPEN  --------------------------------------->  TAKEN_FOR_DOMAIN_2: ssthresh = W, so PRR conserves packets
 *       | ^                                              |    |
 *       | |  end: W and ssthresh are restored            |    |  hole that the PEP did not see; too many losses;
 *       | +----------------------------------------------+    |  CE mark; no usable record (`without_pep` = domain1)
 *       | ^                                                   |
 *       | |  end: D2 leaves ssthresh                          v
 *       | +----------------------------------------------  domain 1's: ssthresh = CUBIC's for W1, plus D2
 *       |                                                     ^
 *       +-----------------------------------------------------+
 *        ssthresh(): otherwise
 *
 *      timeout, in any state   D2 = 0, ssthresh = CUBIC's for W1; OPEN, clocked by the client until the loss state ends
 *      undo, in any state      W as before the loss; UNDONE restores ssthresh at the next ACK; OPEN
 *
 * Hooks: `pkts_acked` reads the PEP's record. While data are in flight, the kernel calls it once per ACK. That includes
 * duplicate ACKs, the only ones while the client waits for a lost segment; and it does not interfere with PRR.
 * `ssthresh` reads the record again and attributes the loss to a domain, once per recovery. Each ACK of a recovery that
 * was attributed to domain 2 checks for new holes.
 *
 * Deviations from the paper, and why:
 *  - The authors tagged losses in their simulator. Here the PEP's record is compared with snd_una and the SACK blocks
 *    of the last ACK. If the PEP did not see everything that is missing, the loss is domain 1's.
 *  - A "loss event" is a segment marked as lost, and the loss that starts a recovery; an RTT is a round of snd_una.
 *  - Ten losses: while the PEP is the clock, W1 is a rate, and CUBIC's share of it drains the queue of domain 2 that
 *    dropped the segments. If domain 2 has a queue, W1 shrinks by as many segments as were lost, and by no more than
 *    CUBIC's reduction (`d2_reduction`; `paper`: CUBIC). Domain 2 has a queue if D2 takes longer than the least RTT and
 *    the record's RTT allow, by at least three sixteenths of the RTT. At an eighth, a lying PEP takes too much; at a
 *    quarter, queues are missed.
 *  - A long queue in domain 2, of at least seven sixteenths of the RTT, drops what it cannot hold: its first loss is
 *    congestion. W shrinks by half of that queue, and by no more than CUBIC's reduction; slow start ends with the
 *    window that the rate fills. In a shorter queue a radio loss is as likely: a limit of three sixteenths left links
 *    half empty.
 *  - Ten losses are many for a small W, and a lying PEP takes more from other flows the more losses are tolerated. If W
 *    is under 160, the limit is one loss per 16 segments, and at least three (`d2_segments_per_loss`; `paper`: ten).
 *  - A recovery attributed to domain 2 becomes CUBIC's once: when a hole shows that the PEP did not see, at the tenth
 *    loss, or when the record is no longer usable. The threshold is set then, and PRR follows it.
 *  - In a recovery attributed to domain 2, ssthresh() returns W, so that PRR conserves packets. At its end ssthresh is
 *    restored, because ssthresh = W would end slow start. A loss hidden from CUBIC does not pause its growth: the W to
 *    which the recovery returns grows as in congestion avoidance.
 *  - D2 excludes what the PEP saw below the client's last SACK block: those bytes arrived or were lost, and the kernel
 *    counts neither as in flight. If D2 included them, W would exceed the flight at the start of a recovery, and PRR
 *    would send the difference.
 *  - D2 counts whole segments. It changes in the open and the disorder state, and at the end of a reduction; otherwise
 *    W is PRR's.
 *  - The paper bounds neither D2 nor slow start, which sends far more than a slow domain 2 holds before the client's
 *    first ACK. `d2_bound_kb` (`paper`: none) does: D2 counts as no more than domain 2 delivers in one and a half times
 *    the time that it takes without a queue, or as the bound while W is small or no rate is known. W1 is then at most
 *    twice what domain 1 holds at that rate, and slow start keeps to the sum of both. A queue in domain 1 is not
 *    counted: W1 alone has no bound.
 *  - While the PEP is the clock, CUBIC gets no RTT samples: HyStart would mistake domain 2's queue for domain 1's.
 *
 * Undo: as the kernel's, with W from before the loss; after a timeout less D2, which the timeout cleared. Timeout: the
 * delegate's rule for W1. A timeout that interrupts a recovery, for which the kernel does not call ssthresh(), leaves
 * the same ssthresh. ECN: a mark is domain 1's. Application-limited: W1 does not grow. Idle: everything was
 * acknowledged, D2 is 0, and the delegate moves its epoch.
 *
 * The PEP's record (abi/pep.h) is not trusted. If it is absent, being written, or older than `pep_max_age_ms`, the flow
 * is CUBIC clocked by the client's ACKs. Bytes outside snd_una..snd_nxt do not count. If the client is ahead of the PEP
 * for an RTT, the PEP failed or lies (II.B): CUBIC, until the PEP is level again. A PEP that acknowledges bytes which
 * never reached it cannot be detected here. The losses of domain 1 are then attributed to domain 2, and only the
 * receiver's window and ten losses per RTT bound W1. Only authentic records may therefore enter the storage; if records
 * cannot be authenticated, set `pep_clock` = 0.
 */
#include "account_map.h"
#include "mdcubic_window.h"
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
#define MIN_LOSSY_EVENTS 3U
#define RELIABLE_EVENTS 1
#define U16_MAX 0xffffU
/* sixteenths of the RTT */
#define ANY_QUEUE 3
#define LONG_QUEUE 7

/* -- Place of a loss: II.B -- */

/* Whether the client's holes are all in domain 2. */
static __always_inline bool misses_in_domain_2(const struct tcp_sock *tp, bool use_pep, const struct pep_seen *seen)
{
	return use_pep ? pep_saw_holes(tp, seen) : without_pep == DOMAIN_2;
}

/* The same at the start of a recovery, when the segment at snd_una is missing too. */
static __always_inline bool loses_in_domain_2(const struct tcp_sock *tp, bool use_pep, const struct pep_seen *seen)
{
	return (!use_pep || pep_saw_first(tp, seen)) && misses_in_domain_2(tp, use_pep, seen);
}

/* -- Reduction: III -- */

/* The number of losses in domain 2 at which CUBIC reacts to them. */
static __always_inline u32 event_limit(u32 window)
{
	if (d2_loss_events)
		return d2_loss_events;
	if (type == TYPE_RELIABLE)
		return RELIABLE_EVENTS;
	if (!d2_segments_per_loss)
		return LOSSY_EVENTS;
	return min(max(window / d2_segments_per_loss, MIN_LOSSY_EVENTS), LOSSY_EVENTS);
}

/* CUBIC's ssthresh for W1 of a window. */
static __always_inline u32 domain1_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 kept = tp->snd_cwnd, ssthresh;

	tp->snd_cwnd = domain1_window(f, window);
	ssthresh = delegate_ssthresh(sk);
	tp->snd_cwnd = kept;
	return ssthresh;
}

/* ssthresh for the whole window: CUBIC's for W1, plus D2, which the loss does not concern. A loss never raises W. */
static __always_inline u32 whole_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window)
{
	return min(domain1_ssthresh(sk, f, window) + f->d2_segments, max(window, 2U));
}

/* The segments of W that wait in domain 2, if a loss there may be congestion. */
static __always_inline u32 waiting_segments(const struct tcp_sock *tp, const struct mdcubic *f, u32 window,
					    const struct pep_seen *seen, u32 sixteenths)
{
	if (d2_reduction != BY_LOSSES || type != TYPE_LOSSY || !(f->flags & PEP_CLOCKED))
		return 0;
	return domain2_queue(tp, window, seen, sixteenths);
}

/* whole_ssthresh() after too many losses in domain 2: W shrinks by as many, if domain 2 has a queue. */
static __always_inline u32 excess_ssthresh(struct sock *sk, const struct mdcubic *f, u32 window,
					   const struct pep_seen *seen)
{
	u32 ssthresh = whole_ssthresh(sk, f, window);

	/* at U16_MAX the number of losses is unknown */
	if (f->events >= min(window, U16_MAX) || !waiting_segments(tcp_sk(sk), f, window, seen, ANY_QUEUE))
		return ssthresh;
	return max(ssthresh, window - f->events);
}

/*
 * whole_ssthresh() after a loss in a long queue of domain 2: W shrinks by half of the queue. Slow start has exceeded
 * the queue by far at that time: W becomes the window that the rate fills.
 */
static __always_inline u32 queue_ssthresh(struct sock *sk, struct mdcubic *f, u32 window, u32 queue,
					  const struct pep_seen *seen)
{
	u32 ssthresh = max(whole_ssthresh(sk, f, window), window - min(queue / 2, window)), limit;

	f->flags |= D2_WAS_FULL;
	if (domain1_window(f, window) >= f->prior_ssthresh)
		return ssthresh;
	limit = domain2_limit(tcp_sk(sk), seen, TCP_INIT_CWND);
	return min(ssthresh, limit + domain1_limit(tcp_sk(sk), seen, limit));
}

/* A recovery that was attributed to domain 2 becomes domain 1's. */
static __always_inline void give_up_domain_2(struct sock *sk, struct mdcubic *f, u32 ssthresh)
{
	tcp_sk(sk)->snd_ssthresh = ssthresh;
	f->flags &= ~TAKEN_FOR_DOMAIN_2;
}

/* Counts the losses that an ACK of a recovery shows, and checks where they are. */
static __always_inline void follow_recovery(struct sock *sk, struct mdcubic *f, bool use_pep,
					    const struct pep_seen *seen)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - f->lost_mark;

	f->lost_mark = tp->lost;
	if (!(f->flags & TAKEN_FOR_DOMAIN_2))
		return;
	f->events = min(f->events + min(lost, U16_MAX), U16_MAX);
	if (!misses_in_domain_2(tp, use_pep, seen))
		give_up_domain_2(sk, f, whole_ssthresh(sk, f, f->prior_window));
	else if (f->events >= event_limit(f->prior_window))
		give_up_domain_2(sk, f, excess_ssthresh(sk, f, f->prior_window, seen));
}

/* A timeout clears D2, and with it D2's share of ssthresh. */
static __always_inline void end_reduction_by_timeout(struct sock *sk, struct mdcubic *f, u32 window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->flags & TAKEN_FOR_DOMAIN_2)
		tp->snd_ssthresh = domain1_ssthresh(sk, f, window);
	else if (f->flags & REDUCING)
		tp->snd_ssthresh = domain1_window(f, tp->snd_ssthresh);
	f->flags &= ~(TAKEN_FOR_DOMAIN_2 | REDUCING);
}

/*
 * The kernel has set W to ssthresh, which includes D2 as it was at the start of the reduction. With that W, as many
 * bytes as left domain 2 since then would be sent at once, into the queue that was too long; so D2 is measured again.
 * If a queue ended slow start, W is what the rate fills, and D2's share of it is at most the bound.
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
		if (is_renewed && f->flags & D2_WAS_FULL)
			f->d2_segments = min(f->d2_segments, domain2_limit(tp, &seen, TCP_INIT_CWND));
		tp->snd_ssthresh = domain1_window(f, tp->snd_ssthresh);
	}
	f->flags &= ~(TAKEN_FOR_DOMAIN_2 | REDUCING);
	if (is_renewed) {
		renew_d2(tp, f, &seen);
		bound_d2(tp, f, &seen);
	}
}

/* -- Undo -- */

/*
 * After an undo the kernel raises ssthresh to at least three quarters of W, D2 included. W1 alone would then be in slow
 * start far beyond its size, so the next ACK or reduction restores ssthresh.
 */
static __always_inline void settle_undo(struct tcp_sock *tp, struct mdcubic *f)
{
	if (!(f->flags & UNDONE))
		return;
	f->flags &= ~UNDONE;
	tp->snd_ssthresh = f->prior_ssthresh;
}

/* W as before the loss; in the loss state less D2, which the timeout cleared. */
static __always_inline u32 undo_reduction(struct sock *sk, struct mdcubic *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->flags & TAKEN_FOR_DOMAIN_2 || f->d2_segments)
		f->flags |= UNDONE;
	f->flags &= ~(TAKEN_FOR_DOMAIN_2 | REDUCING);
	if (tcp_ca_state(sk) == TCP_CA_Loss)
		return max(tp->snd_cwnd, min(tp->prior_cwnd, f->prior_window));
	return tcp_reno_undo_cwnd(sk);
}

/* -- Hooks -- */

/* Begins a round, of whose losses in domain 2 those beyond the first `lost_before` of the connection count. */
static __always_inline void round_begin(const struct tcp_sock *tp, struct mdcubic *f, u32 lost_before)
{
	f->round_end = tp->snd_nxt;
	f->events = 0;
	f->lost_mark = lost_before;
}

/* d2_segments (bits 0 to 31), events, and flags (from FLAGS_BIT on) in one load, because each ACK reads them. */
static __always_inline u64 state_word(const struct sock *sk)
{
	_Static_assert(__builtin_offsetof(struct mdcubic, d2_segments) == CUBIC_STATE_SIZE, "first in the word");
	_Static_assert(__builtin_offsetof(struct mdcubic, flags) == CUBIC_STATE_SIZE + FLAGS_BIT / 8, "its bits");
	return READ_ONCE(((const struct inet_connection_sock *)sk)->icsk_ca_priv[CUBIC_STATE_SIZE / 8]);
}

static __always_inline bool nothing_but_cubic(const struct sock *sk)
{
	return !(state_word(sk) & ((1ULL << (FLAGS_BIT + 8)) - 1));
}

SEC("struct_ops") void BPF_PROG(mdcubic_init, struct sock *sk)
{
	struct mdcubic *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	f->round_end = tcp_sk(sk)->snd_nxt; /* a round that ends at 0 could last 2 GB */
	if (CUBIC_SERVES())
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

/* An ACK of a flow that may have a PEP, or whose state differs from plain CUBIC's. */
static __always_inline void follow_pep(struct sock *sk)
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
	if ((use_pep && !(f->flags & PEP_USED)) || (s32)(tp->snd_una - f->round_end) >= 0)
		round_begin(tp, f, tp->lost);
	f->flags = use_pep ? f->flags | PEP_USED : f->flags & ~PEP_USED;
	if (use_pep && pep_clock)
		clock_by_pep(sk, f, &seen, state);
	else
		clock_by_client(sk, f, state);
	if (state == TCP_CA_Recovery)
		follow_recovery(sk, f, use_pep, &seen);
}

/* It is not inline, because each ACK of a plain CUBIC flow would then save the registers that it uses. */
static __noinline void acked_beside_pep(struct sock *sk, const struct ack_sample *sample)
{
	follow_pep(sk);
	if (CUBIC_MAY_BE_CALLED() && !(state_word(sk) & (u64)(PEP_CLOCKED | NO_DELEGATE) << FLAGS_BIT))
		cubictcp_acked(sk, sample);
}

SEC("struct_ops") void BPF_PROG(mdcubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	if (CUBIC_MAY_BE_CALLED() && nothing_but_cubic(sk) && !pep_is_possible(sk))
		cubictcp_acked(sk, sample);
	else
		acked_beside_pep(sk, sample);
}

/* If the PEP is the clock, W grew in pkts_acked already; but in the loss state the client is the clock. */
static __noinline void grow_beside_pep(struct sock *sk, u32 ack, u32 acked)
{
	struct mdcubic *f = flow_state(sk);

	if (!(f->flags & PEP_CLOCKED) || tcp_ca_state(sk) == TCP_CA_Loss)
		domain1_grow(sk, f, ack, acked);
}

SEC("struct_ops") void BPF_PROG(mdcubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	if (CUBIC_MAY_BE_CALLED() && nothing_but_cubic(sk))
		cubictcp_cong_avoid(sk, ack, acked);
	else
		grow_beside_pep(sk, ack, acked);
}

/*
 * Starts a recovery, a reduction after an ECN mark, or the loss state; set_state reports afterwards which one it was.
 */
SEC("struct_ops") u32 BPF_PROG(mdcubic_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mdcubic *f = flow_state(sk);
	struct pep_seen seen;
	bool use_pep;
	u32 queue;

	settle_undo(tp, f);
	/* no ACK of plain CUBIC looked; a round that ends beyond snd_nxt ended 2 GB ago */
	if ((s32)(tp->snd_una - f->round_end) >= 0 || (s32)(tp->snd_nxt - f->round_end) < 0)
		round_begin(tp, f, tp->lost - tp->lost_out);
	f->prior_window = tp->snd_cwnd;
	f->prior_ssthresh = tp->snd_ssthresh;
	f->flags = (f->flags | REDUCING) & ~TAKEN_FOR_DOMAIN_2;
	if (!(f->flags & PEP_CLOCKED)) { /* earlier bytes grew W in cong_avoid */
		f->covered_to = tp->snd_una;
		f->remainder_bytes = 0;
	}
	use_pep = pep_read(sk, pep_max_age_ms, &seen) == PEP_FRESH && !(f->flags & FALLEN_BACK);
	if (!loses_in_domain_2(tp, use_pep, &seen))
		return whole_ssthresh(sk, f, tp->snd_cwnd);
	f->events += f->events < U16_MAX;
	queue = use_pep ? waiting_segments(tp, f, tp->snd_cwnd, &seen, LONG_QUEUE) : 0;
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
	if (CUBIC_SERVES())
		cubictcp_state(sk, new_state);
	if (new_state == TCP_CA_Loss) {
		if (!tcp_timed_out(tp)) /* W still has D2 */
			tp->snd_cwnd = domain1_window(f, tp->snd_cwnd);
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
	else if (event == CA_EVENT_TX_START && CUBIC_SERVES() && CUBIC_TAKES_EVENTS())
		cubictcp_cwnd_event(sk, event);
}

SEC("struct_ops") void BPF_PROG(mdcubic_tx_start, struct sock *sk)
{
	if (CUBIC_SERVES())
		cubictcp_cwnd_event_tx_start(sk);
}

SEC("struct_ops") u32 BPF_PROG(mdcubic_undo_cwnd, struct sock *sk)
{
	return undo_reduction(sk, flow_state(sk));
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
