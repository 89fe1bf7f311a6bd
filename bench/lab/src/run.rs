//! Executes a scenario's runs: each in its own virtual machine, several in parallel. Interrupted runs can be resumed.

use crate::algorithms;
use crate::analyse::{Analysed, Measured, analyse};
use crate::directory::{ResultDirectory, UNFINISHED, prepare, remove, write};
use crate::guest::Versatile;
use crate::native::Native;
use crate::planner::{Planned, check_plans, plan};
use crate::programs;
use crate::results::{Manifest, Results, RunId, RunSummary, SIMULATOR, sha256};
use crate::scenario::{Case, Source};
use crate::selection::{OneRun, Selection, Workload};
use crate::simulated;
use crate::snapshots::{self, Snapshots, WaitingGuest};
use crate::vm::{self, Clock, Machine};
use anyhow::{Context, Result};
use hotcc_kernels::{Architecture, Kernel};
use hotcc_lab_proto::job::Message;
use hotcc_testbed::netlab;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Modules that every scenario needs, for links and for the port for results; built-in ones are left out.
pub(crate) const MODULES: [&str; 6] = ["veth", "sch_fq", "sch_ingress", "cls_bpf", "virtio_pci", "virtio_console"];
/// Memory for the kernel, programs and socket buffers.
const MEMORY_MIB: u32 = 768;
/// The memory for records is a multiple of this, so that most scenarios share a snapshot.
const MEMORY_STEP_MIB: u64 = 256;

/// Where runs are executed.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// A stock kernel in a virtual machine, with this clock.
    Vm(&'a Kernel, Clock),
    /// The running kernel.
    Native(&'a Native),
    /// The simulator, for scenarios that pass [`simulated::check_runs`].
    Simulator,
}

/// The runs of a scenario on one kernel.
#[derive(Debug)]
pub struct Lab<'a> {
    /// The scenario.
    pub source: &'a Source,
    /// The kernel, and where it runs.
    pub backend: Backend<'a>,
    /// Result directory.
    pub directory: &'a Path,
    /// Number of parallel runs; always one if native.
    pub jobs: usize,
    /// The runs to execute.
    pub selection: &'a Selection,
}

/// A progress report.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A report on all runs.
    Note(&'a str),
    /// A report on one run.
    Run {
        /// The run.
        run: &'a RunId,
        /// Number of completed runs, and number of all runs.
        done: (usize, usize),
        /// The report.
        text: &'a str,
    },
}

/// Some runs failed. The results of the others are complete.
#[derive(Debug)]
pub struct RunsFailed(String);

impl fmt::Display for RunsFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunsFailed {}

