// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the clock at the entry and the exit of kernel functions, which are chosen when the object is loaded. A measured
 * function must not call another one, or the other's clock reads would count as its own time: `nested` counts such
 * calls.
 */
#include <hotcc/bpf.h>

char _license[] SEC("license") = "GPL";

static u64 (*const bpf_get_func_arg_cnt)(void *ctx) = (void *)185;

#define FUNCTIONS 8

struct took {
	u64 calls;
	u64 total_ns;
	u64 least_ns;
	u64 arguments; /* the function's number of arguments, which are saved and restored around it */
	u64 began_ns;
};

/* Read by the guest in this layout. */
struct {
	u64 inside; /* 1 between a function's entry and its exit */
	u64 nested; /* calls from within another measured function */
	struct took took[FUNCTIONS];
} clocks SEC(".data") = {};

/* Only what cannot be elsewhere is between this clock read and the next one: it counts as the function's time. */
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
