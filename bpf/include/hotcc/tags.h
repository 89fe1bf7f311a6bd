/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How an algorithm describes itself: BTF declaration tags, which stay with the object and with its maps and programs in
 * the kernel. From them each tool reads names, units, ranges and profiles.
 *
 * A tag is "hotcc:KIND" followed by "|key=value" fields; `help` is last and may contain any text. Every algorithm
 * includes this header, and so does every program with tunables.
 */
#pragma once
#include <hotcc/bpf.h>

#define HOTCC_TAG(text) __attribute__((btf_decl_tag(text)))
#define HOTCC_STR_(x) #x
#define HOTCC_STR(x) HOTCC_STR_(x)

/* On the ops table: a summary, and the paper that the algorithm implements: "AUTHORS YEAR: TITLE, SECTIONS". */
#define ALGORITHM(summary, paper) HOTCC_TAG("hotcc:algorithm|paper=" paper "|help=" summary)

/*
 * Compares as s64, so that literals of mixed signs compare correctly, and 0 <= 0 causes no warning about type limits.
 */
#define HOTCC_WITHIN(value, lowest, highest)                                                             \
	((s64)(lowest) <= (s64)(value) && (s64)(value) <= (s64)(highest))

/*
 * A number that can be set while the algorithm runs. `initial` is the `default` profile's value, `published` the
 * `paper` profile's. Units are written out ("us", "permille", "segments"); "" for a plain count.
 */
#define TUNABLE(type, name, initial, published, lowest, highest, unit, help_text)                        \
	_Static_assert(HOTCC_WITHIN(initial, lowest, highest), "default of " #name " is out of its range"); \
	_Static_assert(HOTCC_WITHIN(published, lowest, highest), "paper value of " #name " is out of range"); \
	LIST_TUNABLE(name, initial, lowest, highest, NULL)                                                   \
	type name SEC(".data")                                                                           \
	HOTCC_TAG("hotcc:tunable|unit=" unit "|min=" HOTCC_STR(lowest) "|max=" HOTCC_STR(highest)        \
		  "|default=" HOTCC_STR(initial) "|paper=" HOTCC_STR(published) "|help=" help_text) = initial

/* A choice: the value is the index into `names`, which are separated by commas. */
#define TUNABLE_CHOICE(name, initial, published, names, help_text)                                       \
	LIST_TUNABLE(name, initial, 0, 0, names)                                          \
	u32 name SEC(".data")                                                                            \
	HOTCC_TAG("hotcc:choice|names=" names "|default=" HOTCC_STR(initial)                             \
		  "|paper=" HOTCC_STR(published) "|help=" help_text) = initial

/* Before a TUNABLE_CHOICE: the warning that a command prints when it sets the choice to that name. */
#define CHOICE_WARNING(choice, name, text) extern u32 choice HOTCC_TAG("hotcc:warning|name=" name "|help=" text)

/* Before a tunable that had another name: the error for that name gives the new one, and a swap keeps the value. */
#define FORMERLY(tunable, was) extern u32 tunable HOTCC_TAG("hotcc:was|name=" was)

/* On a field of the per-flow state. */
#define FIELD(unit, help_text) HOTCC_TAG("hotcc:field|unit=" unit "|help=" help_text)

/*
 * After FIELD of an unsigned field: the exporter adds it up over the open connections. EXPORT_SUM is for a field whose
 * unit is "1/N": the sum is divided by N. EXPORT_COUNTS is for a field that has few values: `names` has their names
 * from 0 on, separated by commas. The exporter counts the connections of each; the last one includes larger values.
 */
#define EXPORT_SUM HOTCC_TAG("hotcc:export")
#define EXPORT_COUNTS(names) HOTCC_TAG("hotcc:export|names=" names)

/*
 * EXPORT_FORECAST is for a field of 16 bits that, with the field `reading` of the same struct, forecasts a rate. The
 * reading is signed, has 16 bits, and may be an element of an array (`readings[0]`). The rate's logarithm to base 2, in
 * 1/1024 and of 1/16 segments per second, is the sum of both fields. If this field is 0 or there is NO_READING, there is
 * no forecast. The exporter adds up the rates.
 */
#define NO_READING (-32768)
#define EXPORT_FORECAST(reading) HOTCC_TAG("hotcc:export|reading=" #reading)

/*
 * The per-flow state. It must fit icsk_ca_priv, and the object's BTF must contain its type: the pointer in .rodata
 * ensures that.
 */
#define FLOW_STATE(type)                                                                                 \
	_Static_assert(sizeof(type) <= ICSK_CA_PRIV_SIZE, "does not fit icsk_ca_priv");                 \
	static __always_inline type *flow_state(struct sock *sk)                                         \
	{                                                                                                \
		return (type *)((struct inet_connection_sock *)sk)->icsk_ca_priv;                        \
	}                                                                                                \
	const type *const volatile hotcc_flow_state SEC(".rodata") HOTCC_TAG("hotcc:state") = NULL
