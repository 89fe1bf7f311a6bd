// SPDX-License-Identifier: GPL-2.0-only
/*
 * The border's side of the ACKing border PEP (Mihály et al. 2017): watches the TCP segments that come from the Internet
 * and reports to the agent which of them reached this router. Every packet is forwarded at once and unchanged.
 *
 * A report of a flow is due at the first of: `report_segments` segments; `report_delay_us` after the first segment not
 * yet reported; a gap that appears or closes. One timer serves all flows: all of them wait equally long, so a queue
 * keeps them in the order in which they are due. While reports follow one another, the agent polls for them, and
 * neither the timer nor wake-ups interrupt a processor that forwards.
 *
 * Layouts: crates/abi/src/border.rs, which a test compares with these.
 */
#include "seen.h"
#include "segment.h"

char _license[] SEC("license") = "GPL";

#define CLOCK_MONOTONIC 1
#define LOCK_ATTEMPTS 256
#define MAX_OVERDUE 4096 /* reports of one run of the timer */

/* Set by the agent before it loads this. */
const volatile u32 report_segments = 16;
const volatile u32 report_delay_us = 250;

struct flow_key {
	struct endpoint server, client;
};

/*
 * The fields that every packet needs come first: after the map's own 48 bytes and the key's 40, they end with the
 * second cache line. An element takes three lines.
 */
struct flow {
	u32 lock;
	u32 segments;	/* data segments seen */
	u32 unreported; /* upper bound of those not yet reported */
	u32 zero;
	u64 seen_ns;  /* time of the last one */
	u64 since_ns; /* time of the first one neither reported nor queued alone; 0: there is none */
	struct seen seen;
	u64 room[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 15); /* the agent sets it */
	__uint(pinning, 1);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* Prefixes of the servers that cooperate. */
struct server_prefix {
	u32 prefix_len;
	u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__uint(pinning, 1);
	__type(key, struct server_prefix);
	__type(value, u32);
} servers SEC(".maps");

enum reason { SEGMENTS_DUE, TIME_DUE, GAP, REASONS };

struct report {
	struct flow_key key;
	struct seen seen;
	u32 segments;
	u32 reason;
	u64 seen_ns;
	u64 since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22); /* the agent sets it */
	__uint(pinning, 1);
} reports SEC(".maps");

/* A ring buffer's definition names no type: this variable puts the type into the object's BTF. */
const struct report *report_layout;

/*
 * A flow to be reported; or, for a segment that comes alone, the whole report: then only the forwarding processor
 * touches the flow, which stays in that processor's cache.
 */
struct waiting {
	struct flow_key key;
	u64 since_ns; /* the flow's, unless it was reported meanwhile; of a segment alone: when it was seen */
	u32 is_alone;
	u32 in_order;
	u32 segments;
	u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1 << 14); /* the agent sets it; each push takes the next slot: more slots would be cold */
	__uint(pinning, 1);
	__type(value, struct waiting);
} waiting SEC(".maps");

struct alarm {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct alarm);
} alarm SEC(".maps");

/*
 * `is_armed`: this program's timer runs. `is_polling`: the agent polls. Not pinned: another version of this program has
 * its own, and sets its own timer.
 */
u32 is_armed, is_polling;

