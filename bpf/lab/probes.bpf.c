// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab's probes: every ACK and retransmission of its flows, and when the processor was idle. The same probes measure
 * the kernel's congestion controls and ours.
 */
#include <hotcc/kernel.h>
#include "progs/netns.h"
#include "records.h"

char _license[] SEC("license") = "GPL";

#define SCHED_IDLE 5
#define IDLE_BIN_NS 100000000ULL
#define IDLE_BINS 65536
#define IDLE_BINS_AT_ONCE 64 /* 6.4 s; the guest wakes far more often */

/* Fields of a connection that congestion controls do not read. */
struct tcp_rack {
	u32 rtt_us;
} __core;

struct inet_connection_sock___lab {
	u8 icsk_retransmits; /* timeouts in a row */
	u32 icsk_rto;	     /* jiffies */
} __core;

struct tcp_sock___lab {
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	struct tcp_rack rack;
} __core;

struct task_struct {
	unsigned int policy;
} __core;

/* A flow. The probes count its timeouts; user space sets the other fields. */
struct flow {
	u32 detail_offset; /* in icsk_ca_priv */
	u32 detail_size;   /* bytes; 0: none */
	u16 timeouts;
	u8 timeouts_in_a_row;
	u8 pad;
	u32 netns; /* inode number of the sender's namespace: others may use the same port */
	u64 acked; /* bytes acknowledged at the latest timeout */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_FLOWS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as the scenario needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct ack_record);
} ack_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, IDLE_BINS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, u64);
} idle_ns SEC(".maps");

/* The guest's user space reads and writes this structure in this layout. */
struct {
	u64 time_zero_ns;
	u64 records_made;  /* if it exceeds the map's size, some are missing */
	u64 idle_since_ns; /* 0: the processor is busy */
	u32 interrupts;	   /* being handled, softirqs included */
	u8 idle;	   /* the kernel's idle task runs */
	u8 background;	   /* a task of the idle class runs */
	/*
	 * Whether tasks of the idle class may run. If not, the processor counts as idle from the start of an idle period
	 * to the next timer interrupt, and softirqs and task switches, which occur several times per packet, are not
	 * probed.
	 */
	u8 has_background;
	u8 pad;
	u64 tick_us; /* of a jiffy */
} lab SEC(".data") = {};

static __always_inline void record(struct sock *sk, u8 is_retransmission)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_sock___lab *more = (void *)tp;
	struct inet_connection_sock___lab *connection = (void *)tp;
	u32 port = sk->__sk_common.skc_dport, number, at;
	u64 now_ns = bpf_ktime_get_ns() - lab.time_zero_ns;
	struct ack_record *r;
	struct flow *f;
	u8 in_a_row;

	port = (port & 0xff) << 8 | port >> 8;
	number = port - FIRST_FLOW_PORT;
	f = bpf_map_lookup_elem(&flows, &number);
	if (!tp || !f || (s64)now_ns < 0)
		return;
	if (netns_of(sk) != f->netns)
		return;
	in_a_row = connection->icsk_retransmits;
	/* the kernel's count begins again with each ACK of new data: 1 may follow 1 */
	if (is_retransmission && tcp_ca_state((struct sock *)tp) == TCP_CA_Loss && in_a_row &&
	    (in_a_row != f->timeouts_in_a_row || tp->bytes_acked != f->acked)) {
		f->timeouts++;
		f->timeouts_in_a_row = in_a_row;
		f->acked = tp->bytes_acked;
	}
	at = __sync_fetch_and_add(&lab.records_made, 1);
	r = bpf_map_lookup_elem(&ack_records, &at);
	if (!r)
		return;
	r->time_ns = now_ns;
	r->bytes_acked = tp->bytes_acked;
	r->cwnd = tp->snd_cwnd;
	r->ssthresh = tp->snd_ssthresh;
	r->in_flight = more->packets_out - more->sacked_out - more->lost_out + more->retrans_out;
	r->retransmits = tp->total_retrans;
	r->srtt_us = tp->srtt_us >> 3;
	r->rtt_us = more->rack.rtt_us;
	r->min_rtt_us = tp->rtt_min.s[0].v;
	r->flow = number;
	r->timeouts = f->timeouts;
	r->ca_state = tcp_ca_state((struct sock *)tp);
	r->is_retransmission = is_retransmission;
	r->rto_ms = min(connection->icsk_rto * lab.tick_us / 1000, 65535ULL);
	if (f->detail_size)
		bpf_probe_read_kernel(&r->detail, min(f->detail_size, (u32)sizeof(r->detail)),
				      (const u8 *)tp->inet_conn.icsk_ca_priv + f->detail_offset);
}

