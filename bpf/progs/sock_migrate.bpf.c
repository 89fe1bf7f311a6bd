// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves the open sockets of one network namespace, including listeners that chose it, from a congestion control to the
 * version that now serves `to_name`; or only counts them. If a socket's congestion control is set to the same name
 * again, the kernel gives the socket the new version. Only sockets that the rule matches are moved; a rule without
 * criteria matches all of them. Window, ssthresh and RTT estimate are kept; the algorithm's own state is initialised
 * again, from what the former one learned (hotcc/learned.h).
 */
#include "move.h"
#include "policy_figures.h"
#include "policy_flow.h"

char _license[] SEC("license") = "GPL";

/* Read and written by the loader in this layout. */
struct migrate_job {
	char from_name[CC_NAME_MAX];
	char to_name[CC_NAME_MAX];
	u64 keep_map_id; /* sockets that already run this version are left alone */
	u64 only_count;
	u64 limit; /* sockets that may move; 0: any number */
	u64 moved;
	u64 failed;
	u64 over_limit;
	struct learned_counts learned;
	u64 tick_us;			/* the kernel's jiffy */
	u64 unmatched[POLICY_CRITERIA]; /* by the first criterion that a socket did not meet */
	struct policy_rule rule;
};

struct migrate_job job SEC(".data") = {};

/* Whether the rule matches the socket. Counts a mismatch. */
static __always_inline bool is_meant(struct tcp_sock *tp)
{
	const struct policy_rule *rule = &job.rule;
	struct policy_flow flow = {};
	u32 why;

	if (!rule->criteria)
		return true;
	read_flow(tp, true, rule->criteria & ~POLICY_SIGNALS, &flow);
	why = policy_mismatch(rule, &flow);
	for (int i = 0; i < POLICY_CRITERIA; i++)
		if (why == 1 << i)
			job.unmatched[i]++;
	return why == POLICY_MATCHES;
}

SEC("iter/tcp") int migrate_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	enum policy_chooser chooser;
	struct socket_cc cc = {};
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	/* if it were set on a listener that has the default, that listener would not get later defaults */
	if (!tp || listens_on_the_default(tp) || !read_socket_cc(tp, &cc))
		return 0;
	if (!same_name(cc.name, job.from_name) || (job.keep_map_id && cc.map_id == job.keep_map_id))
		return 0;
	if (!is_meant(tp))
		return 0;
	if (job.limit && job.moved >= job.limit) {
		job.over_limit++;
		return 0;
	}
	chooser = policy_chooser(tp, tp);
	if (job.only_count ? core_flag(&tp->inet_conn, icsk_ca_dst_locked) :
			     move_socket(tp, job.to_name, &job.learned)) {
		job.failed++;
		return 0;
	}
	job.moved++;
	if (!job.only_count)
		policy_leave(policy_mark_of(tp), tp, cc.name, job.tick_us);
	if (!job.only_count && chooser <= POLICY_BY_RULE)
		policy_put_mark(tp, POLICY_BY_RULE, job.to_name);
	return 0;
}
