// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab's links, as programs on both ends of a cable: `pass` hands an incoming packet to the other end; there
 * `transmit` decides when it leaves, and the fq queueing discipline holds it until then (earliest departure time).
 *
 * Unlike netem, it is exact to the byte and to the nanosecond, and it follows a rate that changes every few
 * milliseconds without being called for each change. All that is random depends only on the seed and the packet's
 * number.
 */
#include "progs/packet.h"
#include "records.h"
#include "link.h"

char _license[] SEC("license") = "GPL";

#define MAX_DEVICES 2048
#define MAX_LINKS 1024
#define STEPS_AHEAD 4
#define SEARCH_ROUNDS 22

static long (*const bpf_skb_ecn_set_ce)(void *skb) = (void *)97;

/* The device at one end of a cable. */
struct end {
	u32 other_ifindex;
	u32 link; /* what leaves through this device is on this link */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DEVICES);
	__type(key, u32);
	__type(value, struct end);
} ends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LINKS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct link);
} links SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as the scenario needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct service_step);
} steps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as the scenario needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct phase);
} phases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as the scenario needs */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct packet_record);
} packet_records SEC(".maps");

/* Read and written by the guest in this layout. */
struct {
	u64 time_zero_ns;
	u64 records_made; /* if it exceeds the map's size, some are missing */
} lab SEC(".data") = {};

static __always_inline const struct service_step *step_at(const struct link *l, u32 i)
{
	u32 at = l->first_step + i;

	return bpf_map_lookup_elem(&steps, &at);
}

static __always_inline u64 served_by(const struct link *l, u64 now_ns)
{
	u64 i = min(now_ns / l->step_ns, (u64)l->steps - 1);
	const struct service_step *s = step_at(l, i);

	return s ? served(s, now_ns - i * l->step_ns) : 0;
}

/*
 * The last step or phase from `low` on, and before `high`, that begins at or before `position`. Positions only grow, so a
 * search begins where the previous one ended, and tries the next few first.
 */
static __always_inline u32 last_begun(const struct link *l, u32 low, u32 high, u64 position,
				      bool (*begins_after)(const struct link *l, u32 i, u64 position))
{
	u32 middle;

	for (int i = 0; i < STEPS_AHEAD + SEARCH_ROUNDS && low + 1 < high; i++) {
		middle = i < STEPS_AHEAD ? low + 1 : low + (high - low) / 2;
		if (begins_after(l, middle, position))
			high = middle;
		else
			low = middle;
	}
	return low;
}

static __always_inline bool step_begins_after(const struct link *l, u32 i, u64 position)
{
	const struct service_step *s = step_at(l, i);

	return !s || s->before > position;
}

static __always_inline const struct phase *phase_number(const struct link *l, u32 i)
{
	u32 at = l->first_phase + i;

	return bpf_map_lookup_elem(&phases, &at);
}

static __always_inline bool phase_begins_after(const struct link *l, u32 i, u64 now_ns)
{
	const struct phase *p = phase_number(l, i);

	return !p || p->from_ns > now_ns;
}

static __always_inline const struct phase *phase_at(struct link *l, u64 now_ns)
{
	l->phase = last_begun(l, l->phase, l->phases, now_ns, phase_begins_after);
	return phase_number(l, l->phase);
}

/* Finds a packet's flow by the port of the flow's receiver. */
static __always_inline void classify(struct __sk_buff *skb, struct packet_record *r)
{
	u8 protocol = 0, ports[4] = {};
	u16 from, to;

	bpf_skb_load_bytes(skb, ETHERNET_HEADER + 9, &protocol, 1);
	bpf_skb_load_bytes(skb, ETHERNET_HEADER + 20, ports, 4);
	from = ports[0] << 8 | ports[1];
	to = ports[2] << 8 | ports[3];
	r->flow = NO_FLOW;
	if (protocol != 6 && protocol != 17)
		return;
	if (to >= FIRST_FLOW_PORT && to < FIRST_FLOW_PORT + MAX_FLOWS) {
		r->flow = to - FIRST_FLOW_PORT;
		r->towards_receiver = 1;
	} else if (from >= FIRST_FLOW_PORT && from < FIRST_FLOW_PORT + MAX_FLOWS) {
		r->flow = from - FIRST_FLOW_PORT;
	}
}

static __always_inline void record(const struct packet_record *made)
{
	u32 at = __sync_fetch_and_add(&lab.records_made, 1);
	struct packet_record *r = bpf_map_lookup_elem(&packet_records, &at);

	if (r)
		*r = *made;
}

/* Whether the policer's bucket has too few tokens for a packet. If so, the packet takes none. */
static __always_inline bool exceeds(struct link *l, u32 bytes, u64 now_ns)
{
	u64 needed = bytes * TOKENS_PER_BYTE, passed_ns;

	now_ns = max(now_ns, l->tokens_ns); /* another processor may have read the clock later and come first */
	passed_ns = now_ns - l->tokens_ns;
	if (passed_ns > (l->police_tokens - l->tokens) / l->police_bps)
		l->tokens = l->police_tokens;
	else
		l->tokens += passed_ns * l->police_bps;
	l->tokens_ns = now_ns;
	if (needed > l->tokens)
		return true;
	l->tokens -= needed;
	return false;
}