impl Lab<'_> {
    /// Executes every run that the directory does not have yet. A failed run does not stop the others. Failures are
    /// reported at the end.
    pub fn run(&self, say: &(dyn Fn(&Progress<'_>) + Sync)) -> Result<Results> {
        let cases = self.source.cases()?;
        let runs = self.selection.runs(self.source, &cases)?;
        if let Backend::Native(native) = self.backend {
            runs.iter().try_for_each(|one| native.check(&one.case.scenario))?;
        }
        let jobs = if matches!(self.backend, Backend::Native(_)) { 1 } else { self.jobs.clamp(1, runs.len().max(1)) };
        say(&Progress::Note(&self.announcement(&Workload::of_runs(&cases, &runs), jobs)));
        check_plans(self.source)?;
        let manifest = self.manifest(&cases, &runs)?;
        let is_current = |run: &RunId, summary: &RunSummary| {
            let Some(one) = runs.iter().find(|one| one.id == *run) else { return Ok(true) };
            Ok(summary.inputs == inputs(one, &self.plan(one)?, &manifest)?)
        };
        let prepared = prepare(self.directory, &manifest, &self.source.text, &is_current)?;
        if let Some(moved) = &prepared.moved {
            say(&Progress::Note(moved));
        }
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failures = Mutex::new(Vec::new());
        let processors = vm::processors();
        std::thread::scope(|scope| {
            for worker in 0..jobs {
                let cpu = (!processors.is_empty()).then(|| processors[worker % processors.len()]);
                let (prepared, manifest, runs, next, done, failures) =
                    (&prepared, &manifest, &runs, &next, &done, &failures);
                scope.spawn(move || {
                    while let Some(one) = runs.get(next.fetch_add(1, Ordering::SeqCst)) {
                        if netlab::check().is_err() {
                            return;
                        }
                        let tell = |text: &str| {
                            let done = (done.load(Ordering::SeqCst), runs.len());
                            say(&Progress::Run { run: &one.id, done, text });
                        };
                        let outcome = self.run_one(one, manifest, prepared, cpu, &tell);
                        done.fetch_add(1, Ordering::SeqCst);
                        match outcome {
                            Ok(verdict) => tell(&verdict),
                            Err(why) => {
                                let why = format!("{} seed {}: {why:#}", one.id.case_name(), one.id.seed);
                                failures.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                            }
                        }
                    }
                });
            }
        });
        if let Err(interrupted) = netlab::check() {
            remove(&self.directory.join(UNFINISHED))?;
            return Err(interrupted);
        }
        let failures = failures.into_inner().unwrap_or_default();
        if failures.is_empty() {
            remove(&self.directory.join(UNFINISHED))?;
        } else {
            let text = format!("{} of {} runs failed:\n{}", failures.len(), runs.len(), failures.join("\n"));
            return Err(RunsFailed(text).into());
        }
        Results::read(self.directory)
    }

    /// Returns a description of the work ahead. It is reported before anything that takes time.
    fn announcement(&self, work: &Workload, jobs: usize) -> String {
        let place = match self.backend {
            Backend::Vm(kernel, _) => format!("Linux {}", kernel.release),
            Backend::Native(native) => format!("this machine's Linux {}", native.release),
            Backend::Simulator => "the simulator".to_owned(),
        };
        format!("{}: {}; {jobs} at a time, on {place}", self.source.path.display(), work.text())
    }

    fn manifest(&self, cases: &[Case], runs: &[OneRun<'_>]) -> Result<Manifest> {
        let mut files = BTreeMap::new();
        let traces = self.source.traces();
        let found = |file: &Path| Ok((file.to_owned(), traces.find(file)?));
        let traces_named = cases.iter().flat_map(|case| case.scenario.trace_files()).map(found);
        let beside =
            |file: &toml::Spanned<String>| Ok((file.get_ref().into(), self.source.directory().join(file.get_ref())));
        let objects_named = cases.iter().flat_map(|case| case.scenario.object_files()).map(beside);
        let named: Vec<(PathBuf, PathBuf)> = traces_named.chain(objects_named).collect::<Result<_>>()?;
        for (file, path) in named {
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(file.display().to_string(), sha256(content));
        }
        let mut objects = BTreeMap::new();
        for object in hotcc_bpf::ALGOS.iter().chain(hotcc_bpf::PEERS).chain(hotcc_bpf::LAB) {
            objects.insert(object.name.to_owned(), sha256(object.bytes));
        }
        // this program plans and analyses; the others execute a run
        let mut programs = vec![("hotcc-bench", std::env::current_exe().context("cannot find this program's file")?)];
        let architecture = match self.backend {
            Backend::Vm(kernel, _) => kernel.architecture(),
            _ => Architecture::default(),
        };
        let backend = match self.backend {
            Backend::Vm(..) => {
                programs.push(("hotcc-guest", programs::ours(architecture, "hotcc-guest")?));
                "vm"
            }
            Backend::Native(_) => "native",
            Backend::Simulator => SIMULATOR,
        };
        if !matches!(self.backend, Backend::Simulator) {
            if cases.iter().any(|case| !case.scenario.pep.is_empty()) {
                programs.push(("pep-agent", programs::ours(architecture, "pep-agent")?));
            }
            for name in ["ip", "tc"] {
                programs.push((name, programs::system(architecture, name)?));
            }
        }
        if let Backend::Vm(kernel, _) = self.backend {
            programs.push((vm::qemu(architecture), vm::qemu_path(architecture)?));
            let packages = &kernel.manifest.package.debs;
            objects.extend(packages.iter().map(|deb| (format!("package {}", deb.package), deb.sha256.clone())));
        }
        for (name, path) in programs {
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            objects.insert(name.to_owned(), sha256(content));
        }
        let (kernel, kernel_sha256, qemu, cpu) = match self.backend {
            Backend::Vm(kernel, clock) => {
                let image = sha256(fs::read(&kernel.vmlinuz)?);
                (kernel.release.clone(), image, vm::qemu_version(architecture)?, clock.cpu(&kernel.release))
            }
            Backend::Native(native) => (native.release.clone(), String::new(), String::new(), Native::cpu()),
            Backend::Simulator => (SIMULATOR.to_owned(), String::new(), String::new(), String::new()),
        };
        let name = cases.first().map_or_else(String::new, |case| case.scenario.name.clone());
        Ok(Manifest {
            scenario: name,
            scenario_sha256: sha256(&self.source.text),
            files,
            backend: backend.to_owned(),
            kernel,
            kernel_sha256,
            qemu,
            cpu,
            objects,
            runs: runs.iter().map(|one| one.id.clone()).collect(),
            results: BTreeMap::new(),
        })
    }

    /// Returns whether a run has the summary that it wrote. An invalid run is repeated if the next attempt may be
    /// valid.
    fn is_done(&self, run: &RunId, prepared: &ResultDirectory<'_>) -> bool {
        let Ok(text) = fs::read(self.directory.join(run.summary())) else { return false };
        if !prepared.has_result(run, &text) {
            return false;
        }
        matches!(self.backend, Backend::Vm(_, Clock::Virtual) | Backend::Simulator)
            || serde_json::from_slice::<RunSummary>(&text).is_ok_and(|summary| summary.invalid.is_empty())
    }

    fn plan(&self, one: &OneRun<'_>) -> Result<Planned> {
        plan(&one.case.scenario, one.id.seed, &self.source.traces())
    }

    /// Executes a run, and returns how it ended.
    fn run_one(
        &self,
        one: &OneRun<'_>,
        manifest: &Manifest,
        prepared: &ResultDirectory<'_>,
        cpu: Option<usize>,
        say: &dyn Fn(&str),
    ) -> Result<String> {
        let target = self.directory.join(one.id.path());
        if self.is_done(&one.id, prepared) {
            return Ok("already complete".to_owned());
        }
        let planned = self.plan(one)?;
        let scratch = self.directory.join(UNFINISHED).join(one.id.path());
        fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
        let measured = match self.backend {
            Backend::Vm(kernel, clock) => boot(kernel, clock, &planned, &scratch, cpu, say)?,
            Backend::Native(native) => native.run(&planned, &scratch, say)?,
            Backend::Simulator => simulated::run(&planned)?,
        };
        let series_ms = *one.case.scenario.series_ms.get_ref();
        let analysed = analyse(one.id.clone(), inputs(one, &planned, manifest)?, &planned, &measured, series_ms);
        prepared.record_result(&one.id, &keep(&analysed, &scratch)?)?;
        remove(&target)?;
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::rename(&scratch, &target).with_context(|| format!("cannot create {}", target.display()))?;
        let counts_instructions = matches!(self.backend, Backend::Vm(_, Clock::Virtual));
        Ok(verdict(&analysed.summary, counts_instructions))
    }
}

/// Returns the hashes of a run's inputs. Files count as a whole, also where the plan has only a part of them.
fn inputs(one: &OneRun<'_>, planned: &Planned, manifest: &Manifest) -> Result<BTreeMap<String, String>> {
    let scenario = &one.case.scenario;
    let mut plan = serde_json::to_vec(&planned.plan)?;
    plan.extend(format!("{:?}{:?}{:?}", planned.radios, planned.bounds, scenario.series_ms.get_ref()).into_bytes());
    let mut inputs = manifest.objects.clone();
    inputs.insert("plan".to_owned(), sha256(plan));
    inputs.insert("kernel image".to_owned(), manifest.kernel_sha256.clone());
    let traces = scenario.trace_files().map(|file| file.display().to_string());
    let objects = scenario.object_files().map(|file| file.get_ref().clone());
    for name in traces.chain(objects) {
        inputs.insert(format!("file {name}"), manifest.files.get(&name).cloned().unwrap_or_default());
    }
    Ok(inputs)
}

fn boot(
    kernel: &Kernel,
    clock: Clock,
    planned: &Planned,
    scratch: &Path,
    cpu: Option<usize>,
    say: &dyn Fn(&str),
) -> Result<Measured> {
    let plan = &planned.plan;
    let (archive, results) = (scratch.join("job.cpio"), scratch.join("results"));
    let kernel_ccs = plan.flows.iter().filter_map(|f| f.cc.as_ref());
    let modules: Vec<&str> = kernel_ccs.filter_map(|cc| algorithms::module(cc)).collect();
    let Versatile { initramfs, mut job } = Versatile::new(kernel, &MODULES, &modules, plan)?;
    for object in &planned.objects {
        let content = fs::read(&object.path).with_context(|| format!("cannot read {}", object.path.display()))?;
        job.file(&object.in_guest, 0o644, content);
    }
    let write = || {
        let mut out = BufWriter::new(File::create(&archive)?);
        job.write(&mut out)?;
        anyhow::Ok(out.flush()?)
    };
    write().with_context(|| format!("cannot write {}", archive.display()))?;
    let records_mib = (u64::from(plan.packet_records) * 32 + u64::from(plan.ack_records) * 56) >> 20;
    let job_mib = fs::metadata(&archive)?.len() >> 20;
    let more_mib = (records_mib + 3 * job_mib).next_multiple_of(MEMORY_STEP_MIB);
    let machine = Machine {
        kernel: kernel.clone(),
        memory_mib: MEMORY_MIB + u32::try_from(more_mib)?,
        clock,
        results: Some(results.clone()),
        cpu,
        patience: vm::PATIENCE,
    };
    let mut running_since = None;
    let hear = |message: &Message| {
        match message {
            Message::Booted { .. } => say("booted"),
            Message::Progress(text) => {
                let since = running_since.get_or_insert_with(Instant::now);
                say(&how_far(text, plan.duration_ns, since.elapsed()));
            }
            Message::Row(_) | Message::Output(_) | Message::Counted(_) | Message::Done { .. } | Message::Failed(_) => {}
        }
        Ok(())
    };
    let guest = WaitingGuest { machine: &machine, initramfs: &initramfs };
    // a guest for arm64 cannot stop itself for a snapshot
    if clock == Clock::Virtual && kernel.architecture() == Architecture::Amd64 {
        Snapshots::of_this_user()?.run(guest, &archive, scratch, say, hear)?;
    } else {
        snapshots::boot(guest, &archive, scratch, hear)?;
    }
    let bytes = fs::read(&results).with_context(|| format!("cannot read {}", results.display()))?;
    for used in [archive, results] {
        fs::remove_file(used)?;
    }
    Measured::parse(&bytes)
}

/// Converts `40 %` to `8 of 20 s at 1.3 guest seconds a second, 40 %`. Returns other texts unchanged.
fn how_far(text: &str, duration_ns: u64, took: Duration) -> String {
    let share = text.strip_suffix(" %").and_then(|percent| percent.parse::<f64>().ok()).map(|percent| percent / 100.0);
    let Some(share) = share else { return text.to_owned() };
    let (all_s, took_s) = (duration_ns as f64 / 1e9, took.as_secs_f64().max(1e-3));
    let done_s = share * all_s;
    format!("{done_s:.1} of {all_s:.1} s at {:.2} guest seconds a second, {text}", done_s / took_s)
}

/// Writes a run's files, and returns its summary as written.
fn keep(analysed: &Analysed, directory: &Path) -> Result<Vec<u8>> {
    write(&directory.join("flows.csv"), analysed.flows_csv.as_bytes())?;
    write(&directory.join("links.csv"), analysed.links_csv.as_bytes())?;
    for leftover in ["console.log", "qemu.err"] {
        let _ = fs::remove_file(directory.join(leftover));
    }
    let summary = serde_json::to_vec_pretty(&analysed.summary)?;
    write(&directory.join("summary.json"), &summary)?;
    Ok(summary)
}

/// Returns how a run ended. In virtual time, the time in which the guest's processor was busy equals its number of
/// instructions.
fn verdict(summary: &RunSummary, counts_instructions: bool) -> String {
    let mbps: f64 = summary.flows.iter().map(|f| f.throughput_bps / 1e6).sum();
    let packets: u64 = summary.flows.iter().map(|f| f.packets).sum();
    let instructions = if counts_instructions && packets > 0 {
        let busy_ns = summary.busy_mean * summary.duration_s * 1e9;
        format!(", {:.0} instructions per packet", busy_ns / packets as f64)
    } else {
        String::new()
    };
    let why = summary.invalid.join("; ");
    let invalid = if why.is_empty() { String::new() } else { format!(", INVALID: {why}") };
    // the highest share of any window: if it exceeds a limit, the run is invalid; the simulator has no processor
    let busiest = Some(summary.busy_max * 100.0).filter(|percent| *percent > 0.0);
    let busy = busiest.map_or(String::new(), |percent| format!(", at most {percent:.0} % busy"));
    format!("done: {} s, {mbps:.2} Mbit/s{busy}{instructions}{invalid}", summary.duration_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::FlowSummary;

    #[test]
    fn a_run_in_virtual_time_ends_with_its_instructions_per_packet() {
        let flow = FlowSummary { throughput_bps: 4e6, packets: 4000, ..FlowSummary::default() };
        let mut summary = RunSummary {
            run: RunId { seed: 1, ..RunId::default() },
            duration_s: 20.0,
            busy_max: 0.2,
            busy_mean: 0.01,
            flows: vec![flow.clone(), flow],
            jain: 1.0,
            ..RunSummary::default()
        };
        assert_eq!(
            verdict(&summary, true),
            "done: 20 s, 8.00 Mbit/s, at most 20 % busy, 25000 instructions per packet"
        );
        assert_eq!(verdict(&summary, false), "done: 20 s, 8.00 Mbit/s, at most 20 % busy");
        let simulated = RunSummary { busy_max: 0.0, ..summary.clone() };
        assert_eq!(verdict(&simulated, false), "done: 20 s, 8.00 Mbit/s");
        summary.flows = vec![FlowSummary::default()];
        summary.invalid = vec!["a fault".to_owned()];
        assert_eq!(verdict(&summary, true), "done: 20 s, 0.00 Mbit/s, at most 20 % busy, INVALID: a fault");
    }

    #[test]
    fn progress_says_how_far_and_how_fast() {
        let said = |text| how_far(text, 20_000_000_000, Duration::from_secs(4));
        assert_eq!(said("40 %"), "8.0 of 20.0 s at 2.00 guest seconds a second, 40 %");
        assert_eq!(said("running"), "running");
    }
}
