// SPDX-License-Identifier: GPL-2.0-only
/*
 * `priority_tag` gives each packet a VLAN tag that has only a priority, in the packet's metadata, as network cards
 * deliver tags. `count_tags` counts packets that arrive with such a tag.
 */
#include "progs/packet.h"

char _license[] SEC("license") = "GPL";

#define PRIORITY (3 << 13)

static long (*const bpf_skb_vlan_push)(void *skb, u16 protocol, u16 tci) = (void *)18;

SEC("classifier") int priority_tag(struct __sk_buff *skb)
{
	return bpf_skb_vlan_push(skb, swap16(ETHERTYPE_VLAN), PRIORITY) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* tagged packets that arrived */
u64 arrived_tagged;

SEC("classifier") int count_tags(struct __sk_buff *skb)
{
	if (skb->vlan_present)
		__sync_fetch_and_add(&arrived_tagged, 1);
	return TC_ACT_UNSPEC;
}
