// SPDX-License-Identifier: GPL-2.0-only
/*
 * No program, only the signal maps, for whoever comes first: a feeder may start before any algorithm is loaded.
 */
#include <hotcc/radio.h>

char _license[] SEC("license") = "GPL";