struct counters {
	u64 packets;   /* from the Internet */
	u64 tracked;   /* data segments of cooperating servers; each segment of a super-packet counts */
	u64 untracked; /* segments of other servers */
	u64 other;     /* not TCP, or not IP; the next four are the other kinds that are not tracked */
	u64 fragments;
	u64 extensions;
	u64 malformed;
	u64 gtp_u;
	u64 flows_new;
	u64 flows_ended;
	u64 flows_refused; /* no memory */
	u64 segments_busy; /* not recorded: the flow's lock was not available */
	u64 lost_sight;
	u64 ranges_forgotten;
	u64 acks; /* of the clients, for flows with gaps */
	u64 reports[REASONS];
	u64 reports_lost; /* no room in the ring */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

/*
 * The kernel does not allow its own lock (bpf_spin_lock) in LRU maps. This one is held for some ten instructions, by
 * packets and the timer with softirqs off. It may still be unavailable: the hypervisor paused a virtual processor that
 * holds it; or a packet arrived while `border_poll` holds it on the same processor, as `border_poll` runs with softirqs
 * on before Linux 6.10 or so. Then the segment is not recorded: it counts as not seen, which is the safe side.
 */
static __always_inline bool lock(struct flow *f)
{
	for (int i = 0; i < LOCK_ATTEMPTS; i++)
		if (!__sync_lock_test_and_set(&f->lock, 1))
			return true;
	return false;
}

static __always_inline void unlock(struct flow *f)
{
	__sync_lock_test_and_set(&f->lock, 0);
}

static __always_inline struct counters *count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* Fills a report from a locked flow. After that, the flow has nothing unreported. */
static __always_inline void take_report(struct flow *f, struct report *r)
{
	r->seen = f->seen;
	r->segments = f->segments;
	r->seen_ns = f->seen_ns;
	r->since_ns = f->since_ns ? f->since_ns : f->seen_ns; /* a FIN alone may close a gap */
	f->unreported = 0;
	f->since_ns = 0;
}

static __always_inline void tell(struct report *r, const struct flow_key *key, u32 reason, struct counters *c)
{
	r->key = *key;
	r->reason = reason;
	if (bpf_ringbuf_output(&reports, r, sizeof(*r), READ_ONCE(is_polling) ? BPF_RB_NO_WAKEUP : 0))
		c->reports_lost++;
	else if (reason < REASONS) /* always true; the verifier needs the check */
		c->reports[reason]++;
}

struct sweep {
	u64 until_ns; /* what has waited since then or longer is due */
	u64 next_ns;  /* since when the first one that is not due has waited; 0: none waits */
};

static long report_overdue(u32 i, struct sweep *sweep)
{
	struct counters *c = count();
	struct report r = {};
	struct waiting w;
	bool is_due;

	sweep->next_ns = 0;
	if (bpf_map_peek_elem(&waiting, &w))
		return 1;
	sweep->next_ns = w.since_ns;
	if (w.since_ns > sweep->until_ns || bpf_map_pop_elem(&waiting, &w))
		return 1;
	is_due = w.is_alone;
	if (is_due) {
		r.seen.in_order = w.in_order;
		r.segments = w.segments;
		r.seen_ns = r.since_ns = w.since_ns;
	} else {
		struct flow *f = bpf_map_lookup_elem(&flows, &w.key);

		/*
		 * If the lock is held, its holder handles a segment of the flow, and sees how long the flow has waited.
		 */
		if (f && READ_ONCE(f->since_ns) == w.since_ns && lock(f)) {
			is_due = f->since_ns == w.since_ns;
			if (is_due)
				take_report(f, &r);
			unlock(f);
		}
	}
	if (is_due && c)
		tell(&r, &w.key, TIME_DUE, c);
	return 0;
}

/* Reports what is due. Returns since when the first one that is not due has waited; 0: none waits. */
static __always_inline u64 sweep(u64 now_ns)
{
	u64 delay_ns = report_delay_us * 1000ULL;
	/* reports are up to a quarter of the delay early, so that one sweep takes several; the timer makes none late */
	struct sweep sweep = { .until_ns = now_ns - delay_ns + delay_ns / 4 };

	bpf_loop(MAX_OVERDUE, report_overdue, &sweep, 0);
	return sweep.next_ns;
}

static __always_inline bool none_waits(void)
{
	struct waiting w;

	return bpf_map_peek_elem(&waiting, &w);
}

static int sweep_waiting(void *map, u32 *key, struct alarm *a)
{
	u64 delay_ns = report_delay_us * 1000ULL, now_ns = bpf_ktime_get_ns();
	u64 next_ns = READ_ONCE(is_polling) ? 0 : sweep(now_ns);

	if (!next_ns) {
		/*
		 * A packet first queues a flow, then reads is_armed; `border_end_poll` likewise first clears is_polling.
		 * This first clears is_armed, then reads both: at least one of the two sees the other's write.
		 */
		__sync_lock_test_and_set(&is_armed, 0);
		if (READ_ONCE(is_polling) || none_waits() || __sync_lock_test_and_set(&is_armed, 1))
			return 0;
		next_ns = now_ns;
	}
	now_ns = bpf_ktime_get_ns();
	bpf_timer_start(&a->timer, next_ns + delay_ns > now_ns ? next_ns + delay_ns - now_ns : 1, 0);
	return 0;
}

static __always_inline void rearm(void)
{
	struct alarm *a;
	u32 zero = 0;

	if (READ_ONCE(is_polling) || READ_ONCE(is_armed) || __sync_lock_test_and_set(&is_armed, 1))
		return;
	a = bpf_map_lookup_elem(&alarm, &zero);
	if (!a)
		return;
	bpf_timer_init(&a->timer, &alarm, CLOCK_MONOTONIC); /* fails if it was done before, e.g. by another version */
	if (bpf_timer_set_callback(&a->timer, sweep_waiting) ||
	    bpf_timer_start(&a->timer, report_delay_us * 1000ULL, 0))
		__sync_lock_test_and_set(&is_armed, 0);
}

/* What to do after a segment, besides forwarding it. */
enum action { NOTHING_DUE, WAIT, REPORT };

static __always_inline enum action note(struct flow *f, const struct segment *s, u64 now_ns, struct report *r,
					struct waiting *w, u32 *change, struct counters *c)
{
	u32 length = s->payload + !!(s->flags & TCP_SYN) + (s->flags & TCP_FIN);
	u64 delay_ns = report_delay_us * 1000ULL;
	enum action action = NOTHING_DUE;
	bool is_alone;

