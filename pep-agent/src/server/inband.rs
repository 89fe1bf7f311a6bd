//! Reports that come within their flows: taken off at the interfaces, and dated without ever asking their border.

use crate::attach::{self, Attachment, Hook, Method};
use crate::auth::Keys;
use crate::inband::{InbandReport, decode, is_signed_by};
use crate::netlink::is_ethernet;
use crate::server::limit::Limiter;
use anyhow::{Context, Result, bail};
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use hotcc_abi::pep::Inband;
use std::collections::HashMap;
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// For so long the quickest report of a border stands for its clock: they drift apart by 50 us/s at the most.
const CLOCK_SPAN_US: u64 = 10_000_000;

/// Tells our programs from the border's, 1 and 2.
const NUMBER: u16 = 3;

/// The interfaces' programs. Dropped, they are gone.
#[derive(Debug)]
pub struct Attached(Vec<Attachment>);

impl Attached {
    /// Takes off the filters that a killed process left where none are now.
    pub fn remove_left_over(now: Option<&Self>) -> Result<()> {
        let filters = now.into_iter().flat_map(|now| &now.0).filter(|attachment| attachment.method() == "clsact");
        let wanted: Vec<String> = filters.map(|attachment| attachment.hook().interface.clone()).collect();
        Ok(attach::remove_unpinned("inband", NUMBER, TcAttachType::Ingress, &wanted)?)
    }

    /// Whether some are filters of clsact: those do not end with the process, and to take one off needs CAP_NET_ADMIN.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.0.iter().any(|attachment| attachment.method() == "clsact")
    }

    /// What is wrong with them, if anything is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.0.iter().find_map(Attachment::problem)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for attachment in self.0.drain(..) {
            if let Err(error) = attachment.detach() {
                tracing::warn!("{error}");
            }
        }
    }
}

/// What the interfaces' programs took off.
pub struct Inflow {
    _ebpf: Ebpf,
    reports: AsyncFd<RingBuf<MapData>>,
    dropped: Array<MapData, u64>,
    clocks: HashMap<u8, Excess>,
}

/// Why a report of a flow does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too many came within flows.
    RateLimited,
    /// It says nothing that has a meaning.
    Malformed,
    /// No key of that number for this server.
    UnknownKey,
    /// The code is not that key's.
    WrongCode,
}

impl Inflow {
    /// Attaches to the interfaces of that name. Call within a tokio runtime.
    pub fn attach(interfaces: &[String], method: Method) -> Result<(Self, Attached)> {
        let object = hotcc_bpf::agent("pep_inband").context("this program was built without its BPF object")?;
        let mut ebpf = EbpfLoader::new().load(object.bytes).context("cannot load the program for in-band reports")?;
        let program: &mut SchedClassifier = ebpf.program_mut("inband").context("no such program")?.try_into()?;
        program.load().context("the kernel refuses the program for in-band reports")?;
        let mut attached = Attached(Vec::new());
        for interface in interfaces {
            let hook =
                Hook { role: "inband", number: NUMBER, interface: interface.clone(), direction: TcAttachType::Ingress };
            if !is_ethernet(hook.ifindex()?)? {
                bail!("reports in flows cannot be taken off {interface}: its packets have no Ethernet header");
            }
            let attachment = attach::attach(program, &hook, None, method)?;
            let adopted = if attachment.is_adopted { ", in place of one left there" } else { "" };
            tracing::info!(
                "reports in flows are taken at the ingress of {interface} by {}{adopted}",
                attachment.method()
            );
            attached.0.push(attachment);
        }
        let reports = RingBuf::try_from(ebpf.take_map("inband_reports").context("no such map")?)?;
        // SAFETY: a ring buffer has one descriptor, which it keeps open as long as it lives.
        let reports = unsafe { AsyncFd::register(reports) }?;
        let dropped = Array::try_from(ebpf.take_map("inband_dropped").context("no such map")?)?;
        Ok((Self { _ebpf: ebpf, reports, dropped, clocks: HashMap::new() }, attached))
    }

