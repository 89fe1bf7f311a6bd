/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the lab records while a scenario runs: one fixed-size record per packet, ACK and retransmission.
 * For link.bpf.c and probes.bpf.c.
 */
#pragma once
#include <hotcc/bpf.h>

/* A flow's receiver has port FIRST_FLOW_PORT + the flow's number. */
#define FIRST_FLOW_PORT 20000
#define MAX_FLOWS 4096
#define NO_FLOW 0xffff

enum { FATE_SENT, FATE_QUEUE_DROP, FATE_LOST, FATE_POLICED };

/* A packet that arrived at a link. */
struct packet_record {
	u64 time_ns; /* since the start */
	u64 wait_ns; /* in the queue, behind the packets before it */
	u32 queue_bytes;
	u32 bytes; /* of IP */
	u16 flow;
	u16 link;
	u16 segments; /* more than one: a super-packet, not segmented yet */
	u8 fate : 4;
	u8 marked : 2;
	u8 towards_receiver : 2;
	u8 pad;
};

/* A sender's connection when an ACK arrived, before the ACK was processed; or when a segment was retransmitted. */
struct ack_record {
	u64 time_ns;
	u64 bytes_acked;
	u32 cwnd; /* segments, as the next three */
	u32 ssthresh;
	u32 in_flight;
	u32 retransmits; /* so far */
	u32 srtt_us;
	u32 rtt_us; /* of the latest segment that was delivered; 0: none yet */
	u32 min_rtt_us;
	u32 detail; /* a field of the congestion control's state */
	u16 flow;
	u16 timeouts; /* so far */
	u8 ca_state;
	u8 is_retransmission;
	u16 rto_ms; /* retransmission timeout; 65535: that or more */
};
