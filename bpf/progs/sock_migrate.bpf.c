// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves the open sockets of one network namespace, listeners that chose it included, from a congestion control to the
 * version that now stands behind `to_name`, or only counts them. Setting the same name again is what makes the kernel
 * give a socket the new version.
 * Window, ssthresh and RTT estimate stay; the algorithm's own state starts anew.
 */
#include "sockets.h"

char _license[] SEC("license") = "GPL";

/* Read and written by the loader as it stands. */
struct migrate_job {
	char from_name[CC_NAME_MAX];
	char to_name[CC_NAME_MAX];
	u64 keep_map_id; /* sockets that already run this version stay as they are */
	u64 only_count;
	u64 moved;
	u64 failed;
};

struct migrate_job job SEC(".data") = {};

SEC("iter/tcp") int migrate_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct socket_cc cc = {};
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	/* setting it for a listener on the default would keep that listener from every later default */
	if (!tp || listens_on_the_default(tp) || !read_socket_cc(tp, &cc))
		return 0;
	if (!same_name(cc.name, job.from_name) || (job.keep_map_id && cc.map_id == job.keep_map_id))
		return 0;
	if (job.only_count ? core_bitfield(&tp->inet_conn, icsk_ca_dst_locked) :
			     bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, job.to_name, sizeof(job.to_name)))
		job.failed++;
	else
		job.moved++;
	return 0;
}
