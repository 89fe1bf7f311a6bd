//! A plan carried out on the kernel that runs here: the guest's part of the lab.
//!
//! Hosts are network namespaces, links are cables with a program at each end (`link_datapath`). Everything random
//! comes from the plan; everything that is measured is kept in memory until the end.

mod emulator;
mod frame;
mod link_datapath;
mod net;
mod packet_socket;
mod pep;
mod probes;
mod receivers;
mod schedule;
mod traffic;

use crate::stage::Stage;
use anyhow::{Context, Result, anyhow};
use hotcc::ops::{self, Request};
use hotcc::paths::maps::PathMaps;
use hotcc_abi::clock::monotonic_ns;
use hotcc_lab_proto::plan::{Action, Plan};
use hotcc_lab_proto::run_record::{FlowEnd, RunRecord};
use net::Net;
use pep::Agents;
use probes::Probes;
use receivers::Receivers;
use schedule::Schedule;
use std::io::Write;
use std::time::Duration;
use traffic::Traffic;

pub use net::{PREFIX, RELEASE_AT_STAMP};

/// From the moment all is ready to time zero.
const LEAD: Duration = Duration::from_millis(500);

/// Does it, and writes [`RunRecord`] as a line of JSON and the records to `out`. `say` gets progress.
pub fn exec(plan: &Plan, stage: Stage, out: &mut dyn Write, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut scene = Scene::build(plan, stage)?;
    let algorithms = Algorithms::load(plan)?;
    let record = scene.perform(say)?;
    serde_json::to_writer(&mut *out, &record).context("cannot write results")?;
    out.write_all(b"\n")?;
    scene.probes.write_records(&record, out).context("cannot write records")?;
    drop(algorithms);
    Ok(())
}

/// A plan's network with its probes, where it is performed once.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    plan: &'a Plan,
    stage: Stage,
    net: Net,
    probes: Probes,
}

impl<'a> Scene<'a> {
    /// Makes hosts and links.
    pub fn build(plan: &'a Plan, stage: Stage) -> Result<Self> {
        let net = Net::build(plan, stage)?;
        let probes = net.cables.enter(|| Probes::start(plan, &net, stage))??;
        Ok(Self { plan, stage, net, probes })
    }

    /// Carries the flows from start to stop. The algorithms are loaded already. `say` gets progress.
    pub fn perform(&mut self, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<RunRecord> {
        let receivers = Receivers::load(self.plan)?;
        let writers = schedule::writers(self.plan)?;
        if self.plan.events.iter().any(|event| matches!(event.action, Action::Route { watched: true, .. })) {
            PathMaps::open_or_create()?; // before time zero: to make them takes a while
        }
        let mut agents = self.plan.pep.as_ref().map(|pep| Agents::start(pep, &self.net, self.stage)).transpose()?;
        let zero_ns = monotonic_ns() + LEAD.as_nanos() as u64;
        self.probes.set_zero(zero_ns);
        let mut traffic = Traffic::start(self.plan, &self.net, &receivers, zero_ns)?;
        say("running")?;
        let events = Schedule::new(self.plan, self.stage, zero_ns).run(
            &self.net,
            agents.as_ref(),
            &mut traffic,
            &writers,
            say,
        )?;
        let ends = traffic.end();
        self.probes.stop()?;
        let mut record = self.probes.counts(self.plan);
        for (end, timeouts) in ends.into_iter().zip(self.probes.timeouts()) {
            record.flows.push(FlowEnd { timeouts: timeouts.into(), ..end });
        }
        let end_s = self.plan.duration_ns as f64 / 1e9;
        if let Some(agents) = &mut agents {
            record.faults.extend(agents.faults()?);
        }
        let told = agents.and_then(|agents| agents.told()).map(|told| format!("{end_s} {told}"));
        record.events = events.into_iter().chain(told).collect();
        Ok(record)
    }

    /// ACKs that the senders of a performance got.
    pub fn acks(&self, record: &RunRecord) -> u64 {
        self.probes.acks(record)
    }
}

/// Algorithms that were loaded for the run; unloaded with the value.
struct Algorithms(Vec<String>);

impl Algorithms {
    fn load(plan: &Plan) -> Result<Self> {
        let mut loaded = Self(Vec::new());
        for algorithm in &plan.algorithms {
            let request = Request {
                object: algorithm.object.clone(),
                cc_name: Some(algorithm.cc.clone()),
                profile: algorithm.profile.clone(),
                set: algorithm.set.clone(),
            };
            // as text: anyhow would leave out the verifier's lines, which are advice
            ops::load(&request).map_err(|error| anyhow!("{error:#}"))?;
            loaded.0.push(algorithm.cc.clone());
        }
        Ok(loaded)
    }
}

impl Drop for Algorithms {
    fn drop(&mut self) {
        for cc in &self.0 {
            if let Err(error) = ops::unload(cc, None) {
                eprintln!("cannot unload {cc}: {error:#}");
            }
        }
    }
}
