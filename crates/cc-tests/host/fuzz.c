// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs one algorithm under libFuzzer. The input sets the tunables, the connection's start and its events; hooks are
 * called in the kernel's order. A field may have any value that a kernel could show. The run stops on undefined
 * behaviour, on a window or threshold out of bounds, and on a hook that does not end.
 */
#include "harness.c"

#define STEP_US_MAX (1ULL << 36)

static const u8 *input, *input_end;

static u8 next8(void)
{
	return input < input_end ? *input++ : 0;
}

static u32 next32(void)
{
	u32 v = next8();

	v |= (u32)next8() << 8;
	v |= (u32)next8() << 16;
	return v | (u32)next8() << 24;
}

/* Returns a number of as many bits as a byte says, so that small and large numbers are equally likely. */
static u32 next_scaled(void)
{
	u32 bits = next8() & 31;

	return next32() >> (31 - bits);
}

static void check(const struct tcp_sock *tp, u32 before)
{
	if (tp->snd_cwnd != before && (tp->snd_cwnd < 2 || tp->snd_cwnd > tp->snd_cwnd_clamp))
		__builtin_trap();
	if (tp->snd_ssthresh < 2)
		__builtin_trap();
}

#define HOOK(tp, call)                            \
	do {                                      \
		u32 before_ = (tp)->snd_cwnd;     \
		call;                             \
		check(tp, before_);               \
	} while (0)

/* weak: an algorithm may have no tunables */
extern const struct host_tunable __start_host_tunables[] __attribute__((weak));
extern const struct host_tunable __stop_host_tunables[] __attribute__((weak));

static void set_tunables(void)
{
	const struct host_tunable *t;

	for (t = __start_host_tunables; t < __stop_host_tunables; t++) {
		u32 highest = t->highest;
		u8 how = next8();

		for (const char *c = t->choices; c && *c; c++)
			highest += *c == ',';
		if (how < 128)
			*t->value = t->initial;
		else if (how < 160)
			*t->value = t->lowest;
		else if (how < 192)
			*t->value = highest;
		else
			*t->value = t->lowest + next32() % ((u64)highest - t->lowest + 1);
	}
}

static void start(struct tcp_sock *tp)
{
	struct host_view v = {};

	v.now_us = (u64)next32() << (next8() % 22);
	v.snd_cwnd_clamp = next8() & 1 ? ~0U : max(next_scaled(), 4U);
	v.snd_cwnd = max(min(next_scaled() >> 8, v.snd_cwnd_clamp), 1U);
	v.snd_ssthresh = next8() & 1 ? TCP_INFINITE_SSTHRESH : max(next_scaled() >> 1, 2U);
	v.mss = 88 + next32() % 65000;
	v.delivered = next32();
	v.snd_una = v.snd_nxt = next32();
	v.data_segs_out = next8() & 1 ? 0 : next32();
	v.is_cwnd_limited = 1;
	v.max_packets_out = v.snd_cwnd;
	host_set(tp, &v);
}

static void advance(struct tcp_sock *tp, u64 us)
{
	tp->tcp_mstamp += us % STEP_US_MAX;
	host_now_ns = tp->tcp_mstamp * 1000;
}

static void enter(struct tcp_sock *tp, u8 state)
{
	HOOK(tp, host_set_state(tp, state));
	tp->inet_conn.icsk_ca_state = state;
}

static void reduce(struct tcp_sock *tp)
{
	u32 ssthresh;

	tp->prior_cwnd = tp->snd_cwnd;
	HOOK(tp, ssthresh = host_ssthresh(tp));
	if (ssthresh < 2)
		__builtin_trap();
	tp->snd_ssthresh = ssthresh;
}

