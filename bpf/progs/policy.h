/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules that choose a congestion control for a flow: their criteria, the properties of a flow, and how the two are
 * matched. Layout: loader/src/policy/layout.rs, which a test compares with this. For policy and sock_migrate.
 */
#pragma once
#include <hotcc/radio.h>

#define POLICY_CGROUP_LEVELS 12
#define POLICY_CGROUP_WALK 32
#define POLICY_CGROUP_NAME 128
#define POLICY_CC_NAME 16
#define POLICY_TEXT 2048
#define POLICY_SET_BITS 32 /* bits of the key before the address */

/* A rule's criteria, in the order of the checks: bits of policy_rule.criteria. A failed check returns its bit. */
enum policy_criterion {
	POLICY_MATCHES = 0,
	POLICY_REMOTE = 1 << 0,
	POLICY_LOCAL = 1 << 1,
	POLICY_PORT = 1 << 2,
	POLICY_CGROUP = 1 << 3,
	POLICY_NETNS = 1 << 4,
	POLICY_UID = 1 << 5,
	POLICY_INTERFACE = 1 << 6,
	POLICY_SIGNAL = 1 << 7,
	POLICY_SIGNAL_ABOVE = 1 << 8,
	POLICY_SIGNAL_BELOW = 1 << 9,
	POLICY_SHARE = 1 << 10,
};

struct policy_rule {
	u8 remote[16]; /* IPv4 as ::ffff:a.b.c.d */
	u8 local[16];
	char interface[16];
	char cc_name[POLICY_CC_NAME];
	u64 id;		  /* the same for the same rule in other policies; not 0 */
	u64 cgroup;	  /* hash of its path, or of one name in it */
	u32 cgroup_depth; /* names in the path; 0: the name may be anywhere in it */
	u32 remote_len;	  /* bits */
	u32 local_len;
	u32 remote_set; /* 0: `remote` is the prefix */
	u32 local_set;
	u32 netns; /* inode */
	u32 uid;
	s32 signal_q8; /* 1/256 dB */
	u32 share;     /* matches flows whose hash is below it */
	u32 seed;      /* of the hash */
	u32 criteria;  /* bits: enum policy_criterion */
	u32 overrides; /* also replaces an application's own choice */
	u16 port_first;
	u16 port_last;
	u32 cohort; /* of `hotcc canary`: 0, or 1 plus enum policy_cohort */
};

enum policy_cohort { POLICY_CONTROL, POLICY_CANARY, POLICY_COHORTS };

/* Properties of a flow that may be unknown: bits of policy_flow.known. All others are always known. */
enum { POLICY_KNOWS_PEER = 1, POLICY_KNOWS_UID = 2, POLICY_KNOWS_SIGNAL = 4 };

struct policy_flow {
	u8 remote[16];
	u8 local[16];
	char interface[16];		  /* empty: not known */
	u64 cgroup[POLICY_CGROUP_LEVELS]; /* hashes of the names in its path, from the top; 0: no more */
	u32 netns;
	u32 uid;
	s32 signal_q8;
	u32 known;
	u16 remote_port; /* host order */
	u16 local_port;
	u32 pad;
};

struct policy_prefix {
	u32 prefix_len; /* POLICY_SET_BITS plus the bits of the address */
	u32 set;	/* twice its number, plus 1 for IPv4: an IPv6 prefix never matches an IPv4 address */
	u8 addr[16];	/* IPv4 in the first four bytes: the kernel compares the first eight of a key in one step */
};

struct policy_counts {
	u64 connections; /* that got the rule's congestion control */
	u64 listeners;	 /* that got it */
	u64 left_alone;	 /* the application, or `hotcc run`, had chosen */
	u64 unavailable; /* the congestion control was not loaded */
	u64 refused;	 /* by the kernel, for another reason: e.g. the route locks a congestion control */
};

struct policy_text {
	u8 remote_digest[32]; /* SHA-256 of the set's prefixes */
	u8 local_digest[32];
	u32 remote_prefixes;
	u32 local_prefixes;
	char toml[POLICY_TEXT]; /* the rule, as in the file */
};

/* Set by the loader before a program runs. */
struct policy_job {
	u32 rules;
	u32 criteria_in_use; /* criteria that any rule has */
	u32 only_count;
	u32 tick_us; /* the kernel's jiffy */
};

#define POLICY_CRITERIA 11
#define POLICY_SIGNALS (POLICY_SIGNAL | POLICY_SIGNAL_ABOVE | POLICY_SIGNAL_BELOW)

/* The loader gives it as many entries as there are prefixes. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct policy_prefix);
	__type(value, u32); /* 1: in the set, 0: excluded from a larger prefix of it */
} policy_prefixes SEC(".maps");

static __always_inline u64 policy_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline bool policy_is_v4(const u8 address[16])
{
	const u32 *words = (const u32 *)address;

	return !words[0] && !words[1] && words[2] == 0xffff0000;
}

