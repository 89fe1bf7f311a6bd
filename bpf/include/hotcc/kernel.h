/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's TCP types, trimmed to the fields that this project reads or writes. The loader relocates every access to
 * the running kernel's layout (CO-RE), so names and types matter here, but not order and gaps. Every algorithm includes
 * this header, and so does every program that reads a socket.
 */
#pragma once
#include <hotcc/bpf.h>

#define AF_INET 2
#define AF_INET6 10
#define TCP_ESTABLISHED 1
#define TCP_LISTEN 10
#define TCP_INIT_CWND 10
#define TCP_INFINITE_SSTHRESH 0x7fffffff

enum tcp_ca_state { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };

enum tcp_ca_event {
	CA_EVENT_TX_START, /* first transmit when nothing was in flight */
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR, /* end of a recovery that ends by lowering the window */
	CA_EVENT_LOSS,	       /* retransmission timeout */
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

struct in6_addr {
	union {
		u8 u6_addr8[16];
		u32 u6_addr32[4];
	} in6_u;
} __core;

struct sock_common {
	u16 skc_family;
	u16 skc_num;   /* local port, host order */
	u16 skc_dport; /* peer's port, network order */
	u32 skc_daddr; /* peer's IPv4 address, network order */
	u32 skc_rcv_saddr;
	struct {
		struct net *net; /* the network namespace */
	} __core skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	volatile u8 skc_state;
} __core;

struct sock {
	struct sock_common __sk_common;
	struct {
		/* not 0 while the lock is held; other kinds of locks lack this field */
		struct {
			struct {
				struct {
					struct {
						s32 counter;
					} __core val;
				} __core raw_lock;
			} __core rlock;
		} __core slock;
		s32 owned; /* a process holds the lock; it may sleep meanwhile */
	} __core sk_lock;
	s32 sk_rcvbuf; /* bytes */
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;	  /* bytes/s */
	unsigned long sk_max_pacing_rate; /* bytes/s, the application's (SO_MAX_PACING_RATE); all ones: none */
	void *sk_bpf_storage;		  /* NULL: the socket has no storage */
	int sk_rx_dst_ifindex;		  /* the interface on which its packets arrive */
} __core;

struct inet_sock {
	struct sock sk;
} __core;

struct tcp_congestion_ops {
	char name[16];
	void *owner;
} __core;

#define ICSK_CA_PRIV_SIZE 104

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;	   /* enum tcp_ca_state */
	u8 icsk_ca_setsockopt : 1; /* chosen for this socket, not the default */
	u8 icsk_ca_dst_locked : 1; /* its route locks the choice */
	struct {
		u16 rcv_mss; /* bytes; the assumed size of the peer's full segments */
	} __core icsk_ack;
	u64 icsk_ca_priv[ICSK_CA_PRIV_SIZE / 8];
} __core;

struct minmax_sample {
	u32 t;
	u32 v;
} __core;

struct minmax {
	struct minmax_sample s[3];
} __core;

struct tcp_sack_block {
	u32 start_seq;
	u32 end_seq;
} __core;

struct tcp_options_received {
	u16 sack_ok : 3;
	u16 snd_wscale : 4;
	u16 dsack : 1;
	u32 rcv_tsval; /* the latest segment's time stamp, of the peer's clock; 0: none yet */
	u8 num_sacks;  /* blocks of the next ACK, without that of D-SACK */
} __core;

