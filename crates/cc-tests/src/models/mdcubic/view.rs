//! Whether the PEP's report can be used, and what it says about the bytes in flight (sections II-B and II-C). Nothing
//! in a report is trusted: it may be torn, old, forged or of another connection.

use super::*;

/// Bytes in flight, as offsets from `snd_una`: `start..end`.
type Bytes = (i64, i64);

/// Returns the distance of a sequence number from `snd_una`.
fn offset(sock: &View, sequence: u32) -> i64 {
    i64::from(sequence.wrapping_sub(sock.snd_una).cast_signed())
}

fn in_flight(sock: &View) -> i64 {
    i64::from(sock.snd_nxt.wrapping_sub(sock.snd_una))
}

/// Returns the part from `start` to `end` that is in flight; `None` if there is none.
fn cut(sock: &View, start: u32, end: u32) -> Option<Bytes> {
    let length = i64::from(end.wrapping_sub(start).cast_signed());
    let from = offset(sock, start);
    let part = (from.max(0), (from + length).min(in_flight(sock)));
    (length > 0 && part.0 < part.1).then_some(part)
}

/// Returns all bytes in any of these, as sorted, disjoint ranges.
fn union(mut parts: Vec<Bytes>) -> Vec<Bytes> {
    parts.sort_unstable();
    let mut apart: Vec<Bytes> = Vec::new();
    for (start, end) in parts {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart
}

impl Mdcubic {
    /// Returns the report, if there is one and its writer has finished.
    pub(super) fn report(&self) -> Option<PepFlow> {
        self.pep.filter(|p| p.updates != 0 && p.updates.is_multiple_of(2))
    }

    /// Returns the segments that the PEP reports and that neither arrived nor were lost: those after the client's last
    /// SACK block.
    pub(super) fn in_domain_2_now(&self, sock: &View) -> u32 {
        let blocks = self.sack.iter().filter_map(|&(start, end)| cut(sock, start, end));
        let behind = blocks.map(|(_, end)| end).max().unwrap_or(0);
        self.seen(sock).iter().map(|(start, end)| end - (*start).max(behind)).filter(|b| *b > 0).sum::<i64>() as u32
            / sock.mss
    }

    /// Returns the bytes in flight that the PEP reports.
    fn seen(&self, sock: &View) -> Vec<Bytes> {
        let Some(report) = self.report() else { return vec![] };
        let in_order = cut(sock, sock.snd_una, report.in_order);
        let ranges = report.ranges.iter().take(report.range_count as usize);
        union(in_order.into_iter().chain(ranges.filter_map(|r| cut(sock, r.start, r.end))).collect())
    }

    fn count_ranges(&mut self, sock: &View) {
        let Some(report) = self.report() else { return };
        let c = &mut self.coverage;
        c.ranges_too_many += u64::from(report.range_count > 4);
        let mut above = offset(sock, report.in_order).max(0);
        for range in report.ranges.iter().take(report.range_count as usize) {
            let Some((start, end)) = cut(sock, range.start, range.end) else {
                c.ranges_skipped += 1;
                continue;
            };
            c.ranges_used += u64::from(end > above);
            c.ranges_overlapping += u64::from(start < above);
            c.ranges_cut += u64::from(end - start != i64::from(range.end.wrapping_sub(range.start)));
            above = above.max(end);
        }
    }

    /// Detects a PEP that reports less than the client acknowledges: it lies or has failed. Section II-B: "if the PEP
    /// stops responding the server might be able to detect it (i.e., ACK received from the client, not from the PEP)
    /// and it can fall back".
    pub(super) fn watch_for_fallback(&mut self, sock: &View) {
        let Some(report) = self.report() else { return };
        if offset(sock, report.in_order) >= 0 || !self.seen(sock).is_empty() {
            self.behind_since_us = None;
            if self.fallen_back {
                let newer = report.updates != self.updates_fallen_back;
                self.coverage.fallbacks_ended += u64::from(newer);
                self.coverage.still_fallen_back += u64::from(!newer);
                self.fallen_back = !newer;
            }
            return;
        }
        self.coverage.behind += 1;
        self.updates_fallen_back = report.updates;
        let since = *self.behind_since_us.get_or_insert(sock.now_us);
        if !self.fallen_back && elapsed_us(since, sock.now_us) >= u64::from(sock.srtt_us >> 3) {
            self.coverage.fallbacks += 1;
            self.fallen_back = true;
        }
    }

    pub(super) fn is_usable(&mut self, sock: &View) -> bool {
        let c = &mut self.coverage;
        match self.pep {
            None => c.absent += 1,
            Some(p) if p.updates == 0 => c.unwritten += 1,
            Some(p) if !p.updates.is_multiple_of(2) => c.torn += 1,
            Some(p) => {
                let time_us = p.time_ns / 1000;
                let ahead_us = time_us.saturating_sub(sock.now_us);
                let age_us = sock.now_us.saturating_sub(time_us);
                if ahead_us > FUTURE_US {
                    c.future += 1;
                } else if age_us > u64::from(self.tunables.pep_max_age_ms) * 1000 {
                    c.stale += 1;
                } else {
                    c.slightly_future += u64::from(ahead_us > 0);
                    return !self.fallen_back;
                }
            }
        }
        false
    }

    /// Returns how many of the bytes in flight that the PEP has neither it nor the client had before.
    pub(super) fn news(&mut self, sock: &View, was_clocked: bool) -> u32 {
        self.count_ranges(sock);
        let covered = self.seen(sock).iter().map(|(start, end)| end - start).sum::<i64>() as u32;
        let covered_to = sock.snd_una.wrapping_add(covered);
        if !was_clocked {
            // bytes that were there before do not count as new
            (self.covered_to, self.remainder) = (covered_to, 0);
            return 0;
        }
        let risen = covered_to.wrapping_sub(self.covered_to).cast_signed();
        self.coverage.risen += u64::from(risen > 0);
        self.coverage.no_news += u64::from(risen == 0);
        self.coverage.fallen_news += u64::from(risen < 0);
        if risen > 0 {
            self.covered_to = covered_to;
        }
        risen.max(0).cast_unsigned()
    }

    /// Returns the bytes that the client acknowledged since the last hook, for a connection without a PEP.
    pub(super) fn clients_news(&mut self, sock: &View) -> u32 {
        let risen = sock.snd_una.wrapping_sub(self.covered_to).cast_signed();
        self.covered_to = sock.snd_una;
        risen.max(0).cast_unsigned()
    }

    fn saw(&self, sock: &View, start: i64, end: i64) -> bool {
        self.seen(sock).iter().any(|&(from, to)| from <= start && end <= to)
    }

    /// Returns whether the PEP saw the first segment that the client has not acknowledged.
    pub(super) fn saw_first(&self, sock: &View) -> bool {
        self.saw(sock, 0, 1)
    }

    /// Returns whether the PEP saw all that is missing below the last SACK block.
    pub(super) fn saw_all_holes(&self, sock: &View) -> bool {
        let blocks = union(self.sack.iter().filter_map(|&(start, end)| cut(sock, start, end)).collect());
        let ends = std::iter::once(0).chain(blocks.iter().map(|b| b.1));
        ends.zip(blocks.iter().map(|b| b.0)).all(|(end, start)| end >= start || self.saw(sock, end, start))
    }
}