static __always_inline bool policy_in_prefix(const u8 address[16], const u8 prefix[16], u32 bits)
{
	const u32 *a = (const u32 *)address, *p = (const u32 *)prefix;

	if (bits < 96 && policy_is_v4(address))
		return false;
	for (int i = 0; i < 4; i++) {
		u32 differs = __builtin_bswap32(a[i] ^ p[i]), here = bits < 32 ? bits : 32;

		if (here && differs >> (32 - here))
			return false;
		bits -= here;
	}
	return true;
}

static __always_inline bool policy_in_set(const u8 address[16], u32 set)
{
	const u32 *words = (const u32 *)address;
	struct policy_prefix key = { .prefix_len = POLICY_SET_BITS + 128, .set = set * 2 };
	u32 *to = (u32 *)key.addr, *is_in;

	if (policy_is_v4(address)) {
		key.prefix_len = POLICY_SET_BITS + 32;
		key.set++;
		to[0] = words[3];
	} else {
		for (int i = 0; i < 4; i++)
			to[i] = words[i];
	}
	is_in = bpf_map_lookup_elem(&policy_prefixes, &key);
	return is_in && *is_in;
}

static __always_inline bool policy_in_cgroup(const struct policy_flow *flow, const struct policy_rule *rule)
{
	u64 path = 0;

	for (u32 i = 0; i < POLICY_CGROUP_LEVELS; i++) {
		if (!flow->cgroup[i])
			return false;
		if (!rule->cgroup_depth && flow->cgroup[i] == rule->cgroup)
			return true;
		path = policy_mix(path, flow->cgroup[i]);
		if (i + 1 == rule->cgroup_depth)
			return path == rule->cgroup;
	}
	return false;
}

static __always_inline bool policy_same_text(const char a[16], const char b[16])
{
	const u64 *x = (const u64 *)a, *y = (const u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

/* Returns the same hash for a flow each time, so that a larger share includes the flows of a smaller one. */
static __always_inline u32 policy_hash(const struct policy_flow *flow, u32 seed)
{
	const u64 *remote = (const u64 *)flow->remote, *local = (const u64 *)flow->local;
	u64 hash = seed;

	hash = policy_mix(hash, remote[0]);
	hash = policy_mix(hash, remote[1]);
	hash = policy_mix(hash, local[0]);
	hash = policy_mix(hash, local[1]);
	hash = policy_mix(hash, (u64)flow->remote_port << 16 | flow->local_port);
	return policy_mix(hash, seed) >> 32;
}

static __always_inline bool policy_has_port(const struct policy_rule *rule, u16 port)
{
	return port >= rule->port_first && port <= rule->port_last;
}

/* Returns the first criterion of the rule that the flow does not meet. */
static __always_inline enum policy_criterion policy_mismatch(const struct policy_rule *rule,
							     const struct policy_flow *flow)
{
	u32 asks = rule->criteria;

	if (asks & POLICY_REMOTE &&
	    (!(flow->known & POLICY_KNOWS_PEER) ||
	     !(rule->remote_set ? policy_in_set(flow->remote, rule->remote_set) :
				  policy_in_prefix(flow->remote, rule->remote, rule->remote_len))))
		return POLICY_REMOTE;
	if (asks & POLICY_LOCAL && !(rule->local_set ? policy_in_set(flow->local, rule->local_set) :
						       policy_in_prefix(flow->local, rule->local, rule->local_len)))
		return POLICY_LOCAL;
	if (asks & POLICY_PORT && !policy_has_port(rule, flow->local_port) && !policy_has_port(rule, flow->remote_port))
		return POLICY_PORT;
	if (asks & POLICY_CGROUP && !policy_in_cgroup(flow, rule))
		return POLICY_CGROUP;
	if (asks & POLICY_NETNS && flow->netns != rule->netns)
		return POLICY_NETNS;
	if (asks & POLICY_UID && (!(flow->known & POLICY_KNOWS_UID) || flow->uid != rule->uid))
		return POLICY_UID;
	if (asks & POLICY_INTERFACE && !policy_same_text(flow->interface, rule->interface))
		return POLICY_INTERFACE;
	if (asks & POLICY_SIGNALS && !(flow->known & POLICY_KNOWS_SIGNAL))
		return POLICY_SIGNAL;
	if (asks & POLICY_SIGNAL_ABOVE && flow->signal_q8 <= rule->signal_q8)
		return POLICY_SIGNAL_ABOVE;
	if (asks & POLICY_SIGNAL_BELOW && flow->signal_q8 >= rule->signal_q8)
		return POLICY_SIGNAL_BELOW;
	if (asks & POLICY_SHARE && (!(flow->known & POLICY_KNOWS_PEER) || policy_hash(flow, rule->seed) >= rule->share))
		return POLICY_SHARE;
	return POLICY_MATCHES;
}
