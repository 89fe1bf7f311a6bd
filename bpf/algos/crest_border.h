/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Losses behind the border of an access network, which an ACKing border PEP tells from those before it (domains.h).
 * Where there is no queue, they are the radio's, and do not count as losses. For `crest`.
 *
 * A policer behind the border loses segments without a queue as well, so the share of W that does not count is limited:
 * the segments that are lost and not yet replaced are those of about one round trip.
 */
#pragma once
#include <hotcc/tags.h>

#include "crest_state.h"
#include "domains.h"

TUNABLE(u32, border_loss_permille, 100, 100, 0, 500, "permille",
	"share of W that does not count as lost, if a border PEP saw it pass and there is no queue; 0: all count");

#define BORDER_FEW 2 /* segments that are no share of a small W */

/* Whether the PEP saw all that the client misses. Simpler than pep_saw_holes(): a loss before the border hides others. */
static __always_inline bool border_saw_losses(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 client_has = client_has_to(tp);
	struct pep_flow_v1 record;

	return client_has && pep_copy(sk, &record) && pep_is_fresh(tp, record.time_ns, PEP_MAX_AGE_MS) &&
	       (s32)(record.in_order - tp->snd_una) >= (s32)client_has;
}

/*
 * For each ACK by which segments became lost, before they are sent again: the PEP would see them then. Removes them from
 * the losses of the round, unless timeout_seen() already did: a failed MTU probe enters TCP_CA_Loss within the ACK.
 * `most_rtt_us` is the longest RTT without a queue that others may own.
 */
static __noinline void border_losses(struct sock *sk, struct crest *f, u32 segments, u32 most_rtt_us)
{
	u64 ignored = (u64)f->window / SEGMENT * border_loss_permille / 1000;
	struct tcp_sock *tp = tcp_sk(sk);

	if (border_loss_permille && tp->lost_out <= ignored + BORDER_FEW && tp->srtt_us >> 3 <= most_rtt_us &&
	    segments <= round_losses(tp, f) && border_saw_losses(sk))
		set_lost_before(f, lost_before(f) + segments);
}
