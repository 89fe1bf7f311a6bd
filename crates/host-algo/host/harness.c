// SPDX-License-Identifier: GPL-2.0-only
/*
 * One algorithm, compiled for the host as a shared object, with plain functions around it: a test sets what the
 * kernel would show the algorithm (struct host_view), calls a hook, and reads back what it changed.
 * Tunables are global symbols of their own names.
 */
#include HOTCC_ALGO_FILE
#include <hotcc/learned.h>
#include <hotcc/stats.h> /* an algorithm may keep no counters */
#include "kfuncs.h"

_Static_assert(sizeof(void *) == 8, "icsk_ca_priv is laid out for 64 bits");

u64 host_now_ns;

/* A flat copy of the fields of struct tcp_sock that algorithms see. */
struct host_view {
	u64 now_us;
	u64 bytes_acked;
	u64 pacing_rate;     /* bytes/s */
	u64 max_pacing_rate; /* bytes/s; 0: none */
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 srtt_us; /* 8 times the smoothed RTT */
	u32 min_rtt_us;
	u32 mss;
	u32 delivered;
	u32 app_limited;
	u32 data_segs_out;
	u32 total_retrans;
	u32 max_packets_out;
	u32 ca_state;
	u32 is_cwnd_limited;
	u32 snd_una;
	u32 snd_nxt;
	u32 lost;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 sack_ok;
	u32 rcv_tsval;
};

HOTCC_EXPORT struct tcp_sock *host_new(void)
{
	struct tcp_sock *tp = __builtin_malloc(sizeof(*tp));

	__builtin_memset(tp, 0, sizeof(*tp));
	tp->inet_conn.icsk_inet.sk.__sk_common.skc_family = AF_INET;
	tp->inet_conn.icsk_inet.sk.__sk_common.skc_state = TCP_ESTABLISHED;
	return tp;
}

HOTCC_EXPORT void host_free(struct tcp_sock *tp)
{
	__builtin_free(tp);
}

HOTCC_EXPORT void host_set(struct tcp_sock *tp, const struct host_view *v)
{
	host_now_ns = v->now_us * 1000;
	tp->tcp_mstamp = v->now_us;
	tp->bytes_acked = v->bytes_acked;
	tp->inet_conn.icsk_inet.sk.sk_pacing_rate = v->pacing_rate;
	tp->inet_conn.icsk_inet.sk.sk_max_pacing_rate = v->max_pacing_rate ?: ~0UL;
	tp->snd_cwnd = v->snd_cwnd;
	tp->snd_cwnd_cnt = v->snd_cwnd_cnt;
	tp->snd_cwnd_clamp = v->snd_cwnd_clamp;
	tp->snd_ssthresh = v->snd_ssthresh;
	tp->prior_cwnd = v->prior_cwnd;
	tp->srtt_us = v->srtt_us;
	tp->rtt_min.s[0].v = v->min_rtt_us;
	tp->mss_cache = v->mss;
	tp->delivered = v->delivered;
	tp->app_limited = v->app_limited;
	tp->data_segs_out = v->data_segs_out;
	tp->total_retrans = v->total_retrans;
	tp->max_packets_out = v->max_packets_out;
	tp->inet_conn.icsk_ca_state = v->ca_state;
	tp->is_cwnd_limited = v->is_cwnd_limited;
	tp->snd_una = v->snd_una;
	tp->snd_nxt = v->snd_nxt;
	tp->lost = v->lost;
	tp->rate_delivered = v->rate_delivered;
	tp->rate_interval_us = v->rate_interval_us;
	tp->packets_out = v->packets_out;
	tp->sacked_out = v->sacked_out;
	tp->lost_out = v->lost_out;
	tp->retrans_out = v->retrans_out;
	tp->rx_opt.sack_ok = v->sack_ok;
	tp->rx_opt.rcv_tsval = v->rcv_tsval;
}