#define SACK_BLOCKS 4

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd; /* segments */
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;	       /* window at the start of the recovery */
	u32 srtt_us;	       /* 8 x smoothed RTT, microseconds */
	struct minmax rtt_min; /* microseconds */
	u32 mss_cache;	       /* bytes */
	u32 snd_una;	       /* first sequence number not acknowledged */
	u32 snd_nxt;	       /* next sequence number to send */
	u32 snd_wnd;	       /* window the receiver offers, bytes */
	u32 rcv_nxt;	       /* next sequence number expected */
	u32 rcv_wnd;	       /* window offered to the peer, bytes */
	u32 packets_out;       /* segments sent and not acknowledged in order */
	u32 sacked_out;	       /* of them: covered by SACK, */
	u32 lost_out;	       /* taken for lost, */
	u32 retrans_out;       /* sent again */
	u32 tlp_high_seq;      /* not 0: a loss probe is in flight */
	struct tcp_options_received rx_opt;
	u32 lost;	      /* segments ever marked as lost */
	u32 delivered;	      /* segments, out-of-order ones included */
	u32 rate_delivered;   /* last delivery rate sample: segments ... */
	u32 rate_interval_us; /* ... over this time */
	u32 app_limited;      /* 0, or limited until `delivered` reaches this */
	u32 data_segs_out;
	u32 total_retrans; /* segments */
	u32 window_clamp;  /* bytes; largest window that the peer is granted */
	u64 bytes_received;
	struct {
		u32 rtt_us; /* 8 x RTT as the receiver estimates it, microseconds; 0: not known */
	} __core rcv_rtt_est;
	u32 max_packets_out;
	struct tcp_sack_block recv_sack_cache[SACK_BLOCKS]; /* of the last ACK with SACK blocks; {0, 0}: no block */
	u8 is_cwnd_limited : 1;
	u64 bytes_acked;
	u64 tcp_mstamp; /* microseconds of CLOCK_MONOTONIC, refreshed at each ACK */
} __core;

struct sk_buff {
	u32 len; /* bytes from `data` on */
	u32 end;
	u8 *head;
	u8 *data;
} __core;

/* At head + end. */
struct skb_shared_info {
	u16 gso_size; /* bytes of data per segment; 0: a single segment */
} __core;

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us; /* -1: no sample */
	u32 in_flight;
} __core;

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses; /* segments that this ACK showed to be lost */
	u32 acked_sacked;
	bool is_app_limited;
	bool is_retrans; /* of a segment that was sent again */
} __core;

/* Functions of the kernel that congestion controls may call. */
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked) __ksym;

extern const void *bpf_rdonly_cast(const void *object, u32 type_id) __ksym __weak; /* Linux 6.2 */

/*
 * A TCP connection's socket, for reading. The helper bpf_skc_to_tcp_sock checks the socket's type first, and all reads
 * wait for that check, which may load an otherwise unused cache line. The cast needs no check.
 */
static __always_inline const struct tcp_sock *tcp_sock_to_read(void *sk)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, core_type_id(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/* Whether a process or a softirq holds the socket's lock. */
static __always_inline bool is_locked(const struct sock *sk)
{
	return sk->sk_lock.owned || (core_field_exists(struct sock, sk_lock.slock.rlock.raw_lock.val.counter) &&
				     sk->sk_lock.slock.rlock.raw_lock.val.counter);
}

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline u8 tcp_ca_state(const struct sock *sk)
{
	return core_bitfield((const struct inet_connection_sock *)sk, icsk_ca_state);
}

/* Whether the algorithm may raise W: the socket is in no recovery, reduction or loss state. */
static __always_inline bool tcp_may_grow(const struct sock *sk)
{
	return tcp_ca_state(sk) <= TCP_CA_Disorder;
}

/* Segments in the network, as far as the sender knows. */
static __always_inline u32 tcp_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/*
 * Whether the loss state that begins is that of a timeout, whose W is a segment more than is in flight. TCP also enters
 * this state, and reduces nothing, to send again what is too large for the path (tcp_simple_retransmit).
 */
static __always_inline bool tcp_timed_out(const struct tcp_sock *tp)
{
	return tp->snd_cwnd == tcp_in_flight(tp) + 1;
}

static __always_inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/*
 * Whether the window, and not the application, limited the sender; otherwise W must not grow (RFC 7661). For callers
 * that have read W and ssthresh already.
 */
static __always_inline bool tcp_is_limited_by(const struct tcp_sock *tp, u32 window, u32 ssthresh)
{
	if (core_flag(tp, is_cwnd_limited))
		return true;
	return window < ssthresh && window < 2 * tp->max_packets_out;
}

static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;

	return tcp_is_limited_by(tp, tp->snd_cwnd, tp->snd_ssthresh);
}
