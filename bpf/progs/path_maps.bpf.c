// SPDX-License-Identifier: GPL-2.0-only
/*
 * No program, only the maps of path changes, for whoever comes first: routes may be watched before any algorithm is
 * loaded.
 */
#include <hotcc/path.h>

char _license[] SEC("license") = "GPL";
