// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pure parts of the receiver's programs behind plain symbols, for tests that compare them with models.
 */
#include "progs/arwa_receiver.h"
#include "progs/drwa.h"
#include "progs/hint_option.h"

u64 host_now_ns;

HOTCC_EXPORT u32 unit_tcp_timestamp(const u8 *options, u32 length, u32 *tsval)
{
	return tcp_timestamp(options, length, tsval);
}
HOTCC_EXPORT u32 unit_tcp_aligned_timestamp(const u8 *options, u32 length, u32 *tsval)
{
	return tcp_aligned_timestamp(options, length, tsval);
}
HOTCC_EXPORT u32 unit_tick_kind_us(u64 elapsed_us, u64 ticks)
{
	return tick_kind_us(elapsed_us, ticks);
}
HOTCC_EXPORT u32 unit_hint_is_current(u64 made_ns, u64 now_ns)
{
	return hint_is_current(hint_time(made_ns), hint_time(now_ns));
}
HOTCC_EXPORT u32 unit_hint_sequence_after(u32 sequence)
{
	return hint_sequence_after(sequence);
}
HOTCC_EXPORT u32 unit_arwa_hint_of(u32 loss_bp)
{
	return arwa_hint_of(loss_bp);
}

/* ARWA's and DRWA's states begin as zeros. Returns 0 without an estimate, else 256 + hint. */
HOTCC_EXPORT u32 unit_arwa_receive(struct arwa_receiver *r, u64 now_us, u32 tsval, u32 size, u32 count, u32 rtt_us)
{
	struct arwa_segments segments = { now_us, tsval, size, count, rtt_us };
	u8 hint = 0;

	return arwa_receive(r, &segments, &hint) ? 256U + hint : 0;
}
HOTCC_EXPORT u32 unit_arwa_tick_us(const struct arwa_receiver *r)
{
	return r->path.is_known ? r->path.tick_us : 0;
}
HOTCC_EXPORT u32 unit_drwa_receive(struct drwa *d, u64 now_us, u64 received, u32 rtt_us)
{
	drwa_receive(d, now_us, received, rtt_us);
	return d->window;
}

_Static_assert(sizeof(struct arwa_receiver) <= 256 && sizeof(struct drwa) <= 256, "the tests keep that much");
