// SPDX-License-Identifier: GPL-2.0-only
/*
 * The server's side of the ACKing border PEP.
 *
 * `update_record` takes a verified record from the agent, looks up the flow's socket once, and writes what the PEP saw
 * into the socket's storage. It is attached to no hook: the agent holds it and runs it with the record as the packet
 * (BPF_PROG_TEST_RUN). So no packet of any interface can reach it, and it is gone when the agent ends. It returns a
 * verdict on the record.
 *
 * To clock the sender, it turns that packet into a duplicate ACK of the client and sends a clone of it to the ingress
 * of the interface that the flow's packets arrive on: rp_filter expects the route back to the client there. Such a
 * segment
 *  - acknowledges nothing and changes no window, so it makes no RTT sample and moves no timer; it has no timestamps, so
 *    it changes neither the one that PAWS keeps nor the one to echo;
 *  - is no sign of a loss: with SACK, the kernel counts SACKed segments, not duplicate ACKs;
 *  - runs the congestion control and lets the stack send what the window then allows.
 * It is not sent if it would have another effect: without SACK; in the Loss state, where it would decide F-RTO; while a
 * tail loss probe is outstanding; with a closed window; with nothing in flight.
 *
 * `closed` sums up the traffic of flows with and without the PEP, if some flows are kept without it for comparison.
 */
#include "packet.h"
#include "connection.h"
#include "abi/pep.h"

char _license[] SEC("license") = "GPL";

#define BPF_F_INGRESS 1
#define HOP_LIMIT 64
/* nothing this far below snd_una can still be in flight */
#define FURTHEST_BEHIND (1 << 30)
/* border_us wraps: after this time, the order of two values is unknown */
#define ORDER_KNOWN_NS (1000000000ULL * 1000)
/* greatest age of an accepted record: the maximum of --max-age-ms */
#define MAX_AGE_US (30 * 1000000U)
/* after a report of bytes that were never sent, records of the flow are ignored for this long */
#define DISTRUST_NS (5 * 1000000000ULL)
/* a longer pause between two records is attributed to the application */
#define MAX_PAUSE_NS 1000000000ULL

enum {
	STATE_ESTABLISHED = 1,
	STATE_FIN_WAIT1 = 4,
	STATE_CLOSE = 7,
	STATE_CLOSE_WAIT,
	STATE_LAST_ACK,
	STATE_CLOSING = 11
};
#define SENDING_STATES (1 << STATE_ESTABLISHED | 1 << STATE_FIN_WAIT1 | 1 << STATE_CLOSE_WAIT | 1 << STATE_LAST_ACK | 1 << STATE_CLOSING)

/* The same as in crates/abi/src/pep.rs; a test compares them. */
enum verdict {
	PEP_WRITTEN,	  /* written, no ACK sent */
	PEP_CLOCKED,	  /* written, and the sender clocked */
	PEP_CONTROL,	  /* not written: the flow is kept without the PEP, for comparison */
	PEP_UNKNOWN_FLOW, /* no such connection */
	PEP_NOT_SENDING,  /* the connection's state no longer sends */
	PEP_OUTSIDE,	  /* reports bytes that were never sent */
	PEP_SHAPE,	  /* invalid ranges */
	PEP_OLDER,	  /* older than the last one */
	PEP_BUSY,	  /* another writer is active, or snd_nxt may not cover the segment yet */
	PEP_NO_STORAGE,	  /* no storage left for the socket */
	PEP_DISTRUSTED,	  /* its border recently reported bytes that were never sent */
};

#define UPDATE_CLOCK 1U
#define UPDATE_CONTROL 2U

struct pep_record_update {
	u8 server[16]; /* network order; IPv4: the first four bytes */
	u8 client[16];
	u16 server_port; /* network order */
	u16 client_port;
	u8 family; /* 4 or 6 */
	u8 flags;
	u16 range_count;
	u64 time_ns; /* when the PEP saw it, CLOCK_MONOTONIC here */
	u64 border;  /* identifies the clock of border_us: one run of a border, and its key */
	u32 in_order;
	u32 segments;
	u32 rtt_us;
	u32 border_us; /* when the PEP saw it, on the border's clock, modulo 2^32 */
	struct pep_range ranges[PEP_RANGES];
};

/* No map uses this type: the variable puts it into the object's BTF, for the comparison with crates/abi/src/pep.rs. */
const struct pep_record_update *update_layout;

