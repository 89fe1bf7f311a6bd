// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program on tcp_probe that does nothing: what being called there costs, and being measured.
 */
#include "bpf.h"

char _license[] SEC("license") = "GPL";

SEC("tp_btf/tcp_probe") int nothing(u64 *ctx)
{
	return 0;
}
