//! The guest's part of measuring costs: runs the transfers under each algorithm in turn, and measures what the
//! algorithm's functions take.
//!
//! BPF programs are measured by the kernel's run-time statistics; functions of the kernel by clocks at their entry and
//! exit. Both methods add a constant to each call. The guest measures this constant too, and the host subtracts it.

use crate::exec::Scene;
use crate::stage::Stage;
use anyhow::{Context, Result, bail, ensure};
use bytemuck::{Pod, Zeroable};
use hotcc::object::{Loaded, Source};
use hotcc_abi::pins;
use hotcc_lab_proto::cost::{CostJob, Counted, Method, Part, Sample, Subject};
use hotcc_lab_proto::job::Message;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, Program, ProgramInput};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

/// The functions of the kernel's own congestion controls, under the names of all supported kernel versions. The first
/// function of each must exist. The list leaves out functions that others in the list call (`bbr_min_tso_segs`), and
/// functions that only `ss` calls (`get_info`).
const FUNCTIONS: [(&str, &[&str]); 3] = [
    (
        "cubic",
        &[
            "cubictcp_cong_avoid",
            "cubictcp_acked",
            "cubictcp_recalc_ssthresh",
            "cubictcp_state",
            "cubictcp_cwnd_event",
            "cubictcp_cwnd_event_tx_start",
            "cubictcp_init",
            "tcp_reno_undo_cwnd",
        ],
    ),
    ("reno", &["tcp_reno_cong_avoid", "tcp_reno_ssthresh", "tcp_reno_undo_cwnd"]),
    (
        "bbr",
        &[
            "bbr_main",
            "bbr_ssthresh",
            "bbr_set_state",
            "bbr_cwnd_event",
            "bbr_cwnd_event_tx_start",
            "bbr_sndbuf_expand",
            "bbr_undo_cwnd",
            "bbr_init",
        ],
    ),
];
/// Functions of a few instructions that the kernel provides for tests. The number in the name is the number of
/// arguments.
const TINY: [&str; 4] = ["bpf_fentry_test1", "bpf_fentry_test2", "bpf_fentry_test3", "bpf_fentry_test4"];
/// Number of calls to each function. An interrupt may lengthen one call, but the shortest of this many calls is free of
/// interrupts.
const TINY_CALLS: u32 = 50;

/// Executes the job, and passes each result to `tell`.
pub fn measure(job: &CostJob, tell: &mut dyn FnMut(Message) -> Result<()>) -> Result<()> {
    for counted in around_nothing()? {
        tell(Message::Counted(counted))?;
    }
    for subject in &job.subjects {
        let sample = sample(job, subject, tell).with_context(|| subject.cc.clone())?;
        tell(Message::Counted(Counted::Sample(sample)))?;
    }
    Ok(())
}

/// Measures what clocks around functions that do nothing take.
fn around_nothing() -> Result<Vec<Counted>> {
    let clocks = Clocks::around(&TINY)?;
    for _ in 0..TINY_CALLS {
        // runs the kernel's test functions, not the program itself
        let any = clocks.object.progs_mut().find(|p| p.name() == "begins_0").context("no such program")?;
        any.test_run(ProgramInput::default()).context("cannot run the kernel's functions for tests")?;
    }
    let took = clocks.took()?;
    for (function, took) in &took {
        ensure!(took.calls == u64::from(TINY_CALLS), "{function} ran {} times instead of {TINY_CALLS}", took.calls);
    }
    Ok(took.into_iter().map(|(_, t)| Counted::Clocks { arguments: t.arguments, ns: t.least_ns }).collect())
}

fn sample(job: &CostJob, subject: &Subject, tell: &mut dyn FnMut(Message) -> Result<()>) -> Result<Sample> {
    let meter = Meter::new(subject)?;
    let (mut acks, mut bytes, mut retransmits) = (0, 0, 0);
    for mut plan in job.plans.clone() {
        for flow in &mut plan.flows {
            flow.cc = Some(subject.cc.clone());
            // the receiver's end of the connection also has a congestion control, which must not be counted
            let other = if subject.cc == "reno" { "cubic" } else { "reno" };
            plan.hosts[flow.to].sysctls.push(("net.ipv4.tcp_congestion_control".to_owned(), other.to_owned()));
        }
        let mut scene = Scene::build(&plan, Stage::Guest)?;
        let record = scene.perform(&mut |text| tell(Message::Progress(format!("{}: {text}", subject.cc))))?;
        ensure!(record.missing_records == 0, "some ACKs were not counted");
        for flow in &record.flows {
            ensure!(flow.cc == subject.cc, "the flow ran {}", flow.cc);
            if let Some(why) = &flow.error {
                bail!("the flow failed: {why}");
            }
            bytes += flow.bytes;
            retransmits += flow.retransmits;
        }
        acks += scene.acks(&record);
    }
    Ok(Sample { cc: subject.cc.clone(), method: meter.method(), acks, bytes, retransmits, parts: meter.parts()? })
}

/// The method of measuring one subject.
enum Meter {
    Programs(Programs),
    Functions(Clocks),
}