/* Passes a rate sample of that ACK, or one that is invalid to the kernel. */
static void control(struct tcp_sock *tp, u32 acked, long rtt_us)
{
	struct rate_sample rs = { .acked_sacked = acked, .rtt_us = rtt_us, .delivered = -1, .interval_us = -1 };

	if (next8() & 15) {
		rs.delivered = next_scaled();
		rs.interval_us = next8() & 15 ? (long)next_scaled() : -1;
		rs.prior_delivered = tp->delivered - rs.delivered;
		rs.prior_mstamp = tp->tcp_mstamp - min((u64)max(rs.interval_us, 0L), tp->tcp_mstamp);
		rs.is_app_limited = next8() & 1;
		rs.is_retrans = next8() & 1;
		rs.losses = next8() & 3;
	}
	HOOK(tp, host_cong_control(tp, tp->snd_una, 0, &rs));
}

static void ack(struct tcp_sock *tp)
{
	u32 acked = next_scaled() >> 12, rtt = next_scaled() >> 4;
	bool has_rtt = next8() & 7;
	u8 state = tp->inet_conn.icsk_ca_state;
	u32 bytes = min((u64)acked * tp->mss_cache, 1ULL << 30);

	tp->rx_opt.rcv_tsval = next8() & 3 ? (u32)(tp->tcp_mstamp / 1000) + next8() : next32();
	tp->snd_una += bytes;
	if (tp->snd_nxt - tp->snd_una > 1U << 31)
		tp->snd_nxt = tp->snd_una;
	tp->delivered += acked;
	tp->bytes_acked += bytes;
	if (has_rtt)
		tp->srtt_us = tp->srtt_us ? max(tp->srtt_us - (tp->srtt_us >> 3) + rtt, 1U) : rtt << 3;
	HOOK(tp, host_pkts_acked(tp, acked, has_rtt ? (s32)rtt : -1, 0));
	if (host_has_cong_control())
		control(tp, acked, has_rtt ? (long)rtt : -1);
	else if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		tp->snd_cwnd = max(tp->snd_cwnd - min(acked, tp->snd_cwnd), min(tp->snd_ssthresh, tp->snd_cwnd));
	else if (acked)
		HOOK(tp, host_cong_avoid(tp, tp->snd_una, acked));
}

static void complete(struct tcp_sock *tp)
{
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		tp->snd_cwnd = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	HOOK(tp, host_cwnd_event(tp, CA_EVENT_COMPLETE_CWR));
	enter(tp, TCP_CA_Open);
}

static void timeout(struct tcp_sock *tp)
{
	if (tp->inet_conn.icsk_ca_state <= TCP_CA_Disorder || next8() & 1) {
		reduce(tp);
		HOOK(tp, host_cwnd_event(tp, CA_EVENT_LOSS));
	}
	tp->lost += tp->snd_cwnd;
	tp->snd_cwnd = 1;
	tp->snd_cwnd_cnt = 0;
	enter(tp, TCP_CA_Loss);
}

/* Returns a sequence number in flight, near those in flight, or anywhere. */
static u32 next_sequence(const struct tcp_sock *tp)
{
	u8 how = next8();

	if (how < 16)
		return next32();
	if (how < 32)
		return tp->snd_nxt + next8();
	return tp->snd_una - 4096 + next32() % (tp->snd_nxt - tp->snd_una + 8192);
}

/* Sets the report of the flow's PEP, if the algorithm uses one. */
static void report(const struct tcp_sock *tp)
{
#ifdef PEP_RANGES
	struct pep_flow_v1 record = { .updates = next8() < 240 ? 2 * next8() : next32() };

	record.in_order = next_sequence(tp);
	record.range_count = next8() % 6;
	for (int i = 0; i < PEP_RANGES; i++) {
		record.ranges[i].start = next_sequence(tp);
		record.ranges[i].end = next_sequence(tp);
	}
	record.rtt_us = next_scaled();
	record.time_ns = (tp->tcp_mstamp - (next8() < 224 ? next8() : next_scaled())) * 1000;
	host_pep(next8() < 240 ? &record : NULL);
#else
	(void)tp;
#endif
}

