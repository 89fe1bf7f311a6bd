// SPDX-License-Identifier: GPL-2.0-only
/*
 * ARWA, the sender (`arwa`): NewReno whose window also follows the receiver's hints. The receiver observes the delay of
 * the packets that arrive, and its ACKs carry the hints.
 *
 * Paper: N. D. Adesh, A. Renuka, "Adaptive Receiver-Window Adjustment for Delay Reduction in LTE Networks", Journal of
 * Computer Networks and Communications, 2019, section 3.4, Algorithm 2. Algorithm 1 is the receiver's.
 *
 *   hint 1..70      W -= W hint / 100,           but not below 3000 bytes    (lines 6-11; Algorithm 1 sends no 71..100)
 *   hint 101..120   W += W (hint - 100) / 100,   half of that beyond 10000 bytes                          (lines 12-18)
 *   no hint         W by NewReno                                                                       (lines 19 and 20)
 *
 * Hooks: `pkts_acked` for the hint, because it also runs during recovery, when a hint must count as seen. It reads the
 * socket's storage once per ACK, and does nothing else unless a new hint is there. `cong_avoid` and `ssthresh` are
 * NewReno's, so that the kernel keeps PRR and its pacing rate.
 *
 * Deviations from the paper, and why:
 *  - The paper writes the hint into the advertised window, and compares it with W; this would stall a sender that does
 *    not know of it. Here the hint arrives separately, in the socket's storage (hotcc/hint.h). Line 20, W = min(window,
 *    W), is the behaviour of every TCP sender.
 *  - `default` acts on at most one hint per smoothed RTT. A hint takes 16 packets, which is 0.19 ms at 1 Gbit/s. Each
 *    action would precede the effect of the last one at the receiver, and W would swing between almost nothing and far
 *    too much.
 *  - `default` sets ssthresh = W if a hint shrinks W; otherwise slow start would undo the hint within an RTT.
 *  - The lower limit is rounded up to whole segments. It is at least two segments, and never raises W.
 *  - Algorithm 2 has no upper limit. Here W's clamp is the limit; in `default`, after a loss, so is the ssthresh that
 *    the loss left. Beyond it, a receiver that keeps asking for growth would take other flows' share of an overflowing
 *    queue.
 *  - Growth is counted in 1/65536 segment, so that 1 % of ten segments is not lost. W grows only if it limits the
 *    sender. A fraction of a segment is dropped when W shrinks.
 *  - Hints are ignored during a recovery, a reduction after an ECN mark, and loss state, where W is the kernel's.
 * A hint that is absent, stale (`max_age_ms`), from the future, invalid (0, 71..100, above 120) or already seen is
 * ignored; then the flow is NewReno. A forged hint can cost speed, down to two segments. It can gain no more than slow
 * start: the W that NewReno has after a loss, but sooner. In `paper` it grows W by a tenth per hint without limit.
 * Undo: the kernel's, with W from before the loss; the limit of growth stays. Timeout: the kernel's loss state. ECN: a
 * CE mark counts as a loss. Application-limited: hints do not grow W, as ACKs do not; they still shrink it. After an
 * idle period the kernel restarts W; an earlier hint is too old then. In a connection that is taken over, a stored hint
 * counts as new if it is not too old, and growth has no limit until the next loss.
 */
#include <hotcc/growth.h>
#include <hotcc/hint.h>
#include <hotcc/kernel.h>
#include "abi/rx_counters.h"
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

TUNABLE(u32, floor_bytes, 3000, 3000, 500, 1000000, "bytes", "hints do not shrink the window below this");
TUNABLE(u32, gentle_bytes, 10000, 10000, 0, 1073741824, "bytes", "window beyond which hints grow it half as much");
TUNABLE(u32, once_per_rtt, 1, 0, 0, 1, "", "1: acts on one hint per smoothed RTT at most; 0: on each");
TUNABLE(u32, cut_sets_ssthresh, 1, 0, 0, 1, "", "1: a hint that shrinks the window also sets ssthresh to it");
TUNABLE(u32, max_age_ms, 1000, 1000, 1, 30000, "ms", "older hints are ignored");
TUNABLE(u32, grow_beyond_loss, 0, 1, 0, 1, "", "0: hints grow the window no further than ssthresh of the last loss");

#define UNKNOWN_RTT_US 1000

