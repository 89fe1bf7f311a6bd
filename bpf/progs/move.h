/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gives an open socket another congestion control, with what the former one learned about its path. For policy and
 * sock_migrate.
 */
#pragma once
#include <hotcc/learned.h>

#include "sockets.h"

/* Sockets whose new algorithm took over the value. Layout: loader/src/sockets/learned.rs. */
struct learned_counts {
	u64 bandwidth;
	u64 base_rtt;
	u64 n;
};

/* Returns what bpf_setsockopt returned. `cc_name` has CC_NAME_MAX bytes. */
static __always_inline long move_socket(struct tcp_sock *tp, char *cc_name, struct learned_counts *counts)
{
	struct hotcc_learned_v1 *learned = learned_here();
	long result;

	if (!learned)
		return -1; /* an array always has the entry */
	/* The name first: what another move on this processor leaves after that is cleared, or has its own name. */
	WRITE_ONCE(learned->socket, (u64)tp);
	WRITE_ONCE(learned->bandwidth_q8, 0);
	WRITE_ONCE(learned->n_q16, 0);
	WRITE_ONCE(learned->base_us, 0);
	WRITE_ONCE(learned->taken, 0);
	result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, cc_name, CC_NAME_MAX);
	if (READ_ONCE(learned->socket) != (u64)tp)
		return result;
	WRITE_ONCE(learned->socket, 0);
	counts->bandwidth += (learned->taken & LEARNED_BANDWIDTH) != 0;
	counts->base_rtt += (learned->taken & LEARNED_BASE) != 0;
	counts->n += (learned->taken & LEARNED_N) != 0;
	return result;
}
