// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks at the entry and the exit of kernel functions, which are chosen when the object is loaded. No function with
 * clocks may call another one, or the other's clocks would count as its own: that is found out.
 */
#include <hotcc/bpf.h>

char _license[] SEC("license") = "GPL";

static u64 (*const bpf_get_func_arg_cnt)(void *ctx) = (void *)185;

#define FUNCTIONS 8

struct took {
	u64 calls;
	u64 total_ns;
	u64 least_ns;
	u64 arguments; /* of the function: what there is to save and restore around it */
	u64 began_ns;
};

/* Read by the guest as it stands. */
struct {
	u64 inside; /* a function that has not come to its exit */
	u64 nested; /* calls from within another one */
	struct took took[FUNCTIONS];
} clocks SEC(".data") = {};

/* After this clock and before the next one there is nothing that could be elsewhere: it counts as the function's. */
static __always_inline int begins(u64 *ctx, struct took *took)
{
	took->arguments = bpf_get_func_arg_cnt(ctx);
	clocks.nested += clocks.inside;
	clocks.inside = 1;
	took->began_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int ends(struct took *took)
{
	u64 ns = bpf_ktime_get_ns() - took->began_ns;

	clocks.inside = 0;
	took->calls++;
	took->total_ns += ns;
	if (!took->least_ns || ns < took->least_ns)
		took->least_ns = ns;
	return 0;
}

#define PAIR(number)                                       \
	SEC("fentry") int begins_##number(u64 *ctx)        \
	{                                                  \
		return begins(ctx, &clocks.took[number]);  \
	}                                                  \
	SEC("fexit") int ends_##number(u64 *ctx)           \
	{                                                  \
		return ends(&clocks.took[number]);         \
	}

PAIR(0)
PAIR(1)
PAIR(2)
PAIR(3)
PAIR(4)
PAIR(5)
PAIR(6)
PAIR(7)