/* What this program keeps per flow. */
struct account {
	u64 border;
	u32 border_us;
	u32 segments;
	u32 cohort;
	u64 last_ns;
	u64 active_ns; /* between records, without long pauses */
	u64 acked_before;
	u64 retransmits_before;
	u64 distrusted_until_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct account);
} account SEC(".maps");

/* Flows that ended, since the agent started: [0] with the PEP, [1] without. */
struct pep_cohort {
	u64 flows;
	u64 acked_bytes;
	u64 active_ns;
	u64 retransmits;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct pep_cohort);
} cohorts SEC(".maps");

struct mac {
	u8 address[6];
	u8 pad[2];
};

/* By interface index; entries of interfaces that are gone are evicted. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct mac);
} interfaces SEC(".maps");

static __always_inline u16 fold(u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static __always_inline bool after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

/*
 * Checks that the border can have seen what it reports. Ranges that begin at or above snd_nxt are dropped: a segment
 * forged in the server's name becomes the border's highest range, which an honest border reports, too.
 */
static __always_inline enum verdict check(const struct tcp_sock *tp, struct pep_record_update *h)
{
	u32 snd_nxt = READ_ONCE(tp->snd_nxt), at = h->in_order;

	if (h->range_count > PEP_RANGES)
		return PEP_SHAPE;
	if (after(at, snd_nxt) || (s32)(tp->snd_una - at) > FURTHEST_BEHIND)
		return PEP_OUTSIDE;
	for (int i = 0; i < PEP_RANGES; i++) {
		if (i >= h->range_count)
			break;
		if (!after(h->ranges[i].start, at) || !after(h->ranges[i].end, h->ranges[i].start))
			return PEP_SHAPE;
		if (!after(snd_nxt, h->ranges[i].start)) {
			h->range_count = i;
			break;
		}
		at = h->ranges[i].end;
		if (after(at, snd_nxt))
			return PEP_OUTSIDE;
	}
	return PEP_WRITTEN;
}

/*
 * The kernel sends a segment first and then advances snd_nxt, both under the socket's lock, so a report may arrive in
 * between. The lock was taken to send the segment before the report was made. So if the lock is free now, snd_nxt has
 * been advanced since, and bytes that are still beyond it were never sent. If the lock is held, the next report
 * decides.
 */
static __always_inline enum verdict check_again(const struct tcp_sock *tp, struct pep_record_update *h)
{
	u32 nothing = 0;

	/* an atomic add whose result is used is a full barrier: the lock is read before snd_nxt */
	if (is_locked((const struct sock *)tp) || __sync_fetch_and_add(&nothing, 1))
		return PEP_BUSY;
	return check(tp, h);
}

/*
 * Records of one border are accepted only in the order they were made. Since the last record, the border's clock has
 * advanced by at most the time that passed here plus the greatest age of that record. A record that seems later than
 * this is in fact an older one: border_us wraps after 71 minutes.
 */
static __always_inline bool is_older(const struct account *a, const struct pep_record_update *h, u64 now_ns)
{
	u32 later_us = h->border_us - a->border_us;

	if (!a->last_ns || a->border != h->border || now_ns - a->last_ns > ORDER_KNOWN_NS)
		return false;
	return later_us > (now_ns - a->last_ns) / 1000 + MAX_AGE_US || (!later_us && !after(h->segments, a->segments));
}

static __always_inline void keep_account(struct account *a, const struct tcp_sock *tp,
					 const struct pep_record_update *h, u64 now_ns)
{
	if (!a->last_ns) {
		a->cohort = !!(h->flags & UPDATE_CONTROL);
		a->acked_before = tp->bytes_acked;
		a->retransmits_before = tp->total_retrans;
	} else {
		a->active_ns += min(now_ns - a->last_ns, MAX_PAUSE_NS);
	}
	a->last_ns = now_ns;
	a->border = h->border;
	a->border_us = h->border_us;
	a->segments = h->segments;
}

/* Writes the record; false if another writer is active. `updates` is odd meanwhile (crates/abi/src/pep.rs). */
static __always_inline bool write_record(struct pep_flow_v1 *record, const struct pep_record_update *h)
{
	u32 updates = READ_ONCE(record->updates);

	if (updates & 1 || __sync_val_compare_and_swap(&record->updates, updates, updates + 1) != updates)
		return false;
	record->in_order = h->in_order;
	for (int i = 0; i < PEP_RANGES; i++)
		record->ranges[i] = h->ranges[i];
	record->range_count = h->range_count;
	record->rtt_us = h->rtt_us;
	record->segments = h->segments;
	record->time_ns = h->time_ns;
	/* Skips 0, which means never written. Its result is used: only then is the add ordered after the stores. */
	return __sync_fetch_and_add(&record->updates, updates + 2 ? 1 : 3) & 1;
}

