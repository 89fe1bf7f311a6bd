//! Executes a plan on the running kernel: the guest's part of the lab.
//!
//! Hosts are network namespaces; links are cables with a program at each end (`link_datapath`). All randomness comes
//! from the plan. All measurements stay in memory until the end.

mod emulator;
mod frame;
mod link_datapath;
mod net;
mod packet_socket;
mod pep;
mod probes;
mod qdisc;
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
pub use qdisc::compare;

/// Time between the end of the preparations and time zero.
const LEAD: Duration = Duration::from_millis(500);

/// Executes the plan. Writes a line of JSON with the [`RunRecord`] to `out`, then the records. Reports progress to
/// `say`.
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

/// A plan's network with its probes, for one run of the plan.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    plan: &'a Plan,
    stage: Stage,
    net: Net,
    probes: Probes,
}

impl<'a> Scene<'a> {
    /// Creates hosts and links, and attaches the probes.
    pub fn build(plan: &'a Plan, stage: Stage) -> Result<Self> {
        let net = Net::build(plan, stage)?;
        let probes = net.cables.enter(|| Probes::start(plan, &net, stage))??;
        Ok(Self { plan, stage, net, probes })
    }

    /// Runs the flows from start to stop. The algorithms must be loaded. Reports progress to `say`.
    pub fn perform(&mut self, say: &mut dyn FnMut(&str) -> Result<()>) -> Result<RunRecord> {
        let receivers = Receivers::load(self.plan)?;
        let writers = schedule::writers(self.plan)?;
        if self.plan.events.iter().any(|event| matches!(event.action, Action::Route { watched: true, .. })) {
            PathMaps::open_or_create()?; // before time zero, because creating the maps takes a while
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
        record.receiver_programs = receivers.counted()?;
        let end_s = self.plan.duration_ns as f64 / 1e9;
        if let Some(agents) = &mut agents {
            record.faults.extend(agents.faults()?);
        }
        let pep_faults = agents.and_then(|agents| agents.relays_log()).map(|text| format!("{end_s} {text}"));
        record.events = events.into_iter().chain(pep_faults).collect();
        Ok(record)
    }

    /// Returns the number of ACKs that the senders got during the run.
    pub fn acks(&self, record: &RunRecord) -> u64 {
        self.probes.acks(record)
    }
}

/// Algorithms that are loaded for the run, and unloaded when the value is dropped.
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
            ops::load(&request).map_err(|error| {
                // the verifier's last lines and the file with its log stay in the guest
                let error = format!("{error:#}");
                anyhow!("{}", error.lines().next().unwrap_or_default())
            })?;
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
