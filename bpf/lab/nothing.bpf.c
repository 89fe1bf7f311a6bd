// SPDX-License-Identifier: GPL-2.0-only
/*
 * A TC program that does nothing: the time that the kernel's BPF statistics show for it is their own overhead.
 */
#include "progs/skb.h"

char _license[] SEC("license") = "GPL";

SEC("tc") int nothing(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_UNSPEC;
}
