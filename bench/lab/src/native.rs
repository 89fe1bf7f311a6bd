//! Scenarios on the running kernel. Each run is a separate process, so its threads and connections end with it.

use crate::analyse::Measured;
use crate::pin_root_guard::PinRootGuard;
use crate::planner::{ObjectFile, Planned};
use crate::scenario::Scenario;
use crate::{algorithms, vm};
use anyhow::{Context, Result, bail};
use hotcc::doctor::{self, Verdict};
use hotcc::sysctl;
use hotcc_abi::pins;
use hotcc_abi::radio::IndexKey;
use hotcc_host::error::{Error, need_root};
use hotcc_lab_guest::exec::{self, PREFIX, RELEASE_AT_STAMP};
use hotcc_lab_guest::stage::Stage;
use hotcc_lab_proto::job::Message;
use hotcc_lab_proto::plan::{Action, Plan};
use hotcc_radio_map::RadioMap;
use hotcc_testbed::netlab;
use hotcc_testbed::programs;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Name of the hidden command that executes a run.
pub const COMMAND: &str = "exec-natively";
/// Maximum time for a run to clean up.
const GRACE: Duration = Duration::from_secs(60);
const NOTICE: Duration = Duration::from_millis(100);

/// This machine, which has been found suitable.
#[derive(Clone, Debug)]
pub struct Native {
    stage: Stage,
    /// `uname -r`.
    pub release: String,
}

/// The job of a run's process.
#[derive(Deserialize, Serialize)]
struct NativeJob {
    stage: Stage,
    plan: Plan,
}

impl Native {
    /// Checks whether runs are possible on this machine, and whether the kernel or a thread holds packets.
    pub fn ready() -> Result<Self> {
        need_root("hotcc-bench lab --lab native")?;
        let report = doctor::report();
        if let Some(missing) = report.findings.iter().find(|f| f.verdict == Verdict::Missing) {
            let why = format!("{}: {} ({})", missing.what, missing.found, missing.without);
            return Err(Error::kernel_lacks(format!(
                "cannot run natively: {why}; use a kernel of the lab with --lab vm"
            ))
            .into());
        }
        let stage = if has_fq()? { Stage::Native } else { Stage::NativeEmulated };
        Ok(Self { stage, release: report.kernel })
    }

    /// Returns a note on results from this machine.
    #[must_use]
    pub fn note(&self) -> String {
        let links = match self.stage {
            Stage::NativeEmulated => "this kernel lacks fq, so a thread emulates the links",
            _ => "the kernel delays the packets (fq)",
        };
        format!(
            "natively on {}: {links}. Figures depend on this machine and its load, and differ from run to run",
            self.release
        )
    }