HOTCC_EXPORT void host_get(const struct tcp_sock *tp, struct host_view *v)
{
	v->snd_cwnd = tp->snd_cwnd;
	v->snd_cwnd_cnt = tp->snd_cwnd_cnt;
	v->snd_ssthresh = tp->snd_ssthresh;
	v->app_limited = tp->app_limited;
	v->pacing_rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
}

/* Returns the flow's private state; its layout is in the BPF object's BTF. */
HOTCC_EXPORT const u8 *host_priv(const struct tcp_sock *tp)
{
	return (const u8 *)tp->inet_conn.icsk_ca_priv;
}

HOTCC_EXPORT const u64 *host_stats_words(void)
{
	return (const u64 *)&stats.host_value[0];
}

/* Returns the socket as an algorithm sees it. */
static struct sock *shown(struct tcp_sock *tp)
{
	struct sock *sk = (struct sock *)tp;

	sk->sk_bpf_storage = host_storage;
	return sk;
}

HOTCC_EXPORT void host_init(struct tcp_sock *tp)
{
	if (HOTCC_ALGO.init)
		HOTCC_ALGO.init(shown(tp));
}

HOTCC_EXPORT void host_release(struct tcp_sock *tp)
{
	if (HOTCC_ALGO.release)
		HOTCC_ALGO.release(shown(tp));
}

HOTCC_EXPORT void host_pkts_acked(struct tcp_sock *tp, u32 pkts_acked, s32 rtt_us, u32 in_flight)
{
	struct ack_sample sample = { pkts_acked, rtt_us, in_flight };

	if (HOTCC_ALGO.pkts_acked)
		HOTCC_ALGO.pkts_acked(shown(tp), &sample);
}

HOTCC_EXPORT void host_cong_avoid(struct tcp_sock *tp, u32 ack, u32 acked)
{
	HOTCC_ALGO.cong_avoid(shown(tp), ack, acked);
}

/* Returns whether the algorithm has cong_control instead of cong_avoid, and so sets W and the pacing rate itself. */
HOTCC_EXPORT bool host_has_cong_control(void)
{
	return HOTCC_ALGO.cong_control != NULL;
}

HOTCC_EXPORT void host_cong_control(struct tcp_sock *tp, u32 ack, int flag, const struct rate_sample *rs)
{
	u64 ctx[] = { (u64)shown(tp), ack, flag, (u64)rs };

	((int (*)(u64 *))(void *)HOTCC_ALGO.cong_control)(ctx); /* CONG_CONTROL unpacks the arguments itself */
}

HOTCC_EXPORT u32 host_ssthresh(struct tcp_sock *tp)
{
	return HOTCC_ALGO.ssthresh(shown(tp));
}
HOTCC_EXPORT u32 host_undo_cwnd(struct tcp_sock *tp)
{
	return HOTCC_ALGO.undo_cwnd(shown(tp));
}

HOTCC_EXPORT void host_set_state(struct tcp_sock *tp, u8 state)
{
	if (HOTCC_ALGO.set_state)
		HOTCC_ALGO.set_state(shown(tp), state);
}

HOTCC_EXPORT void host_cwnd_event(struct tcp_sock *tp, u32 event)
{
	if (event == CA_EVENT_TX_START) { /* Linux 7.2 calls this hook instead */
		if (HOTCC_ALGO.cwnd_event_tx_start)
			HOTCC_ALGO.cwnd_event_tx_start(shown(tp));
	} else if (HOTCC_ALGO.cwnd_event)
		HOTCC_ALGO.cwnd_event(shown(tp), event);
}

/*
 * Sets what the radio map holds for this flow's peer: packed words of SINR and capacity. If `present` is 0, the index
 * has no entry.
 */
