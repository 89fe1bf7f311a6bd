//! What ended connections did, from the kernel.

use crate::policy::canary;
use crate::policy::layout::{EndedEntry, cohort};
use hotcc_canary::{Cohort, Connection};
use hotcc_host::error::{Result, Tried};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::rc::Rc;

/// `EndedEntry`: the connection has no such figure.
const NO_VALUE: u64 = u64::MAX;

/// An ended connection of one of the canary's rules.
pub(super) struct Record {
    pub(super) cohort: Cohort,
    pub(super) began_ns: u64,
    pub(super) connection: Connection,
}

/// The ring of records of the canary whose rules apply.
pub(super) struct Records {
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<EndedEntry>>>,
    rules: [u64; 2],
}

impl Records {
    /// Opens the ring of the canary with these rules.
    pub(super) fn open(rules: [u64; 2]) -> Result<Self> {
        let tried = || "cannot read the records of ended connections".to_owned();
        let read = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&read);
        let map = canary::records()?;
        let mut builder = RingBufferBuilder::new();
        let add = move |bytes: &[u8]| {
            // a ring's records are padded to eight bytes, and so is the entry
            to.borrow_mut().extend(bytemuck::try_pod_read_unaligned::<EndedEntry>(bytes));
            0
        };
        builder.add(&map, add).tried(tried)?;
        Ok(Self { ring: builder.build().tried(tried)?, read, rules })
    }

    /// Returns the connections that have ended since the last call.
    pub(super) fn take(&mut self) -> Result<Vec<Record>> {
        self.ring.consume().tried(|| "cannot read the records of ended connections".to_owned())?;
        let read = self.read.take();
        Ok(read.iter().filter_map(|entry| self.record(entry)).collect())
    }

    fn record(&self, entry: &EndedEntry) -> Option<Record> {
        let cohort = match entry.rule {
            rule if rule == self.rules[cohort::CANARY] => Cohort::Canary,
            rule if rule == self.rules[cohort::CONTROL] => Cohort::Control,
            _ => return None,
        };
        let value = |value: u64| (value != NO_VALUE).then_some(value);
        let micros = |us: u64| value(us).map(|us| u32::try_from(us).unwrap_or(u32::MAX));
        let connection = Connection {
            acked_bytes: entry.acked_bytes,
            segments: entry.segments.into(),
            retransmits: entry.retransmits.into(),
            timeouts: entry.timeouts.into(),
            rtt_us: micros(entry.rtt_us),
            min_rtt_us: micros(entry.min_rtt_us),
            goodput_kbps: value(entry.goodput_kbps),
            delivery_kbps: value(entry.delivery_kbps),
            duration_ms: entry.duration_ms,
        };
        Some(Record { cohort, began_ns: entry.began_ns, connection })
    }
}
