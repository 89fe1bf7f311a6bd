/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters of the receiver's programs and of `arwa`, over all sockets. Layout: crates/abi/src/rx.rs. For rx_arwa,
 * rx_drwa and the algorithm.
 */
#pragma once
#include <hotcc/bpf.h>

struct rx_counters_v1 {
	u64 flows_agreed;
	u64 hints_made;
	u64 hints_sent;
	u64 hints_without_room;
	u64 hints_received;
	u64 hints_refused;
	u64 hints_applied;
	u64 flows_clamped;
	u64 clamps_set;
	u64 clamps_refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct rx_counters_v1);
} rx_counters SEC(".maps");

static __always_inline struct rx_counters_v1 *rx_counters_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&rx_counters, &zero);
}

/* Per CPU, and still atomic: a softirq may interrupt process context on the same CPU. */
#define RX_COUNT(field)                                                       \
	({                                                                    \
		struct rx_counters_v1 *here_ = rx_counters_here();            \
		if (here_)                                                    \
			__sync_fetch_and_add(&here_->field, 1);               \
	})
