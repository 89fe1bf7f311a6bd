/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks the open TCP sockets (iter/tcp), and finds out which version of a congestion control each one runs. For policy,
 * sock_count, sock_flows, sock_migrate, rx_drwa and a test object.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>

#define SOL_TCP 6
#define TCP_CONGESTION 13
#define CC_NAME_MAX 16

struct bpf_iter_meta {
	void *seq;
} __core;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} __core;

/* The kernel wraps a struct_ops map around the ops table that sockets point to. */
struct bpf_map {
	u32 id;
} __core;

struct bpf_struct_ops_value {
	u8 data[0];
} __core;

struct bpf_struct_ops_map {
	struct bpf_map map;
	struct bpf_struct_ops_value kvalue;
} __core;

struct bpf_struct_ops_tcp_congestion_ops {
	struct tcp_congestion_ops data;
} __core;

/* BPF_MODULE_OWNER without the architecture's poison in the top 16 bits. */
#define BPF_OWNER_MARK (0xeB9FULL << 2)
#define POISON_MASK 0xffffffffffffULL

/* The congestion control that a socket runs. */
struct socket_cc {
	u32 map_id; /* its struct_ops map; 0: one of the kernel's own */
	char name[CC_NAME_MAX];
};

static __always_inline bool same_name(const char *a, const char *b)
{
	for (int i = 0; i < CC_NAME_MAX; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			return true;
	}
	return true;
}

/* A listener that never chose has the default of when it was created; the sockets it accepts get the current one. */
static __always_inline bool listens_on_the_default(const struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_inet.sk.__sk_common.skc_state == TCP_LISTEN &&
	       !core_bitfield(&tp->inet_conn, icsk_ca_setsockopt);
}

#define read_word(address)                                                                       \
	({                                                                                       \
		u64 word_ = 0;                                                                   \
		bpf_probe_read_kernel(&word_, sizeof(word_), (const void *)(address));           \
		word_;                                                                           \
	})

/*
 * Reads which congestion control a socket runs. Addresses are plain numbers here: the map encloses the ops table, which
 * is outside the range that the verifier allows a typed pointer.
 */
static __always_inline bool read_socket_cc(struct tcp_sock *tp, struct socket_cc *cc)
{
	u64 ops = read_word(&tp->inet_conn.icsk_ca_ops), owner;

	if (!ops)
		return false;
	bpf_probe_read_kernel(cc->name, sizeof(cc->name),
			      (const void *)(ops + core_field_offset(struct tcp_congestion_ops, name)));
	cc->map_id = 0;
	owner = read_word(ops + core_field_offset(struct tcp_congestion_ops, owner));
	if ((owner & POISON_MASK) == BPF_OWNER_MARK)
		cc->map_id = read_word(ops - core_field_offset(struct bpf_struct_ops_tcp_congestion_ops, data) -
				       core_field_offset(struct bpf_struct_ops_map, kvalue) +
				       core_field_offset(struct bpf_struct_ops_map, map) +
				       core_field_offset(struct bpf_map, id));
	return true;
}

/* Nothing is in flight, and for a second no segment came or left: the latest rate sample says nothing about now. */
static __always_inline bool is_silent(const struct tcp_sock *tp)
{
	return !tp->packets_out && (s64)(bpf_ktime_get_ns() / 1000 - tp->tcp_mstamp) > (s64)USEC_PER_SEC;
}
