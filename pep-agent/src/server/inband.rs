//! Reports that arrive in-band, within their flows: taken out of the packets at the interfaces, and dated without a
//! probe of their border.

use crate::attach::{self, Attachment, Hook, Method};
use crate::auth::Keys;
use crate::border::kernel::explained;
use crate::inband::{InbandReport, decode, is_signed_by};
use crate::netlink::is_ethernet;
use crate::object;
use crate::server::kernel::NEEDS;
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use hotcc_abi::pep::Inband;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_keys::Fingerprint;
use std::collections::HashMap;
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How long the quickest report of a border represents its clock: the clocks drift apart by at most 50 us/s.
const CLOCK_SPAN_US: u64 = 10_000_000;

/// Distinguishes these programs from the border's, whose numbers are 1 and 2.
const NUMBER: u16 = 3;

/// The programs on the interfaces. Dropping this value detaches them.
#[derive(Debug)]
pub struct Attached(Vec<Attachment>);

impl Attached {
    /// Removes the filters that a killed process left on interfaces where there is no filter in `now`.
    pub fn remove_left_over(now: Option<&Self>) -> Result<()> {
        let filters = now.into_iter().flat_map(|now| &now.0).filter(|attachment| attachment.method() == "clsact");
        let wanted: Vec<String> = filters.map(|attachment| attachment.hook().interface.clone()).collect();
        attach::remove_unpinned("inband", NUMBER, TcAttachType::Ingress, &wanted)
    }

    /// Whether some are filters of clsact. Filters do not end with the process, and to remove one needs CAP_NET_ADMIN.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.0.iter().any(|attachment| attachment.method() == "clsact")
    }

    /// Returns what is wrong with them, or `None`.
    #[must_use]
    pub fn problem(&self) -> Option<Error> {
        self.0.iter().find_map(Attachment::problem)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for attachment in self.0.drain(..) {
            if let Err(error) = attachment.detach() {
                tracing::warn!("{error:#}");
            }
        }
    }
}

/// Reads the reports that the interfaces' programs took out of the packets.
pub struct InbandReader {
    _ebpf: Ebpf,
    reports: AsyncFd<RingBuf<MapData>>,
    dropped: Array<MapData, u64>,
    clocks: HashMap<Fingerprint, Excess>,
}

/// Why an in-band report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedReport {
    /// It is invalid.
    Malformed,
    /// There is no key with its number for this server.
    UnknownKey,
    /// It is not signed with a key of its number.
    WrongCode,
}

/// An authentic report and its key, or why the report is rejected.
pub type VerifiedReport = std::result::Result<(InbandReport, Fingerprint), RejectedReport>;

impl InbandReader {
    /// Attaches to the interfaces of these names. Call it within a tokio runtime.
    pub fn attach(interfaces: &[String], method: Method) -> Result<(Self, Attached)> {
        let loaded = EbpfLoader::new().load(object::bytes("pep_inband")?);
        let mut ebpf = explained(loaded, "cannot load the BPF object for in-band reports", NEEDS)?;
        let program: &mut SchedClassifier = object::program_mut(&mut ebpf, "inband")?;
        explained(program.load(), "cannot load the program for in-band reports", NEEDS)?;
        let mut attached = Attached(Vec::new());
        for interface in interfaces {
            let hook =
                Hook { role: "inband", number: NUMBER, interface: interface.clone(), direction: TcAttachType::Ingress };
            if !is_ethernet(hook.ifindex()?)? {
                let tried = format!("cannot take in-band reports from `{interface}`");
                return Err(Error::failed("its packets have no Ethernet header").during(&tried));
            }
            let attachment = attach::attach(program, &hook, None, method)?;
            let adopted = if attachment.is_adopted { ", replaces the one that an earlier process left" } else { "" };
            tracing::info!("taking in-band reports from the ingress of {interface} ({}{adopted})", attachment.method());
            attached.0.push(attachment);
        }
        let reports: RingBuf<MapData> = object::take_map(&mut ebpf, "inband_reports")?;
        // SAFETY: a ring buffer has one descriptor, which it keeps open as long as it lives.
        let reports = unsafe { AsyncFd::register(reports) }.tried(|| "cannot wait for in-band reports".to_owned())?;
        let dropped = object::take_map(&mut ebpf, "inband_dropped")?;
        Ok((Self { _ebpf: ebpf, reports, dropped, clocks: HashMap::new() }, attached))
    }

    /// Waits until there is a report to [`Self::take`].
    pub async fn readable(&self) -> io::Result<()> {
        // keep the readiness: reports left in the ring do not signal it again; `take` clears it when the ring is empty
        self.reports.readable().await.map(drop)
    }

    /// Takes the next report, if there is one.
    pub fn take(&mut self, keys: &Keys) -> Option<VerifiedReport> {
        let next = |ring: &mut RingBuf<MapData>| {
            let item = ring.next().ok_or(io::ErrorKind::WouldBlock)?;
            Ok(bytemuck::try_pod_read_unaligned::<Inband>(&item).map_err(|_| RejectedReport::Malformed))
        };
        let inband = self.reports.try_io_mut(Interest::READABLE, next).ok()?;
        Some(inband.and_then(|inband| verified(&inband, keys)))
    }

