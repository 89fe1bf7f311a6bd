// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program on tcp_probe that does nothing: shows the cost of a call there and of its measurement. Also has a storage
 * map, for sockets with a storage that is not the measured program's.
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
