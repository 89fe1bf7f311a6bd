// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends a record of each ACK that connections receive, for `hotcc trace`. Runs at the kernel's tracepoint tcp_probe, which
 * fires before an established connection processes a segment: a record shows what the ACKs before it have led to.
 */
#include "endpoints.h"
#include "netns.h"
#include "sockets.h"

char _license[] SEC("license") = "GPL";

/* Not in kernel.h, which has only fields that algorithms read. */
struct tcp_sock___rack {
	struct {
		u32 rtt_us; /* latest sample */
	} __core rack;
} __core;

/* Set by the loader before it runs. */
struct trace_job {
	char cc_name[CC_NAME_MAX]; /* empty: any */
	u8 peers[16];		   /* a prefix; bits beyond it are 0 */
	u8 peers_mask[16];	   /* 0: any */
	u32 every;		   /* of each connection's ACKs, record one of so many; at least 1 */
	u32 v6_only;		   /* the prefix is one of IPv6, and does not contain mapped IPv4 addresses */
};

struct trace_job job SEC(".data") = {};

/* Layout: loader/src/trace/record.rs. */
struct ack_record {
	u64 time_ns; /* CLOCK_MONOTONIC */
	struct endpoints ends;
	u32 netns; /* inode */
	struct socket_cc cc;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 in_flight;
	u32 srtt_us;
	u32 rtt_us; /* latest sample; 0: none, or this kernel keeps none */
	u32 min_rtt_us;
	u32 mss;
	u32 delivered;
	u32 lost;
	u32 total_retrans;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 snd_wnd;
	u64 bytes_acked;
	u64 pacing_bytes_per_s; /* all ones: not paced */
	u32 ca_state;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} acks SEC(".maps");

/* A ring buffer's definition names no type: this constant puts the type into the object's BTF. */
const struct ack_record *const ack_record_layout = NULL;

/* ACKs for which the ring had no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} dropped SEC(".maps");

/* ACKs since the last record of the connection, with `every` above 1. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} skipped SEC(".maps");

static __always_inline bool is_wanted_peer(const u8 *peer)
{
	const u64 *address = (const u64 *)peer, *prefix = (const u64 *)job.peers, *mask = (const u64 *)job.peers_mask;

	if (job.v6_only && !address[0] && ((const u32 *)peer)[2] == 0xffff0000)
		return false;
	return (address[0] & mask[0]) == prefix[0] && (address[1] & mask[1]) == prefix[1];
}

static __always_inline bool is_its_turn(struct tcp_sock *tp)
{
	u32 *count;

	if (job.every <= 1)
		return true;
	count = bpf_sk_storage_get(&skipped, tp, &(u32){ job.every - 1 }, BPF_SK_STORAGE_GET_F_CREATE);
	if (!count || ++*count < job.every)
		return false;
	*count = 0;
	return true;
}

static __always_inline void read_state(struct tcp_sock *tp, struct ack_record *record)
{
	struct tcp_sock___rack *with_rack = (struct tcp_sock___rack *)tp;
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	record->snd_cwnd = tp->snd_cwnd;
	record->snd_ssthresh = tp->snd_ssthresh;
	record->in_flight = tcp_in_flight(tp);
	record->srtt_us = tp->srtt_us >> 3;
	record->rtt_us = core_field_exists(struct tcp_sock___rack, rack.rtt_us) ? with_rack->rack.rtt_us : 0;
	record->min_rtt_us = tp->rtt_min.s[0].v;
	record->mss = tp->mss_cache;
	record->delivered = tp->delivered;
	record->lost = tp->lost;
	record->total_retrans = tp->total_retrans;
	record->rate_delivered = tp->rate_delivered;
	record->rate_interval_us = tp->rate_interval_us;
	record->snd_wnd = tp->snd_wnd;
	record->bytes_acked = tp->bytes_acked;
	record->pacing_bytes_per_s = sk->sk_pacing_status ? sk->sk_pacing_rate : ~0ULL;
	record->ca_state = core_bitfield(&tp->inet_conn, icsk_ca_state);
	record->pad = 0;
}

SEC("tp_btf/tcp_probe") int BPF_PROG(trace_ack, struct sock *sk, struct sk_buff *skb)
{
	struct ack_record *record;
	struct endpoints ends __attribute__((aligned(8))); /* is_wanted_peer reads words of 8 bytes */
	struct socket_cc cc;
	struct tcp_sock *tp;
	u64 *count;

	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !tp->packets_out) /* nothing that this segment might acknowledge */
		return 0;
	read_endpoints(&sk->__sk_common, &ends);
	if (!is_wanted_peer(ends.peer) || !read_socket_cc(tp, &cc) ||
	    (job.cc_name[0] && !same_name(cc.name, job.cc_name)) || !is_its_turn(tp))
		return 0;
	record = bpf_ringbuf_reserve(&acks, sizeof(*record), 0);
	if (!record) {
		count = bpf_map_lookup_elem(&dropped, &(u32){ 0 });
		if (count)
			__sync_fetch_and_add(count, 1);
		return 0;
	}
	record->time_ns = bpf_ktime_get_ns();
	record->ends = ends;
	record->netns = netns_of(sk);
	record->cc = cc;
	read_state(tp, record);
	bpf_ringbuf_submit(record, 0);
	return 0;
}