impl Meter {
    /// Starts to measure a subject. If the subject is an object, registers its congestion control.
    fn new(subject: &Subject) -> Result<Self> {
        if let Some(object) = &subject.object {
            return Ok(Self::Programs(Programs::load(object)?));
        }
        let known = FUNCTIONS
            .iter()
            .find(|(cc, _)| *cc == subject.cc)
            .context("the functions of this congestion control are not listed")?;
        Ok(Self::Functions(Clocks::around(known.1)?))
    }

    fn method(&self) -> Method {
        match self {
            Self::Programs(_) => Method::Statistics,
            Self::Functions(_) => Method::Clocks,
        }
    }

    fn parts(&self) -> Result<Vec<Part>> {
        match self {
            Self::Programs(programs) => programs.parts(),
            Self::Functions(clocks) => {
                let part = |(name, took): (&str, Took)| {
                    let Took { calls, total_ns: ns, arguments, .. } = took;
                    Part { name: name.to_owned(), arguments, calls, ns }
                };
                Ok(clocks.took()?.into_iter().map(part).collect())
            }
        }
    }
}

/// A congestion control in BPF, which stays registered until the value is dropped.
struct Programs {
    _stats: OwnedFd,
    _link: Link,
    loaded: Loaded,
}

impl Programs {
    fn load(object: &str) -> Result<Self> {
        let embedded = hotcc_bpf::algo(object).or_else(|| hotcc_bpf::TEST_OBJECTS.iter().find(|o| o.name == object));
        let opened = Source::builtin(embedded.context("no such object")?).open()?;
        std::fs::create_dir_all(pins::SIGNAL).with_context(|| format!("cannot create {}", pins::SIGNAL))?;
        let mut loaded = opened.load(hotcc::object::kernel::has_links())?;
        let stats = hotcc::sys::enable_stats().context("cannot turn on BPF run-time statistics")?;
        let link = loaded.ops()?.attach_struct_ops().context("cannot register it")?;
        Ok(Self { _stats: stats, _link: link, loaded })
    }

    fn parts(&self) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        for program in self.loaded.object.progs().filter(|program| program.autoload()) {
            let id = Program::id_from_fd(program.as_fd())?;
            let name = program.name().to_string_lossy().into_owned();
            let info = ProgInfoIter::default().find(|info| info.id == id);
            let info = info.with_context(|| format!("the kernel does not know {name}"))?;
            parts.push(Part { name, arguments: 0, calls: info.run_cnt, ns: info.run_time_ns });
        }
        Ok(parts)
    }
}

/// `struct took` of `bpf/lab/cost.bpf.c`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Took {
    calls: u64,
    total_ns: u64,
    least_ns: u64,
    arguments: u64,
    began_ns: u64,
}

/// `clocks` in `bpf/lab/cost.bpf.c`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct State {
    inside: u64,
    nested: u64,
    took: [Took; 8],
}

/// Clocks at the entries and exits of functions, attached until the value is dropped.
struct Clocks {
    /// The functions, in the order of the programs' numbers.
    functions: Vec<&'static str>,
    _links: Vec<Link>,
    object: Object,
}

impl Clocks {
    /// Attaches clocks to those of the functions that are in the BTF of the kernel or of a module. The first one must
    /// be.
    fn around(functions: &[&'static str]) -> Result<Self> {
        let object = hotcc_bpf::lab("cost").context("no object cost")?;
        let mut open = ObjectBuilder::default().open_memory(object.bytes)?;
        let mut found = Vec::new();
        let mut wanted = functions.iter().peekable();
        let mut pairs: Vec<_> = open.progs_mut().collect();
        pairs.sort_by_key(|program| number(program.name()));
        for pair in pairs.chunks_mut(2) {
            let there = wanted.by_ref().find(|function| {
                // libbpf does not say more than that the function was not found
                pair.iter_mut().all(|program| program.set_attach_target(0, Some((**function).to_owned())).is_ok())
            });
            pair.iter_mut().for_each(|program| program.set_autoload(there.is_some()));
            found.extend(there);
        }
        drop(pairs);
        ensure!(found.first() == functions.first(), "this kernel has no {}", functions[0]);
        ensure!(wanted.peek().is_none(), "more functions than clocks");
        let object = open.load().context("cannot load the clocks")?;
        let loaded = object.progs_mut().filter(|program| program.autoload());
        let links = loaded.map(|p| p.attach()).collect::<Result<_, _>>().context("cannot attach the clocks")?;
        Ok(Self { functions: found, _links: links, object })
    }

    fn took(&self) -> Result<Vec<(&'static str, Took)>> {
        let data = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(".data")).context("no .data")?;
        let value = data.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.context("no value")?;
        let state: State = bytemuck::pod_read_unaligned(value.get(..size_of::<State>()).context("too short")?);
        ensure!(state.nested == 0, "one function with a clock calls another: {:?}", self.functions);
        Ok(self.functions.iter().copied().zip(state.took).collect())
    }
}

/// Returns NUMBER of a program's name, which is `begins_NUMBER` or `ends_NUMBER`.
fn number(program: &OsStr) -> Option<usize> {
    program.to_str()?.rsplit_once('_')?.1.parse().ok()
}
