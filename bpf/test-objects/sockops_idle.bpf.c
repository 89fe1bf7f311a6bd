// SPDX-License-Identifier: GPL-2.0-only
/* A socket-operations program that does nothing: shows the cost of a call there and of its measurement. */
#include <hotcc/kernel.h>

char _license[] SEC("license") = "GPL";

SEC("sockops") int idle(void *ctx)
{
	return 1;
}