    /// Returns how long ago the border saw what it reports, microseconds.
    pub fn age_us(&mut self, report: &InbandReport, key: Fingerprint, now_us: u64) -> u64 {
        let excess = self.clocks.entry(key).or_default();
        let under_way_us = excess.over_least((now_us as u32).wrapping_sub(report.time_us), now_us);
        u64::from(under_way_us) + u64::from(report.age_us)
    }

    /// Includes this report in the estimate of the border's clock. Call this only for reports that the kernel accepted:
    /// a replayed or impossible report must not change the estimate.
    pub fn learn(&mut self, report: &InbandReport, key: Fingerprint, now_us: u64) {
        let excess = self.clocks.entry(key).or_default();
        excess.learn((now_us as u32).wrapping_sub(report.time_us), now_us);
    }

    /// Returns the number of reports so far that were dropped because the ring was full.
    pub fn dropped(&self) -> Result<u64> {
        self.dropped.get(&0, 0).tried(|| "cannot read the number of dropped in-band reports".to_owned())
    }
}

fn verified(inband: &Inband, keys: &Keys) -> VerifiedReport {
    let report = decode(inband).ok_or(RejectedReport::Malformed)?;
    let mut known = false;
    let of_server = keys.numbered(report.key_id).filter(|signer| signer.is_for(report.report.key.server.ip()));
    let mut named = of_server.inspect(|_| known = true);
    if let Some(signer) = named.find(|signer| is_signed_by(inband, signer.key)) {
        return Ok((report, signer.key.fingerprint));
    }
    Err(if known { RejectedReport::WrongCode } else { RejectedReport::UnknownKey })
}

/// This host's clock minus a border's, at the arrival of the border's reports. The least value belongs to the report
/// that arrived quickest.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    /// The least value of the current span; `None` before the first.
    current: Option<u32>,
    /// The least value of the span before.
    previous: Option<u32>,
    since_us: u64,
}

impl Excess {
    /// Returns how much later than the quickest report this one arrived. No report is 2^31 us late: such a difference
    /// means that this one was quicker.
    fn over_least(&mut self, excess_us: u32, now_us: u64) -> u32 {
        self.roll(now_us);
        let least = self.current.into_iter().chain(self.previous).reduce(earlier).unwrap_or(excess_us);
        excess_us.wrapping_sub(earlier(excess_us, least))
    }

    fn learn(&mut self, excess_us: u32, now_us: u64) {
        self.roll(now_us);
        self.current = Some(self.current.map_or(excess_us, |current| earlier(excess_us, current)));
    }

    /// Advances the spans with time, not with reports, so that a border whose clock jumped is accepted again although
    /// its reports were meanwhile rejected as too old.
    fn roll(&mut self, now_us: u64) {
        let spans = (now_us - self.since_us) / CLOCK_SPAN_US;
        if spans > 0 {
            self.previous = self.current.take().filter(|_| spans == 1);
            self.since_us += spans * CLOCK_SPAN_US;
        }
    }
}

/// Returns the earlier of two times, modulo 2^32.
fn earlier(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b).cast_signed() < 0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::Excess;

    #[test]
    fn a_delayed_report_is_dated_by_the_prompt_ones() {
        let mut excess = Excess::default();
        let start = u32::MAX - 50; // the difference of the clocks wraps
        assert_eq!(excess.over_least(start, 0), 0);
        excess.learn(start, 0);
        assert_eq!(excess.over_least(start.wrapping_add(500_000), 1), 500_000);
        excess.learn(start.wrapping_add(500_000), 1);
        let quicker = start.wrapping_sub(1000);
        assert_eq!(excess.over_least(quicker, 2), 0);
        assert_eq!(excess.over_least(start, 3), 0, "that one was not taken");
        excess.learn(quicker, 4);
        assert_eq!(excess.over_least(start, 5), 1000);
        // the least value holds in the next span, but not in the one after it
        excess.learn(start, 10_000_000);
        assert_eq!(excess.over_least(start, 19_999_999), 1000);
        assert_eq!(excess.over_least(start, 20_000_000), 0);
        assert_eq!(excess.over_least(start.wrapping_add(7), 29_999_999), 7);
        assert_eq!(excess.over_least(start.wrapping_add(7), 30_000_000), 0, "nobody said anything since");
    }

    #[test]
    fn a_border_whose_clock_jumped_is_believed_once_the_spans_have_passed() {
        let mut excess = Excess::default();
        excess.learn(0, 5_000_000);
        for now_us in (6_000_000..20_000_000).step_by(1_000_000) {
            assert_eq!(excess.over_least(900_000_000, now_us), 900_000_000, "and refused as too old");
        }
        assert_eq!(excess.over_least(900_000_000, 20_000_000), 0);
    }

    /// A report that is replayed an hour later seems to come from the future.
    #[test]
    fn a_report_that_was_replayed_makes_no_other_one_late() {
        let mut excess = Excess::default();
        excess.learn(0, 0);
        for replayed_after_us in [2_500_000_000, 4_000_000_000] {
            assert_eq!(excess.over_least(replayed_after_us, 1), 0);
        }
        assert_eq!(excess.over_least(0, 2), 0);
        assert_eq!(excess.over_least(2_000_000_000, 3), 2_000_000_000);
    }
}
