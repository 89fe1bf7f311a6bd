/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The context of sock_ops programs, as the kernel's ABI defines it. For cgroup_cc, policy, rx_arwa, rx_drwa and test
 * objects.
 */
#pragma once
#include <hotcc/bpf.h>

#define SOL_TCP 6
#define TCP_WINDOW_CLAMP 10
#define TCP_CONGESTION 13
#define TCP_SAVE_SYN 27

/* The events that a program is called for. */
enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
	BPF_SOCK_OPS_PARSE_HDR_OPT_CB = 13,
	BPF_SOCK_OPS_HDR_OPT_LEN_CB = 14,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB = 15,
};

/* Further events, which a program enables per socket. */
enum {
	BPF_SOCK_OPS_STATE_CB_FLAG = 1 << 2,
	BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG = 1 << 5,
	BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG = 1 << 6,
};

/* args[0] of the calls about header options. */
enum { BPF_WRITE_HDR_TCP_CURRENT_MSS = 1, BPF_WRITE_HDR_TCP_SYNACK_COOKIE = 2 };
/* bpf_load_hdr_opt: look in the SYN that this segment answers, or in the saved SYN */
enum { BPF_LOAD_HDR_OPT_TCP_SYN = 1 };
enum { BPF_TCP_ESTABLISHED = 1, BPF_TCP_CLOSE = 7 };
enum { TCPHDR_FIN = 1, TCPHDR_SYN = 2, TCPHDR_RST = 4, TCPHDR_ACK = 16 };

struct bpf_sock;

struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;
	u32 local_port;
	u32 is_fullsock;
	u32 snd_cwnd;
	u32 srtt_us;
	u32 bpf_sock_ops_cb_flags;
	u32 state;
	u32 rtt_min;
	u32 snd_ssthresh;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 mss_cache;
	u32 ecn_flags;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 packets_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 segs_in;
	u32 data_segs_in;
	u32 segs_out;
	u32 data_segs_out;
	u32 lost_out;
	u32 sacked_out;
	u32 sk_txhash;
	u64 bytes_received;
	u64 bytes_acked;
	struct bpf_sock *sk;
	void *skb_data __attribute__((aligned(8)));
	void *skb_data_end __attribute__((aligned(8)));
	u32 skb_len;
	u32 skb_tcp_flags;
};

static long (*const bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ctx, int flags) = (void *)59;
static long (*const bpf_load_hdr_opt)(struct bpf_sock_ops *ctx, void *found, u32 size, u64 flags) = (void *)142;
static long (*const bpf_store_hdr_opt)(struct bpf_sock_ops *ctx, const void *option, u32 size, u64 flags) = (void *)143;
static long (*const bpf_reserve_hdr_opt)(struct bpf_sock_ops *ctx, u32 size, u64 flags) = (void *)144;