    /// Waits until there is something to [`Self::take`].
    pub async fn readable(&self) -> io::Result<()> {
        // what is left in the ring makes nothing readable again: only `take` finds that nothing is
        self.reports.readable().await.map(drop)
    }

    /// The next report, if there is one, and how long ago it was seen, microseconds.
    pub fn take(
        &mut self,
        keys: &Keys,
        limiter: &mut Limiter,
        now_us: u64,
    ) -> Option<Result<(InbandReport, u64), Refused>> {
        let next = |ring: &mut RingBuf<MapData>| {
            let item = ring.next().ok_or(io::ErrorKind::WouldBlock)?;
            Ok(bytemuck::try_pod_read_unaligned::<Inband>(&item).map_err(|_| Refused::Malformed))
        };
        let inband = self.reports.try_io_mut(Interest::READABLE, next).ok()?;
        if !limiter.allows_inband(now_us) {
            return Some(Err(Refused::RateLimited));
        }
        let report = inband.and_then(|inband| verified(&inband, keys));
        Some(report.map(|report| {
            let excess = self.clocks.entry(report.key_id).or_default();
            let under_way_us = excess.over_least((now_us as u32).wrapping_sub(report.time_us), now_us);
            let age_us = u64::from(under_way_us) + u64::from(report.age_us);
            (report, age_us)
        }))
    }

    /// Reports so far that found no room on their way here.
    pub fn dropped(&self) -> Result<u64> {
        Ok(self.dropped.get(&0, 0)?)
    }
}

fn verified(inband: &Inband, keys: &Keys) -> Result<InbandReport, Refused> {
    let report = decode(inband).ok_or(Refused::Malformed)?;
    let mut known = false;
    let of_server = keys.numbered(report.key_id).filter(|signer| signer.is_for(report.report.key.server.ip()));
    let mut named = of_server.inspect(|_| known = true);
    if named.any(|signer| is_signed_by(inband, signer.key)) {
        return Ok(report);
    }
    Err(if known { Refused::WrongCode } else { Refused::UnknownKey })
}

/// Our clock less a border's, as its reports come: the least of it is a report that came quickest.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    /// The least of the running span and of the one before; `None` before the first.
    least: Option<(u32, u32)>,
    since_us: u64,
}

impl Excess {
    /// How much later than the quickest one came.
    fn over_least(&mut self, excess_us: u32, now_us: u64) -> u32 {
        let earlier = |a: u32, b: u32| if a.wrapping_sub(b).cast_signed() < 0 { a } else { b };
        let (current, previous) = self.least.unwrap_or((excess_us, excess_us));
        let (current, previous) = if now_us - self.since_us >= CLOCK_SPAN_US {
            self.since_us = now_us;
            (excess_us, current)
        } else {
            (earlier(excess_us, current), previous)
        };
        self.least = Some((current, previous));
        excess_us.wrapping_sub(earlier(current, previous))
    }
}

#[cfg(test)]
mod tests {
    use super::Excess;

    #[test]
    fn a_report_that_came_late_is_dated_by_those_that_did_not() {
        let mut excess = Excess::default();
        let start = u32::MAX - 50; // the difference of the clocks wraps
        assert_eq!(excess.over_least(start, 0), 0);
        assert_eq!(excess.over_least(start.wrapping_add(500_000), 1), 500_000);
        assert_eq!(excess.over_least(start.wrapping_sub(1000), 2), 0);
        assert_eq!(excess.over_least(start, 3), 1000);
        // a border that restarted with a later clock is believed once the spans have passed
        let restarted = start.wrapping_add(900_000_000);
        assert!(excess.over_least(restarted, 4) > 800_000_000);
        assert!(excess.over_least(restarted, 10_000_005) > 800_000_000);
        assert_eq!(excess.over_least(restarted, 20_000_010), 0);
    }
}