/* Whether the highest sequence number that was seen is in flight. */
static __always_inline bool saw_flight(const struct tcp_sock *tp, const struct pep_record_update *h)
{
	u32 reach = h->in_order;

	if (h->range_count)
		reach = h->ranges[(h->range_count - 1U) % PEP_RANGES].end;
	return after(reach, tp->snd_una);
}

static __always_inline bool may_clock(struct tcp_sock *tp, const struct pep_record_update *h)
{
	return h->flags & UPDATE_CLOCK && tp->packets_out && !tp->tlp_high_seq && core_bitfield(tp, rx_opt.sack_ok) &&
	       tcp_ca_state((struct sock *)tp) != TCP_CA_Loss && saw_flight(tp, h);
}

static __always_inline void fill_ack(struct tcp_header *tcp, const struct tcp_sock *tp,
				     const struct pep_record_update *h, u16 window)
{
	tcp->source = h->client_port;
	tcp->dest = h->server_port;
	tcp->seq = swap32(tp->rcv_nxt);
	tcp->ack = swap32(tp->snd_una);
	tcp->offset = sizeof(*tcp) / 4 << 4;
	tcp->flags = TCP_ACK;
	tcp->window = swap16(window);
}

static __always_inline long send_v4(struct __sk_buff *skb, const struct pep_record_update *h, struct tcp_header *tcp,
				    const struct mac *mac, u32 ifindex)
{
	struct {
		u32 source, dest;
		u16 protocol, length;
	} pseudo = { *(const u32 *)h->client, *(const u32 *)h->server, swap16(PROTOCOL_TCP), swap16(sizeof(*tcp)) };
	struct {
		u8 dest[6], source[6];
		u16 protocol;
		struct ipv4_header ip;
		struct tcp_header tcp;
	} __attribute__((packed)) frame = {};
	struct ipv4_header ip = {
		.version_ihl = 0x45,
		.length = swap16(sizeof(ip) + sizeof(*tcp)),
		.fragment = swap16(0x4000), /* don't fragment */
		.ttl = HOP_LIMIT,
		.protocol = PROTOCOL_TCP,
		.source = pseudo.source,
		.dest = pseudo.dest,
	};
	s64 sum = bpf_csum_diff(NULL, 0, &pseudo, sizeof(pseudo), 0);

	tcp->checksum = fold(bpf_csum_diff(NULL, 0, tcp, sizeof(*tcp), sum));
	ip.checksum = fold(bpf_csum_diff(NULL, 0, &ip, sizeof(ip), 0));
	__builtin_memcpy(frame.dest, mac->address, 6);
	frame.protocol = swap16(ETHERTYPE_IPV4);
	frame.ip = ip;
	frame.tcp = *tcp;
	return bpf_skb_change_tail(skb, sizeof(frame), 0)		     ?:
		       bpf_skb_store_bytes(skb, 0, &frame, sizeof(frame), 0) ?:
		       bpf_clone_redirect(skb, ifindex, BPF_F_INGRESS);
}

static __always_inline long send_v6(struct __sk_buff *skb, const struct pep_record_update *h, struct tcp_header *tcp,
				    const struct mac *mac, u32 ifindex)
{
	struct {
		u8 source[16], dest[16];
		u32 length, next;
	} pseudo = { .length = swap32(sizeof(*tcp)), .next = swap32(PROTOCOL_TCP) };
	struct {
		u8 dest[6], source[6];
		u16 protocol;
		struct ipv6_header ip;
		struct tcp_header tcp;
	} __attribute__((packed)) frame = {};
	s64 sum;

	__builtin_memcpy(pseudo.source, h->client, 16);
	__builtin_memcpy(pseudo.dest, h->server, 16);
	sum = bpf_csum_diff(NULL, 0, &pseudo, sizeof(pseudo), 0);
	tcp->checksum = fold(bpf_csum_diff(NULL, 0, tcp, sizeof(*tcp), sum));
	__builtin_memcpy(frame.dest, mac->address, 6);
	frame.protocol = swap16(ETHERTYPE_IPV6);
	frame.ip.version_class_flow = swap32(6u << 28);
	frame.ip.length = swap16(sizeof(*tcp));
	frame.ip.next = PROTOCOL_TCP;
	frame.ip.hop_limit = HOP_LIMIT;
	__builtin_memcpy(frame.ip.source, h->client, 16);
	__builtin_memcpy(frame.ip.dest, h->server, 16);
	frame.tcp = *tcp;
	return bpf_skb_change_tail(skb, sizeof(frame), 0)		     ?:
		       bpf_skb_store_bytes(skb, 0, &frame, sizeof(frame), 0) ?:
		       bpf_clone_redirect(skb, ifindex, BPF_F_INGRESS);
}

