/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flows' accounts (hotcc/stats.h) in a map, for `mdcubic` and `crest`, whose states leave no room for them in
 * icsk_ca_priv. They are looked up only at loss, timeout and release. They are not in socket storage, because `mdcubic`
 * distinguishes sockets without any storage by one load per ACK.
 */
#pragma once
#include <hotcc/stats.h>

/* flows beyond this number are not counted */
#define ACCOUNTS 131072

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ACCOUNTS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* the socket's address */
	__type(value, struct flow_account);
} accounts SEC(".maps");

static __always_inline struct flow_account *account_of(struct sock *sk)
{
	u64 key = (u64)sk;

	return bpf_map_lookup_elem(&accounts, &key);
}

static __always_inline void account_add(struct sock *sk, const struct flow_account *account)
{
	u64 key = (u64)sk;

	bpf_map_update_elem(&accounts, &key, account, BPF_ANY);
}

static __always_inline void account_remove(struct sock *sk)
{
	u64 key = (u64)sk;

	bpf_map_delete_elem(&accounts, &key);
}

static __always_inline void mapped_account_open(struct sock *sk)
{
	struct flow_account account = {}, *kept;

	account_add(sk, &account);
	kept = account_of(sk);
	if (kept)
		account_open(sk, kept);
}

static __always_inline void mapped_account_loss(struct sock *sk)
{
	struct flow_account *account = account_of(sk);

	if (account)
		account_loss(sk, account);
}

static __always_inline void mapped_account_timeout(struct sock *sk)
{
	struct flow_account *account = account_of(sk);

	if (account)
		account_timeout(sk, account);
}

static __always_inline void mapped_account_close(struct sock *sk)
{
	struct flow_account *account = account_of(sk);

	if (!account)
		return;
	account_close(sk, account);
	account_remove(sk);
}
