// SPDX-License-Identifier: GPL-2.0-only
/*
 * Only the signal maps, without a program: a feeder creates them from this object if it starts before any algorithm is
 * loaded.
 */
#include <hotcc/radio.h>

char _license[] SEC("license") = "GPL";