struct arwa {
	struct flow_account account;
	u64 growth_q16 FIELD("segments / 65536", "growth by hints that is no whole segment yet");
	u32 hint_sequence FIELD("", "number of the last hint seen");
	u32 acted_us FIELD("us", "when a hint was last acted on");
	u32 loss_window FIELD("segments", "ssthresh of the last loss; 0: none yet");
	u8 last_hint FIELD("", "that hint; 0: none yet");
};
FLOW_STATE(struct arwa);

/* Lines 7 to 11. */
static __always_inline void shrink(struct tcp_sock *tp, struct arwa *f, u32 percent)
{
	u32 mss = tp->mss_cache ?: 1;
	u32 least = max((floor_bytes + mss - 1) / mss, 2U);
	u32 window = tp->snd_cwnd;

	tp->snd_cwnd = min(max(window - (u32)((u64)window * percent / 100), least), window);
	if (cut_sets_ssthresh)
		tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
	f->growth_q16 = 0;
}

/* Lines 13 to 18. */
static __always_inline void grow(struct sock *sk, struct arwa *f, u32 percent)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 limit = grow_beyond_loss || !f->loss_window ? ~0U : f->loss_window;
	u64 window = tp->snd_cwnd;

	if (window >= limit || !tcp_is_cwnd_limited(sk))
		return;
	f->growth_q16 += window * percent * SEGMENT_Q16 / (window * tp->mss_cache > gentle_bytes ? 200 : 100);
	tp->snd_cwnd = min(window + f->growth_q16 / SEGMENT_Q16, (u64)min(limit, (u32)tp->snd_cwnd_clamp));
	f->growth_q16 %= SEGMENT_Q16;
}

static __always_inline bool acted_within_rtt(const struct tcp_sock *tp, const struct arwa *f)
{
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->acted_us;

	return f->last_hint && elapsed_us < (tp->srtt_us >> 3 ?: (u32)UNKNOWN_RTT_US);
}

SEC("struct_ops") void BPF_PROG(arwa_init, struct sock *sk)
{
	struct arwa *f = flow_state(sk);

	account_open(sk, &f->account);
	f->growth_q16 = 0;
	f->hint_sequence = 0;
	f->acted_us = 0;
	f->loss_window = 0;
	f->last_hint = 0;
}

SEC("struct_ops") void BPF_PROG(arwa_release, struct sock *sk)
{
	account_close(sk, &flow_state(sk)->account);
}

/* Lines 3 to 18. */
SEC("struct_ops") void BPF_PROG(arwa_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct arwa *f = flow_state(sk);
	u8 hint = hint_take(sk, &f->hint_sequence, max_age_ms);

	if (!hint || tcp_ca_state(sk) > TCP_CA_Disorder || (once_per_rtt && acted_within_rtt(tp, f)))
		return;
	f->last_hint = hint;
	f->acted_us = tp->tcp_mstamp;
	RX_COUNT(hints_applied);
	if (hint <= HINT_SHRINK_MAX)
		shrink(tp, f, hint);
	else
		grow(sk, f, hint - 100);
}

SEC("struct_ops") void BPF_PROG(arwa_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops") u32 BPF_PROG(arwa_ssthresh, struct sock *sk)
{
	struct arwa *f = flow_state(sk);

	f->growth_q16 = 0;
	f->loss_window = tcp_reno_ssthresh(sk);
	return f->loss_window;
}

SEC("struct_ops") void BPF_PROG(arwa_set_state, struct sock *sk, u8 new_state)
{
	struct arwa *f = flow_state(sk);

	if (new_state == TCP_CA_Recovery)
		account_loss(sk, &f->account);
	else if (new_state == TCP_CA_Loss)
		account_timeout(sk, &f->account);
}

SEC("struct_ops") u32 BPF_PROG(arwa_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc arwa ALGORITHM("NewReno that follows its receiver's hints, for low delay",
						 "Adesh & Renuka 2019: section 3.4, Algorithm 2") = {
	.init = (void *)arwa_init,
	.release = (void *)arwa_release,
	.pkts_acked = (void *)arwa_pkts_acked,
	.cong_avoid = (void *)arwa_cong_avoid,
	.ssthresh = (void *)arwa_ssthresh,
	.set_state = (void *)arwa_set_state,
	.undo_cwnd = (void *)arwa_undo_cwnd,
	.name = "arwa",
	.flags = TCP_CONG_NON_RESTRICTED,
};