    /// Returns the model name of the processor, and the number of processors.
    #[must_use]
    pub fn cpu() -> String {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name =
            text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':')).map_or("", |(_, n)| n.trim());
        format!("{name} ({} processors)", vm::processors().len())
    }

    /// Checks whether this kernel has the congestion controls that a scenario needs from it.
    pub fn check(&self, scenario: &Scenario) -> Result<()> {
        for cc in scenario.flow.iter().filter_map(|f| f.cc.as_ref()).map(|cc| cc.get_ref()) {
            if !algorithms::is_loaded(cc) && !algorithms::is_usable(cc)? {
                return Err(Error::kernel_lacks(format!(
                    "this kernel has no `{cc}`, which a flow uses; remove the flow or use --lab vm"
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Executes one run. Whatever happens, everything that the run created is removed afterwards.
    pub fn run(&self, planned: &Planned, scratch: &Path, say: &dyn Fn(&str)) -> Result<Measured> {
        let mut plan = planned.plan.clone();
        take_files_from_here(&mut plan, &planned.objects);
        let renamed = free_names(&mut plan)?;
        for (ours, name) in &renamed {
            say(&format!("`{ours}` is already loaded on this machine and stays unchanged; the run uses `{name}`"));
        }
        check_radio(&plan)?;
        let (job, results) = (scratch.join("job.json"), scratch.join("results"));
        fs::write(&job, serde_json::to_vec(&NativeJob { stage: self.stage, plan })?).context("cannot write the job")?;
        let ran = run_process(&job, &results, say);
        netlab::remove_left_over(PREFIX); // left over from a run that was killed
        ran?;
        let bytes = fs::read(&results).with_context(|| format!("cannot read {}", results.display()))?;
        for used in [job, results] {
            fs::remove_file(used)?;
        }
        let mut measured = Measured::parse(&bytes)?;
        for flow in &mut measured.record.flows {
            if let Some((ours, _)) = renamed.iter().find(|(_, name)| *name == flow.cc) {
                flow.cc.clone_from(ours);
            }
        }
        Ok(measured)
    }
}

/// Returns whether the kernel can hold packets until they are due. To find out, it tries on a temporary host.
fn has_fq() -> Result<bool> {
    let lab = netlab::Lab::new(PREFIX)?;
    let probe = lab.namespace("probe")?;
    probe.ip("link add probe0 type veth peer name probe1")?;
    Ok(probe.tc(&format!("qdisc add dev probe0 root {RELEASE_AT_STAMP}")).is_ok())
}

/// Replaces the paths of object files in a guest by their paths on this machine.
fn take_files_from_here(plan: &mut Plan, files: &[ObjectFile]) {
    let of_events = plan.events.iter_mut().filter_map(|event| match &mut event.action {
        Action::Swap { object, .. } => Some(object),
        _ => None,
    });
    for object in plan.algorithms.iter_mut().map(|algorithm| &mut algorithm.object).chain(of_events) {
        if let Some(file) = files.iter().find(|file| file.in_guest == *object) {
            *object = file.path.to_string_lossy().into_owned();
        }
    }
}

/// Renames algorithms whose names this machine already uses. Returns the pairs: name in the scenario, name on this
/// machine.
fn free_names(plan: &mut Plan) -> Result<Vec<(String, String)>> {
    let mut renamed = Vec::new();
    for algorithm in &mut plan.algorithms {
        let taken = |name: &str| Ok::<_, Error>(sysctl::is_registered(name)? || pins::algo_dir(name).exists());
        if !taken(&algorithm.cc)? {
            continue;
        }
        let candidates = ["lab_", "lab2_"].map(|prefix| format!("{prefix}{}", algorithm.cc));
        let mut free = None;
        for name in candidates {
            if hotcc::object::check_cc_name(&name).is_ok() && !taken(&name)? {
                free = Some(name);
                break;
            }
        }
        let Some(name) = free else {
            bail!(
                "cannot load `{}`: it and its alternative names are already registered; see `hotcc status`",
                algorithm.cc
            )
        };
        renamed.push((std::mem::replace(&mut algorithm.cc, name.clone()), name));
    }
    let rename = |cc: &mut String| {
        if let Some((_, name)) = renamed.iter().find(|(ours, _)| ours == cc) {
            cc.clone_from(name);
        }
    };
    plan.flows.iter_mut().filter_map(|f| f.cc.as_mut()).for_each(rename);
    for event in &mut plan.events {
        if let Action::Swap { cc, .. } | Action::Tune { cc, .. } = &mut event.action {
            rename(cc);
        }
    }
    Ok(renamed)
}

fn feed_keys(plan: &Plan) -> impl Iterator<Item = IndexKey> {
    plan.feeds.iter().filter_map(|feed| IndexKey::prefix(feed.address.into(), 32))
}

/// Fails if the radio map already has a link that the run needs: its readings must not be changed.
fn check_radio(plan: &Plan) -> Result<()> {
    let links = hotcc_radio_map::links(Path::new(pins::ROOT))?;
    if let Some(key) = feed_keys(plan).find(|key| links.iter().any(|l| l.key == *key)) {
        bail!("the radio map already has link {key}, which the run needs; remove it with `sinr-feeder remove`");
    }
    Ok(())
}

/// A run's process. When the value is dropped, the process is asked to end, and cleans up.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // after the process was waited for, its number may be another's
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        let end = Instant::now() + GRACE;
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        while Instant::now() < end {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(NOTICE);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run_process(job: &Path, results: &Path, say: &dyn Fn(&str)) -> Result<()> {
    let program = programs::companion_binary("hotcc-bench")?;
    let mut command = netlab::quiet(&program.to_string_lossy());
    command.arg(COMMAND).arg(job).arg(results).stdout(Stdio::piped());
    let end_with_us = || set_pdeathsig(Signal::SIGTERM).map_err(std::io::Error::from);
    // SAFETY: between fork and exec, the closure makes a single system call and allocates nothing.
    unsafe { command.pre_exec(end_with_us) };
    let mut run = Run(command.spawn().with_context(|| format!("cannot run {}", program.display()))?);
    let lines = BufReader::new(run.0.stdout.take().context("the run has no output")?);
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        netlab::check()?;
        let line = match receive.recv_timeout(NOTICE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => bail!("the run's process ended before its result"),
        };
        match serde_json::from_str(&line).with_context(|| format!("invalid message from the run: `{line}`"))? {
            Message::Done { .. } => break,
            Message::Failed(why) => bail!("{why}"),
            Message::Progress(text) => say(&text),
            Message::Booted { .. } | Message::Row(_) | Message::Output(_) | Message::Counted(_) => {}
        }
    }
    run.0.wait().context("cannot wait for the run")?;
    Ok(())
}

/// Executes a job in a run's process; the caller ends the process. If interrupted, does not report a failure to send
/// its last message: the parent process was interrupted as well.
pub fn play_job(job: &Path, results: &Path) -> Result<()> {
    netlab::catch_interrupts()?;
    let begun = Instant::now();
    let last = match play_here(job, results) {
        Ok(()) => Message::Done { uptime_s: begun.elapsed().as_secs_f64() },
        Err(why) => Message::Failed(format!("{why:#}")),
    };
    let told = tell(&last);
    if is_interrupted() { Ok(()) } else { told }
}

fn is_interrupted() -> bool {
    netlab::check().is_err()
}

fn play_here(job: &Path, results: &Path) -> Result<()> {
    let text = fs::read(job).with_context(|| format!("cannot read {}", job.display()))?;
    let NativeJob { stage, plan } = serde_json::from_slice(&text).context("cannot parse the job")?;
    if stage == Stage::Native {
        stay_on_one_processor()?;
    }
    let pin_root_guard = PinRootGuard::look();
    let mut out = BufWriter::new(File::create(results).with_context(|| format!("cannot write {}", results.display()))?);
    let record = exec::exec(&plan, stage, &mut out, &mut |text| tell(&Message::Progress(text.to_owned())));
    let cleaned = remove_feeds(&plan).and_then(|()| pin_root_guard.remove());
    let cleaned = cleaned.context("cannot clean up");
    if let (true, Err(why)) = (is_interrupted(), &cleaned) {
        eprintln!("{why:#}"); // messages are no longer read
    }
    record?;
    cleaned?;
    out.flush().context("cannot write results")
}

/// Binds the process to one processor, as in the lab's guest: the links' programs are written for a single processor.
fn stay_on_one_processor() -> Result<()> {
    let mut only = CpuSet::new();
    only.set(vm::processors().first().copied().unwrap_or_default())?;
    sched_setaffinity(Pid::from_raw(0), &only).context("cannot stay on one processor")
}

fn remove_feeds(plan: &Plan) -> Result<()> {
    let links = hotcc_radio_map::links(Path::new(pins::ROOT))?;
    let mut made = feed_keys(plan).filter(|key| links.iter().any(|l| l.key == *key)).peekable();
    if made.peek().is_none() {
        return Ok(());
    }
    let mut map = RadioMap::open_or_create(Path::new(pins::ROOT))?;
    made.try_for_each(|key| Ok(map.remove_link(key, true)?))
}

fn tell(message: &Message) -> Result<()> {
    let mut text = serde_json::to_string(message)?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).context("cannot send a message to the lab")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::plan::{Algorithm, PlannedEvent};
    use std::path::PathBuf;

    #[test]
    fn object_files_are_loaded_from_where_they_are() {
        let algorithm = |object: &str| Algorithm {
            object: object.to_owned(),
            cc: "x".to_owned(),
            profile: "default".to_owned(),
            set: Vec::new(),
        };
        let swap = |object: &str| Action::Swap { cc: "x".to_owned(), new: "y".to_owned(), object: object.to_owned() };
        let mut plan = Plan {
            algorithms: vec![algorithm("dtcp"), algorithm("/objects/0/mine.bpf.o")],
            events: vec![PlannedEvent { at_ns: 0, action: swap("/objects/1/other.bpf.o") }],
            ..Plan::default()
        };
        let file = |path: &str, in_guest: &str| ObjectFile { path: PathBuf::from(path), in_guest: in_guest.to_owned() };
        let files = [file("out/mine.bpf.o", "/objects/0/mine.bpf.o"), file("../other.o", "/objects/1/other.bpf.o")];
        take_files_from_here(&mut plan, &files);
        assert_eq!(plan.algorithms, [algorithm("dtcp"), algorithm("out/mine.bpf.o")]);
        assert_eq!(plan.events[0].action, swap("../other.o"));
    }
}
