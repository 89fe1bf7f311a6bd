//! What the server's kernel keeps of a flow, and the record that the flow's congestion control sees
//! (bpf/progs/pep_server.bpf.c).

use super::server::Dated;
use crate::sender::Flight;
use hotcc_abi::pep::{PepFlow, PepRange};

/// `FURTHEST_BEHIND`: nothing this far below `snd_una` can still be in flight.
const FURTHEST_BEHIND: u64 = 1 << 30;
/// `DISTRUST_NS`: after a report of bytes that were never sent, records of the flow are ignored for this long.
const DISTRUST_NS: u64 = 5_000_000_000;

/// The border's run, and its time and number of segments.
type Made = (u32, u64, u32);

/// A flow's account.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The last record's.
    last: Option<Made>,
    distrusted_until_ns: u64,
    updates: u32,
    /// The record.
    pub record: Option<PepFlow>,
}

impl Account {
    /// `take`: writes what the border reports of the flow into the record. Returns whether the record changed, and
    /// whether it may clock the sender.
    pub fn take(&mut self, now_ns: u64, dated: &Dated, flight: &Flight) -> (bool, bool) {
        let Some(ranges) = possible(dated, flight) else {
            self.distrusted_until_ns = now_ns + DISTRUST_NS;
            return (self.record.take().is_some(), false);
        };
        let report = &dated.report;
        let made = (report.run, report.seen_ns / 1000, report.segments);
        if now_ns < self.distrusted_until_ns || self.last.is_some_and(|last| is_older(made, last)) {
            return (false, false);
        }
        self.last = Some(made);
        self.updates = self.updates.wrapping_add(2).max(2);
        let mut record = PepFlow {
            updates: self.updates,
            in_order: report.in_order as u32,
            range_count: ranges.len() as u32,
            rtt_us: dated.rtt_us,
            segments: report.segments,
            time_ns: dated.seen_us * 1000,
            ..PepFlow::default()
        };
        for (to, from) in record.ranges.iter_mut().zip(ranges) {
            *to = PepRange { start: from.0 as u32, end: from.1 as u32 };
        }
        self.record = Some(record);
        let reach = ranges.last().map_or(report.in_order, |range| range.1);
        (true, flight.may_be_clocked && reach > flight.una)
    }
}

/// `check`: returns the ranges, without those that begin at or above `snd_nxt`; `None` if the border cannot have seen
/// what it reports.
fn possible<'a>(dated: &'a Dated, flight: &Flight) -> Option<&'a [(u64, u64)]> {
    let (in_order, ranges) = (dated.report.in_order, dated.report.ranges());
    if in_order > flight.next || flight.una.saturating_sub(in_order) > FURTHEST_BEHIND {
        return None;
    }
    let below = ranges.partition_point(|range| range.0 < flight.next);
    ranges[..below].iter().all(|range| range.1 <= flight.next).then_some(&ranges[..below])
}

/// `is_older`.
fn is_older((run, us, segments): Made, last: Made) -> bool {
    run == last.0 && (us < last.1 || us == last.1 && segments.wrapping_sub(last.2).cast_signed() <= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Report;

    const FLIGHT: Flight = Flight { una: 1000, next: 9000, may_be_clocked: true };

    fn dated(in_order: u64, segments: u32, ranges: &[(u64, u64)]) -> Dated {
        let seen_ns = u64::from(segments) * 1000;
        let mut report = Report { run: 1, in_order, segments, seen_ns, ..Report::default() };
        report.ranges[..ranges.len()].copy_from_slice(ranges);
        report.range_count = ranges.len() as u8;
        Dated { report, seen_us: seen_ns / 1000, rtt_us: 10_000 }
    }

    #[test]
    fn a_record_is_what_the_border_reports() {
        let mut account = Account::default();
        assert_eq!(account.take(0, &dated(3000, 7, &[(4000, 6000), (9000, 9500)]), &FLIGHT), (true, true));
        let record = account.record.unwrap();
        assert_eq!((record.updates, record.in_order, record.segments, record.rtt_us), (2, 3000, 7, 10_000));
        assert_eq!((record.range_count, record.ranges[0]), (1, PepRange { start: 4000, end: 6000 }));
        assert_eq!(record.time_ns, 7000);
    }

    #[test]
    fn only_bytes_in_flight_clock_the_sender() {
        let mut account = Account::default();
        assert_eq!(account.take(0, &dated(1000, 1, &[]), &FLIGHT), (true, false));
        assert_eq!(account.take(0, &dated(1000, 2, &[(1500, 2000)]), &FLIGHT), (true, true));
        let closed = Flight { may_be_clocked: false, ..FLIGHT };
        assert_eq!(account.take(0, &dated(1000, 3, &[(1500, 2000)]), &closed), (true, false));
    }

    #[test]
    fn an_older_record_is_ignored_unless_the_border_started_again() {
        let mut account = Account::default();
        assert!(account.take(0, &dated(3000, 7, &[]), &FLIGHT).0);
        assert!(!account.take(0, &dated(2000, 6, &[]), &FLIGHT).0);
        assert!(!account.take(0, &dated(3000, 7, &[]), &FLIGHT).0);
        let mut again = dated(2000, 6, &[]);
        again.report.run = 2;
        assert!(account.take(0, &again, &FLIGHT).0);
    }

    #[test]
    fn a_border_that_saw_what_was_never_sent_is_distrusted_for_five_seconds() {
        for liar in [dated(9001, 8, &[]), dated(2000, 8, &[(3000, 9001)])] {
            let mut account = Account::default();
            assert!(account.take(0, &dated(3000, 7, &[]), &FLIGHT).0);
            assert_eq!(account.take(0, &liar, &FLIGHT), (true, false));
            assert_eq!(account.record, None);
            assert!(!account.take(DISTRUST_NS - 1, &dated(3000, 9, &[]), &FLIGHT).0);
            assert!(account.take(DISTRUST_NS, &dated(3000, 10, &[]), &FLIGHT).0);
        }
    }
}
