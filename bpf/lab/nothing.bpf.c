// SPDX-License-Identifier: GPL-2.0-only
/*
 * A TC program that does nothing: what the kernel's statistics make of that is what they take by themselves.
 */
#include "progs/skb.h"

char _license[] SEC("license") = "GPL";

SEC("tc") int nothing(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