	*change = 0;
	if (!lock(f)) {
		c->segments_busy++;
		return NOTHING_DUE;
	}
	if (s->flags & TCP_SYN) {
		f->seen.in_order = s->seq;
		f->seen.range_count = 0;
		f->segments = 0;
		f->unreported = 0;
		f->since_ns = 0;
	}
	*change = seen_segment(&f->seen, s->seq, length);
	is_alone = !f->since_ns && !f->seen.range_count && s->count < report_segments &&
		   now_ns - f->seen_ns >= delay_ns;
	f->seen_ns = now_ns;
	if (s->payload) {
		f->segments += s->count;
		f->unreported = s->count + (is_alone ? 0 : f->unreported);
		if (is_alone) {
			w->in_order = f->seen.in_order;
			w->segments = f->segments;
			w->is_alone = 1;
			action = WAIT;
		} else if (!f->since_ns) {
			f->since_ns = now_ns;
			action = WAIT;
		}
		w->since_ns = now_ns;
	}
	if (*change & (GAP_APPEARED | GAP_CLOSED)) {
		r->reason = GAP;
		action = REPORT;
	} else if (f->unreported >= report_segments) {
		r->reason = SEGMENTS_DUE;
		action = REPORT;
	} else if (f->since_ns && now_ns - f->since_ns >= delay_ns) {
		r->reason = TIME_DUE;
		action = REPORT;
	}
	if (action == REPORT)
		take_report(f, r);
	unlock(f);
	return action;
}

static __always_inline bool cooperates(const struct endpoint *server)
{
	struct server_prefix key = { .prefix_len = 128 };

	__builtin_memcpy(key.address, server->address, sizeof(key.address));
	return bpf_map_lookup_elem(&servers, &key);
}

/* Starts to track a flow at `seq`, which is that of the first segment seen. */
static __always_inline struct flow *new_flow(const struct flow_key *key, u32 seq, struct counters *c)
{
	struct flow fresh;

	__builtin_memset(&fresh, 0, sizeof(fresh));
	fresh.seen.in_order = seq;
	if (bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST))
		c->flows_refused++;
	else
		c->flows_new++;
	return bpf_map_lookup_elem(&flows, key);
}

static __always_inline void end_flow(const struct flow_key *key, struct counters *c)
{
	if (!bpf_map_delete_elem(&flows, key))
		c->flows_ended++;
}