/* Hands the stack the client's last ACK once more. */
static __always_inline bool clock_sender(struct __sk_buff *skb, struct tcp_sock *tp, const struct pep_record_update *h)
{
	u32 ifindex = ((struct sock *)tp)->sk_rx_dst_ifindex;
	u32 window = tp->snd_wnd >> core_bitfield(tp, rx_opt.snd_wscale);
	const struct mac *mac = bpf_map_lookup_elem(&interfaces, &ifindex);
	struct tcp_header tcp = {};

	if (!mac || !window)
		return false;
	fill_ack(&tcp, tp, h, min(window, 0xffffU));
	return !(h->family == 4 ? send_v4(skb, h, &tcp, mac, ifindex) : send_v6(skb, h, &tcp, mac, ifindex));
}

static __always_inline enum verdict take(struct __sk_buff *skb, struct bpf_sock *sk, struct pep_record_update *h)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u64 now_ns = bpf_ktime_get_ns();
	struct pep_flow_v1 *record;
	struct account *a;
	enum verdict verdict;

	if (!tp)
		return PEP_UNKNOWN_FLOW;
	if (!(1 << (((struct sock *)tp)->__sk_common.skc_state & 15) & SENDING_STATES))
		return PEP_NOT_SENDING;
	verdict = check(tp, h);
	if (verdict == PEP_OUTSIDE)
		verdict = check_again(tp, h);
	if (verdict && verdict != PEP_OUTSIDE)
		return verdict;
	a = bpf_sk_storage_get(&account, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!a)
		return PEP_NO_STORAGE;
	if (verdict == PEP_OUTSIDE) {
		/* an honest border never does that, so its earlier reports are not trusted either */
		a->distrusted_until_ns = now_ns + DISTRUST_NS;
		bpf_sk_storage_delete(&pep_flow, sk);
		return PEP_OUTSIDE;
	}
	if (now_ns < a->distrusted_until_ns)
		return PEP_DISTRUSTED;
	if (is_older(a, h, now_ns))
		return PEP_OLDER;
	keep_account(a, tp, h, now_ns);
	if (h->flags & UPDATE_CONTROL)
		return PEP_CONTROL;
	record = bpf_sk_storage_get(&pep_flow, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!record)
		return PEP_NO_STORAGE;
	if (!write_record(record, h))
		return PEP_BUSY;
	return may_clock(tp, h) && clock_sender(skb, tp, h) ? PEP_CLOCKED : PEP_WRITTEN;
}

SEC("classifier") int update_record(struct __sk_buff *skb)
{
	struct pep_record_update h;
	enum verdict verdict;
	struct bpf_sock *sk;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &h, sizeof(h)))
		return PEP_SHAPE;
	sk = find_connection(skb, h.server, h.server_port, h.client, h.client_port, h.family);
	if (!sk)
		return PEP_UNKNOWN_FLOW;
	verdict = take(skb, sk, &h);
	bpf_sk_release(sk);
	return verdict;
}

SEC("tp_btf/inet_sock_set_state") int BPF_PROG(closed, struct sock *sk, int old_state, int new_state)
{
	struct tcp_sock *tp;
	struct pep_cohort *cohort;
	struct account *a;
	u32 which;

	if (new_state != STATE_CLOSE || old_state == STATE_CLOSE || !sk->sk_bpf_storage) /* a reset gets here twice */
		return 0;
	a = bpf_sk_storage_get(&account, sk, NULL, 0);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!a || !tp || !a->last_ns) /* no record of it was ever accepted */
		return 0;
	which = a->cohort;
	cohort = bpf_map_lookup_elem(&cohorts, &which);
	if (!cohort)
		return 0;
	__sync_fetch_and_add(&cohort->flows, 1);
	__sync_fetch_and_add(&cohort->acked_bytes, tp->bytes_acked - a->acked_before);
	__sync_fetch_and_add(&cohort->active_ns, a->active_ns);
	__sync_fetch_and_add(&cohort->retransmits, tp->total_retrans - a->retransmits_before);
	return 0;
}