/* Takes a place in the queue, and sets when the packet leaves it; false if there is no room. */
static __always_inline bool enqueue(struct link *l, struct packet_record *r, u64 now_ns, u64 *leaves_ns)
{
	u64 done = served_by(l, now_ns), start = max(done, l->position), position, service_ns;
	const struct service_step *s;
	u32 i;

	r->queue_bytes = (start - done) / MILLIBITS_PER_BYTE;
	r->wait_ns = l->free_ns > now_ns ? l->free_ns - now_ns : 0;
	if ((u64)r->queue_bytes + r->bytes > l->queue_bytes)
		return false;
	position = start + (u64)r->bytes * MILLIBITS_PER_BYTE;
	/* `position - 1`: a step's last bit leaves within it, not after a pause that follows */
	i = last_begun(l, l->hint, l->steps, position - 1, step_begins_after);
	s = step_at(l, i);
	if (!s || !s->rate_bps) /* the rate never comes back */
		return false;
	l->position = position;
	l->hint = i;
	*leaves_ns = i * l->step_ns + time_in_step(s, position);
	l->free_ns = *leaves_ns;
	service_ns = (u64)r->bytes * 8 * 1000000000 / s->rate_bps;
	r->wait_ns = *leaves_ns - now_ns > service_ns ? *leaves_ns - now_ns - service_ns :
							0; /* a pause is a wait, too */
	return true;
}

/*
 * Passes on a clone, which belongs to no socket. The packet itself does, even across namespaces: on the link it would
 * count as still in the sender's own queue, which TCP keeps short (TCP small queues).
 */
SEC("tc") int pass(struct __sk_buff *skb)
{
	u32 ifindex = skb->ifindex;
	const struct end *e = bpf_map_lookup_elem(&ends, &ifindex);

	if (e)
		bpf_clone_redirect(skb, e->other_ifindex, 0);
	return TC_ACT_SHOT;
}

SEC("tc") int transmit(struct __sk_buff *skb)
{
	u32 ifindex = skb->ifindex, index, segments;
	const struct end *e = bpf_map_lookup_elem(&ends, &ifindex);
	struct packet_record r = {};
	u64 now_ns, leaves_ns, packet, delay_ns;
	const struct phase *p;
	struct link *l;

	if (!e)
		return TC_ACT_SHOT;
	index = e->link;
	l = bpf_map_lookup_elem(&links, &index);
	if (!l)
		return TC_ACT_SHOT;
	now_ns = bpf_ktime_get_ns() - lab.time_zero_ns;
	if ((s64)now_ns < 0)
		now_ns = 0;
	leaves_ns = now_ns;
	packet = l->arrived++;
	segments = max(skb->gso_segs, 1u);
	classify(skb, &r);
	r.time_ns = now_ns;
	r.link = index;
	r.segments = segments;
	r.bytes = skb->wire_len - segments * ETHERNET_HEADER;
	p = phase_at(l, now_ns);
	if (!p)
		return TC_ACT_SHOT;
	if (l->police_bps && exceeds(l, r.bytes, now_ns)) {
		l->police_drops += segments;
		r.fate = FATE_POLICED;
		goto drop;
	}
	if (l->steps && !enqueue(l, &r, now_ns, &leaves_ns)) {
		l->queue_drops += segments;
		r.fate = FATE_QUEUE_DROP;
		goto drop;
	}
	/* a lost packet was sent: it took its time on the link */
	if (draw(l->seed, packet, DRAW_LOSS) < p->loss ||
	    (p->bit_errors && draw(l->seed, packet, DRAW_BIT_ERROR) >= survival(p, r.bytes))) {
		l->losses += segments;
		r.fate = FATE_LOST;
		goto drop;
	}
	if (l->mark_bytes && r.queue_bytes > l->mark_bytes && bpf_skb_ecn_set_ce(skb) == 1) {
		l->ce_marks += segments;
		r.marked = 1;
	}
	l->packets += segments;
	l->bytes += r.bytes;
	delay_ns = p->delay_ns;
	if (p->jitter_ns)
		delay_ns += (p->jitter_ns * draw(l->seed, packet, DRAW_JITTER)) >> 32;
	leaves_ns += delay_ns;
	if (p->reorder && draw(l->seed, packet, DRAW_REORDER) < p->reorder) {
		leaves_ns += p->hold_ns;
	} else {
		leaves_ns = max(leaves_ns, l->release_ns);
		l->release_ns = leaves_ns;
	}
	skb->tstamp = lab.time_zero_ns + leaves_ns;
	if (l->keeps_records)
		record(&r);
	return TC_ACT_OK;
drop:
	if (l->keeps_records)
		record(&r);
	return TC_ACT_SHOT;
}