static __always_inline void watch_segment(const struct segment *s, struct counters *c)
{
	struct waiting w = { .key = { .server = s->from, .client = s->to } };
	struct report r;
	struct flow *f;
	u64 now_ns;
	u32 change;

	if (!s->payload && !(s->flags & (TCP_SYN | TCP_FIN | TCP_RST)))
		return;
	f = bpf_map_lookup_elem(&flows, &w.key);
	if (!f) { /* the server of a tracked flow cooperates */
		if (!cooperates(&s->from)) {
			c->untracked++;
			return;
		}
		if (s->flags & TCP_RST)
			return;
		f = new_flow(&w.key, s->seq, c);
		if (!f)
			return;
	} else if (s->flags & TCP_RST) {
		end_flow(&w.key, c);
		return;
	}
	now_ns = bpf_ktime_get_ns();
	switch (note(f, s, now_ns, &r, &w, &change, c)) {
	case REPORT:
		tell(&r, &w.key, r.reason, c);
		break;
	case WAIT:
		/* If the queue is full, the flow's next segment makes the report, which covers this one, too. */
		if (!bpf_map_push_elem(&waiting, &w, 0))
			rearm();
		break;
	default:
		break;
	}
	c->tracked += s->payload ? s->count : 0;
	if (unlikely(change &
		     RANGE_FORGOTTEN)) /* no store if there is nothing to count: this line stays out of the cache */
		c->ranges_forgotten++;
	if (unlikely(change & LOST_SIGHT))
		c->lost_sight++;
}

/* Records a packet from the Internet, which is forwarded in any case. */
static __always_inline int watch_data(struct __sk_buff *skb, u32 link_header)
{
	struct counters *c = count();
	struct segment s;

	if (!c)
		return TC_ACT_UNSPEC;
	c->packets++;
	switch (read_segment(skb, link_header, &s)) {
	case PACKET_SEGMENT:
		watch_segment(&s, c);
		break;
	case PACKET_OTHER:
		c->other++;
		break;
	case PACKET_FRAGMENT:
		c->fragments++;
		break;
	case PACKET_EXTENSION:
		c->extensions++;
		break;
	case PACKET_MALFORMED:
		c->malformed++;
		break;
	case PACKET_GTP_U:
		c->gtp_u++;
		break;
	}
	return TC_ACT_UNSPEC;
}

static __always_inline int watch_acks(struct __sk_buff *skb, u32 link_header)
{
	struct counters *c = count();
	struct flow_key key;
	struct segment s;
	struct flow *f;

	if (!c)
		return TC_ACT_UNSPEC;
	switch (read_segment(skb, link_header, &s)) {
	case PACKET_SEGMENT:
		break;
	case PACKET_GTP_U:
		c->gtp_u++;
		return TC_ACT_UNSPEC;
	default:
		return TC_ACT_UNSPEC;
	}
	key = (struct flow_key){ .server = s.to, .client = s.from };
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f)
		return TC_ACT_UNSPEC;
	if (s.flags & (TCP_RST | TCP_SYN)) { /* it ends, or another flow begins */
		end_flow(&key, c);
		return TC_ACT_UNSPEC;
	}
	if (!(s.flags & TCP_ACK) || !READ_ONCE(f->seen.range_count))
		return TC_ACT_UNSPEC;
	c->acks++;
	if (lock(f)) {
		seen_acknowledged(&f->seen, s.ack);
		unlock(f);
	}
	return TC_ACT_UNSPEC;
}

/* One pair for devices whose packets have an Ethernet header, one for those that begin with IP (tun, ppp). */
SEC("classifier") int border_data(struct __sk_buff *skb)
{
	return watch_data(skb, ETHERNET_HEADER);
}

SEC("classifier") int border_acks(struct __sk_buff *skb)
{
	return watch_acks(skb, ETHERNET_HEADER);
}

SEC("classifier") int border_data_ip(struct __sk_buff *skb)
{
	return watch_data(skb, 0);
}

SEC("classifier") int border_acks_ip(struct __sk_buff *skb)
{
	return watch_acks(skb, 0);
}

/*
 * The agent runs these itself: `border_poll` polls, `border_end_poll` ends polling. Their packet is only there as the
 * kernel needs one.
 */
SEC("classifier") int border_poll(struct __sk_buff *skb)
{
	__sync_lock_test_and_set(&is_polling, 1);
	sweep(bpf_ktime_get_ns());
	return 0;
}

SEC("classifier") int border_end_poll(struct __sk_buff *skb)
{
	__sync_lock_test_and_set(&is_polling, 0);
	if (!none_waits())
		rearm();
	return 0;
}
