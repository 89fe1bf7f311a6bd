// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a record of each open TCP connection of one network namespace that runs the requested congestion control. The
 * record has the algorithm's private state as raw bytes, which the BTF of the version that it names describes.
 */
#define PEP_PINNING 0 /* the loader uses the pinned map, if there is one */
#include "abi/pep.h"
#include "chrono.h"
#include "endpoints.h"
#include "sockets.h"

char _license[] SEC("license") = "GPL";

/* Set by the loader before it runs. */
struct list_job {
	char cc_name[CC_NAME_MAX]; /* empty: any */
};

struct list_job job SEC(".data") = {};

/* Layout: loader/src/sockets/flows.rs. */
struct flow_record {
	struct endpoints ends;
	u8 tcp_state;
	u8 ca_state;
	u8 app_limited; /* the application limited the latest delivery rate sample */
	u8 paced;
	struct socket_cc cc;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 srtt_us;
	u32 min_rtt_us;
	u32 mss;
	u32 total_retrans;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 snd_una;
	u64 bytes_acked;
	u32 ticks[CHRONOS];
	u32 pad;
	u8 state[ICSK_CA_PRIV_SIZE];
	struct pep_flow_v1 pep; /* updates 0: none */
};

static struct flow_record record;

struct tcp_sock___rate {
	u8 rate_app_limited : 1;
} __core;

static __always_inline void put_pep(struct sock *sk)
{
	struct pep_flow_v1 *pep = pep_is_possible(sk) ? pep_of(sk) : NULL;

	if (!pep || !pep_copy(sk, &record.pep)) {
		record.pep.updates = 0;
		return;
	}
	record.pep.rtt_us = READ_ONCE(pep->rtt_us);
	record.pep.segments = READ_ONCE(pep->segments);
	if (pep_updates(pep) != record.pep.updates)
		record.pep.updates = 0;
}

SEC("iter/tcp") int list_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp;

	if (!skc || skc->skc_state == TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp || !read_socket_cc(tp, &record.cc) || (job.cc_name[0] && !same_name(record.cc.name, job.cc_name)))
		return 0;
	read_endpoints(skc, &record.ends);
	record.tcp_state = skc->skc_state;
	record.ca_state = core_bitfield(&tp->inet_conn, icsk_ca_state);
	record.app_limited = core_bitfield((const struct tcp_sock___rate *)(const void *)tp, rate_app_limited);
	record.paced = tp->inet_conn.icsk_inet.sk.sk_pacing_status != 0;
	record.snd_cwnd = tp->snd_cwnd;
	record.snd_ssthresh = tp->snd_ssthresh;
	record.srtt_us = tp->srtt_us >> 3;
	record.min_rtt_us = tp->rtt_min.s[0].v;
	record.mss = tp->mss_cache;
	record.total_retrans = tp->total_retrans;
	record.rate_delivered = is_silent(tp) ? 0 : tp->rate_delivered;
	record.rate_interval_us = tp->rate_interval_us;
	record.snd_una = tp->snd_una;
	record.bytes_acked = tp->bytes_acked;
	for (int i = 0; i < CHRONOS; i++)
		record.ticks[i] = chrono_ticks(tp, i);
	bpf_probe_read_kernel(record.state, sizeof(record.state),
			      (const void *)((u64)tp + core_field_offset(struct inet_connection_sock, icsk_ca_priv)));
	put_pep((struct sock *)tp);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
