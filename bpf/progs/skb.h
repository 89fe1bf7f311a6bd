/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF side of the kernel's ABI for programs that see packets (TC). For packet.h, and for programs that need no more
 * than this.
 */
#pragma once
#include <hotcc/bpf.h>

#define TC_ACT_UNSPEC -1 /* passes the packet on: to other programs, then to the stack */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id;
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
	u64 flow_keys __attribute__((aligned(8)));
	u64 tstamp;
	u32 wire_len, gso_segs;
	u64 sk __attribute__((aligned(8)));
	u32 gso_size;
};
