/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hints on the wire: an experimental TCP option (RFC 6994). docs/guide/receiver.md describes it in full. For rx_arwa
 * and the test objects that forge the option.
 */
#pragma once
#include <hotcc/bpf.h>

#define TCPOPT_EXPERIMENT 254
#define HINT_EXID 0xa27a
#define PERMIT_SIZE 4 /* in a SYN: its sender supports hints */
#define HINT_SIZE 6   /* on an ACK */

struct hint_option {
	u8 kind;
	u8 size;
	u8 exid[2]; /* network order */
	u8 hint;
	u8 sequence; /* differs from the previous hint's */
};

#define HINT_OPTION(of_size) { TCPOPT_EXPERIMENT, of_size, { HINT_EXID >> 8, HINT_EXID & 0xff }, 0, 0 }
