// SPDX-License-Identifier: GPL-2.0-only
/*
 * Only the maps of path changes, without a program: `hotcc paths` creates them from this object if it watches routes
 * before any algorithm is loaded.
 */
#include <hotcc/path.h>

char _license[] SEC("license") = "GPL";