HOTCC_EXPORT void host_radio(u64 sinr, u64 capacity, u32 cell, u32 max_age_ms, u32 present)
{
#ifdef RADIO_VERSION
	struct radio_header *header = &radio_slots.host_value[0].header;
	struct radio_slot *slot = &radio_slots.host_value[1].slot;

	if ((present != 0) != (radio_index.value != NULL))
		header->generation++;
	header->version = RADIO_VERSION;
	radio_index.host_value[0] = 1;
	radio_index.value = present ? radio_index.host_value : NULL;
	slot->sinr = sinr;
	slot->capacity = capacity;
	slot->cell = cell;
	slot->max_age_ms = max_age_ms;
#else
	(void)sinr;
	(void)capacity;
	(void)cell;
	(void)max_age_ms;
	(void)present;
#endif
}

/* Sets the generation of the flow's path, and advances the clock so that flows look the generation up again. */
HOTCC_EXPORT void host_path(u32 generation)
{
#ifdef PATH_ENTRIES
	path_gen.host_value[0] = generation;
	path_gen.value = generation ? path_gen.host_value : NULL;
	path_clock.host_value[0]++;
#else
	(void)generation;
#endif
}

/* Sets what flows of one host to one receiver share: 64 bytes, initially zeros; NULL: the flow shares nothing. */
HOTCC_EXPORT void host_share(void *group)
{
#ifdef GROUPS
	crest_groups.value = group;
#else
	(void)group;
#endif
}

/* Sets the record in the PEP's storage of the socket; NULL: the socket has no storage. */
struct pep_flow_v1;
HOTCC_EXPORT void host_pep(const struct pep_flow_v1 *record)
{
#ifdef PEP_RANGES
	host_storage = record ? pep_flow.host_value : NULL;
	if (record)
		pep_flow.host_value[0] = *record;
#else
	(void)record;
#endif
}

/*
 * Names the socket as the one that moves. Before `init`, `record` is what the former algorithm wrote; it names that
 * algorithm's socket.
 */
HOTCC_EXPORT void host_learned_begin(const struct tcp_sock *tp, const struct hotcc_learned_v1 *record)
{
	hotcc_learned.host_value[0] = *record;
	hotcc_learned.host_value[0].socket = (u64)tp;
}

/* Returns what the record contains, and ends the move. */
HOTCC_EXPORT void host_learned_end(struct hotcc_learned_v1 *record)
{
	*record = hotcc_learned.host_value[0];
	hotcc_learned.host_value[0].socket = 0;
}

/* Sets the SACK blocks of the last ACK where the kernel keeps them: at the end of the cache, after zeros. */
HOTCC_EXPORT void host_sack(struct tcp_sock *tp, u32 count, const u32 *pairs)
{
	__builtin_memset(tp->recv_sack_cache, 0, sizeof(tp->recv_sack_cache));
	for (u32 i = 0; i < count && i < SACK_BLOCKS; i++) {
		struct tcp_sack_block *block = &tp->recv_sack_cache[SACK_BLOCKS - min(count, (u32)SACK_BLOCKS) + i];

		block->start_seq = pairs[2 * i];
		block->end_seq = pairs[2 * i + 1];
	}
}

/* Sets the contents of the hint's storage of the socket. */
HOTCC_EXPORT void host_hint(u64 time_ns, u32 sequence, u32 hint)
{
#ifdef HINT_GROW_MAX
	arwa_hint.host_value[0] = (struct arwa_hint_v2){ .time_ns = time_ns, .sequence = sequence, .hint = hint };
	host_storage = arwa_hint.host_value;
#else
	(void)time_ns;
	(void)sequence;
	(void)hint;
#endif
}

/* Sets the program's own CUBIC, which is called with this context; NULL: the stand-in. */
HOTCC_EXPORT void host_delegate_cubic(cubic_delegate delegate, void *context)
{
	cubic_of_program = delegate;
	cubic_context = context;
}

/*
 * Returns the calls of the kernel's CUBIC: 0 init, 1 recalc_ssthresh, 2 cong_avoid, 3 state, 4 acked, 5 event.
 */
HOTCC_EXPORT u32 host_cubic_calls(u32 kind)
{
	return cubic_calls[kind];
}
