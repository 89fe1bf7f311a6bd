// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program on tcp_probe that does nothing: what being called there costs, and being measured. And a storage, for sockets that
 * have one which is none of the measured program's.
 */
#include <hotcc/kernel.h>

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} others SEC(".maps");

SEC("tp_btf/tcp_probe") int nothing(u64 *ctx)
{
	return 0;
}
