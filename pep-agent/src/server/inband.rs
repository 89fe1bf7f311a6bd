//! Reports that come within their flows: taken off at the interfaces, and dated without ever asking their border.

use crate::attach::{self, Attachment, Hook, Method};
use crate::auth::Keys;
use crate::inband::{InbandReport, decode, is_signed_by};
use crate::netlink::is_ethernet;
use crate::object;
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
        attach::remove_unpinned("inband", NUMBER, TcAttachType::Ingress, &wanted)
    }

    /// Whether some are filters of clsact: those do not end with the process, and to take one off needs CAP_NET_ADMIN.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.0.iter().any(|attachment| attachment.method() == "clsact")
    }

    /// What is wrong with them, if anything is.
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

/// What the interfaces' programs took off.
pub struct InbandReader {
    _ebpf: Ebpf,
    reports: AsyncFd<RingBuf<MapData>>,
    dropped: Array<MapData, u64>,
    clocks: HashMap<Fingerprint, Excess>,
}

/// Why a report of a flow does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It says nothing that has a meaning.
    Malformed,
    /// No key of that number for this server.
    UnknownKey,
    /// The code is not that key's.
    WrongCode,
}

/// An authentic report and its key, or why it does not count.
pub type Taken = std::result::Result<(InbandReport, Fingerprint), Refused>;

impl InbandReader {
    /// Attaches to the interfaces of that name. Call within a tokio runtime.
    pub fn attach(interfaces: &[String], method: Method) -> Result<(Self, Attached)> {
        let loaded = EbpfLoader::new().load(object::bytes("pep_inband")?);
        let mut ebpf = loaded.tried(|| "cannot load the BPF object for in-band reports".to_owned())?;
        let program: &mut SchedClassifier = object::program_mut(&mut ebpf, "inband")?;
        program.load().tried(|| "cannot load the program for in-band reports".to_owned())?;
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

    /// Waits until there is something to [`Self::take`].
    pub async fn readable(&self) -> io::Result<()> {
        // what is left in the ring makes nothing readable again: only `take` finds that nothing is
        self.reports.readable().await.map(drop)
    }

    /// The next report, if there is one.
    pub fn take(&mut self, keys: &Keys) -> Option<Taken> {
        let next = |ring: &mut RingBuf<MapData>| {
            let item = ring.next().ok_or(io::ErrorKind::WouldBlock)?;
            Ok(bytemuck::try_pod_read_unaligned::<Inband>(&item).map_err(|_| Refused::Malformed))
        };
        let inband = self.reports.try_io_mut(Interest::READABLE, next).ok()?;
        Some(inband.and_then(|inband| verified(&inband, keys)))
    }

    /// How long ago it was seen, microseconds.
    pub fn age_us(&mut self, report: &InbandReport, key: Fingerprint, now_us: u64) -> u64 {
        let excess = self.clocks.entry(key).or_default();
        let under_way_us = excess.over_least((now_us as u32).wrapping_sub(report.time_us), now_us);
        u64::from(under_way_us) + u64::from(report.age_us)
    }

    /// Goes by that report, too, from now on. One that came before, or could not be, must not tell a border's clock.
    pub fn learn(&mut self, report: &InbandReport, key: Fingerprint, now_us: u64) {
        let excess = self.clocks.entry(key).or_default();
        excess.learn((now_us as u32).wrapping_sub(report.time_us), now_us);
    }

    /// Reports so far that found no room on their way here.
    pub fn dropped(&self) -> Result<u64> {
        self.dropped.get(&0, 0).tried(|| "cannot read the number of dropped in-band reports".to_owned())
    }
}

fn verified(inband: &Inband, keys: &Keys) -> Taken {
    let report = decode(inband).ok_or(Refused::Malformed)?;
    let mut known = false;
    let of_server = keys.numbered(report.key_id).filter(|signer| signer.is_for(report.report.key.server.ip()));
    let mut named = of_server.inspect(|_| known = true);
    if let Some(signer) = named.find(|signer| is_signed_by(inband, signer.key)) {
        return Ok((report, signer.key.fingerprint));
    }
    Err(if known { Refused::WrongCode } else { Refused::UnknownKey })
}

/// Our clock less a border's, as its reports come: the least of it is a report that came quickest.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    /// The least of the running span; `None` before the first.
    current: Option<u32>,
    /// That of the span before.
    previous: Option<u32>,
    since_us: u64,
}

impl Excess {
    /// How much later than the quickest one came. Nothing is 2^31 us late: that is one that came quicker.
    fn over_least(&mut self, excess_us: u32, now_us: u64) -> u32 {
        self.roll(now_us);
        let least = self.current.into_iter().chain(self.previous).reduce(earlier).unwrap_or(excess_us);
        excess_us.wrapping_sub(earlier(excess_us, least))
    }

    fn learn(&mut self, excess_us: u32, now_us: u64) {
        self.roll(now_us);
        self.current = Some(self.current.map_or(excess_us, |current| earlier(excess_us, current)));
    }

    /// Spans pass with time and not with reports, so that a border whose clock jumped is believed again, although what it
    /// said meanwhile was too old to be taken.
    fn roll(&mut self, now_us: u64) {
        let spans = (now_us - self.since_us) / CLOCK_SPAN_US;
        if spans > 0 {
            self.previous = self.current.take().filter(|_| spans == 1);
            self.since_us += spans * CLOCK_SPAN_US;
        }
    }
}

/// The clocks wrap.
fn earlier(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b).cast_signed() < 0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::Excess;

    #[test]
    fn a_report_that_came_late_is_dated_by_those_that_did_not() {
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
        // in the next span that stands, in the one after it does not
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

    /// An hour later it seems to come from the future.
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
