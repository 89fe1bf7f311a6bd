// SPDX-License-Identifier: GPL-2.0-only
/*
 * crest whose flows share nothing: no lookup in its map of groups. The yardstick for what that map may cost.
 */
#include "algos/crest_group.h"

#define group_find(sk, slot) ((struct crest_group *)NULL)
#include "algos/crest.bpf.c"
