//! The schedule of a run: when to publish readings, stop flows, start events and report progress.

use super::net::{Namespace, Net};
use super::pep::Agents;
use super::traffic::{Traffic, sleep_until};
use crate::stage::Stage;
use anyhow::{Context, Result};
use hotcc::ops::{self, Request, tune};
use hotcc::paths::routes::Routes;
use hotcc::paths::watch;
use hotcc::tunables::present::Value;
use hotcc_abi::radio::{IndexKey, SOURCE_TRACE};
use hotcc_abi::{clock, pins};
use hotcc_lab_proto::plan::{Action, PATH_PUBLISHED, Plan, PlannedReading};
use hotcc_radio_map::{LinkOptions, LinkWriter, RadioMap, Reading};
use hotcc_testbed::netlab;
use std::path::Path;

/// Number of progress reports in a run.
const REPORTS: u64 = 20;
/// Maximum time until an interrupt (Ctrl-C) is noticed.
const NOTICE_NS: u64 = 100_000_000;

/// One entry of the schedule.
enum Entry<'a> {
    Reading(usize, &'a PlannedReading),
    Stop(usize),
    Event(&'a Action),
    Progress(u64),
}

/// The entries, in order of time.
pub(super) struct Schedule<'a> {
    stage: Stage,
    zero_ns: u64,
    entries: Vec<(u64, Entry<'a>)>,
}

impl<'a> Schedule<'a> {
    pub fn new(plan: &'a Plan, stage: Stage, zero_ns: u64) -> Self {
        let mut entries: Vec<(u64, Entry<'_>)> = Vec::new();
        for (feed, planned) in plan.feeds.iter().enumerate() {
            entries.extend(planned.readings.iter().map(|r| (r.at_ns, Entry::Reading(feed, r))));
        }
        entries.extend(plan.flows.iter().enumerate().map(|(flow, p)| (p.stop_ns, Entry::Stop(flow))));
        entries.extend(plan.events.iter().map(|e| (e.at_ns, Entry::Event(&e.action))));
        entries.extend((1..=REPORTS).map(|k| (plan.duration_ns * k / REPORTS, Entry::Progress(100 * k / REPORTS))));
        entries.retain(|(at_ns, _)| *at_ns <= plan.duration_ns);
        entries.sort_by_key(|(at_ns, _)| *at_ns); // stable: entries of the same time keep the order above
        Self { stage, zero_ns, entries }
    }

    /// Executes all entries. Returns what happened. An event that fails is reported there, and the run continues.
    pub fn run(
        self,
        net: &Net,
        agents: Option<&Agents>,
        traffic: &mut Traffic,
        writers: &[LinkWriter],
        say: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<Vec<String>> {
        let stage = self.stage;
        std::thread::scope(|scope| {
            let mut happened = Vec::new();
            for (at_ns, entry) in &self.entries {
                self.wait_until(self.zero_ns + at_ns)?;
                match entry {
                    Entry::Reading(feed, reading) => publish(&writers[*feed], reading, self.zero_ns)?,
                    Entry::Stop(flow) => traffic.stop(*flow),
                    Entry::Event(action) => {
                        let acting = scope.spawn(move || {
                            if stage == Stage::Guest {
                                rest_whenever_others_work();
                            }
                            act(action, net, agents).unwrap_or_else(|why| format!("{action:?} failed: {why:#}"))
                        });
                        happened.push((*at_ns, acting));
                    }
                    Entry::Progress(percent) => say(&format!("{percent} %"))?,
                }
            }
            let told = happened.into_iter().map(|(at_ns, acting)| {
                let result = acting.join().unwrap_or_else(|_| "panicked".to_owned());
                format!("{} {result}", at_ns as f64 / 1e9)
            });
            Ok(told.collect())
        })
    }

    /// Sleeps until a time. Outside the guest, also checks for interrupts; a guest gets none, and the checks would cost
    /// processor time.
    fn wait_until(&self, at_ns: u64) -> Result<()> {
        while self.stage != Stage::Guest && clock::monotonic_ns() + NOTICE_NS < at_ns {
            netlab::check()?;
            sleep_until(clock::monotonic_ns() + NOTICE_NS);
        }
        sleep_until(at_ns);
        Ok(())
    }
}

/// Creates the writer of each feed. Call this before time zero: creating the radio map takes half a second.
pub(super) fn writers(plan: &Plan) -> Result<Vec<LinkWriter>> {
    if plan.feeds.is_empty() {
        return Ok(Vec::new());
    }
    let mut map = RadioMap::open_or_create(Path::new(pins::ROOT))?;
    let mut writers = Vec::new();
    for feed in &plan.feeds {
        let key = IndexKey::prefix(feed.address.into(), 32).context("no prefix")?;
        let options = LinkOptions {
            source: SOURCE_TRACE,
            max_age_ms: feed.max_age_ms,
            period_ms: feed.period_ms,
            take_over: false,
        };
        writers.push(map.take_link(key, &options)?);
    }
    Ok(writers)
}

/// Lets this thread run only when no other thread needs the processor. Loading a program takes a while, and must not
/// delay traffic, as it would not on a machine with several processors.
fn rest_whenever_others_work() {
    let any = nix::libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the structure, which outlives the call. The call cannot fail: any thread may choose this
    // class.
    unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_IDLE, &raw const any) };
}

fn publish(writer: &LinkWriter, reading: &PlannedReading, zero_ns: u64) -> Result<()> {
    let made_ms = clock::ms32(zero_ns + reading.made_ns);
    let value = Reading {
        sinr_db: reading.sinr_db.map(f64::from),
        average_db: reading.average_db.map(f64::from),
        capacity_bps: reading.capacity_bps.map(|bps| bps as f64),
        cell: Some(reading.cell.into()),
        ..Reading::default()
    };
    Ok(writer.publish(&value, made_ms)?)
}

/// Returns the differences between two readings of the tunables: `queue=bandwidth (was max)`.
fn changes(before: &[Value], after: &[Value]) -> String {
    let pairs = before.iter().zip(after).filter(|(old, new)| old.value != new.value);
    let changed: Vec<String> =
        pairs.map(|(old, new)| format!("{}={} (was {})", new.name, new.value, old.value)).collect();
    if changed.is_empty() { "(unchanged)".to_owned() } else { changed.join(" ") }
}

fn act(action: &Action, net: &Net, agents: Option<&Agents>) -> Result<String> {
    match action {
        Action::Swap { cc, new, object } => {
            let profile = "default".to_owned();
            let request = Request { object: object.clone(), cc_name: None, profile, set: Vec::new() };
            let outcome = ops::swap(cc, &request, true)?;
            let moved = outcome.moved.map_or(0, |m| m.moved);
            Ok(format!("swap {cc} -> {new}: {moved} connections moved"))
        }
        Action::Tune { cc, set } => {
            let before = tune::get(cc)?;
            tune::set(cc, set)?;
            Ok(format!("set {cc} {}", changes(&before, &tune::get(cc)?)))
        }
        Action::Route { host, arguments, watched } => reroute(&net.hosts[*host], arguments, *watched),
        Action::Border(runs) => {
            let agents = agents.context("the scenario has no PEP")?;
            if *runs {
                agents.start_border(net)?
            } else {
                agents.kill_border()?
            }
            Ok(format!("the border's agent {}", if *runs { "starts again" } else { "is killed" }))
        }
        Action::Note(text) => Ok(text.clone()),
    }
}

/// Changes a route. If the host watches its routes, also publishes the change, as `hotcc paths watch` does when the
/// kernel reports it.
fn reroute(host: &Namespace, arguments: &String, watched: bool) -> Result<String> {
    let change = || host.batch("ip", std::slice::from_ref(arguments));
    if !watched {
        change()?;
        return Ok(arguments.clone());
    }
    let published = host.enter(|| {
        let before = Routes::read()?;
        change()?;
        anyhow::Ok(watch::publish(&before, &Routes::read()?)?)
    })??;
    Ok(format!("{arguments}{}", if published.is_some() { PATH_PUBLISHED } else { "" }))
}
