// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes the border PEP's in-band reports, which travel in the flow itself, out of the incoming packets. The agent
 * verifies them like any other report.
 *
 * Such a report is a segment in the client's name: an ACK without data, with one option, which fills the header, and
 * with a wrong checksum, so that a server without this program drops it. Only the option, the addresses and the ports
 * of the segment are used. If a genuine segment looked like this, the server would only miss one ACK. A segment that
 * belongs to no connection is left for the stack to drop, so a sender that does not know a connection's ports cannot
 * fill the ring.
 */
#include "packet.h"
#include "connection.h"

char _license[] SEC("license") = "GPL";

#define INBAND_OFFSET (60 / 4 << 4)
#define INBAND_KIND 254
#define INBAND_LENGTH 40
#define INBAND_EXID 0x5045
#define INBAND_BYTES 36
#define STATE_LISTEN 10

struct pep_inband {
	u8 server[16]; /* network order; IPv4: the first four bytes */
	u8 client[16];
	u16 server_port; /* network order */
	u16 client_port;
	u32 family; /* 4 or 6 */
	u8 option[INBAND_BYTES];
	u32 reserved;
};

/*
 * A ring buffer's definition names no type: this variable puts the type into the object's BTF, for the comparison with
 * crates/abi/src/pep.rs.
 */
const struct pep_inband *inband_layout;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} inband_reports SEC(".maps");

/* Count of reports that were dropped because the ring was full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} inband_dropped SEC(".maps");

struct inband_segment {
	struct tcp_header tcp;
	u8 kind, length;
	u16 exid;
	u8 option[INBAND_BYTES];
};

static __always_inline bool is_inband(const struct inband_segment *s)
{
	return s->tcp.offset == INBAND_OFFSET && s->tcp.flags == TCP_ACK && s->kind == INBAND_KIND &&
	       s->length == INBAND_LENGTH && s->exid == swap16(INBAND_EXID);
}

/* Whether the segment belongs to a connection. A listening socket is none. */
static __always_inline bool is_connected(struct __sk_buff *skb, const u8 *server, u16 server_port, const u8 *client,
					 u16 client_port, u32 family)
{
	struct bpf_sock *sk = find_connection(skb, server, server_port, client, client_port, family);
	struct tcp_sock *tp;
	bool connected;

	if (!sk)
		return false;
	tp = bpf_skc_to_tcp_sock(sk);
	connected = tp && ((struct sock *)tp)->__sk_common.skc_state != STATE_LISTEN;
	bpf_sk_release(sk);
	return connected;
}

static __always_inline int pass_to_agent(struct __sk_buff *skb, const struct inband_segment *s, const u8 *client,
					 const u8 *server, u32 address_bytes)
{
	u32 family = address_bytes == 4 ? 4 : 6, zero = 0;
	struct pep_inband *report;

	if (!is_connected(skb, server, s->tcp.dest, client, s->tcp.source, family))
		return TC_ACT_UNSPEC;
	report = bpf_ringbuf_reserve(&inband_reports, sizeof(*report), 0);
	if (!report) {
		u64 *dropped = bpf_map_lookup_elem(&inband_dropped, &zero);

		if (dropped)
			__sync_fetch_and_add(dropped, 1);
		return TC_ACT_SHOT;
	}
	__builtin_memset(report, 0, sizeof(*report));
	__builtin_memcpy(report->server, server, address_bytes);
	__builtin_memcpy(report->client, client, address_bytes);
	report->server_port = s->tcp.dest;
	report->client_port = s->tcp.source;
	report->family = family;
	__builtin_memcpy(report->option, s->option, INBAND_BYTES);
	bpf_ringbuf_submit(report, 0);
	return TC_ACT_SHOT;
}

SEC("classifier") int inband(struct __sk_buff *skb)
{
	struct inband_segment segment;
	u16 protocol;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER - 2, &protocol, sizeof(protocol)))
		return TC_ACT_UNSPEC;
	if (protocol == swap16(ETHERTYPE_IPV4)) {
		struct ipv4_header ip;

		if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &ip, sizeof(ip)) || ip.version_ihl != 0x45 ||
		    ip.protocol != PROTOCOL_TCP || swap16(ip.length) != sizeof(ip) + sizeof(segment) ||
		    bpf_skb_load_bytes(skb, ETHERNET_HEADER + sizeof(ip), &segment, sizeof(segment)) ||
		    !is_inband(&segment))
			return TC_ACT_UNSPEC;
		return pass_to_agent(skb, &segment, (u8 *)&ip.source, (u8 *)&ip.dest, 4);
	}
	if (protocol == swap16(ETHERTYPE_IPV6)) {
		struct ipv6_header ip;

		if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &ip, sizeof(ip)) || ip.next != PROTOCOL_TCP ||
		    swap16(ip.length) != sizeof(segment) ||
		    bpf_skb_load_bytes(skb, ETHERNET_HEADER + sizeof(ip), &segment, sizeof(segment)) ||
		    !is_inband(&segment))
			return TC_ACT_UNSPEC;
		return pass_to_agent(skb, &segment, ip.source, ip.dest, 16);
	}
	return TC_ACT_UNSPEC;
}