SEC("tp_btf/tcp_probe") int BPF_PROG(probe_ack, struct sock *sk)
{
	record(sk, 0);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb") int BPF_PROG(probe_retransmission, const struct sock *sk)
{
	record((struct sock *)sk, 1);
	return 0;
}

/* Adds the time from `idle_since_ns` to now to the idle time. */
static __always_inline void count_idle_time(u64 now_ns)
{
	u64 since = lab.idle_since_ns, until, *bin;
	u32 at;

	lab.idle_since_ns = 0;
	if (!since || !lab.time_zero_ns || now_ns < lab.time_zero_ns)
		return;
	since = max(since, lab.time_zero_ns) - lab.time_zero_ns;
	now_ns -= lab.time_zero_ns;
	for (int i = 0; i < IDLE_BINS_AT_ONCE && since < now_ns; i++) {
		at = since / IDLE_BIN_NS;
		until = min(now_ns, (at + 1) * IDLE_BIN_NS);
		bin = bpf_map_lookup_elem(&idle_ns, &at);
		if (!bin)
			break;
		*bin += until - since;
		since = until;
	}
}

/*
 * Starts or ends an idle time: the processor counts as idle while it runs the idle task or a task of the idle class, and
 * handles no interrupt. Called after each change of `lab.idle`, `lab.background` or `lab.interrupts`.
 */
static __always_inline int update_idle_time(void)
{
	bool is_idle = (lab.idle || lab.background) && !lab.interrupts;

	if (is_idle && !lab.idle_since_ns)
		lab.idle_since_ns = bpf_ktime_get_ns();
	else if (!is_idle && lab.idle_since_ns)
		count_idle_time(bpf_ktime_get_ns());
	return 0;
}

/* `state` is ~0 at the end of an idle period; the interrupt that ends the period is handled before this event. */
SEC("tp_btf/cpu_idle") int BPF_PROG(probe_idle, u64 state)
{
	lab.idle = (u32)state != ~0u;
	return update_idle_time();
}

/* A task of the idle class runs only if no other task wants to, so it delays nothing. */
SEC("tp_btf/sched_switch") int BPF_PROG(probe_switch, u64 preempt, struct task_struct *prev, struct task_struct *next)
{
	lab.background = next->policy == SCHED_IDLE;
	return update_idle_time();
}

SEC("tp_btf/softirq_entry") int BPF_PROG(probe_softirq_entry, u64 vector)
{
	lab.interrupts++;
	return update_idle_time();
}

SEC("tp_btf/softirq_exit") int BPF_PROG(probe_softirq_exit, u64 vector)
{
	if (lab.interrupts)
		lab.interrupts--;
	return update_idle_time();
}

/* On arm64, user space attaches this program and the next one to irq_handler_entry and irq_handler_exit. */
SEC("tp_btf/local_timer_entry") int BPF_PROG(probe_timer_entry, u64 vector)
{
	if (lab.has_background)
		lab.interrupts++;
	else
		lab.idle = 0; /* what the timer wakes keeps the processor busy until it is idle again */
	return update_idle_time();
}

SEC("tp_btf/local_timer_exit") int BPF_PROG(probe_timer_exit, u64 vector)
{
	if (lab.interrupts)
		lab.interrupts--;
	return update_idle_time();
}