/* Sets the record that the flow shares with its siblings, which may write to it at any time; or removes it. */
static void join(void)
{
	static u64 group[8];
	u8 how = next8();

	for (int i = 0; i < 8; i++)
		group[i] = how < 192 ? 0 : (u64)next32() << 32 | next32();
	host_share(how < 64 ? NULL : group);
}

static void event(struct tcp_sock *tp, u8 what)
{
	u8 state = tp->inet_conn.icsk_ca_state;

	switch (what % 32) {
	case 0:
		tp->is_cwnd_limited = next8() & 1;
		tp->max_packets_out = tp->snd_cwnd >> (next8() & 1);
		break;
	case 1:
		tp->app_limited = next8() & 1 ? max(tp->delivered, 1U) : 0;
		break;
	case 2:
		tp->mss_cache = 88 + next32() % 65000;
		break;
	case 3:
		HOOK(tp, host_pkts_acked(tp, 0, -1, 0));
		break;
	case 4:
		if (state == TCP_CA_Open)
			enter(tp, TCP_CA_Disorder);
		break;
	case 5:
		if (state == TCP_CA_Disorder || state == TCP_CA_Loss)
			enter(tp, TCP_CA_Open);
		break;
	case 6:
	case 7:
		if (state > TCP_CA_CWR)
			break;
		tp->lost += next_scaled() >> 16;
		if (state != TCP_CA_CWR)
			reduce(tp);
		enter(tp, TCP_CA_Recovery);
		break;
	case 8:
		if (state >= TCP_CA_CWR)
			break;
		reduce(tp);
		enter(tp, TCP_CA_CWR);
		break;
	case 9:
	case 10:
		if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
			complete(tp);
		break;
	case 11:
		if (state < TCP_CA_Recovery)
			break;
		tp->snd_cwnd = min(host_undo_cwnd(tp), tp->snd_cwnd_clamp);
		enter(tp, TCP_CA_Open);
		break;
	case 12:
		timeout(tp);
		break;
	case 13:
		advance(tp, (u64)next32() << (next8() & 7));
		HOOK(tp, host_cwnd_event(tp, CA_EVENT_CWND_RESTART));
		HOOK(tp, host_cwnd_event(tp, CA_EVENT_TX_START));
		break;
	case 14:
		host_release(tp);
		HOOK(tp, host_init(tp));
		break;
	case 15:
		host_radio((u64)next32() << 32 | next32(), (u64)next32() << 32 | next32(), next8(), next32(),
			   next8() & 1);
		break;
	case 16:
		set_tunables();
		break;
	case 17:
		tp->lost += next_scaled();
		break;
	case 18:
		host_path(next8() & 3);
		break;
	case 19:
		report(tp);
		break;
	case 20:
		host_hint((tp->tcp_mstamp - next_scaled()) * 1000, next8(), next8());
		break;
	case 21: {
		u32 pairs[8];

		for (int i = 0; i < 8; i++)
			pairs[i] = next_sequence(tp);
		host_sack(tp, next8() % 5, pairs);
		break;
	}
	case 22:
		join();
		break;
	default:
		advance(tp, next_scaled());
		ack(tp);
	}
	if (tp->snd_nxt - tp->snd_una < min((u64)tp->snd_cwnd * tp->mss_cache, 1ULL << 30))
		tp->snd_nxt = tp->snd_una + min((u64)tp->snd_cwnd * tp->mss_cache, 1ULL << 30);
}

int LLVMFuzzerTestOneInput(const u8 *data, unsigned long size)
{
	struct tcp_sock *tp = host_new();

	input = data;
	input_end = data + size;
	set_tunables();
	join();
	start(tp);
	HOOK(tp, host_init(tp));
	while (input < input_end)
		event(tp, next8());
	host_release(tp);
	host_free(tp);
	return 0;
}
